"""Faults of a run's transport: retransmission and timers against the fabric.

Times and rates are the fabric's.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostagent.rnic.planes import PlaneUse
from topologies.lint.findings import Remark, Severity
from topologies.model import Interface, Topology, TrafficClass
from topologies.units import format_duration, format_rate, format_size
from workloads.lint_buffer import alone_bytes
from workloads.model import RunFile
from workloads.paths import OVERHEAD, Paths, mtu_payload
from workloads.schema import CbrEntry, FlowSettings
from workloads.senders import of_planes
from workloads.transport_schema import DEFAULT_WINDOW, TransportFields

_ACK_PAYLOAD = 4  # an acknowledgement's AETH is as long as so much payload
_PS = 10**12


def transport_faults(run: RunFile) -> Iterator[Remark]:
    """Yield what is wrong with a run's retransmission and its timers."""
    entry = run.transport
    dscps = transport_dscps(run)
    if entry is None or not dscps:
        return
    goes_back = _goes_back(entry)
    for dscp in dscps:
        each = next((c for c in run.topology.classes if dscp in c.dscps), None)
        if goes_back and not (each and each.lossless):
            yield _go_back_n(goes_back, dscp, each)
    several = entry.udp_ports > 1 and len(run.topology.switches) > 1
    if several and goes_back:
        message = (
            f"{entry.udp_ports} UDP ports take {entry.udp_ports} ways, and {goes_back} "
            "everything again that was overtaken"
        )
        right = "WRITEs and SENDs with selective-repeat may come in any order; or one port"
        path = ("transport", "udp_ports")
        yield Remark(Severity.WARNING, path, "transport", message, right)
    if _lines(run.topology, entry) > 1 and entry.reorder is None and not _told_by_plane(entry):
        who = f"{goes_back} everything" if goes_back else "selective-repeat sends what is missing"
        message = f"packets take several interfaces, and {who} again that was overtaken"
        right = "selective-repeat, with 'reorder': by how much one way is longer than another"
        path = ("transport", "interfaces")
        yield Remark(Severity.WARNING, path, "transport", message, right)
    yield from _timers(run, entry)


def transport_dscps(run: RunFile) -> list[int]:
    """Return the DSCPs of what has the transport, in order."""
    found = {job.dscp for job in run.jobs}
    for each in run.traffic:
        settings = getattr(each, each.kind)
        if isinstance(settings, FlowSettings) and not isinstance(settings, CbrEntry):
            found |= set() if settings.transport == "none" else {settings.dscp}
    return sorted(found)


def class_subject(dscp: int, each: TrafficClass | None) -> str:
    """Return how a finding names a class, or a DSCP that is in none."""
    return f"DSCP {dscp}" if each is None else f"class {each.name}"


def _lines(topology: Topology, entry: TransportFields) -> int:
    """Return how many interfaces a queue pair has at most."""
    if entry.interfaces == "one":
        return 1
    return max((len(host.interfaces) for host in topology.hosts), default=1)


def _told_by_plane(entry: TransportFields) -> bool:
    """Return whether acknowledgements say what came by each interface.

    Of READs' responses none do.
    """
    found = of_planes(entry)
    shared = found is not None and found[1].use is PlaneUse.SHARED
    return shared and entry.operation != "read"


def _goes_back(entry: TransportFields) -> str:
    """Return which receiver wants packets in order, and how it treats those after a gap.

    Or nothing, where none does.
    """
    if entry.retransmission == "go-back-n":
        return "go-back-N sends"
    return "READ asks for" if entry.operation == "read" else ""


def _go_back_n(goes_back: str, dscp: int, each: TrafficClass | None) -> Remark:
    what = "it is in no class" if each is None else "lossy"
    message = f"{what}, and {goes_back} all again that followed a lost packet"
    right = "make the class lossless, or use WRITEs or SENDs with selective-repeat"
    path = ("transport", "retransmission")
    return Remark(Severity.WARNING, path, class_subject(dscp, each), message, right)


def _timers(run: RunFile, entry: TransportFields) -> Iterator[Remark]:
    """Compare time-out and window with the round trip of the hosts that are farthest apart."""
    found = farthest(run.topology, entry)
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
    rate_bps = line.rate_bps * _lines(run.topology, entry)
    share = window * payload * 8 * _PS * 100 // (trip_ps * rate_bps)
    if share < 100:
        message = (
            f"a window of {window} packets of {payload}B lasts for {share} % of a round trip "
            f"({_us(trip_ps)}) at {format_rate(rate_bps)}: a flow gets no more"
        )
        right = "give transport a larger window" + (
            ": selective repeat has at most 8192 packets"
            if entry.retransmission == "selective-repeat"
            else ""
        )
        where = ("transport", "window") if entry.window else ("transport",)
        yield Remark(Severity.INFO, where, subject, message, right)


def farthest(topology: Topology, entry: TransportFields) -> tuple[int, Interface, Interface] | None:
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
