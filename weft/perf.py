"""`weft perf`: bandwidth and latency of RDMA between hosts, as perftest measures them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from experiments.perf_request import Request, request_of
from observe.errors import UsageError
from weft import console

if TYPE_CHECKING:
    from experiments.perf_report import Report
    from simulator.runner import Progress

PROGRESS_AFTER_S = 2.0


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
        from experiments.perf_report import as_json as in_json

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
    from experiments import perf_request, perf_simulated
    from mechanisms.program import job
    from softswitch import program_cache

    topology = topologies.load(name)
    perf_request.interfaces(request, topology)
    compiled = program_cache.compile_program(job(topology))
    program = CompiledProgram.of(compiled)
    with console.bar(quiet=quiet, after_s=PROGRESS_AFTER_S) as draw:

        def tell(progress: Progress) -> None:
            if progress.until_ps:
                draw(progress.now_ps / progress.until_ps, "")
            elif progress.messages:
                done, of = progress.messages_done, progress.messages
                draw(done / of, f"{done} of {of} messages")

        return perf_simulated.simulate(request, topology, program, tell)


def _live(request: Request, *, quiet: bool) -> Report:
    from experiments import perf_live

    with console.bar(quiet=quiet, after_s=PROGRESS_AFTER_S) as draw:
        return perf_live.from_elsewhere(request, draw)
