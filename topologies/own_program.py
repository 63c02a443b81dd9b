"""What a topology file says of programs other than fabric.p4, and of hosts in such a network.

program: lb.p4                  every switch's program; in the explicit form also a switch's own
entries: entries                a folder with s1-runtime.json, s2-commands.txt, or a file a switch
controller: none                no controller plans routes: switches hold the entries of `entries`
arp: static                     hosts know the MACs in their networks, their gateways' included
units: bmv2                     timestamps in microseconds, queue depths in packets, as in BMv2
cpu_port: 510                   by which programs send to the controller; 255 without it

Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from topologies.errors import FieldPath, did_you_mean

if TYPE_CHECKING:
    from topologies.schema import ExplicitFile

Report = Callable[[FieldPath, str], None]

CPU_PORT = 255
"""The controller's port in fabric.p4, and in others' programs where their file says no other."""

OWN_KEYS = ("program", "entries", "controller", "arp", "units", "cpu_port")
"""What a file says of programs as a whole, by key."""

ENDINGS = ("-runtime.json", "-commands.txt")
"""Of a switch's file in a folder of entries, as p4lang's tutorials and p4-utils call them."""


@dataclass(frozen=True)
class OwnProgram:
    """Programs and entries of switches by name, as absolute paths; commands of hosts by name.

    `controller`: "fabric" or "none" where the file says it, else "": what the program decides.
    `bmv2_units`: switches stamp in microseconds and count queues in packets, not in nanoseconds and
    cells. `cpu_port`: of every switch.
    """

    programs: tuple[tuple[str, str], ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    controller: Literal["", "none", "fabric"] = ""
    static_arp: bool = False
    bmv2_units: bool = False
    cpu_port: int = CPU_PORT
    commands: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def with_program(self, program: Path) -> OwnProgram:
        """Return the same with one program for all switches."""
        return replace(self, programs=((ALL, str(program)),))

    def with_entries(self, entries: Mapping[str, Path]) -> OwnProgram:
        """Return the same with these files of entries, and no others."""
        return replace(self, entries=tuple((name, str(path)) for name, path in entries.items()))

    def program_of(self, switch: str) -> Path | None:
        """Return a switch's program; None: nothing is said, so that of every fabric."""
        known = dict(self.programs)
        found = known.get(switch) or known.get(ALL)
        return None if found is None else Path(found)

    def entries_of(self, switch: str) -> Path | None:
        """Return a switch's file of entries."""
        found = dict(self.entries).get(switch)
        return None if found is None else Path(found)

    def commands_of(self, host: str) -> tuple[str, ...]:
        """Return what a host runs once everything is up."""
        return dict(self.commands).get(host, ())


ALL = ""
"""In the place of a switch's name: every switch that has none of its own."""

NOTHING_OWN = OwnProgram()


def entry_files(folder: Path, switches: list[str]) -> dict[str, Path]:
    """Return the files of entries in a folder by switch.

    Raises ValueError for a folder that is not there or holds none, for two files of one switch, and
    for a file of a switch that there is not.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        ending = next((each for each in ENDINGS if path.name.endswith(each)), None)
        if ending is None:
            continue
        switch = path.name.removesuffix(ending)
        if switch not in switches:
            hint = did_you_mean(switch, switches)
            raise ValueError(f"{path}: there is no switch {switch!r} in this topology{hint}")
        if switch in found:
            raise ValueError(f"{path}: {switch} has {found[switch].name} too: keep one of the two")
        found[switch] = path
    if not found:
        raise ValueError(f"{folder}: no file called as s1{ENDINGS[0]} or s1{ENDINGS[1]}")
    return found


def build_own_program(spec: ExplicitFile, file: str, report: Report) -> OwnProgram:
    """Return what a file says; `report` gets what is wrong, with its place."""
    if _says_nothing(spec):
        return NOTHING_OWN
    folder = Path(file).absolute().parent
    programs = {}
    if spec.program is not None:
        programs[ALL] = _file(folder, spec.program, ("program",), report)
    names = [entry.name for entry in spec.switches]
    entries = _entries(spec, folder, names, report)
    for i, entry in enumerate(spec.switches):
        if entry.program is not None:
            programs[entry.name] = _file(folder, entry.program, ("switches", i, "program"), report)
        if entry.entries is not None:
            place: FieldPath = ("switches", i, "entries")
            if entry.name in entries:
                report(place, f"'entries' of the file gives {entry.name} one already: keep one")
            entries[entry.name] = _file(folder, entry.entries, place, report)
    for key in ("units", "cpu_port"):
        if getattr(spec, key) is not None and spec.controller != "none":
            report((key,), f"{key!r} is for programs that the fabric does not plan for: say "
                   "'controller: none' too")  # fmt: skip
    return OwnProgram(
        programs=tuple(programs.items()),
        entries=tuple(entries.items()),
        controller=spec.controller or "",
        static_arp=spec.arp == "static",
        bmv2_units=spec.units == "bmv2",
        cpu_port=CPU_PORT if spec.cpu_port is None else spec.cpu_port,
        commands=tuple((host.name, tuple(host.commands)) for host in spec.hosts if host.commands),
    )


def _says_nothing(spec: ExplicitFile) -> bool:
    whole = spec.program, spec.entries, spec.controller, spec.arp, spec.units, spec.cpu_port
    return (
        not any(each is not None for each in whole)
        and not any(each.program or each.entries for each in spec.switches)
        and not any(each.commands for each in spec.hosts)
    )


def _entries(spec: ExplicitFile, folder: Path, names: list[str], report: Report) -> dict[str, str]:
    given = spec.entries
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            found = entry_files(folder / given, names)
        except ValueError as error:
            report(("entries",), str(error))
            return {}
        return {name: str(path) for name, path in found.items()}
    entries = {}
    for name, path in given.items():
        if name not in names:
            hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
            report(("entries", name), f"there is no switch {name!r}{hint}")
        entries[name] = _file(folder, path, ("entries", name), report)
    return entries


def _file(folder: Path, given: str, place: FieldPath, report: Report) -> str:
    path = folder / given
    if not path.is_file():
        report(place, f"{given}: no such file in {folder}")
    return str(path)
