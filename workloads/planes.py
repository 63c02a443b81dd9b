"""What a run file that makes planes of its hosts' interfaces asks of the rest of its transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hostagent.rnic.planes import PlaneConfig, PlaneUse
from topologies.event_model import Do
from topologies.model import Topology
from topologies.units import format_duration
from workloads.senders import of_planes, senders
from workloads.transport_schema import TransportFields

PS_PER_US = 10**6


def plane_problems(transport: TransportFields, topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield the key and what is wrong with it, for what makes no sense together."""
    found = of_planes(transport)
    if found is None:
        return
    key = found[0].key
    if transport.interfaces == "one":
        yield key, "its planes are all interfaces of a host: write interfaces: all"
    if transport.retransmission == "go-back-n" and found[1].use is PlaneUse.SHARED:
        yield (
            key,
            "what one plane carries may overtake what another does, and go-back-n keeps nothing "
            "that comes early: write retransmission: selective-repeat",
        )
    if found[1].tries > transport.retries + 1:
        yield key, f"after {transport.retries + 1} time-outs ('retries') the queue pair has failed"
    stock = [host.name for host in topology.hosts if host.name in topology.stock_nics]
    if stock:
        yield key, f"{stock[0]} has a stock NIC, which has no planes: leave it out of stock_nics"


def drain_problem(transport: TransportFields | None, topology: Topology) -> str | None:
    """Return why the first interface that is drained can't be; None where that is well.

    Cards that only take turns over interfaces, or have one each, have none to leave out.
    """
    drained = next((event for event in topology.events if event.do is Do.DRAIN), None)
    if drained is None or (transport is not None and of_planes(transport) is not None):
        return None
    keys = " or ".join(each.key for each in senders() if each.planes is not None)
    return (
        f"{drained.says} at {format_duration(drained.at_ps)}, and no queue pair has planes, of "
        f"which it could leave one out: write interfaces: all and {keys}: true"
    )


def plane_request(planes: PlaneConfig, scale: int) -> dict[str, Any] | None:
    """Return planes as an endpoint's `open` takes them, slowed down by `scale`."""
    if planes.use is PlaneUse.TURNS:
        return None
    told = planes.with_time_scale(scale)
    if told.use is PlaneUse.SINGLE:
        return {
            "first": told.first,
            "tries": told.tries,
            "by_link": told.by_link,
            "switch_us": -(-told.switch_ps // PS_PER_US),
            "return_us": -(-told.return_ps // PS_PER_US),
        }
    return {
        "silence_us": -(-told.silence_ps // PS_PER_US),
        "misses": told.misses,
        "probe_us": -(-told.probe_ps // PS_PER_US),
    }


def plane_words(planes: PlaneConfig, scale: int) -> dict[str, Any]:
    """Return what summaries say of planes, as they ran; nothing without any."""
    if planes.use is PlaneUse.TURNS:
        return {}
    told = planes.with_time_scale(scale)
    if told.use is PlaneUse.SINGLE:
        names = ("first", "tries", "by_link", "switch_ps", "return_ps")
        return {"planes": {"use": "single", **{name: getattr(told, name) for name in names}}}
    return {
        "planes": {
            "use": told.use.name.lower(),
            "silence_ps": told.silence_ps,
            "misses": told.misses,
            "probe_ps": told.probe_ps,
        }
    }
