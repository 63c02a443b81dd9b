"""`weft sim`: a run file in virtual time, with progress, a table and a folder of results."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observe.errors import UsageError
from weft import console
from weft.sim_transport import transport_rows

if TYPE_CHECKING:
    from simulator.runner import Outcome, Progress, Simulation
    from workloads.model import RunFile

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "p4src" / "fabric.p4"
RESULTS = Path("build/sim")

_PS_PER_S = 10**12
_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"))


def run(arguments: argparse.Namespace) -> int:
    """Run what a file says; returns the exit code (130 when interrupted, with results kept)."""
    from workloads.loader import available_runs, load_run_file

    if arguments.list:
        _list(arguments.json)
        return 0
    if arguments.file is None:
        there = ", ".join(available_runs())
        raise UsageError(f"sim: which run? Give a file, or one of {there}")
    until_ps = None if arguments.until is None else _until(arguments.until)
    if arguments.time_scale < 1:
        raise UsageError(f"--time-scale {arguments.time_scale}: must be at least 1")
    loaded = load_run_file(arguments.file)
    out: Path = arguments.out or RESULTS / loaded.name
    simulation = _prepare(loaded, arguments, until_ps)
    for port in arguments.pcap:
        _capture(simulation, port, out)
    started = time.monotonic()
    with _progress(simulation, quiet=arguments.json) as tell:
        outcome = simulation.run(out, tell)
    wall_s = time.monotonic() - started
    _log(out, outcome, wall_s)
    if arguments.json:
        print(json.dumps({**outcome.summary, "out": str(out)}, indent=2))
    else:
        _print(simulation, outcome, out, wall_s)
    return 130 if outcome.summary["end"]["interrupted"] else 0


def _list(as_json: bool) -> None:
    from workloads.loader import available_runs, load_run_file

    runs = [load_run_file(name) for name in available_runs()]
    if as_json:
        print(json.dumps([{"name": r.name, "description": r.description} for r in runs]))
        return
    rows = [(r.name, str(len(r.topology.hosts)), r.description) for r in runs]
    console.table(("name", "hosts", "what it is"), rows, right=("hosts",))


def _until(text: str) -> int:
    from topologies.units import parse_duration

    try:
        until = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--until {text}: {error}") from None
    if until <= 0:
        raise UsageError(f"--until {text}: must be above 0")
    return until


def _prepare(loaded: RunFile, arguments: argparse.Namespace, until_ps: int | None) -> Simulation:
    from controller.program import CompiledProgram
    from mechanisms.program import job
    from simulator.runner import Simulation
    from softswitch import program_cache

    source: Path = arguments.p4 or PROGRAM
    with console.progress(f"compile {source.name}", quiet=arguments.json):
        compiled = program_cache.compile_program(job(loaded.topology, source))
        program = CompiledProgram.of(compiled)
    digest = hashlib.sha256(compiled.json_text.encode()).hexdigest()
    with console.progress(f"set up {loaded.topology.name}", quiet=arguments.json):
        return Simulation(
            loaded,
            program,
            seed=arguments.seed,
            until_ps=until_ps,
            time_scale=arguments.time_scale,
            versions={source.name: digest},
        )


def _capture(simulation: Simulation, text: str, out: Path) -> None:
    from simulator.pcap import parse_port

    end = parse_port(text, simulation.fabric.topology)
    out.mkdir(parents=True, exist_ok=True)
    simulation.capture(out.parent / f"{out.name}-{end.node}-{end.port}.pcap", end)


def _log(out: Path, outcome: Outcome, wall_s: float) -> None:
    hops = int(outcome.end.totals["hops"])
    log = {
        "setup_s": round(outcome.setup_s, 3),
        "cpu_s": round(outcome.cpu_s, 3),
        "wall_s": round(wall_s, 3),
        "hops_per_cpu_second": round(hops / outcome.cpu_s) if outcome.cpu_s else 0,
    }
    (out / "run.json").write_text(json.dumps(log, indent=2) + "\n")


# --- on the terminal -----------------------------------------------------------------------------


@contextmanager
def _progress(simulation: Simulation, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Draw how far virtual time and messages have come on a terminal; say nothing elsewhere."""
    with console.bar(quiet=quiet) as draw:

        def tell(progress: Progress) -> None:
            rate = progress.hops / progress.cpu_s / 1e6 if progress.cpu_s else 0.0
            share, of = None, ""
            if progress.until_ps:
                share = progress.now_ps / progress.until_ps
                of = f" of {show_time(progress.until_ps)}"
            elif progress.messages:
                share = progress.messages_done / progress.messages
                of = f", {progress.messages_done} of {progress.messages} messages"
            draw(share, f"{show_time(progress.now_ps)}{of}, {rate:.2f} M hops/s")

        yield tell


