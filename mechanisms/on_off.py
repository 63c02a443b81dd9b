"""What a mechanism that can be switched off does at each switch: for its word at the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.entries import ActionCall, DefaultEntry
from mechanisms.contract import Control, PortCounter, Running, WordError
from topologies.model import Topology

ON_OFF = ("on", "off")


def is_used(
    word: str, rest: str, used: bool, without: str, remedy: str, words: tuple[str, ...] = ON_OFF
) -> bool:
    """Say whether a topology uses a mechanism whose word was typed, with `rest` behind it.

    Raises WordError where `rest` is none of its `words`, or where there is nothing to be switched:
    `without` says what is so then, `remedy` what would change it.
    """
    if rest not in ("", *words):
        raise WordError(f"{word} [{'|'.join(words)}], not {rest!r}")
    if rest and not used:
        raise WordError(without, remedy)
    return used


def knowing(running: Running, table: str, counter: PortCounter | None, mechanism: str) -> list[str]:
    """Return the switches whose program has a mechanism's table and its counter, if it has one.

    Raises WordError if there is none. `mechanism`: as people call it.
    """
    has = running.controller.has
    names = (switch.name for switch in running.topology.switches)
    counted = "" if counter is None else counter.name
    found = [name for name in names if has(name, table=table, counter=counted)]
    if not found:
        raise WordError(f"no switch runs a program that knows {mechanism}")
    return found


def counts_of(
    topology: Topology, controller: Control, counter: PortCounter, switch: str
) -> dict[int, dict[str, int]]:
    """Return what one switch has counted: by port and label, with all that are 0."""
    of_port = {port.number: counter.cells(port.number) for port in topology.ports_of(switch)}
    indexes = [index for each in of_port.values() for index in each]
    packets = controller.read_cells(counter.name, {switch: indexes})[switch]
    return {
        port: {label: packets[index] for index, label in cells.items()}
        for port, cells in of_port.items()
    }


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
        counts = counts_of(topology, controller, counter, name)
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
