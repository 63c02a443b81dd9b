"""`weft sim`: a run file in virtual time, with progress, a table and a folder of results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.value_words import show_time
from mechanisms.registry import all_counters
from mechanisms.switch_programs import choose, compile_for
from observe.errors import UsageError
from simulator.fabric import target_facts
from simulator.flow_times import FlowTimes
from simulator.pcap import parse_port
from simulator.runner import Outcome, Progress, Simulation
from softswitch.program_cache import Compiled
from weft import console, run_options
from weft.command_line import argument, command, flag, option, port_number
from weft.own_options import with_own
from weft.sim_transport import transport_rows
from workloads.loader import available_runs, load_run_file
from workloads.model import RunFile

RESULTS = Path("build/sim")

_PS_PER_S = 10**12
_HOSTS_BY_NAME = 8
"""Of a program; what it counted on more hosts is added up, and of times the longest is shown."""
_TIME = " ns"
"""How the name of a counter ends that is a time."""
_ALMOST = 0.99  # of the goodput: the rate over the whole run is said where it is less


@command("""
    examples:
      weft sim incast-32                        a run that comes with Weft
      weft sim my/run.yaml --out results        then: weft plot results
      weft sim websearch --seed 7 --until 500us --json
      weft sim incast-32 --pcap s1:1            what the receiver's port carries
      weft sim my/run.yaml --p4runtime 50051    wait for a controller of your own
    """)
@argument("file", required=False, help="a run file, or the name of a shipped one")
@flag("--list", "listing", help="list the runs that come with Weft")
@option("--seed", type=int, metavar="N", help="seed of all random choices (default: the file's)")
@option("--until", metavar="T",
        help="end at this virtual time, such as 20ms (default: the file's)")  # fmt: skip
@option("--out", type=Path, metavar="DIR", help="where results go (default: build/sim/NAME)")
@option("--pcap", multiple=True, metavar="NODE:PORT",
        help="capture a port, such as s1:2 or h3, next to DIR (repeatable)")  # fmt: skip
@option("--time-scale", default=1, metavar="N",
        help="slow the links down as in real time; traffic is not slowed (default)")  # fmt: skip
@option(
    "--p4",
    type=Path,
    metavar="PROG.p4",
    help="run it on all switches (default: the topology's programs, or p4src/fabric.p4)",
)
@option("--entries", type=Path, metavar="DIR", help="table entries for switches with your own "
        "program: a folder with s1-runtime.json or s1-commands.txt for each")  # fmt: skip
@option("--p4runtime", "p4runtime", type=port_number, metavar="PORT",
        help="serve P4Runtime for switches with your own program, from PORT on; the run starts "
        "when a controller has connected, and waits for its answers")  # fmt: skip
@flag("--json", "as_json", help="print the summary as JSON")
def run(
    file: str | None, listing: bool, seed: int | None, until: str | None, out: Path | None,
    pcap: tuple[str, ...], time_scale: int, p4: Path | None, entries: Path | None,
    p4runtime: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Run what a file says; return the exit code (130 when interrupted, with results kept)."""
    if listing:
        _list(as_json)
        return 0
    if file is None:
        there = ", ".join(available_runs())
        raise UsageError(f"sim: no run given; pass a file, or one of {there}")
    until_ps = None if until is None else run_options.until(until)
    if time_scale < 1:
        raise UsageError(f"--time-scale {time_scale}: must be at least 1")
    loaded = load_run_file(file)
    out = out or RESULTS / loaded.name
    loaded = replace(loaded, topology=with_own(loaded.topology, p4, entries))
    chosen = choose(loaded.topology, target_facts(loaded.topology), _compiling(loaded, as_json))
    for notice in chosen.notices:
        console.notice(notice)
    programs = chosen.programs
    every = {each.name: each.sha256 for each in (programs.program, *programs.others.values())}
    with console.progress(f"set up {loaded.topology.name}", quiet=as_json):
        simulation = Simulation(
            loaded,
            programs.program,
            seed=seed,
            until_ps=until_ps,
            time_scale=time_scale,
            versions=every,
            programs=programs,
        )
    for port in pcap:
        _capture(simulation, port, out)
    with ExitStack() as stack:
        if p4runtime is not None:
            _serve(stack, simulation, p4runtime)
        started = time.monotonic()
        tell = stack.enter_context(_progress(simulation, quiet=as_json))
        outcome = simulation.run(out, tell)
    wall_s = time.monotonic() - started
    _log(out, outcome, wall_s)
    if as_json:
        print(json.dumps({**outcome.summary, "out": str(out)}, indent=2))
    else:
        _print(simulation, outcome, out, wall_s)
    return 130 if outcome.summary["end"]["interrupted"] else 0


