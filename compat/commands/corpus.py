"""`weft corpus`: every v1model program of a checkout through our compiler, beside p4c."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# Each program has a process of its own; gRPC, which the compiler brings, would comment on forks.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from compat.commands import corpus_packets
from compat.commands.corpus_packets import Packets, Status
from compat.conformance import corpus, p4c
from compat.conformance.corpus import Judged, ListError, Source
from compat.conformance.findings import Verdict
from observe.errors import UsageError
from softswitch import jobs
from weft import console
from weft.command_line import argument, as_json, command, jobs_option, option, preprocessor

REASON = 110
LARGEST = 12
"""Programs of which the summary says how far packets got: those with the most tables."""


@dataclass(frozen=True)
class _Asked:
    """The options; times in seconds, `total_time` for all together."""

    dirs: tuple[Path, ...]
    list: Path | None
    include: tuple[Path, ...]
    define: tuple[str, ...]
    limit: float
    packets: int
    live_packets: int
    time_limit: float
    total_time: float
    jobs: int


@command("""
    examples:
      weft corpus tutorials/exercises           each program below that makes a V1Switch
      weft corpus --list fabrics.txt            each line is PROG.p4 [-I DIR] [-D NAME]
      weft corpus p4-guide --packets 300        generated packets too, as weft parity makes

    With p4c-bm2-ss on PATH its verdict and P4Info are compared: what p4c accepts has to
    be accepted, with the same P4Info, within --limit. With --packets, both compilers'
    programs have to answer alike (docs/parity.md).

    exit codes: 0 all programs pass, 1 some do not, 2 wrong arguments or no program
    """)
@argument("dirs", type=Path, nargs=-1, metavar="[DIR]...")
@option("--list", type=Path, metavar="FILE", help="a list of programs, with each one's options")
@preprocessor
@option("--limit", default=10.0, metavar="SECONDS",
        help="longest time from source to machine code that passes (default: 10)")  # fmt: skip
@option("--packets", default=0, metavar="N",
        help="number of generated packets for each program (default: none)")  # fmt: skip
@option("--live-packets", default=0, metavar="N", help="how many of them also run on "
        "simple_switch_grpc, which needs root (default: none)")  # fmt: skip
@option("--time-limit", default=180.0, metavar="SECONDS", help="limit for compiling one program "
        "and again for its packets; one that takes longer is ended and counted as not done "
        "(default: 180)")  # fmt: skip
@option("--total-time", default=math.inf, metavar="SECONDS", help="limit for all programs; those "
        "left over are counted as not done (default: no limit)")  # fmt: skip
@jobs_option
@as_json
def run(as_json: bool, **options: Any) -> int:
    """Do the whole command. Returns 0 when every program does as it has to, else 1.

    Raises UsageError.
    """
    asked = _Asked(**options)
    sources = _sources(asked)
    if asked.jobs < 1 or asked.packets < 0 or asked.live_packets < 0:
        raise UsageError("--jobs: at least 1; --packets, --live-packets: at least 0")
    if not (asked.time_limit > 0 and asked.total_time > 0):
        raise UsageError("--time-limit, --total-time: more than 0 s")
    until = time.monotonic() + asked.total_time
    compiler = p4c.executable()
    with console.progress_bar(f"{len(sources)} programs", len(sources), quiet=as_json) as step:
        judged = []
        for one in jobs.run(
            sources,
            partial(corpus.judge, compiler=compiler, limit_s=asked.time_limit),
            at_once=asked.jobs,
            limit_s=asked.time_limit,
            lost=corpus.lost,
            until=until,
        ):
            judged.append(one)
            step()
    judged.sort(key=lambda one: str(one.source))
    packets = _packets(judged, asked, until, quiet=as_json) if asked.packets else []
    good = all(_good(one, asked.limit) for one in judged)
    good = good and all(one.status is Status.EQUAL for one in packets)
    if as_json:
        print(json.dumps(_as_json(judged, packets, good), indent=1))
    else:
        _print(judged, packets, asked.limit, compared=compiler is not None)
    return 0 if good else 1


def _packets(
    judged: Sequence[Judged], asked: _Asked, until: float, *, quiet: bool
) -> list[Packets]:
    takes = (None, Verdict.ACCEPTED)
    programs = [one for one in judged if one.ours is Verdict.ACCEPTED and one.theirs in takes]
    what = f"packets through {len(programs)} programs"
    found = []
    with console.progress_bar(what, len(programs), quiet=quiet) as step:
        for one in corpus_packets.through(
            programs,
            packets=asked.packets,
            live_packets=asked.live_packets,
            at_once=asked.jobs,
            limit_s=asked.time_limit,
            until=until,
        ):
            found.append(one)
            step()
    return sorted(found, key=lambda one: str(one.source))


def _sources(asked: _Asked) -> list[Source]:
    found: list[Source] = []
    for directory in asked.dirs:
        if not directory.is_dir():
            raise UsageError(f"{directory}: no such directory")
        found += corpus.find(directory, asked.include, asked.define)
    if asked.list is not None:
        try:
            found += corpus.read_list(asked.list)
        except ListError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"--list {asked.list}: {error.strerror}") from error
    if not found:
        raise UsageError("no program with a V1Switch there; give directories, or --list FILE")
    return found


def _good(one: Judged, limit_s: float) -> bool:
    return one.agrees and not (one.ours is Verdict.ACCEPTED and one.total_s > limit_s)


# --- results ------------------------------------------------------------------------------------


def _print(
    judged: Sequence[Judged], packets: Sequence[Packets], limit_s: float, *, compared: bool
) -> None:
    accepted = [one for one in judged if one.ours is Verdict.ACCEPTED]
    rows = [["programs", str(len(judged))], ["accepted", str(len(accepted))]]
    for verdict in (Verdict.REFUSED, Verdict.UNSUPPORTED, Verdict.CRASHED, Verdict.NOT_DONE):
        rows.append([verdict.value, str(sum(one.ours is verdict for one in judged))])
    if compared:
        both = [one for one in judged if one.same_p4info is not None]
        theirs = sum(one.theirs is Verdict.ACCEPTED for one in judged)
        rows.append(["accepted by p4c", str(theirs)])
        rows.append(["accepted by both", str(len(both))])
        rows.append(["P4Info equal, of those", str(sum(bool(one.same_p4info) for one in both))])
    if accepted:
        slowest = max(accepted, key=lambda one: one.total_s)
        rows.append(["slowest, source to machine code", f"{slowest.total_s:.2f} s"])
    console.table(["", ""], rows + _packet_rows(packets), right=[""])
    _print_largest(packets)
    for one in judged:
        for text in _complaints(one, limit_s):
            print(f"{one.source}: {text}")
    for each in packets:
        for text in each.reasons:
            print(f"{each.source}: {each.status.value}: {text}")


def _packet_rows(packets: Sequence[Packets]) -> list[list[str]]:
    if not packets:
        return []
    ran = [one for one in packets if one.cases]
    sums = {
        name: sum(one.coverage.get(name, 0) for one in ran)
        for name in ("changed", "unchanged", "dropped", "tables_hit", "tables")
    }
    actions = [sum(one.coverage.get(n, 0) for one in ran) for n in ("actions_run", "actions")]
    return [
        ["programs that packets went through", str(len(packets))],
        *([f"of them {s.value}", str(sum(o.status is s for o in packets))] for s in Status),
        ["compared with BMv2", str(sum(one.on_bmv2 > 0 for one in packets))],
        ["without any answer", str(sum(not one.answered for one in ran))],
        ["packets", str(sum(one.cases for one in ran))],
        ["of them on BMv2", str(sum(one.on_bmv2 for one in ran))],
        ["left changed", str(sums["changed"])],
        ["left as they came", str(sums["unchanged"])],
        ["dropped", str(sums["dropped"])],
        ["tables hit", f"{sums['tables_hit']} of {sums['tables']}"],
        ["actions run", f"{actions[0]} of {actions[1]}"],
    ]


def _print_largest(packets: Sequence[Packets]) -> None:
    """Print how far packets got in the programs with the most tables."""
    largest = sorted(packets, key=lambda one: -one.coverage.get("tables", 0))[:LARGEST]
    rows = [
        [
            " ".join([each.source.path.name, *(f"-D{name}" for name in each.source.defines)]),
            *(str(each.coverage[name]) for name in ("changed", "unchanged", "dropped")),
            f"{each.coverage['tables_hit']} of {each.coverage['tables']}",
            f"{each.coverage['actions_run']} of {each.coverage['actions']}",
        ]
        for each in largest
        if each.coverage
    ]
    if rows:
        titles = ["most tables", "changed", "unchanged", "dropped", "tables hit", "actions run"]
        console.table(titles, rows, right=titles[1:])


def _complaints(one: Judged, limit_s: float) -> list[str]:
    found = []
    if not one.agrees:
        reason = one.reason.replace(f"{one.source.path.parent}/", "")[:REASON]
        if one.same_p4info is False:
            reason = "P4Info is not p4c's"
        found.append(reason if one.same_p4info is False else f"{one.ours.value}: {reason}")
    if one.ours is Verdict.ACCEPTED and one.total_s > limit_s:
        found.append(f"{one.total_s:.1f} s to compile, more than {limit_s:g} s")
    return found


def _as_json(judged: Sequence[Judged], packets: Sequence[Packets], good: bool) -> dict[str, object]:
    return {
        "ok": good,
        "programs": [
            {
                **_named(one.source),
                "ours": one.ours.value,
                "reason": one.reason,
                "seconds": {stage: round(value, 3) for stage, value in one.seconds.items()},
                "p4info_bytes": one.p4info_bytes,
                "p4c": one.theirs.value if one.theirs else None,
                "p4c_reason": one.their_reason,
                "p4c_seconds": one.their_seconds,
                "same_p4info": one.same_p4info,
            }
            for one in judged
        ],
        "packets": [{**_named(one.source), **one.as_json()} for one in packets],
    }


def _named(source: Source) -> dict[str, object]:
    return {
        "program": str(source.path),
        "include": [str(folder) for folder in source.include_dirs],
        "define": list(source.defines),
    }