def show_time(ps: int) -> str:
    """A time with a unit in which it is easy to read."""
    for unit, name in _UNITS:
        if abs(ps) >= unit:
            return f"{ps / unit:.4g} {name}"
    return f"{ps} ps"


def _print(simulation: Simulation, outcome: Outcome, out: Path, wall_s: float) -> None:
    summary = outcome.summary
    title = f"{simulation.file.name}: {simulation.file.description}".rstrip(": ")
    hops = int(outcome.end.totals["hops"])
    rate = hops / outcome.cpu_s / 1e6 if outcome.cpu_s else 0.0
    scale = simulation.fabric.topology.time_scale
    caption = (
        f"runtime simulator, virtual time, time_scale {scale}, seed {simulation.seed}; "
        f"set up in {outcome.setup_s:.1f} s, run in {wall_s:.1f} s, {rate:.2f} M hops/s\n"
        f"results: {out}    figures: weft plot {out}"
    )
    console.table(("what", "result"), list(_rows(summary)), title=title, caption=caption)


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from mechanisms.registry import all_counters

    end, flows, messages = summary["end"], summary["flows"], summary["messages"]
    why = {"until": "", "done": ", everything done", "idle": ", nothing left to happen"}
    yield "virtual time", show_time(end["now_ps"]) + why.get(end["reason"], ", interrupted")
    yield "packets", f"{summary['totals']['sent']} sent, {summary['totals']['received']} received"
    if flows["count"]:
        rate = 8 * flows["received_bytes"] * _PS_PER_S / max(1, end["now_ps"]) / 1e9
        text = f"{flows['count']} flows, {flows['received_bytes'] / 1e6:.1f} MB, {rate:.1f} Gb/s"
        yield "goodput", f"{text}; {flows['marked']} packets marked (ECN)"
    if messages["count"]:
        text = f"{messages['done']} of {messages['count']} done"
        spread = messages["completion_ps"]
        if messages["done"]:
            text += f"; p50 {show_time(spread['p50'])}, p99 {show_time(spread['p99'])}"
        yield "messages", text
    for job in summary["jobs"]:
        if max(job["duration_ps"], job["ideal_ps"]) < 0:
            continue  # it has no end: a persistent incast
        name = job["name"].removeprefix(f"{job['kind']} ")
        yield job["kind"] if name == job["kind"] else f"{job['kind']} {name}", _job(job)
    yield from transport_rows(summary)
    for counter in all_counters():
        if any(summary.get(counter.key, {}).values()):
            yield counter.title, counter.text(summary[counter.key])
    reasons = ", ".join(f"{n} {why}" for why, n in sorted(summary["drops"]["by_reason"].items()))
    yield "lost", f"{summary['drops']['packets']} packets" + (f" ({reasons})" if reasons else "")
    pauses = summary["pauses"]
    if pauses["xoff_sent"]:
        text = f"{pauses['xoff_sent']} XOFF, {pauses['xon_sent']} XON"
        yield "pauses (PFC)", f"{text}; queues paused {show_time(pauses['paused_ps'])} in all"
    if summary["blocking"]["deadlocks"]:
        yield "deadlock", "; ".join(" -> ".join(c) for c in summary["blocking"]["deadlocks"])


def _job(job: dict[str, Any]) -> str:
    if job["duration_ps"] < 0:
        return "not done"
    text = show_time(job["duration_ps"])
    slowdown = job["slowdown_ppm"]
    if slowdown > 0:
        text += f"; ideal {show_time(job['ideal_ps'])}, slowdown {slowdown / 1e6:.3f}"
    return text
