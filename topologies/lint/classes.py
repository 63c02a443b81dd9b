"""Faults of the class map: which DSCP is served by which queue."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.loader import Source
from topologies.model import CNP_DSCP, TrafficClass

UNMAPPED_QUEUE = 0  # serves every DSCP that no class has


def class_faults(source: Source) -> Iterator[Remark]:
    """Yield what is wrong with the class map; a topology without one has nothing wrong."""
    classes = source.topology.classes
    for each in classes:
        yield from _one_class(source, each)
    if classes:
        yield from _notifications(classes)
        yield from _shared_queues(classes)


def _path(each: TrafficClass, key: str = "") -> FieldPath:
    return ("classes", each.name, key) if key else ("classes", each.name)


def _one_class(source: Source, each: TrafficClass) -> Iterator[Remark]:
    def remark(severity: Severity, key: str, message: str, right: str) -> Remark:
        return Remark(severity, _path(each, key), f"class {each.name}", message, right)

    if each.queue is None:
        message = "no queue serves it"
        yield remark(Severity.ERROR, "", message, "give it queue: 0 to 7, the highest goes first")
    if not each.dscps and each.lossless:
        message = "lossless, and no DSCP is mapped to it: its traffic is dropped like any other"
        yield remark(
            Severity.ERROR, "dscp", message, "give it the DSCP that RoCE uses, as dscp: 26"
        )
    elif not each.dscps and each.queue != UNMAPPED_QUEUE:
        message = "no DSCP is mapped to it: it never gets a packet"
        yield remark(Severity.WARNING, "dscp", message, "give it a dscp, or leave it out")
    if each.lossless and each.queue == UNMAPPED_QUEUE:
        message = "lossless in queue 0, which serves every unmapped DSCP too: those would pause it"
        yield remark(Severity.ERROR, "queue", message, "give it a queue of its own, from 1 to 6")


def _notifications(classes: tuple[TrafficClass, ...]) -> Iterator[Remark]:
    carriers = [each for each in classes if CNP_DSCP in each.dscps]
    if not carriers:
        message = f"no class has DSCP {CNP_DSCP}, so congestion notifications wait behind data"
        right = f"add one: cnp: {{dscp: {CNP_DSCP}, queue: 7}}"
        yield Remark(Severity.WARNING, ("classes",), "classes", message, right)
    for cnp in carriers:
        subject = f"class {cnp.name}"
        others = [each for each in classes if each is not cnp and each.queue is not None]
        highest = max((each.queue or 0 for each in others), default=-1)
        if cnp.queue is not None and cnp.queue <= highest:
            above = next(each for each in others if each.queue == highest)
            message = (
                f"congestion notifications in queue {cnp.queue} wait behind {above.name!r} "
                f"in queue {highest}"
            )
            right = "give them the highest queue, 7"
            yield Remark(Severity.WARNING, _path(cnp, "queue"), subject, message, right)
        if cnp.weight is not None:
            message = "congestion notifications in a queue that shares wait for other queues"
            right = "leave weight out: their queue is then strict"
            yield Remark(Severity.WARNING, _path(cnp, "weight"), subject, message, right)
        if cnp.lossless:
            message = "congestion notifications in a lossless class are paused with the congestion"
            right = "make it lossy"
            yield Remark(Severity.WARNING, _path(cnp, "lossless"), subject, message, right)


def _shared_queues(classes: tuple[TrafficClass, ...]) -> Iterator[Remark]:
    of_queue: dict[int, TrafficClass] = {}
    for each in classes:
        if each.queue is None:
            continue
        first = of_queue.setdefault(each.queue, each)
        if first is each:
            continue
        subject = f"class {each.name}"
        if first.lossless != each.lossless:
            message = f"shares queue {each.queue} with {first.name!r}, and only one is lossless"
            right = "give each a queue of its own"
            yield Remark(Severity.ERROR, _path(each, "queue"), subject, message, right)
        elif first.weight != each.weight:
            message = f"shares queue {each.queue} with {first.name!r}, and their weights differ"
            right = "a queue has one weight: give both the same, or a queue each"
            yield Remark(Severity.ERROR, _path(each, "weight"), subject, message, right)
