"""`weft perf`: bandwidth and latency of RDMA between hosts, as perftest measures them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from weft import console
from weft.errors import UsageError
from weft.perf_request import Request, request_of

if TYPE_CHECKING:
    from simulator.runner import Progress
    from weft.perf_report import Report

PROGRESS_AFTER_S = 2.0
_REDRAW_S = 0.2
_BAR = 30


def run(arguments: argparse.Namespace) -> int:
    """Measure; returns the exit code: 1 if something failed, 130 when interrupted."""
    request = request_of(arguments)
    if arguments.sim is not None:
        report = _simulated(request, arguments.sim, quiet=arguments.json)
    else:
        report = _live(request, quiet=arguments.json)
    show(report, as_json=arguments.json)
    return 130 if report.interrupted else 0 if report.ok else 1


class _Words(argparse.ArgumentParser):
    """Arguments that are typed at the prompt: a wrong one is an error like others, no end."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"perf write|send|read SRC DST [OPTIONS]: {message}")


def parse(words: Sequence[str]) -> Request:
    """Return what the words of the prompt's `perf` ask for. Raises UsageError."""
    from weft.cli_perf import add_arguments

    parser = _Words(prog="perf", add_help=False)
    add_arguments(parser)
    return request_of(parser.parse_args(list(words)))


def show(report: Report, *, as_json: bool = False) -> None:
    """Print a report: tables and what failed, or JSON."""
    if as_json:
        from weft.perf_report import as_json as in_json

        print(json.dumps(in_json(report), indent=2))
        return
    from weft import perf_tables

    perf_tables.show(report)
    sys.stdout.flush()
    for measurement in report.measurements:
        for failure in measurement.failures:
            console.error(f"{measurement.mode}, {measurement.size} B: {failure}")


def _simulated(request: Request, name: str, *, quiet: bool) -> Report:
    import topologies
    from controller.program import CompiledProgram
    from weft import p4_cache, perf_request, perf_simulated
    from weft.sim import PROGRAM

    topology = topologies.load(name)
    perf_request.interfaces(request, topology)
    compiled = p4_cache.compile_program(p4_cache.Job(PROGRAM))
    program = CompiledProgram.of(compiled.json_text.encode(), compiled.p4info_text.encode())
    with bar(quiet=quiet) as draw:

        def tell(progress: Progress) -> None:
            if progress.until_ps:
                draw(progress.now_ps / progress.until_ps, "")
            elif progress.messages:
                done, of = progress.messages_done, progress.messages
                draw(done / of, f"{done} of {of} messages")

        return perf_simulated.simulate(request, topology, program, tell)


def _live(request: Request, *, quiet: bool) -> Report:
    from weft import perf_live

    with bar(quiet=quiet) as draw:
        return perf_live.from_elsewhere(request, draw)


@contextmanager
def bar(*, quiet: bool = False) -> Iterator[Callable[[float, str], None]]:
    """Yield what draws a progress bar (share done, text), once it takes longer than two seconds.

    On a terminal only; it leaves no trace.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _share, _text: None
        return
    started = last = time.monotonic()
    drawn = False

    def draw(share: float, text: str) -> None:
        nonlocal last, drawn
        now = time.monotonic()
        if now - started < PROGRESS_AFTER_S or now - last < _REDRAW_S:
            return
        last, drawn = now, True
        full = round(_BAR * min(max(share, 0.0), 1.0))
        line = f"[{'#' * full}{'.' * (_BAR - full)}] {share:4.0%} {text} {now - started:.0f} s"
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    try:
        yield draw
    finally:
        if drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
