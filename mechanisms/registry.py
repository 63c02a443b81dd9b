"""Which mechanisms there are: one line each. Everything that iterates over them starts here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any

from controller import parts
from mechanisms.contract import LinkMarks, Mechanism, PathRecords, PortCounter
from topologies import extensions
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology
from workloads import in_network, senders, source_ports
from workloads.model import RunFile

NAMES = (
    "dcqcn",
    "fast_cnp",
    "dlb",
    "iglb",
    "dpfr",
    "allreduce",
    "dual_plane",
    "ecn_tuning",
    "path_telemetry",
    "encc",
    "powertcp",
    "swift",
    "bolt",
)
"""The folders, in the order in which they are asked; the first sender is the default one."""


@cache
def mechanisms() -> tuple[Mechanism, ...]:
    """Return all mechanisms."""
    return tuple(import_module(f"mechanisms.{name}.mechanism").MECHANISM for name in NAMES)


def install() -> None:
    """Hand settings, parts and senders to the rooms below, which know no mechanism by name."""
    extensions.install(setting for each in mechanisms() for setting in each.settings)
    parts.install(mechanisms())
    senders.install(each.sender for each in mechanisms() if each.sender is not None)
    in_network.install(next((each.aggregation for each in mechanisms() if each.aggregation), None))
    source_ports.install(
        next((each.source_ports for each in mechanisms() if each.source_ports), None)
    )


def defines(topology: Topology) -> tuple[str, ...]:
    """Return what p4src/fabric.p4 is built with, so that it holds what a topology uses."""
    held = [each for each in mechanisms() if each.holds(topology)]
    names = [f"WITH_{each.name.upper()}" for each in held]
    names += [f"WITH_{name}" for each in held for name in each.features(topology)]
    return ("PROFILE", "WITH_FABRIC", *names, *sizes((topology,)))


def sizes(topologies: Iterable[Topology]) -> tuple[str, ...]:
    """Return what p4src/fabric.p4 is built with to have room for each of several topologies."""
    most: dict[str, int] = {}
    for topology in topologies:
        for each in mechanisms():
            if each.holds(topology):
                for name, size in each.sizes(topology).items():
                    most[name] = max(size, most.get(name, 0))
    return tuple(f"{name}={size}" for name, size in most.items())


def remarks(topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
    """Yield what all mechanisms remark on a topology. `prefix`: where it stands in its file."""
    for each in mechanisms():
        yield from each.remarks(topology, prefix)


def missing(topology: Topology, has: Callable[[str], bool]) -> Iterator[Remark]:
    """Yield what classes ask for and a program does not have; `has`: whether it has a table."""
    for each in mechanisms():
        if not each.holds(topology) or not each.tables or any(map(has, each.tables)):
            continue
        told: list[tuple[FieldPath, str]] = [
            ((setting.key,), topology.name)
            for setting in each.settings
            if topology.setting(setting.key) is not None
        ]
        told += [
            (("classes", of.name, setting.key), f"class {of.name}")
            for of in topology.classes
            for setting in each.settings
            if of.setting(setting.key) is not None
        ]
        for path, subject in told:
            message = f"the program has nothing of {each.title}: it does nothing there"
            right = "use p4src/fabric.p4, or a program made of it"
            yield Remark(Severity.WARNING, path, subject, message, right)


def run_remarks(run: RunFile, prefix: FieldPath = ()) -> Iterator[Remark]:
    """Yield what all mechanisms remark on a run file. `prefix`: where its topology stands in it."""
    for each in mechanisms():
        yield from each.run_remarks(run, prefix)


def link_marks(
    topology: Topology, ask: Callable[[str, Callable[[Any], Any]], Any]
) -> Iterator[LinkMarks]:
    """Yield whose flows take which links. `ask`: returns what a mechanism's learner says."""
    for each in mechanisms():
        if each.holds(topology):
            marks = ask(each.name, partial(each.link_marks, topology))
            if marks is not None:
                yield marks


def path_records(topology: Topology) -> PathRecords:
    """Return what switches write of each hop into packets, whether or not a class asks for it."""
    found = filter(None, (each.path_records(topology) for each in mechanisms()))
    return next(found, PathRecords({}, frozenset(), frozenset(), ""))


def validity_unit_ps(topology: Topology, kind: int) -> int:
    """Return what the validity of notifications of a type counts in (fabric ps); 0: unknown."""
    held = (each for each in mechanisms() if each.holds(topology))
    return next(filter(None, (each.validity_unit_ps(topology, kind) for each in held)), 0)


@cache
def all_counters() -> tuple[PortCounter, ...]:
    """Return the counters of all mechanisms."""
    return tuple(counter for each in mechanisms() for counter in each.counters)


def counters(topology: Topology) -> tuple[PortCounter, ...]:
    """Return the counters of the mechanisms that a topology uses."""
    return tuple(
        counter for each in mechanisms() if each.holds(topology) for counter in each.counters
    )


install()