def _serve(stack: ExitStack, simulation: Simulation, port: int) -> None:
    """Serve P4Runtime for the rest of the block, and wait for a controller."""
    from simulator.lock_step import LockStep  # gRPC's server, for this option alone
    from softswitch.p4runtime.server import AddressError

    if not simulation.control.own:
        raise UsageError(
            "--p4runtime is for switches that Weft's controller does not manage: say "
            "'controller: none' in the topology, or --p4 PROG.p4"
        )
    try:
        step = stack.enter_context(LockStep(simulation, first_port=port))
    except AddressError as error:
        raise UsageError(f"--p4runtime {port}: {error}") from None
    devices = {each.name: each.device_id for each in simulation.fabric.topology.switches}
    where = ", ".join(f"{n} {a} (device {devices[n]})" for n, a in step.addresses.items())
    console.notice(f"P4Runtime: {where}; waiting for a controller")
    step.wait_for_controller()


def _list(as_json: bool) -> None:
    runs = [load_run_file(name) for name in available_runs()]
    if as_json:
        print(json.dumps([{"name": r.name, "description": r.description} for r in runs]))
        return
    lines = [(r.name, str(len(r.topology.hosts)), r.description) for r in runs]
    console.table(("name", "hosts", "what it is"), lines, right=("hosts",))


def _compiling(loaded: RunFile, quiet: bool) -> Callable[[Path], Compiled]:
    """Return what compiles a program of the run, and says so. It raises CompileError."""
    compiling = compile_for(loaded.topology)

    def step(source: Path) -> Compiled:
        with console.progress(f"compile {source.name}", quiet=quiet):
            return compiling(source)

    return step


def _capture(simulation: Simulation, text: str, out: Path) -> None:
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
    times = FlowTimes.of(simulation.traffic, outcome.end)
    console.table(("what", "result"), list(rows(summary, times)), title=title, caption=caption)


def rows(summary: dict[str, Any], times: FlowTimes) -> Iterator[tuple[str, str]]:
    """Yield what a run came to, a line of the table each."""
    end, flows, messages = summary["end"], summary["flows"], summary["messages"]
    why = {"until": "", "done": ", everything done", "idle": ", nothing left to happen"}
    yield "virtual time", show_time(end["now_ps"]) + why.get(end["reason"], ", interrupted")
    yield "packets", f"{summary['totals']['sent']} sent, {summary['totals']['received']} received"
    if flows["count"] and (flows["received_bytes"] or not summary.get("programs")):
        yield "goodput", f"{_goodput(summary, times)}; {flows['marked']} packets marked (ECN)"
    if messages["count"]:
        text = f"{messages['done']} of {messages['count']} done"
        spread = messages["completion_ps"]
        if messages["done"]:
            text += f"; p50 {show_time(spread['p50'])}, p99 {show_time(spread['p99'])}"
        yield "messages", text
    for each in summary["jobs"]:
        if max(each["duration_ps"], each["ideal_ps"]) < 0:
            continue  # it has no end: a persistent incast
        name = each["name"].removeprefix(f"{each['kind']} ")
        yield each["kind"] if name == each["kind"] else f"{each['kind']} {name}", _job(each)
    yield from transport_rows(summary)
    if "paths" in summary:
        yield "paths", _paths(summary["paths"])
    if "telemetry" in summary:
        yield "telemetry", _telemetry(summary["telemetry"])
    for counter in all_counters():
        if any(summary.get(counter.key, {}).values()):
            yield counter.title, counter.text(summary[counter.key])
    yield "lost", _lost(summary)
    pauses = summary["pauses"]
    if pauses["xoff_sent"]:
        text = f"{pauses['xoff_sent']} XOFF, {pauses['xon_sent']} XON"
        yield "pauses (PFC)", f"{text}; queues paused {show_time(pauses['paused_ps'])} in all"
    for interface, found in summary.get("receivers", {}).items():
        text = f"{found['taken']} frames taken, {found['dropped']} lost, {found['pauses']} pauses"
        yield f"slow host {interface}", f"{text}; {found['most_bytes'] / 1e3:.1f} kB waited at most"
    yield from _programs(summary.get("programs", []))
    if summary["blocking"]["deadlocks"]:
        yield "deadlock", "; ".join(" -> ".join(c) for c in summary["blocking"]["deadlocks"])


