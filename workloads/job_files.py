"""Jobs that a scheduler brings to a fabric that is up: from their text to what is declared of them.

name: llm                    optional: else the file's name, or what the submitter says
job:                         as in a run file; or jobs, a list
  ranks: 8
  dp: 8
  placement: [h1, h3, h5, h7, h9, h11, h13, h15]
  phases: [{allreduce: {bytes: 64MB, over: dp}}]

The fabric is the one that is up, so a job file has no topology, and each rank gets an interface
that no running job has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.jobs import DeclaredJob
from topologies.document import Document, parse_document
from topologies.errors import FieldPath, Problem, TopologyError
from topologies.extensions import NOTHING_SAID
from topologies.model import Topology
from workloads.check import check
from workloads.declared import declared_jobs
from workloads.importers import with_imports
from workloads.in_network import is_in_network
from workloads.job_schema import JobEntry
from workloads.model import RunFile
from workloads.placement import place
from workloads.plan import plan
from workloads.schema import validate_run

_KEYS = ("name", "job", "jobs", "description", "seed")


@dataclass(frozen=True, eq=False)
class PlacedJob:
    """A job on a fabric: `entry.placement` lists the interface of each rank."""

    entry: JobEntry
    declared: DeclaredJob

    @property
    def name(self) -> str:
        """The job's name."""
        return self.declared.name


def read_job_file(path: Path) -> Document:
    """Read a file of jobs. Raises TopologyError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"can't be read: {reason}"
        raise TopologyError([Problem(str(path), 1, 1, "", message)]) from None
    return parse_document(text, str(path))


def said_job(job: Mapping[str, Any], said_by: str) -> Document:
    """Return a job that stands in no file, as one; `said_by`: what messages call it."""
    return Document(said_by, {"job": dict(job)}, {})


def names_files(document: Document) -> bool:
    """Say whether a document's jobs stand in other tools' files."""
    data = document.data if isinstance(document.data, dict) else {}
    several = data.get("jobs")
    jobs = [data.get("job"), *(several if isinstance(several, list) else ())]
    return any(isinstance(job, dict) and "simai" in job for job in jobs)


def by_itself(document: Document, directory: Path) -> str:
    """Return a job file's text with what it names of other files put in. Raises TopologyError."""
    return json.dumps(with_imports(document, directory).data)


def placed_jobs(
    topology: Topology,
    document: Document,
    running: Sequence[JobEntry] = (),
    *,
    name: str = "",
    directory: Path = Path(),
) -> tuple[PlacedJob, ...]:
    """Return a document's jobs, placed beside `running` ones, whose placements list interfaces.

    `name`: of a document's only job, whatever it says itself. `directory`: where other tools' files
    that it names are looked for. Raises TopologyError with every mistake and its place.
    """
    # No mechanism chooses ports here: who plans does so with all jobs that run.
    fabric = replace(topology.with_time_scale(1), settings=NOTHING_SAID, events=())
    run = _run(fabric, with_imports(_checked(document), directory), name, directory)
    _refuse_in_network(run)
    _refuse_taken(run, running)
    everyone = replace(
        run,
        jobs=(*running, *run.jobs),
        job_paths=(*(() for _ in running), *run.job_paths),
    )
    check(everyone)
    problems: list[Problem] = []

    def report(path: FieldPath, message: str) -> None:
        problems.append(run.document.problem(path, message))

    entries = list(zip(everyone.job_paths, everyone.jobs, strict=True))
    places = place(fabric, entries, run.seed, report)[len(running) :]
    if problems:
        raise TopologyError(problems)
    jobs = tuple(
        job.model_copy(update={"placement": [str(each.end) for each in of], "stride": None})
        for job, of in zip(run.jobs, places, strict=True)
    )
    # What is sent in one iteration is what is sent in each.
    once = tuple(job.model_copy(update={"iterations": 1, "start": 0}) for job in jobs)
    single = replace(run, jobs=once)
    declared = {each.name: each for each in declared_jobs(single, plan(single))}
    silent = [
        run.document.problem(path, "sends nothing between hosts: there is nothing to plan")
        for path, job in zip(run.job_paths, jobs, strict=True)
        if job.name not in declared
    ]
    if silent:
        raise TopologyError(silent)
    return tuple(PlacedJob(job, declared[str(job.name)]) for job in jobs)


def _checked(document: Document) -> Document:
    data = document.data
    if not isinstance(data, dict) or not ({"job", "jobs"} & set(data)):
        message = "a job file has 'job', as in a run file, or 'jobs' (docs/scheduler.md)"
        raise TopologyError([document.problem((), message)])
    problems = [
        document.problem((key,), f"{_no_place(str(key))}: a job file has {', '.join(_KEYS)}")
        for key in data
        if key not in _KEYS
    ]
    if problems:
        raise TopologyError(problems)
    return document


def _no_place(key: str) -> str:
    if key == "topology":
        return "the fabric is the one that is up"
    return f"{key!r} has no place here"


def _run(topology: Topology, document: Document, name: str, directory: Path) -> RunFile:
    data = document.data
    assert isinstance(data, dict)
    called = data.get("name", "")
    form = Document(
        document.file,
        {"topology": topology.name, **{k: v for k, v in data.items() if k != "name"}},
        document.positions,
    )
    spec = validate_run(form)
    jobs = tuple(spec.jobs) if spec.job is None else (spec.job,)
    paths = tuple(("jobs", i) if spec.job is None else ("job",) for i in range(len(jobs)))
    return RunFile(
        name=topology.name,
        file=document.file,
        topology=topology,
        document=form,
        jobs=tuple(_named(jobs, name or str(called), Path(document.file).stem)),
        job_paths=paths,
        seed=spec.seed,
        directory=directory,
    )


def _named(jobs: Sequence[JobEntry], name: str, stem: str) -> Iterator[JobEntry]:
    """Yield the jobs, each with a name."""
    for number, job in enumerate(jobs):
        if len(jobs) == 1:
            found = name or job.name or stem
        else:
            found = job.name or f"{name or stem}-{number}"
        yield job.model_copy(update={"name": found})


def _refuse_in_network(run: RunFile) -> None:
    problems = [
        run.document.problem(
            (*path, "phases", number),
            "switches compute it, so no queue pair joins ranks: use ring or tree",
        )
        for path, job in zip(run.job_paths, run.jobs, strict=True)
        for number, phase in enumerate(job.phases)
        for step in phase.parallel or (phase,)
        if is_in_network(getattr(step, step.kind))
    ]
    if problems:
        raise TopologyError(problems)


def _refuse_taken(run: RunFile, running: Sequence[JobEntry]) -> None:
    """Raise NameTakenError for a name that a running job has, or that comes twice."""
    taken = {job.name for job in running}
    for path, job in zip(run.job_paths, run.jobs, strict=True):
        if job.name in taken:
            message = f"a job called {job.name!r} runs already: end it, or give another name"
            raise NameTakenError([run.document.problem((*path, "name"), message)])
        taken.add(job.name)


class NameTakenError(TopologyError):
    """A job has the name of one that runs."""
