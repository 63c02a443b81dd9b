"""`weft perf`: bandwidth and latency of RDMA between hosts, as perftest measures them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
from click import Choice

import topologies
from controller.program import CompiledProgram
from experiments import perf_live, perf_request, perf_simulated
from experiments.perf_report import Report
from experiments.perf_report import as_json as in_json
from experiments.perf_request import MTUS, OPERATIONS, RETRANSMISSIONS, Request, request_of
from mechanisms.program import job
from observe.errors import UsageError
from simulator.runner import Progress
from softswitch import program_cache
from weft import console, perf_tables
from weft.command_line import argument, as_json, command, flag, option, together, ways, wrong

PROGRESS_AFTER_S = 2.0


_request = together(  # what the command and the prompt's `perf` have in common
    argument("operation", type=Choice(OPERATIONS), help="the operation that SRC posts"),
    argument("source", metavar="SRC",
             help="the sender: a host, HOST:INTERFACE, or several at once: h1,h2"),
    argument("target", metavar="DST", help="a host, or HOST:INTERFACE"),
    option("-s", "size", metavar="SIZE",
           help="bytes of a message, 1 to 8388608, or 64kB (default: 65536, for latency 2)"),
    flag("-a", "all_sizes", help="all sizes, 2 B to 8 MB"),
    option("-n", "count", type=int, metavar="COUNT",
           help="messages on each queue pair (default: 1000, in real time as many as fit in 2 s)"),
    option("-q", "qps", default=1, metavar="QPS",
           help="queue pairs of each source, for bandwidth (default)"),
    option("--depth", type=int, metavar="N", help="messages outstanding on a queue pair "
           "(default: 128, in real time at most one second's worth)"),
    option("--mtu", type=Choice(MTUS), metavar="BYTES",
           help="payload of a packet: 256 to 4096 (default: the largest that the links allow)"),
    option("--congestion", metavar="NAME", help="congestion control, by its name in run files, "
           "or none (default: the first)"),
    option("--set", "set_name", metavar="NAME",
           help="the parameter set of the congestion control, or none"),
    option("--retransmission", type=Choice(RETRANSMISSIONS), default=RETRANSMISSIONS[0],
           help="how lost packets are retransmitted (default)"),
    ways,
    option("--duration", metavar="T",
           help="measure for this long, such as 5s (virtual time with --sim), instead of -n"),
    flag("--bw", help="bandwidth only"),
    flag("--lat", help="latency only"),
)  # fmt: skip


@command("""
    examples:
      sudo weft perf write h1 h3             in the fabric that is up (make run-topo CLI=1)
      sudo weft perf send -s 4096 -n 500 -q 4 h1 h3
      sudo weft perf write h1,h2 h3 --bw --duration 5s    two share a link; Jain's index
      weft perf read h1 h3 -a --sim leafspine    in virtual time, all sizes, no root
      weft perf write h1 h3 --sim leafspine --set none --json

    exit codes: 0 measured, 1 something failed, 2 wrong arguments, 130 interrupted
    """)
@_request
@option("--sim", metavar="TOPOLOGY",
        help="use the simulator: a name from `weft topo list`, or a YAML file")  # fmt: skip
@as_json
def run(sim: str | None, as_json: bool, **asked: Any) -> int:
    """Measure; return the exit code: 1 if something failed, 130 when interrupted."""
    request = request_of(**asked)
    if sim is not None:
        report = _simulated(request, sim, quiet=as_json)
    else:
        report = _live(request, quiet=as_json)
    show(report, as_json=as_json)
    return 130 if report.interrupted else 0 if report.ok else 1


@command("", add_help_option=False)
@_request
def _words(**asked: Any) -> Request:
    return request_of(**asked)


def parse(words: Sequence[str]) -> Request:
    """Return what the words of the prompt's `perf` ask for. Raises UsageError."""
    try:
        with _words.make_context("perf", list(words)) as context:
            request: Request = _words.invoke(context)
            return request
    except click.UsageError as error:
        raise UsageError(f"perf write|send|read SRC DST [OPTIONS]: {wrong(error)}") from None


def show(report: Report, *, as_json: bool = False) -> None:
    """Print a report: tables and what failed, or JSON."""
    if as_json:
        print(json.dumps(in_json(report), indent=2))
        return
    perf_tables.show(report)
    sys.stdout.flush()
    for measurement in report.measurements:
        for failure in measurement.failures:
            console.error(f"{measurement.mode}, {measurement.size} B: {failure}")


def _simulated(request: Request, name: str, *, quiet: bool) -> Report:
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
    with console.bar(quiet=quiet, after_s=PROGRESS_AFTER_S) as draw:
        return perf_live.from_elsewhere(request, draw)
