"""RDMA between running hosts, by their endpoints: what is measured, as the endpoints say it.

Several sources may measure against one target at once. All times and rates are real ones.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emulation.endpoints import Place
from hostagent.rnic.client import EndpointClient, EndpointGone, RequestRefused, join
from hostagent.rnic.planes import PlaneUse
from mechanisms.registry import path_records
from topologies import Topology
from topologies.model import Interface
from workloads.path_choice import path_request
from workloads.planes import plane_request
from workloads.schema import ROCE_DSCP
from workloads.senders import of_planes
from workloads.several import links_of, span
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

RETRIES = 7
_SHORTEST_TIMEOUT_US = 200_000
_LONGEST_TIMEOUT_US = 1_000_000
_LOOK_S = 0.2
_NO_ANSWER_S = 60.0  # of a daemon that was asked to stop

Draw = Callable[[], None]


@dataclass(frozen=True)
class Work:
    """What every source does: as the endpoints' `measure`. `duration_ms` 0: `count` messages.

    `control`: what lowers rates, which interfaces queue pairs have and how far packets may overtake
    each other, in the keys of a run file's `transport:`.
    """

    operation: str
    mode: str
    size: int
    count: int
    qps: int = 1
    depth: int = 128
    duration_ms: int = 0
    mtu: int | None = None
    control: Mapping[str, Any] = field(default_factory=lambda: {"congestion_control": "none"})
    retransmission: str = "go-back-n"


@dataclass(frozen=True)
class Answer:
    """What one source's endpoint said of its measurement; {} if it could not measure.

    `planes`: of each plane of each queue pair, at the end that data leaves, its `interface` and
    what the endpoint's `stats` have.
    """

    source: str
    target: str
    said: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    planes: tuple[Mapping[str, Any], ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether it was cut short by the user."""
        return bool(self.said.get("interrupted"))


@dataclass
class _Ends:
    """A source's connections to both endpoints, and its queue pairs there.

    `interfaces`: the numbers, on both cards, of those that queue pairs of one interface have.
    """

    source: str
    target: str
    here: EndpointClient
    there: EndpointClient
    interfaces: tuple[int, int]
    qpns: list[int] = field(default_factory=list)
    at_target: list[int] = field(default_factory=list)


def info(place: Place) -> dict[str, Any]:
    """Return what an endpoint says of itself and of an interface of its.

    Raises EndpointGone, RequestRefused.
    """
    with EndpointClient.connect(place.socket) as client:
        said = client.call("info")
    own: dict[str, Any] = said["interfaces"][place.interface]
    return said | own


