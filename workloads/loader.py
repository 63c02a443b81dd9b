"""Find a run file by name or path, read it and check it against its topology.

What can be said without planning is said here: who sends and receives exists, pairs meet, ranks
have a place, sizes multiply.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from topologies.builder import build
from topologies.document import Document, parse_document
from topologies.errors import FieldPath, Problem, TopologyError, did_you_mean
from topologies.event_model import Event
from topologies.events import build_events
from topologies.generators import generate
from topologies.loader import available, load
from topologies.model import Topology
from topologies.planes import planes_of
from topologies.schema import ExplicitFile, validate
from workloads.check import check, expand
from workloads.importers import with_imports
from workloads.in_network import with_groups
from workloads.model import (
    BufferSettings,
    CardClocks,
    PlacedProgram,
    ReceiverSettings,
    RunFile,
    WatchedFlows,
)
from workloads.schema import BufferEntry, RecordEntry, RunEntry, validate_run

DIRECTORY = Path(__file__).parent


def available_runs() -> tuple[str, ...]:
    """Return the names of the run files that come with Weft, sorted."""
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.yaml")))


def load_run_file(path_or_name: str | Path) -> RunFile:
    """Load a run by name ('allreduce-small') or from a YAML file ('my/run.yaml').

    Raises TopologyError, which names file, line and column of everything that is wrong.
    """
    path = Path(path_or_name)
    if path.suffix not in (".yaml", ".yml") and str(path_or_name) in available_runs():
        path = DIRECTORY / f"{path_or_name}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = did_you_mean(str(path_or_name), available_runs())
        there = ", ".join(available_runs())
        message = f"no such run file{hint or f'; available by name: {there}'}"
        if str(path_or_name) in available():
            message = f"this is a topology: write 'topology: {path_or_name}' into a run file"
        raise TopologyError([Problem(str(path), 1, 1, "", message)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise TopologyError([Problem(str(path), 1, 1, "", f"can't be read: {error}")]) from None
    return read_run(text, file=str(path), name=path.stem, directory=path.parent)


def read_run(
    text: str, *, file: str = "<run>", name: str = "run", directory: Path | None = None
) -> RunFile:
    """Load a run from YAML text; topology files are looked for in `directory`, too.

    Raises TopologyError.
    """
    return run_of(parse_document(text, file), name, directory or Path())


def run_of(document: Document, name: str, directory: Path) -> RunFile:
    """Check a run that was read already; `directory` is where its other files are looked for.

    Raises TopologyError.
    """
    file = document.file
    _refuse_topology(document)
    document = with_imports(document, directory)
    spec = validate_run(document)
    topology = _topology(document, spec, name, directory)
    topology = replace(topology, events=_events(document, spec, topology))
    jobs = tuple(spec.jobs) if spec.job is None else (spec.job,)
    run = RunFile(
        name=name,
        file=file,
        topology=topology,
        document=document,
        traffic=tuple(spec.traffic),
        jobs=jobs,
        job_paths=tuple(("jobs", i) if spec.job is None else ("job",) for i in range(len(jobs))),
        description=spec.description,
        until_ps=spec.until,
        sample_ps=spec.sample,
        paths_window_ps=_paths_window(spec.record),
        watched=_watched(spec),
        seed=spec.seed,
        buffer=_buffer(spec.buffer),
        transport=spec.transport,
        controller_delay_ps=spec.controller.delay,
        clocks=None
        if spec.clocks is None
        else CardClocks(spec.clocks.ppm * 1000, spec.clocks.jitter),
        receivers={
            host: ReceiverSettings(each.rate, each.buffer) for host, each in spec.receivers.items()
        },
        programs=tuple(
            PlacedProgram(
                each.program, tuple(expand(topology, each.hosts)), each.settings, each.sha256
            )
            for each in spec.programs
        ),
        directory=directory,
    )
    check(run)
    return with_groups(run)


def _refuse_topology(document: Document) -> None:
    data = document.data
    if isinstance(data, dict) and "topology" not in data and {"generator", "switches"} & set(data):
        message = (
            "this is a topology, which says nothing of traffic: write a run file with "
            f"'topology: {document.file}' and 'traffic' or 'job' (docs/workloads.md), or bring it "
            f"up in real time: weft run-topo {document.file}"
        )
        raise TopologyError([document.problem((), message)])


def _topology(document: Document, spec: RunEntry, name: str, directory: Path) -> Topology:
    if isinstance(spec.topology, dict):
        return _inline(document, name)
    path = directory / spec.topology
    is_file = path.suffix in (".yaml", ".yml") and path.is_file()
    if not is_file and spec.topology not in available() and not Path(spec.topology).is_file():
        hint = did_you_mean(spec.topology, available())
        there = ", ".join(available())
        message = f"no topology {spec.topology!r}{hint or f'; available by name: {there}'}"
        raise TopologyError([document.problem(("topology",), message)])
    return load(path if is_file else spec.topology).with_time_scale(1)


def _inline(document: Document, name: str) -> Topology:
    """Build the topology that stands in the run file; its time scale may be left out."""
    assert isinstance(document.data, dict)
    data = {"time_scale": 1, **document.data["topology"]}
    positions = {
        path[1:]: position
        for path, position in document.positions.items()
        if path[:1] == ("topology",)
    }
    part = Document(document.file, data, positions)
    form = validate(part)
    if not isinstance(form, ExplicitFile):
        form, _ = generate(form, part)
    return build(name, form, part).with_time_scale(1)


def _events(document: Document, spec: RunEntry, topology: Topology) -> tuple[Event, ...]:
    problems: list[Problem] = []

    def report(path: FieldPath, message: str) -> None:
        problems.append(document.problem(path, message))

    names = {switch.name for switch in topology.switches}
    planes = planes_of(topology) if _on_planes(spec) else None
    own = build_events(spec.events, topology.links, names, report, planes)
    if problems:
        raise TopologyError(problems)
    return tuple(sorted((*topology.events, *own), key=lambda event: event.at_ps))


def _on_planes(spec: RunEntry) -> bool:
    return any(entry.plane is not None for entry in spec.events)


def _paths_window(entry: RecordEntry | None) -> int | None:
    return None if entry is None or entry.paths is None else entry.paths.window


def _watched(spec: RunEntry) -> WatchedFlows | None:
    entry = None if spec.record is None else spec.record.telemetry
    if entry is None:
        return None
    every = spec.sample if entry.every is None else entry.every
    return WatchedFlows(tuple(dict.fromkeys(entry.flows)), every)


def _buffer(entry: BufferEntry | None) -> BufferSettings | None:
    if entry is None:
        return None
    headroom = {"formula": None, "none": 0}.get(entry.headroom, entry.headroom)
    watchdog = entry.watchdog or 0
    return BufferSettings(
        shared_bytes=entry.shared,
        alpha_q8=entry.alpha,
        headroom_bytes=headroom,
        xon_gap_bytes=entry.xon_gap,
        watchdog_ps=watchdog,
        watchdog_restore_ps=watchdog if entry.restore is None else entry.restore,
    )
