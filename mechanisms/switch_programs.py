"""What each switch of a topology runs: fabric.p4 under the controller, or a program of the user's.

A program that has all that the fabric's controller writes is planned for, as fabric.p4 is. One that
lacks any of it is left alone: its switch holds what its file of entries says, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.entry_files import NO_ENTRIES, EntryFileError, OwnEntries, read_entries
from controller.errors import ControllerError
from controller.program import CompiledProgram
from controller.steering import SwitchPrograms, lacking
from controller.target_facts import TargetFacts
from mechanisms.program import FABRIC, job
from softswitch import program_cache
from softswitch.program_cache import Compiled
from topologies.model import Topology

Compile = Callable[[Path], Compiled]
"""Compile a P4 file; the second argument reports a compilation that takes time."""


class NotSteerableError(ControllerError):
    """A file wants the fabric's controller for a program that lacks what this writes."""


SAID = "the topology says so"


@dataclass(frozen=True)
class Chosen:
    """The programs, and in a line each why switches are left alone; nothing where none is."""

    programs: SwitchPrograms
    notices: tuple[str, ...] = ()


def sources(topology: Topology, default: CompiledProgram | None = None) -> dict[str, Path]:
    """Return the P4 file of each switch; `default` as in `choose`."""
    usual = FABRIC if default is None or default.path is None else default.path
    is_chosen = default is not None and default.given
    return {
        each.name: usual if is_chosen else topology.own.program_of(each.name) or usual
        for each in topology.switches
    }


def compile_for(topology: Topology) -> Compile:
    """Return what compiles a file for switches of a topology. It raises CompileError."""
    return lambda source: program_cache.compile_program(job(topology, source))


def choose(
    topology: Topology,
    facts: TargetFacts,
    compiling: Compile | None = None,
    default: CompiledProgram | None = None,
) -> Chosen:
    """Compile what the switches run, and read what they are given.

    `default`: of switches for which the topology names no program, compiled already; of all where
    the user chose it. Raises CompileError, NotSteerableError, and EntryFileError with all that is
    wrong in files of entries.
    """
    compiling = compiling or compile_for(topology)
    of_switch = sources(topology, default)
    made: dict[Path, CompiledProgram] = {}
    if default is not None:
        made[default.path or FABRIC] = default
    for path in of_switch.values():
        if path not in made:
            made[path] = CompiledProgram.of(compiling(path), path)
    first = made[next(iter(of_switch.values()))]
    used = dict.fromkeys(of_switch.values())
    reasons = {path: _reason(topology, path, made[path], of_switch, facts) for path in used}
    own: dict[str, OwnEntries] = {}
    problems: list[str] = []
    for name, path in of_switch.items():
        file = topology.own.entries_of(name)
        if reasons[path]:
            try:
                own[name] = entries_for(topology, name, made[path])
            except EntryFileError as error:
                problems.append(str(error))
        elif file is not None:
            problems.append(
                f"{file}: entries of {name}, for which the fabric's controller writes all entries: "
                "say 'controller: none' in the topology, or leave them out"
            )
    if problems:
        raise EntryFileError("\n".join(problems))
    others = {name: made[path] for name, path in of_switch.items() if made[path] is not first}
    return Chosen(SwitchPrograms(first, others, own), tuple(_notices(of_switch, reasons)))


def around(topology: Topology, facts: TargetFacts, program: CompiledProgram) -> SwitchPrograms:
    """Return what switches run where `program` is that of those which the topology names none for.

    A topology that says nothing of programs is the controller's, whatever `program` lacks. Raises
    what `choose` does.
    """
    own = topology.own
    if not (own.programs or own.entries or own.controller):
        return SwitchPrograms(program)
    return choose(topology, facts, default=program).programs


def entries_for(topology: Topology, switch: str, program: CompiledProgram) -> OwnEntries:
    """Return what a switch is given with its program, by its file. Raises EntryFileError."""
    file = topology.own.entries_of(switch)
    if file is None:
        return NO_ENTRIES
    ports = [port.number for port in topology.ports_of(switch)]
    return read_entries(file, program, ports, topology.own.cpu_port)


def again(topology: Topology, switch: str, program: CompiledProgram) -> OwnEntries:
    """Return what a switch gets when it is started again with a program it was given since.

    Nothing where its file does not fit that program any more.
    """
    try:
        return entries_for(topology, switch, program)
    except EntryFileError:
        return NO_ENTRIES


def anew(
    topology: Topology, switch: str, program: CompiledProgram, facts: TargetFacts
) -> OwnEntries | None:
    """Return what a switch gets that restarts with a program; None: what the fabric plans.

    The topology's own program gets its file's entries; another one does where they fit it. Raises
    EntryFileError for a file that does not fit the program that the topology says.
    """
    of_topology = topology.own.program_of(switch) or FABRIC
    is_alone = topology.own.controller == "none"
    if program.path is not None and program.path.resolve() != of_topology.resolve():
        if is_alone or lacking(topology, switch, program.p4info, facts):
            return again(topology, switch, program)
        return None
    is_alone = is_alone or topology.own.entries_of(switch) is not None
    if is_alone or lacking(topology, switch, program.p4info, facts):
        return entries_for(topology, switch, program)
    return None


def _reason(
    topology: Topology,
    path: Path,
    program: CompiledProgram,
    of_switch: dict[str, Path],
    facts: TargetFacts,
) -> str:
    """Say why switches with a program are left alone; "" where the controller plans for them."""
    if topology.own.controller == "none":
        return SAID
    if path == FABRIC:
        return ""
    name = next(name for name, source in of_switch.items() if source == path)
    reason = lacking(topology, name, program.p4info, facts)
    if reason and topology.own.controller == "fabric":
        raise NotSteerableError(f"controller: fabric, but {path.name} can't have it: {reason}")
    return reason


def _notices(of_switch: dict[str, Path], reasons: dict[Path, str]) -> Sequence[str]:
    lines = []
    for path, reason in reasons.items():
        if reason:
            names = [name for name, source in of_switch.items() if source == path]
            whose = "all switches" if len(names) == len(of_switch) else ", ".join(names)
            if reason is not SAID:
                reason += ", which the fabric's controller writes"
            lines.append(f"controller: none for {whose}, with {path.name}: {reason}")
    return lines
