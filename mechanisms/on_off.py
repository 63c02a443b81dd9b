"""What a mechanism that can be switched off does at each switch: for its word at the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.entries import ActionCall, DefaultEntry
from mechanisms.contract import Control, PortCounter
from topologies.model import Topology


@dataclass(frozen=True)
class SwitchState:
    """Whether a switch runs a mechanism, and its counts by port and outcome.

    `runs` is None where its program knows none. A port whose counts are all 0 is left out.
    """

    runs: bool | None
    counts: Mapping[int, Mapping[str, int]]


def read_state(
    topology: Topology,
    controller: Control,
    mode_table: str,
    stand_still: ActionCall,
    counter: PortCounter,
) -> dict[str, SwitchState]:
    """Return what each switch does, as read from it.

    `mode_table` has no key, and its default action is `stand_still` where the mechanism is off.
    """
    found: dict[str, SwitchState] = {}
    for switch in topology.switches:
        name = switch.name
        if not controller.has(name, table=mode_table, counter=counter.name):
            found[name] = SwitchState(None, {})
            continue
        modes = controller.read_entries(name, mode_table)
        runs = any(isinstance(each, DefaultEntry) and each.action != stand_still for each in modes)
        of_port = {port.number: counter.cells(port.number) for port in topology.ports_of(name)}
        indexes = [index for each in of_port.values() for index in each]
        packets = controller.read_cells(counter.name, {name: indexes})[name]
        counts = {
            port: {outcome: packets[index] for index, outcome in each.items()}
            for port, each in of_port.items()
        }
        found[name] = SwitchState(
            runs, {port: each for port, each in counts.items() if any(each.values())}
        )
    return found


def modes(found: Mapping[str, SwitchState], subject: str) -> str:
    """Return which switches run it: 'SUBJECT on', or each case's switches."""
    names = {
        text: [name for name, state in found.items() if state.runs is runs]
        for runs, text in ((True, "on"), (False, "off"), (None, "unknown to the program"))
    }
    there = [(text, switches) for text, switches in names.items() if switches]
    if len(there) == 1:
        return f"{subject} {there[0][0]}"
    return f"{subject} " + "; ".join(f"{text} at {', '.join(at)}" for text, at in there)
