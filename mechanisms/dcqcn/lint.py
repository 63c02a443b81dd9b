"""Faults of ECN marking and of DCQCN, in topologies and in run files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mechanisms.dcqcn.parameters import SETS, parameters
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology, TrafficClass
from topologies.units import format_rate, format_size
from workloads.lint_buffer import alone_bytes
from workloads.lint_transport import class_subject, transport_dscps
from workloads.model import RunFile

PUBLISHED_BPS = {"ns3-rdma": 40 * 10**9}
"""The link rates for which sets were published that do not scale with the link."""

_FAR = 2  # times faster or slower than published


def marking_remarks(topology: Topology, prefix: FieldPath) -> Iterator[Remark]:
    """Yield classes that mark too late, and those that share a queue and not their marking."""
    of_queue: dict[int, TrafficClass] = {}
    for each in topology.classes:
        path = (*prefix, "classes", each.name, "ecn")
        marking = each.setting("ecn")
        if marking is not None:
            yield from _marks_too_late(topology, each, path)
        if each.queue is None:
            continue
        first = of_queue.setdefault(each.queue, each)
        if first.setting("ecn") != marking and _alike(first, each):
            message = f"shares queue {each.queue} with {first.name!r}, and their ecn differs"
            right = "a queue has one threshold: give both the same, or a queue each"
            yield Remark(Severity.ERROR, path, f"class {each.name}", message, right)


def _alike(one: TrafficClass, other: TrafficClass) -> bool:
    """Say whether nothing else is wrong with two that share a queue: that is said first."""
    return one.lossless == other.lossless and one.weight == other.weight


def _marks_too_late(topology: Topology, each: TrafficClass, path: FieldPath) -> Iterator[Remark]:
    for link in sorted(topology.links, key=lambda link: link.queue_bytes):
        above = each.setting("ecn").at(link.rate_bps).min_bytes
        if above < link.queue_bytes:
            continue
        message = (
            f"ECN marks above {format_size(above)}, "
            f"and the shortest queue ends at {format_size(link.queue_bytes)}: "
            "it drops before it marks"
        )
        right = "a threshold well below the queue's size marks in time"
        yield Remark(Severity.ERROR, path, f"class {each.name}", message, right)
        return


def buffer_remarks(run: RunFile, prefix: FieldPath) -> Iterator[Remark]:
    """Yield classes that the shared buffer pauses or drops before they mark."""
    if run.buffer is None:
        return
    limit = alone_bytes(run.buffer)
    for each in run.topology.classes:
        marking = each.setting("ecn")
        if marking is None:
            continue
        above = max(marking.at(link.rate_bps).min_bytes for link in run.topology.links)
        if above < limit:
            continue
        what = "PFC pauses senders" if each.lossless else "the buffer drops"
        message = (
            f"ECN marks above {format_size(above)}, and {what} at {format_size(limit)} "
            "at the latest: it never marks before"
        )
        right = "a threshold well below alpha * shared / (1 + alpha) marks in time"
        yield Remark(Severity.ERROR, prefix, f"class {each.name}", message, right)


def transport_remarks(run: RunFile, prefix: FieldPath) -> Iterator[Remark]:
    """Yield what is wrong for senders that are controlled by DCQCN alone."""
    entry: Any = run.transport
    dscps = transport_dscps(run)
    if entry is None or not dscps or entry.congestion_control != "dcqcn":
        return
    for dscp in dscps:
        each = next((c for c in run.topology.classes if dscp in c.dscps), None)
        yield from _marking(run, entry, dscp, each, prefix)
    yield from _far_from_its_rate(run.topology, entry)


def _marking(
    run: RunFile,
    entry: Any,
    dscp: int,
    each: TrafficClass | None,
    prefix: FieldPath,
) -> Iterator[Remark]:
    subject = class_subject(dscp, each)
    marking = None if each is None else each.setting("ecn")
    if each is None or marking is None:
        what = "it is in no class" if each is None else "it has no ecn"
        message = f"{what}: nothing is ever marked, and DCQCN never slows down"
        right = f"give its class ecn: {entry.parameters}, or write congestion_control: none"
        path = ("transport", "congestion_control")
        yield Remark(Severity.ERROR, path, subject, message, right)
        return
    place = (*prefix, "classes", each.name, "ecn")
    if marking.set_name is not None and marking.set_name != entry.parameters:
        message = f"marks for {marking.set_name}, and senders use {entry.parameters}"
        right = f"ecn: {entry.parameters} belongs to it"
        yield Remark(Severity.WARNING, place, subject, message, right)
    for link in sorted(run.topology.links, key=lambda link: link.queue_bytes):
        at = marking.at(link.rate_bps)
        room = link.queue_bytes if run.buffer is None else alone_bytes(run.buffer)
        if at.min_bytes < room < at.max_bytes:
            what = "the queue ends" if run.buffer is None else "the shared buffer ends it"
            message = (
                f"marking grows up to {format_size(at.max_bytes)}, and {what} at "
                f"{format_size(room)}: it is never as strong as its set wants it"
            )
            right = "give the queue more room, or lower thresholds"
            yield Remark(Severity.WARNING, place, subject, message, right)
            return


def _far_from_its_rate(topology: Topology, entry: Any) -> Iterator[Remark]:
    published = PUBLISHED_BPS.get(entry.parameters)
    if published is None:
        return
    scaled = ", ".join(name for name in SETS if name not in PUBLISHED_BPS)
    lines = {topology.link_at(i.host, i.number).rate_bps for i in topology.interfaces()}
    for rate in sorted(lines):
        if published <= _FAR * rate and rate <= _FAR * published:
            continue
        increase = parameters(entry.parameters, rate).rate_ai_bps
        message = (
            f"{entry.parameters} is for {format_rate(published)} and does not scale: at "
            f"{format_rate(rate)} it still grows by {format_rate(increase)} a step"
        )
        right = f"{scaled} scale with the link"
        yield Remark(Severity.WARNING, ("transport", "parameters"), "transport", message, right)
        return