def _telemetry(said: dict[str, Any]) -> str:
    flows = f"{said['flows']} flow{'s' if said['flows'] != 1 else ''}"
    return f"{said['packets']} packets of {flows} hop by hop, each {show_time(said['every_ps'])}"


def _paths(paths: dict[str, Any]) -> str:
    spread = paths["imbalance_ppm"]
    reordered = f"{paths['reordered_packets']} of {paths['arrived_packets']} packets reordered"
    if not spread["count"]:
        return f"{reordered}; no switch had uplinks to compare"
    p50, p99 = (f"{key} {spread[key] / 10**6:.3g}" for key in ("p50", "p99"))
    window = show_time(paths["window_ps"])
    return f"imbalance of uplinks {p50}, {p99}, in windows of {window}; {reordered}"


def _lost(summary: dict[str, Any]) -> str:
    """Say what was dropped and why, without the packets that switches took in."""
    drops = dict(summary["drops"]["by_reason"])
    absorbed = sum(
        summary.get(counter.key, {}).get(label, 0)
        for counter in all_counters()
        for label in counter.absorbed
    )
    if absorbed:
        drops["ingress"] = max(0, drops.get("ingress", 0) - absorbed)
    reasons = ", ".join(f"{n} {why}" for why, n in sorted(drops.items()) if n)
    return f"{sum(drops.values())} packets" + (f" ({reasons})" if reasons else "")


def _programs(programs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what programs have counted: by host, or of many hosts together."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for each in programs:
        by_name.setdefault(each["program"], []).append(each)
    for program, hosts in by_name.items():
        name = program.rpartition(":")[2]
        if len(hosts) <= _HOSTS_BY_NAME:
            for each in hosts:
                yield f"{name} on {each['host']}", _counted(each["counters"])
            continue
        together: Counter[str] = Counter()
        for each in hosts:
            for counter, value in each["counters"].items():
                longest = counter.endswith(_TIME) and max(together[counter], value)
                together[counter] = longest or together[counter] + value
        yield f"{name} on {len(hosts)} hosts", _counted(together)


def _counted(counters: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {name}" for name, value in counters.items()) or "ran"


def _goodput(summary: dict[str, Any], times: FlowTimes) -> str:
    """Say what came and how fast, while flows ran; and over the run, if that is much longer."""
    flows, now_ps = summary["flows"], summary["end"]["now_ps"]
    rate, span = (times.goodput_bps() or 0) / 1e9, times.span_ps()
    text = f"{flows['count']} flows, {flows['received_bytes'] / 1e6:.1f} MB, {rate:.1f} Gb/s"
    whole = 8 * flows["received_bytes"] * _PS_PER_S / max(1, now_ps) / 1e9
    if whole >= _ALMOST * rate:
        return text
    return f"{text} in {show_time(span)} ({whole:.1f} Gb/s over the run)"


def _job(job: dict[str, Any]) -> str:
    if job["duration_ps"] < 0:
        return "not done"
    text = show_time(job["duration_ps"])
    slowdown = job["slowdown_ppm"]
    if slowdown > 0:
        text += f"; ideal {show_time(job['ideal_ps'])}, slowdown {slowdown / 1e6:.3f}"
    return text
