"""Jobs of Alibaba's Lingjun dataset, placed as they were: from a user's copy of its files.

    job.csv      job_name, model, gmt_job_running (or gmt_job_submitted), gmt_job_finished, ...
    worker.csv   job_name, host_ip, ...        a worker a row
    topo.csv     see topologies.lingjun, which makes the topology of it

The dataset says which jobs ran where and when, not what they sent: as its authors say, that has to
be assumed. Here every job is data parallel, and its ranks' AllReduce has `bytes`. A rank is a
worker on an interface of its host; a job whose hosts have none left is left out, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from topologies.import_file import ImportFailedError
from topologies.lingjun import hosts, rows

_TIMES = ("%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")
_JOB = ("job_name", "gmt_job_submitted", "gmt_job_finished")
_WORKER = ("job_name", "host_ip")


@dataclass(frozen=True)
class TraceJob:
    """A job: when it ran (`ended` None: not seen to end), and the host of each of its workers."""

    name: str
    began: datetime
    ended: datetime | None
    hosts: tuple[str, ...]

    def runs(self, at: datetime) -> bool:
        """Say whether it runs at a moment."""
        return self.began <= at and (self.ended is None or at < self.ended)


@dataclass(frozen=True)
class Placed:
    """Jobs that run at `at`, by name their ranks' interfaces; `left_out`: those without room."""

    at: datetime
    jobs: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...]


def moment(text: str) -> datetime:
    """Return a time as the dataset writes it: 2023/8/1 12:00, or 2023-08-01 12:00.

    Raises ValueError.
    """
    for form in _TIMES:
        try:
            return datetime.strptime(text.strip(), form)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a time: as 2023/8/1 12:00")


def read_jobs(folder: Path) -> tuple[TraceJob, ...]:
    """Return the jobs with workers on two hosts or more, by when they began.

    Raises ImportFailedError.
    """
    name_of = hosts(folder / "topo.csv")
    workers: dict[str, list[str]] = {}
    for _, row in rows(folder / "worker.csv", _WORKER):
        host = name_of.get(row["host_ip"].strip())
        if host is not None:
            workers.setdefault(row["job_name"], []).append(host)
    found = [
        TraceJob(name, began, ended, tuple(workers[name]))
        for name, began, ended in _times(folder / "job.csv")
        if len(set(workers.get(name, ()))) > 1
    ]
    if not found:
        raise ImportFailedError(f"{folder}: no job has workers on two hosts of topo.csv")
    return tuple(sorted(found, key=lambda job: (job.began, job.name)))


def _times(source: Path) -> Iterator[tuple[str, datetime, datetime | None]]:
    began = "gmt_job_running"
    try:
        listed = list(rows(source, (*_JOB, began)))
    except ImportFailedError:
        began = "gmt_job_submitted"
        listed = list(rows(source, _JOB))
    for number, row in listed:
        start = row[began].strip() or row["gmt_job_submitted"].strip()
        end = row["gmt_job_finished"].strip()
        if not start:
            continue  # it never ran
        try:
            yield row["job_name"], moment(start), moment(end) if end else None
        except ValueError as error:
            raise ImportFailedError(f"{source}:{number}: {error}") from None


def busiest(jobs: tuple[TraceJob, ...]) -> datetime:
    """Return the first moment at which most jobs run."""
    changes = [(job.began, 1) for job in jobs]
    changes += [(job.ended, -1) for job in jobs if job.ended is not None]
    running, most, found = 0, 0, jobs[0].began
    for at, change in sorted(changes):  # of one moment those that end come first
        running += change
        if running > most:
            most, found = running, at
    return found


def placed(jobs: tuple[TraceJob, ...], at: datetime, nics: int = 1) -> Placed:
    """Return the jobs that run at a moment, each worker on the next interface of its host."""
    taken: dict[str, int] = {}
    found: dict[str, tuple[str, ...]] = {}
    left_out: list[str] = []
    for job in (job for job in jobs if job.runs(at)):
        used = dict(taken)
        ranks = []
        for host in job.hosts:
            number = used.get(host, 0)
            used[host] = number + 1
            ranks.append(f"{host}:{number}" if number else host)
        if any(used[host] > nics for host in job.hosts):
            left_out.append(job.name)
            continue
        taken = used
        found[job.name] = tuple(ranks)
    return Placed(at, found, tuple(left_out))


def job_file(of: Placed, size: str) -> str:
    """Return the jobs as a job file. `size`: what each rank's AllReduce has, such as 256MB."""
    lines = [
        f"# Jobs of Alibaba's Lingjun dataset as they ran at {of.at:%Y/%m/%d %H:%M}. Placements",
        f"# are its own; that each rank's AllReduce has {size} is assumed.",
        "jobs:",
    ]
    for number, ranks in enumerate(of.jobs.values(), 1):
        lines.append(f"  - name: job{number}")
        lines.append(f"    ranks: {len(ranks)}")
        lines.append(f"    placement: [{', '.join(ranks)}]")
        lines.append(f"    phases: [{{allreduce: {{bytes: {size}}}}}]")
    return "\n".join(lines) + "\n"
