"""Probes of a flow through a running simulation, traced by every switch that they meet.

The fabric is as it is at that moment: its entries, the state of its programs, its dead and lossy
links, and the traffic on it. A probe is one more packet, so that what follows may differ from a
run without it: ask in a forked copy (`softswitch.jobs.in_child`) where the run is to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simulator.runner import Simulation
from softswitch.device import Device
from softswitch.tracing.recorder import Recorder
from softswitch.tracing.records import PacketTrace
from topologies.model import Endpoint

APART_PS = 1_000_000
"""Between two probes, in fabric time."""

LOOK_PS = 20_000_000
PATIENCE_PS = 500_000_000
"""So long after the last one they may be on their way, in fabric time."""

Traces = Mapping[str, Sequence[PacketTrace]]


class FlowProbes:
    """Sends probes in one simulation. Making it gets all switches ready, which takes a second."""

    def __init__(self, simulation: Simulation) -> None:
        """Set up a recorder at each switch. Raises TraceError."""
        self._simulation = simulation
        self._recorders = {
            name: _recorder(switch.device) for name, switch in simulation.fabric.switches.items()
        }

    def send(
        self,
        source: Endpoint,
        frame: bytes,
        count: int,
        filter: str,
        settled: Callable[[Traces], bool],
    ) -> Traces:
        """Send a frame so many times from a host's interface; return each switch's traces of it.

        `filter`: takes the probes alone. `settled`: no more will come. Virtual time goes on
        meanwhile. Raises FilterError, TraceError.
        """
        simulation, fabric = self._simulation, self._simulation.fabric
        tracers = [recorder.start(filter) for recorder in self._recorders.values()]
        scale, start = fabric.topology.time_scale, simulation.engine.now
        node, apart_ps = fabric.nodes[source.node], APART_PS * fabric.topology.time_scale
        simulation.engine.add_script(
            [(node, source.port, start + n * apart_ps, frame) for n in range(count)]
        )
        last = start + count * apart_ps
        found: dict[str, Sequence[PacketTrace]] = {}
        now = start
        while now < last + PATIENCE_PS * scale:
            now += LOOK_PS * scale
            simulation.advance(now)
            found = {name: recorder.packets() for name, recorder in self._recorders.items()}
            if now >= last and settled(found):
                break
        for tracer in tracers:
            tracer.stop()
        for recorder in self._recorders.values():
            recorder.clear()
        return {name: packets for name, packets in found.items() if packets}


def _recorder(device: Device) -> Recorder:
    recorder = Recorder(device.core, lambda: device.program)
    recorder.renew(force=True)
    return recorder
