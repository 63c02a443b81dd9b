"""`weft corpus`: every v1model program of a checkout through our compiler, beside p4c."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from functools import partial

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

REASON = 110
LARGEST = 12
"""Programs of which the summary says how far packets got: those with the most tables."""


def run(arguments: argparse.Namespace) -> int:
    """Do the whole command. Returns 0 when every program does as it has to, else 1.

    Raises UsageError.
    """
    sources = _sources(arguments)
    if arguments.jobs < 1 or arguments.packets < 0 or arguments.live_packets < 0:
        raise UsageError("--jobs: at least 1; --packets, --live-packets: at least 0")
    if not (arguments.time_limit > 0 and arguments.total_time > 0):
        raise UsageError("--time-limit, --total-time: more than 0 s")
    until = time.monotonic() + arguments.total_time
    compiler = p4c.executable()
    quiet = arguments.json
    with console.progress_bar(f"{len(sources)} programs", len(sources), quiet=quiet) as step:
        judged = []
        for one in jobs.run(
            sources,
            partial(corpus.judge, compiler=compiler, limit_s=arguments.time_limit),
            at_once=arguments.jobs,
            limit_s=arguments.time_limit,
            lost=corpus.lost,
            until=until,
        ):
            judged.append(one)
            step()
    judged.sort(key=lambda one: str(one.source))
    packets = _packets(judged, arguments, until) if arguments.packets else []
    good = all(_good(one, arguments.limit) for one in judged)
    good = good and all(one.status is Status.EQUAL for one in packets)
    if arguments.json:
        print(json.dumps(_as_json(judged, packets, good), indent=1))
    else:
        _print(judged, packets, arguments.limit, compared=compiler is not None)
    return 0 if good else 1


def _packets(
    judged: Sequence[Judged], arguments: argparse.Namespace, until: float
) -> list[Packets]:
    takes = (None, Verdict.ACCEPTED)
    programs = [one for one in judged if one.ours is Verdict.ACCEPTED and one.theirs in takes]
    what = f"packets through {len(programs)} programs"
    found = []
    with console.progress_bar(what, len(programs), quiet=arguments.json) as step:
        for one in corpus_packets.through(
            programs,
            packets=arguments.packets,
            live_packets=arguments.live_packets,
            at_once=arguments.jobs,
            limit_s=arguments.time_limit,
            until=until,
        ):
            found.append(one)
            step()
    return sorted(found, key=lambda one: str(one.source))


def _sources(arguments: argparse.Namespace) -> list[Source]:
    found: list[Source] = []
    for directory in arguments.directories:
        if not directory.is_dir():
            raise UsageError(f"{directory}: no such directory")
        found += corpus.find(directory, arguments.include, arguments.define)
    if arguments.list is not None:
        try:
            found += corpus.read_list(arguments.list)
        except ListError as error:
            raise UsageError(str(error)) from error
        except OSError as error:
            raise UsageError(f"--list {arguments.list}: {error.strerror}") from error
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
    """How far packets got in the programs with the most tables."""
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
