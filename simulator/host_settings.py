"""What a run file says of hosts' cards: clocks of their own, and hosts that take frames slowly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from simulator.core.binding import Clock, Receiver
from simulator.fabric import Fabric
from topologies.buffers import ETHERNET_BYTES, WIRE_BYTES, headroom_bytes
from topologies.model import Interface, Link, Topology
from workloads.model import CardClocks, ReceiverSettings
from workloads.randomness import Random

_BIT_PS = 8 * 10**12
_PPB = 10**9


def apply_clocks(fabric: Fabric, clocks: CardClocks, seed: int) -> None:
    """Give each interface of each host a clock: offset, phase and jitter drawn by the seed."""
    topology = fabric.topology
    for host in topology.hosts:
        for interface in host.interfaces:
            drawn = Random(seed, "clock", host.name, interface.number)
            link = topology.link_at(host.name, interface.number)
            frame_ps = _frame_ps(topology, link)
            fabric.engine.set_clock(
                fabric.nodes[host.name],
                interface.number,
                Clock(
                    ppb=drawn.below(2 * clocks.ppb + 1) - clocks.ppb,
                    phase_ps=drawn.below(frame_ps),
                    jitter_ps=_jitter_ps(topology, link, clocks),
                    seed=drawn.word(),
                ),
            )


def slack_bytes(topology: Topology, link: Link, clocks: CardClocks) -> int:
    """Return what a card with such a clock may add to the headroom behind its link, in bytes.

    Its frames arrive later by phase and jitter, and come a little faster than the line's rate.
    """
    rate = topology.real_rate_bps(link)
    late_ps = _frame_ps(topology, link) + _jitter_ps(topology, link, clocks)
    trip_ps = topology.there_and_back_ps(link) * topology.time_scale + late_ps
    return -(-(late_ps * rate + trip_ps * rate * clocks.ppb // _PPB) // _BIT_PS)


def apply_receivers(fabric: Fabric, receivers: Mapping[str, ReceiverSettings]) -> None:
    """Let hosts take what arrives only so fast, and pause the lossless classes behind that."""
    topology = fabric.topology
    classes = sum({1 << (each.queue or 0) for each in topology.classes if each.lossless})
    for interface, settings in _slow(topology, receivers):
        link = topology.link_at(interface.host, interface.number)
        frame = link.mtu_bytes + ETHERNET_BYTES
        room = headroom_bytes(topology, link) if classes else 0
        fabric.engine.set_receiver(
            fabric.nodes[interface.host],
            interface.number,
            Receiver(
                rate_bps=max(1, settings.rate_bps // topology.time_scale),
                buffer_bytes=settings.buffer_bytes + room,
                xoff_bytes=settings.buffer_bytes,
                xon_bytes=max(0, settings.buffer_bytes - 2 * frame),
                classes=classes,
            ),
        )


def receiver_ends(
    fabric: Fabric, receivers: Mapping[str, ReceiverSettings]
) -> dict[str, dict[str, int]]:
    """Return what slow hosts have taken, dropped and paused, by interface; as ReceiverStats."""
    return {
        str(interface.end): asdict(
            fabric.engine.receiver_stats(fabric.nodes[interface.host], interface.number)
        )
        for interface, _ in _slow(fabric.topology, receivers)
    }


def _slow(
    topology: Topology, receivers: Mapping[str, ReceiverSettings]
) -> Iterator[tuple[Interface, ReceiverSettings]]:
    for host in topology.hosts:
        if host.name in receivers:
            for interface in host.interfaces:
                yield interface, receivers[host.name]


def _frame_ps(topology: Topology, link: Link) -> int:
    """Return the time of the longest frame on a link, at its real rate."""
    return -(
        -(link.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES) * _BIT_PS // topology.real_rate_bps(link)
    )


def _jitter_ps(topology: Topology, link: Link, clocks: CardClocks) -> int:
    if clocks.jitter_ps is None:
        return _frame_ps(topology, link)
    return clocks.jitter_ps * topology.time_scale
