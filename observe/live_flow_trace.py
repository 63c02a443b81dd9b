"""A flow's path through the fabric that is up: its host sends probes, its switches trace them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from emulation.errors import EmulationError
from emulation.fabric_record import FabricRecord
from emulation.network import namespace_name
from observe.errors import UsageError
from observe.flow_trace import FlowTrace, TracedFlow, assemble, is_settled
from observe.follow import OWN_SWITCH
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from softswitch.tracing.records import PacketTrace

GAP_S = 0.02
"""Between two probes: a switch takes some milliseconds to put a trace into words."""

PATIENCE_S = 5.0
SEND_S = 30.0
_LOOK_S = 0.05
_ROOM = Path(__file__).resolve().parent.parent


@dataclass
class _Seen:
    """What one switch has said so far. `error`: why it says nothing more."""

    packets: list[PacketTrace] = field(default_factory=list)
    missed: int = 0
    error: DiagnosticsError | None = None


def trace(record: FabricRecord, flow: TracedFlow, count: int) -> FlowTrace:
    """Send `count` probes of a flow and return what became of them.

    Needs root, for the host's namespace. Raises UsageError for switches without traces,
    DiagnosticsError, EmulationError.
    """
    if record.runtime != OWN_SWITCH:
        raise UsageError(
            f"the switches of run {record.run} are {record.runtime}, which has no traces: "
            "start it without TARGET=" + record.runtime
        )
    topology = record.topology
    with ExitStack() as stack:
        expression = flow.filter(topology)
        seen = {
            name: stack.enter_context(_tracing(address, expression))
            for name, address in record.addresses.items()
        }
        _send(record, flow, count)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for each in seen.values():
                if each.error is not None:
                    raise each.error
            traces = {name: tuple(each.packets) for name, each in seen.items() if each.packets}
            if is_settled(topology, flow, count, traces) or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_S)
        missed = sum(each.missed for each in seen.values())
        if missed:
            raise EmulationError(
                f"{missed} probes were not traced: switches have no time to", "give a lower --count"
            )
    return assemble(topology, flow, count, traces)


@contextmanager
def _tracing(address: str, expression: str) -> Iterator[_Seen]:
    """Collect what a switch traces, for the block."""
    seen = _Seen()
    with DiagnosticsClient(address) as client:
        events = client.trace(expression)

        def collect() -> None:
            try:
                for event in events:
                    if event["event"] == "packet":
                        seen.packets.append(PacketTrace.from_json(event))
                    elif event["event"] == "missed":
                        seen.missed += int(event["packets"])
            except DiagnosticsError as error:
                seen.error = error

        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        yield seen
    thread.join()  # the connection is closed, so it ends


def _send(record: FabricRecord, flow: TracedFlow, count: int) -> None:
    """Let the host send the probes."""
    interface = f"{flow.source.node}-eth{flow.source.port}"
    frame = flow.frame(record.topology).hex()
    command = ["ip", "netns", "exec", namespace_name(record.run, flow.source.node), sys.executable]
    command += ["-m", "emulation.frame_sender", interface, frame, str(count), str(GAP_S)]
    seconds = SEND_S + count * GAP_S
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, cwd=_ROOM, check=False
        )
    except subprocess.TimeoutExpired:
        raise EmulationError(f"{flow.source} did not send the probes in {seconds:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        raise EmulationError(f"{flow.source} can't send probes: {''.join(said)}")
