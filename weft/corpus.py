"""`weft corpus`: every v1model program of a checkout through our compiler, beside p4c."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from softswitch.conformance import corpus, p4c, pool
from softswitch.conformance.corpus import Judged, ListError, Source
from softswitch.conformance.findings import Verdict
from weft import console
from weft.errors import UsageError

LIMIT_S = 120.0
PACKETS_LIMIT_S = 900.0
REASON = 110


@dataclass(frozen=True, slots=True)
class Packets:
    """What generated packets showed: how many each pairing ran and how many were `answered`.

    `different`: a line for each pairing with a difference, or why nothing ran.
    """

    source: Source
    cases: int = 0
    answered: int = 0
    undefined: int = 0
    different: tuple[str, ...] = ()


def run(arguments: argparse.Namespace) -> int:
    """Do the whole command. Returns 0 when every program does as it has to, else 1.

    Raises UsageError.
    """
    sources = _sources(arguments)
    if arguments.jobs < 1 or arguments.packets < 0 or arguments.live_packets < 0:
        raise UsageError("--jobs: at least 1; --packets, --live-packets: at least 0")
    compiler = p4c.executable()
    quiet = arguments.json
    with console.progress_bar(f"{len(sources)} programs", len(sources), quiet=quiet) as step:
        judged = []
        for one in pool.run(
            sources,
            partial(corpus.judge, compiler=compiler),
            at_once=arguments.jobs,
            limit_s=LIMIT_S,
            lost=corpus.lost,
        ):
            judged.append(one)
            step()
    judged.sort(key=lambda one: str(one.source))
    packets = _packets(judged, arguments) if arguments.packets else []
    good = all(_good(one, arguments.limit) for one in judged)
    good = good and not any(one.different for one in packets)
    if arguments.json:
        print(json.dumps(_as_json(judged, packets, good), indent=1))
    else:
        _print(judged, packets, arguments.limit, compared=compiler is not None)
    return 0 if good else 1


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


# --- packets ------------------------------------------------------------------------------------


def _packets(judged: Sequence[Judged], arguments: argparse.Namespace) -> list[Packets]:
    takes = (None, Verdict.ACCEPTED)
    sources = [o.source for o in judged if o.ours is Verdict.ACCEPTED and o.theirs in takes]
    work = partial(_run_packets, packets=arguments.packets, live=arguments.live_packets)
    found = []
    what = f"packets through {len(sources)} programs"
    with console.progress_bar(what, len(sources), quiet=arguments.json) as step:
        for one in pool.run(
            sources, work, at_once=arguments.jobs, limit_s=PACKETS_LIMIT_S, lost=_lost
        ):
            found.append(one)
            step()
    return sorted(found, key=lambda one: str(one.source))


def _run_packets(source: Source, packets: int, live: int) -> Packets:
    try:
        return _compared(source, packets, live)
    except Exception as error:  # whatever it is, it is this program's result
        return _lost(source, f"{type(error).__name__}: {error}", 0.0)


def _compared(source: Source, packets: int, live: int) -> Packets:
    from emulation.parity.session import ParitySession, Plan
    from weft.parity import compile_both

    programs = compile_both(source.path, source.include_dirs, source.defines, quiet=True)
    session = ParitySession(
        Plan(str(source.path), packets=packets, live_packets=live, live=live > 0), programs
    )
    try:
        report = session.run()
    finally:
        session.close()
    ran = [row for row in report.rows if not row.missing]
    wrong = [
        f"{row.name}: {row.missing or [*(e.what for e in row.examples), *row.other][0]}"
        for row in report.rows
        if row.failed or (row.against and not row.agrees)
    ]
    return Packets(
        source,
        max((row.cases for row in ran), default=0),
        report.answered,
        max((row.undefined for row in ran), default=0),
        tuple(wrong),
    )


def _lost(source: Source, why: str, seconds: float) -> Packets:
    return Packets(source, different=(why,))


# --- results ------------------------------------------------------------------------------------


def _print(
    judged: Sequence[Judged], packets: Sequence[Packets], limit_s: float, *, compared: bool
) -> None:
    accepted = [one for one in judged if one.ours is Verdict.ACCEPTED]
    rows = [["programs", str(len(judged))], ["accepted", str(len(accepted))]]
    for verdict in (Verdict.REFUSED, Verdict.UNSUPPORTED, Verdict.CRASHED):
        rows.append([verdict.value, str(sum(one.ours is verdict for one in judged))])
    if compared:
        both = [one for one in judged if one.same_p4info is not None]
        only = [one for one in judged if one.theirs is Verdict.ACCEPTED]
        rows.append(["accepted by p4c", str(len(only))])
        rows.append(["accepted by both", str(len(both))])
        rows.append(["P4Info equal, of those", str(sum(bool(one.same_p4info) for one in both))])
    if accepted:
        slowest = max(accepted, key=lambda one: one.total_s)
        rows.append(["slowest, source to machine code", f"{slowest.total_s:.2f} s"])
    if packets:
        rows.append(["compared by packets", str(len(packets))])
        rows.append(["that answer packets", str(sum(one.answered > 0 for one in packets))])
        rows.append(["packets", str(sum(one.cases for one in packets))])
        rows.append(["programs that differ", str(sum(bool(one.different) for one in packets))])
    console.table(["", ""], rows, right=[""])
    for one in judged:
        for text in _complaints(one, limit_s):
            print(f"{one.source}: {text}")
    for each in packets:
        for text in each.different:
            print(f"{each.source}: {text}")


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
        "packets": [
            {
                **_named(one.source),
                "cases": one.cases,
                "answered": one.answered,
                "undefined": one.undefined,
                "different": list(one.different),
            }
            for one in packets
        ],
    }


def _named(source: Source) -> dict[str, object]:
    return {
        "program": str(source.path),
        "include": [str(folder) for folder in source.include_dirs],
        "define": list(source.defines),
    }