def timeout_us(topology: Topology) -> int:
    """Return a retransmission time-out that a full queue does not set off.

    Longer than a round trip over three switches and the largest queue's time, at this time scale.
    """
    longest = 0
    for link in topology.links:
        rate = topology.real_rate_bps(link)
        longest = max(longest, 8 * link.queue_bytes * 10**6 // rate)
    trips = (topology.there_and_back_ps(link) for link in topology.links)
    delay = 6 * topology.real_duration_ns(max(trips, default=0)) // 1000
    return min(max(2 * (longest + delay), _SHORTEST_TIMEOUT_US), _LONGEST_TIMEOUT_US)


def measure(
    topology: Topology,
    places: Mapping[str, Place],
    sources: Sequence[Interface],
    target: Interface,
    work: Work,
    draw: Draw = lambda: None,
) -> list[Answer]:
    """Let all sources measure at once; return an answer of each, in their order.

    A source that fails does not harm the others. Ctrl-C ends it with the results so far:
    `interrupted`. Raises EndpointGone, RequestRefused where it could not begin.
    """
    with contextlib.ExitStack() as stack:
        ends: list[_Ends] = []
        for source in sources:
            names = (str(source.end), str(target.end))
            at = [places[name] for name in names]
            here, there = (stack.enter_context(EndpointClient.connect(each.socket)) for each in at)
            numbers = (at[0].interface, at[1].interface)
            try:
                both = _Ends(*names, here, there, numbers)
                ends.append(_join(topology, both, source, target, work))
            except RequestRefused as error:
                raise RequestRefused(f"{names[0]} -> {names[1]}: {error}") from None
        for each in ends:
            each.here.send(
                "measure",
                qpns=each.qpns,
                operation=work.operation,
                mode=work.mode,
                size=work.size,
                count=work.count,
                depth=work.depth,
                duration_ms=work.duration_ms,
            )
        answers = _answers(ends, draw)
        entry = transport_entry().model_validate(dict(work.control))
        if of_planes(entry) is None:
            return answers
        of_target = work.operation == "read"  # the data's end
        return [
            replace(answer, planes=_planes(each, of_target=of_target))
            for answer, each in zip(answers, ends, strict=True)
        ]


def _planes(ends: _Ends, *, of_target: bool) -> tuple[Mapping[str, Any], ...]:
    """Ask an endpoint for its queue pairs' planes: another connection, since ours may still end."""
    end, own = (ends.there, ends.at_target) if of_target else (ends.here, ends.qpns)
    try:
        with EndpointClient.connect(end.path, 0.0) as client:  # it was there, or is gone
            pairs = client.call("watch", all=True)["pairs"]
    except (EndpointGone, RequestRefused):
        return ()
    # A queue pair over planes has all interfaces of its card, in their order.
    return tuple(
        {"interface": number, **plane}
        for pair in pairs
        if pair["qpn"] in own
        for number, plane in enumerate(pair.get("planes", ()))
    )


def _at(topology: Topology, interface: Interface, number: int, work: Work) -> dict[str, Any]:
    """Return what one of the ends has for itself: its interfaces, and what runs at its sender."""
    entry = transport_entry().model_validate(dict(work.control))
    links = links_of(topology, [interface], whole=span(entry))
    stock = interface.host in topology.stock_nics
    rate = sum(link.rate_bps for link in links)
    transport = transport_for(entry, rate, stock=stock, interfaces=len(links), topology=topology)
    return {
        **({"interfaces": "all"} if span(entry) else {"interface": number}),
        "reorder_us": -(-transport.reorder_ps * topology.time_scale // 10**6),
        "path_choice": path_request(transport.path_choice, topology.time_scale),
        "planes": plane_request(transport.planes, topology.time_scale),
        "congestion_control": transport.fields(topology.time_scale),
        "cnp_interval_ns": transport.cnp_interval_ns(topology.time_scale),
        "collects": ROCE_DSCP in path_records(topology).always
        and transport.planes.use is not PlaneUse.SHARED,
    }


def _join(
    topology: Topology, ends: _Ends, source: Interface, target: Interface, work: Work
) -> _Ends:
    settings: dict[str, Any] = {} if work.mtu is None else {"mtu": work.mtu}
    ours, theirs = join(
        ends.here,
        ends.there,
        qps=1 if work.mode == "latency" else work.qps,
        buffer_bytes=work.size,
        repeat=work.retransmission,
        **_at(topology, source, ends.interfaces[0], work),
        at_target=_at(topology, target, ends.interfaces[1], work),
        timeout_us=timeout_us(topology),
        retries=RETRIES,
        **settings,
    )
    ends.there.call("serve", qpns=theirs, operation=work.operation, mode=work.mode, size=work.size)
    ends.qpns, ends.at_target = ours, theirs
    return ends


def _answers(ends: Sequence[_Ends], draw: Draw) -> list[Answer]:
    found: dict[str, Answer] = {}
    cancelled = False
    while len(found) < len(ends):
        waiting = {each.here.fileno(): each for each in ends if each.source not in found}
        try:
            ready, _, _ = select.select(list(waiting), [], [], _LOOK_S)
            for fd in ready:
                found[waiting[fd].source] = _answer(waiting[fd])
            draw()
        except KeyboardInterrupt:
            if cancelled:
                raise
            cancelled = True
            for each in waiting.values():
                with contextlib.suppress(EndpointGone):
                    each.here.send("cancel")
    return [found[each.source] for each in ends]


def _answer(ends: _Ends) -> Answer:
    names = (ends.source, ends.target)
    try:
        said = ends.here.answer(_NO_ANSWER_S)
    except (EndpointGone, RequestRefused) as error:
        return Answer(*names, failures=(f"{names[0]} -> {names[1]}: {error}",))
    reasons = {each["why"].replace("the peer", names[1]) for each in said.get("failures", ())}
    failures = tuple(f"{names[0]} -> {names[1]}: {why}" for why in sorted(reasons))
    return Answer(*names, said, failures)
