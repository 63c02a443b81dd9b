"""`weft job`: jobs that a scheduler brings to the run that is up, and what is planned for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from emulation import control
from observe.errors import UsageError
from weft import console
from weft.command_line import Group, argument, flag, option, write_new

_SHOWN = 24  # queue pairs, without --ports

job = Group("job", subcommand_metavar="submit|list|end|import ...", epilog="""
    examples:
      sudo weft job submit my/llm.yaml            plan it, and print the ports that it has to use
      sudo weft job submit my/llm.yaml --name llm-2 --json
      sudo weft job list --ports                  the running jobs, with every queue pair
      sudo weft job end llm
      weft job import my/lingjun-data --nics 4 --out jobs.yaml

    A job file has a `job:` like a run file's (docs/workloads.md). docs/scheduler.md describes the
    same over gRPC and in Python.
    """)  # fmt: skip
_ports = flag("--ports", help=f"show every queue pair, even of a job with more than {_SHOWN}")
_as_json = flag("--json", "as_json", help="print the result as JSON")


@job.command("submit", help="start the jobs of a file and plan their flows with the running jobs'")
@argument("file", type=Path, metavar="FILE.yaml", help="the job, as a run file's `job:`")
@option("--name", default="", metavar="NAME", help="the job's name (default: the file's, "
        "or the file's own name)")  # fmt: skip
@_ports
@_as_json
def submit(file: Path, name: str, ports: bool, as_json: bool) -> int:
    """Run `weft job submit FILE`; return the exit code."""
    return _tell(_ask("submit", str(file.absolute()), name), ports=ports, as_json=as_json)


@job.command("list", help="show the jobs that run")
@_ports
@_as_json
def show_list(ports: bool, as_json: bool) -> int:
    """Run `weft job list`; return the exit code."""
    return _tell(_ask("list"), ports=ports, as_json=as_json)


@job.command("end", help="end jobs and free their interfaces and paths")
@argument("names", nargs=-1, metavar="NAME...", help="the jobs")
@_as_json
def end(names: tuple[str, ...], as_json: bool) -> int:
    """Run `weft job end NAME...`; return the exit code."""
    if not names:
        raise UsageError("say which jobs have ended: weft job list shows those that run")
    return _tell(_ask("end", *names), ports=False, as_json=as_json)


def _ask(*words: str) -> Any:
    from emulation.session import require_root  # late: `weft job --help` needs no session

    require_root("weft job")
    return json.loads("".join(control.ask("job", list(words))))


def _tell(answer: Mapping[str, Any], *, ports: bool, as_json: bool) -> int:
    if as_json:
        print(json.dumps(answer, indent=2))
        return 0
    jobs = answer["jobs"]
    if not jobs:
        print("no jobs run")
    for each in jobs:
        print("\n".join(_about(each)))
        pairs = each["queue_pairs"]
        if ports or len(pairs) <= _SHOWN:
            columns = ["source", "target", "queue pair", "UDP source port", "led by"]
            console.table(columns, _rows(pairs), right=["queue pair", "UDP source port"])
        else:
            print(f"  the source ports of its {len(pairs)} queue pairs: --ports, or --json")
    if answer["address"]:
        print(f"gRPC     {answer['address']}")
    return 0


def _about(each: Mapping[str, Any]) -> Iterator[str]:
    places = " ".join(each["placement"][:8]) + (" ..." if len(each["placement"]) > 8 else "")
    pairs = len(each["queue_pairs"])
    yield f"{each['name']}: {len(each['placement'])} ranks on {places}; {pairs} queue pairs"
    quality = each["quality"]
    if quality is None:
        yield "  no plan is in force for it yet, and its ports may become others: weft job list"
    else:
        planned, bound = (f"{1000 * quality[key]:.4g} ms" for key in ("planned_s", "bound_s"))
        yield (
            f"  plan {quality['version']} of all jobs: quality {quality['quality']:.3f}, the "
            f"busiest link needs {planned} for a phase and no plan less than {bound} "
            f"({quality['proof']})"
        )
    yield (
        f"  planned in {1000 * each['planning_s']:.1f} ms, {each['updates']} updates written in "
        f"{1000 * each['writing_s']:.1f} ms"
    )


def _rows(pairs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [
        [
            pair["source"],
            pair["target"],
            str(pair["number"]),
            str(pair["udp_port"]),
            "entries" if pair["by_entry"] else "its port's hash",
        ]
        for pair in pairs
    ]


@job.command("import", help="write the jobs of Alibaba's Lingjun dataset as a job file")
@argument("folder", type=Path, metavar="FOLDER", help="with job.csv, worker.csv and topo.csv")
@option("--at", default=None, metavar="TIME",
        help="the jobs that ran then, as 2023/8/1 12:00 (default: when most ran)")  # fmt: skip
@option("--bytes", "size", default="256MB", metavar="SIZE",
        help="bytes that each rank sums up, which the dataset does not say (default)")  # fmt: skip
@option("--nics", type=click.IntRange(1, 64), default=1, metavar="N",
        help="NICs of a host, which has room for as many workers (default)")  # fmt: skip
@option("--out", type=Path, metavar="FILE", help="the file to write (default: print it)")
def from_trace(folder: Path, at: str | None, size: str, nics: int, out: Path | None) -> int:
    """Run `weft job import FOLDER`; return the exit code."""
    from workloads import lingjun  # only here

    try:
        jobs = lingjun.read_jobs(folder)
        when = lingjun.busiest(jobs) if at is None else lingjun.moment(at)
    except ValueError as error:
        raise UsageError(f"job import: {error}") from None
    found = lingjun.placed(jobs, when, nics)
    if not found.jobs:
        raise UsageError(f"job import: no job of several hosts runs at {when:%Y/%m/%d %H:%M}")
    text = lingjun.job_file(found, size)
    if out is None:
        print(text, end="")
    else:
        write_new(out, text)
    if found.left_out:
        console.notice(
            f"{len(found.left_out)} of {len(found.left_out) + len(found.jobs)} jobs are left out: "
            "their hosts have no NIC left; --nics gives hosts more"
        )
    return 0
