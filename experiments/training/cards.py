"""The cards of a job's ranks: one interface of each host, or all of them, as lines or as planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emulation import rdma
from experiments.training.fabric import Fabric
from experiments.training.job import Card
from experiments.ways import Ways
from hostagent.collective.rdma import Line
from hostagent.pins import MAPS, pins_of
from hostagent.rnic.planes import PlaneConfig
from observe.errors import UsageError
from topologies.model import Host, Topology
from topologies.reach import Reach
from workloads.planes import plane_problems
from workloads.several import links_of, unjoined
from workloads.transport import transport_for
from workloads.transport_schema import TransportFields, transport_entry

_PS_PER_US = 10**6


def entry_of(ways: Ways) -> TransportFields:
    """Return the ring's queue pairs as a run file has them."""
    keys: dict[str, Any] = {"retransmission": "selective-repeat", "congestion_control": "none"}
    return transport_entry().model_validate({**keys, **ways.keys()})


def check(ways: Ways, topology: Topology, hosts: Sequence[Host]) -> None:
    """Raise UsageError where the hosts' interfaces can't be used so."""
    ways.check()
    if ways.interfaces == "one":
        return
    entry = entry_of(ways)
    ends = [host.interfaces[0] for host in hosts]
    why = unjoined(topology, Reach(topology), entry, ends, ends)
    if why is None and all(len(host.interfaces) == 1 for host in hosts):
        why = f"the hosts of {topology.name} have one interface each"
    if why is not None:
        raise UsageError(f"--interfaces all: {why}")
    for _, wrong in plane_problems(entry, topology):
        raise UsageError(f"--failover: {wrong}")


def card_of(fabric: Fabric, host: Host, ways: Ways) -> Card:
    """Return the card of a host's rank. Raises UsageError: the host's endpoint is in use."""
    if (fabric.directory / f"{host.name}.rnic").exists():
        raise UsageError(
            f"{host.name} has an endpoint that others use (`weft perf` starts it), and its card "
            "takes the frames of a rank's: name the TOPO, and a fabric is brought up for the job"
        )
    topology = fabric.topology
    scale = topology.time_scale
    whole = ways.interfaces == "all"
    links = links_of(topology, host.interfaces[:1], whole=whole)
    rate = sum(link.rate_bps for link in links)
    transport = transport_for(entry_of(ways), rate, interfaces=len(links), topology=topology)
    pins = pins_of(fabric.run)
    more = host.interfaces[1:] if whole else ()
    return Card(
        str(pins) if (pins / MAPS[0]).exists() else "",
        min(topology.real_rate_bps(link) for link in links),
        _timeout_us(topology, transport.planes),
        also=tuple(
            Line(fabric.interface(each), str(each.address.ip), str(each.gateway)) for each in more
        ),
        planes=transport.planes.with_time_scale(scale),
        control=transport.fields(scale) or None,
        reorder_us=-(-transport.reorder_ps * scale // _PS_PER_US),
    )


def _timeout_us(topology: Topology, planes: PlaneConfig) -> int:
    """Return a time-out that a full queue does not set off, nor a plane that falls silent."""
    found_us = (planes.misses + 1) * planes.silence_ps * topology.time_scale // _PS_PER_US
    return max(rdma.timeout_us(topology), 2 * found_us)
