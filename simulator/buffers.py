"""Shared buffers and PFC of simulated switches, from a run file's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from simulator.fabric import Fabric
from simulator.host_settings import slack_bytes
from softswitch.core import BufferConfig, SwitchCore
from topologies.buffers import headroom_bytes
from topologies.model import Topology
from workloads.model import BufferSettings, CardClocks

CLASSES = 8
DSCPS = 64


def buffer_config(topology: Topology, settings: BufferSettings) -> BufferConfig:
    """Return the shared buffer of each switch: the topology's classes, by their queues."""
    class_of_dscp = [0] * DSCPS
    lossless = 0
    for each in topology.classes:
        queue = each.queue or 0
        for dscp in each.dscps:
            class_of_dscp[dscp] = queue
        if each.lossless:
            lossless |= 1 << queue
    gap = settings.xon_gap_bytes
    largest = max((link.mtu_bytes for link in topology.links), default=0)
    scale = topology.time_scale
    return BufferConfig(
        shared_bytes=settings.shared_bytes,
        alpha_q8=(settings.alpha_q8,) * CLASSES,
        class_of_dscp=tuple(class_of_dscp),
        lossless=lossless,
        xon_gap_bytes=2 * largest if gap is None else gap,
        watchdog_ps=settings.watchdog_ps * scale,
        watchdog_restore_ps=settings.watchdog_restore_ps * scale,
    )


def apply_buffer(
    fabric: Fabric, settings: BufferSettings, clocks: CardClocks | None = None
) -> None:
    """Give every switch a shared buffer, and its ports headroom for their lossless classes.

    Behind a host whose card has a clock of its own the formula's headroom is larger.
    """
    topology = fabric.topology
    config = buffer_config(topology, settings)
    for name, switch in fabric.switches.items():
        core = switch.device.core
        core.configure_buffer(config)
        for port in topology.ports_of(name):
            room = settings.headroom_bytes
            if room is None:
                room = headroom_bytes(topology, port.link)
                if clocks is not None and not topology.is_switch(
                    topology.peer(name, port.number).node
                ):
                    room += slack_bytes(topology, port.link, clocks)
            lossless = [config.lossless >> c & 1 for c in range(CLASSES)]
            core.set_headroom(port.number, [room * each for each in lossless])


def buffer_end(core: SwitchCore, ports: Sequence[int]) -> dict[str, Any]:
    """Return a switch's buffer and pause counts for the results: members of SwitchEnd."""
    found = {port: asdict(core.pfc_stats(port)) for port in ports}
    stats = core.buffer_stats()
    return {
        "pfc": {port: row for port, row in found.items() if any(any(v) for v in row.values())},
        "waiting": core.waiting(),
        "buffer": asdict(stats) if stats is not None else {},
    }
