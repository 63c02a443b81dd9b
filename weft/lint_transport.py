"""Faults of a run's transport: congestion control, retransmission and timers against the fabric.

Times and rates are the fabric's.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.paths import OVERHEAD, Paths, mtu_payload
from topologies.congestion import SETS, at_rate, parameters
from topologies.errors import FieldPath
from topologies.findings import Remark, Severity
from topologies.model import Interface, Topology, TrafficClass
from topologies.transport_schema import DEFAULT_WINDOW, TransportEntry
from topologies.units import format_duration, format_rate, format_size
from topologies.workload_model import RunFile
from topologies.workload_schema import CbrEntry, FlowSettings
from weft.lint_buffer import alone_bytes

PUBLISHED_BPS = {"ns3-rdma": 40 * 10**9}
"""The link rates for which sets were published that do not scale with the link."""

_FAR = 2  # times faster or slower than published
_ACK_PAYLOAD = 4  # an acknowledgement's AETH is as long as so much payload
_PS = 10**12


def transport_faults(run: RunFile, prefix: FieldPath) -> Iterator[Remark]:
    """Yield what is wrong; `prefix` is where the classes stand in the run file."""
    entry = run.transport
    dscps = _dscps(run)
    if entry is None or not dscps:
        return
    goes_back = _goes_back(entry)
    for dscp in dscps:
        each = next((c for c in run.topology.classes if dscp in c.dscps), None)
        if entry.congestion_control == "dcqcn":
            yield from _marking(run, entry, dscp, each, prefix)
        if goes_back and not (each and each.lossless):
            yield _go_back_n(goes_back, dscp, each)
    if entry.congestion_control == "dcqcn":
        yield from _far_from_its_rate(run.topology, entry)
    several = entry.udp_ports > 1 and len(run.topology.switches) > 1
    if several and goes_back:
        message = (
            f"{entry.udp_ports} UDP ports take {entry.udp_ports} ways, and {goes_back} "
            "everything again that was overtaken"
        )
        right = "WRITEs and SENDs with selective-repeat may come in any order; or one port"
        path = ("transport", "udp_ports")
        yield Remark(Severity.WARNING, path, "transport", message, right)
    yield from _timers(run, entry)


def _dscps(run: RunFile) -> list[int]:
    """Return the DSCPs of what has the transport, in order."""
    found = {job.dscp for job in run.jobs}
    for each in run.traffic:
        settings = getattr(each, each.kind)
        if isinstance(settings, FlowSettings) and not isinstance(settings, CbrEntry):
            found |= set() if settings.transport == "none" else {settings.dscp}
    return sorted(found)


def _subject(dscp: int, each: TrafficClass | None) -> str:
    return f"DSCP {dscp}" if each is None else f"class {each.name}"


def _goes_back(entry: TransportEntry) -> str:
    """Return who wants packets in order, and what he does with what follows a gap; or nothing."""
    if entry.retransmission == "go-back-n":
        return "go-back-N sends"
    return "READ asks for" if entry.operation == "read" else ""


def _go_back_n(goes_back: str, dscp: int, each: TrafficClass | None) -> Remark:
    what = "it is in no class" if each is None else "lossy"
    message = f"{what}, and {goes_back} all again that followed a lost packet"
    right = "make the class lossless, or use WRITEs or SENDs with selective-repeat"
    path = ("transport", "retransmission")
    return Remark(Severity.WARNING, path, _subject(dscp, each), message, right)


def _marking(
    run: RunFile,
    entry: TransportEntry,
    dscp: int,
    each: TrafficClass | None,
    prefix: FieldPath,
) -> Iterator[Remark]:
    subject = _subject(dscp, each)
    if each is None or each.ecn is None:
        what = "it is in no class" if each is None else "it has no ecn"
        message = f"{what}: nothing is ever marked, and DCQCN never slows down"
        right = f"give its class ecn: {entry.parameters}, or write congestion_control: none"
        path = ("transport", "congestion_control")
        yield Remark(Severity.ERROR, path, subject, message, right)
        return
    place = (*prefix, "classes", each.name, "ecn")
    if isinstance(each.ecn, str) and each.ecn != entry.parameters:
        message = f"marks for {each.ecn}, and senders use {entry.parameters}"
        right = f"ecn: {entry.parameters} belongs to it"
        yield Remark(Severity.WARNING, place, subject, message, right)
    for link in sorted(run.topology.links, key=lambda link: link.queue_bytes):
        at = at_rate(each.ecn, link.rate_bps)
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


def _far_from_its_rate(topology: Topology, entry: TransportEntry) -> Iterator[Remark]:
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


def _timers(run: RunFile, entry: TransportEntry) -> Iterator[Remark]:
    """Compare time-out and window with the round trip of the hosts that are farthest apart."""
    found = _farthest(run.topology, entry)
    if found is None:
        return
    trip_ps, one, other = found
    path, subject = ("transport", "timeout"), f"{one.end} to {other.end}"
    line = run.topology.link_at(one.host, one.number)
    room = line.queue_bytes if run.buffer is None else alone_bytes(run.buffer)
    wait_ps = room * 8 * _PS // line.rate_bps
    told = f"a time-out of {format_duration(entry.timeout)}"
    if entry.timeout <= trip_ps:
        message = f"{told} is over before an answer can be there, after {_us(trip_ps)}"
        right = "give it several round trips"
        yield Remark(Severity.ERROR, path, subject, message, right)
    elif entry.timeout <= trip_ps + wait_ps:
        message = (
            f"{told} is over while packets wait in one full queue: a round trip takes "
            f"{_us(trip_ps)}, and {format_size(room)} at {format_rate(line.rate_bps)} "
            f"{_us(wait_ps)}"
        )
        yield Remark(Severity.WARNING, path, subject, message, "give it more than both together")
    window = entry.window or DEFAULT_WINDOW[entry.retransmission]
    payload = entry.mtu or mtu_payload(line.mtu_bytes)
    share = window * payload * 8 * _PS * 100 // (trip_ps * line.rate_bps)
    if share < 100:
        message = (
            f"a window of {window} packets of {payload}B lasts for {share} % of a round trip "
            f"({_us(trip_ps)}) at {format_rate(line.rate_bps)}: a flow gets no more"
        )
        right = "give transport a larger window" + (
            ": selective repeat has at most 8192 packets"
            if entry.retransmission == "selective-repeat"
            else ""
        )
        where = ("transport", "window") if entry.window else ("transport",)
        yield Remark(Severity.INFO, where, subject, message, right)


def _farthest(topology: Topology, entry: TransportEntry) -> tuple[int, Interface, Interface] | None:
    """Return the longest round trip of a packet and its acknowledgement, and whose it is."""
    of_switch: dict[str, list[Interface]] = {}
    for interface in topology.interfaces():
        of_switch.setdefault(interface.switch, []).append(interface)
    slowest = [  # of each switch, two hosts with the longest links
        one
        for all_of_it in of_switch.values()
        for one in sorted(all_of_it, key=lambda i: -_delay(topology, i))[:2]
    ]
    paths = Paths(topology)
    best: tuple[int, Interface, Interface] | None = None
    for place, one in enumerate(slowest):
        for other in slowest[place + 1 :]:
            try:
                way = paths.way(one.switch, other.switch)
            except KeyError:
                continue  # another plane
            ends = [topology.link_at(i.host, i.number) for i in (one, other)]
            payload = entry.mtu or mtu_payload(min(link.mtu_bytes for link in ends))
            rates = [ends[0].rate_bps, *way.rates, ends[1].rate_bps]
            trip = 2 * (way.delay_ps + sum(link.delay_ps for link in ends))
            trip += sum(_time(payload, rate) + _time(_ACK_PAYLOAD, rate) for rate in rates)
            if best is None or trip > best[0]:
                best = trip, one, other
    return best


def _delay(topology: Topology, interface: Interface) -> int:
    return topology.link_at(interface.host, interface.number).delay_ps


def _time(payload: int, rate_bps: int) -> int:
    wire = payload + -payload % 4
    return -(-(wire + OVERHEAD) * 8 * _PS // rate_bps)


def _us(time_ps: int) -> str:
    return f"{time_ps / 10**6:.4g} us"
