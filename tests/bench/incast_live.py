"""An N:1 incast over namespaces with eBPF, and the simulator's beside it (docs/live-runs.md).

    sudo .venv/bin/python tests/bench/incast_live.py --seeds 1,2,3,4,5,6
    sudo .venv/bin/python tests/bench/incast_live.py --senders 4 --scale 5000 --controls encc

One switch, hosts 1 us away, packets of 2 kB, senders that never stop and begin at random within
2 us. What counts is seen after `--skip`: payload's rate, and the queue in front of the receiver as
one look after the other found it. Both runtimes are slowed down by `--scale`; all numbers are the
fabric's. Needs root, and a machine that has little else to do: a run in which it stood still is
played again, and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import command_line
import numpy as np

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments import live, live_beside
from experiments.live_model import LiveRun, LiveSettings
from experiments.statistics import Estimate
from workloads.loader import read_run

ROOT = Path(__file__).resolve().parents[2]
US = 10**6
PORT = ("s1", 1)
CONTROLS = {
    "encc": ("path_telemetry: hops", "encc"),
    "encc-word": ("path_telemetry: most-used", "encc"),
    "fast-cnp": ("ecn: hpcc-dcqcn, fast_cnp: true", "fast-cnp"),
    "encc+fast-cnp": (
        "path_telemetry: hops, ecn: hpcc-dcqcn, fast_cnp: true",
        "encc+fast-cnp",
    ),
    "dcqcn": ("ecn: hpcc-dcqcn", "dcqcn"),
}
"""What the class has, and the run file's `congestion_control`; dcqcn is `hpcc-dcqcn`."""
RUN = """\
topology:
  generator: single
  hosts: {hosts}
  link: {{rate: {rate}Gbps, delay: 1us, queue: 32MB, mtu: 2200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, {tells}}}
    rest: {{queue: 0}}
until: {until}us
transport: {{congestion_control: {control}}}
traffic:
  - incast: {{to: h1, senders: {senders}, persistent: true}}
"""


@dataclass(frozen=True)
class Seen:
    """One run: payload in Gb/s, the queue in us of the link, Jain's index, and the machine."""

    gbps: float
    queue_mean: float
    queue_p50: float
    queue_p99: float
    jain: float
    stalled_share: float
    attempts: int


def seen(run: LiveRun, rate: int, skip_us: int) -> Seen:
    """Measure what a run was after `skip_us`."""
    port = run.port(*PORT)
    end = run.until_ps
    at = np.arange(skip_us * US, end, US // 10)
    looks = np.searchsorted(port.at_ps, at, side="right") - 1  # what the last look found
    us = port.depth_bytes[np.maximum(looks, 0)] * 8 / rate / 1000
    p50, p99 = np.percentile(us, (50, 99))
    got = np.array([flow.delivered_between(skip_us * US, end) for flow in run.flows], float)
    return Seen(
        run.goodput_bps(skip_us * US) / 1e9,
        float(us.mean()),
        float(p50),
        float(p99),
        float(got.sum() ** 2 / (len(got) * (got**2).sum())) if got.sum() else 0.0,
        run.stalled_ps / run.until_ps,
        run.attempts,
    )


def program() -> CompiledProgram:
    """Compile the fabric's program; what a topology needs of it is taken when a run begins."""
    return CompiledProgram.of(compile_p4(ROOT / "p4src" / "fabric.p4"))


def played(asked: argparse.Namespace, compiled: CompiledProgram) -> dict[str, list[list[Seen]]]:
    """Return for each control a pair for each seed: in real time, and in the simulator."""
    found: dict[str, list[list[Seen]]] = {name: [] for name in asked.controls}
    for seed in asked.seeds:
        for name in asked.controls:  # in turns, so that a busy hour is everybody's
            tells, control = CONTROLS[name]
            text = RUN.format(
                hosts=asked.senders + 1,
                senders=asked.senders,
                rate=asked.rate,
                until=asked.until,
                tells=tells,
                control=control,
            )
            settings = LiveSettings(asked.scale, (PORT,), seed, jitter_ps=2 * US)
            real = live.play(read_run(text), compiled, settings)
            beside = live_beside.simulate(read_run(text), compiled, settings)
            pair = [seen(run, asked.rate, asked.skip) for run in (real, beside)]
            found[name].append(pair)
            if sys.stderr.isatty() or asked.verbose:
                print(f"{name}, seed {seed}: {pair[0]}, simulated {pair[1]}", file=sys.stderr)
    return found


METRICS = {
    "gbps": "payload, Gb/s",
    "queue_mean": "mean queue, us",
    "queue_p50": "p50",
    "queue_p99": "p99",
    "jain": "Jain",
}


def estimated(found: dict[str, list[list[Seen]]]) -> dict[str, dict[str, list[Estimate]]]:
    """Return by control and metric: in real time, in the simulator, and seed by seed the ratio."""
    table: dict[str, dict[str, list[Estimate]]] = {}
    for name, pairs in found.items():
        table[name] = {}
        for metric in METRICS:
            real, beside = (
                [getattr(each, metric) for each in side] for side in zip(*pairs, strict=True)
            )
            ratios = [a / b if b else None for a, b in zip(real, beside, strict=True)]
            table[name][metric] = [Estimate.of(each) for each in (real, beside, ratios)]
    return table


def main() -> int:
    """Print a row for each control and metric: medians with 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--senders", type=command_line.count, default=8)
    parser.add_argument("--rate", type=command_line.count, default=100, help="of links, Gb/s")
    parser.add_argument("--scale", type=command_line.count, default=10_000, help="time scale")
    parser.add_argument("--until", type=command_line.count, default=1000, help="us of the fabric")
    parser.add_argument("--skip", type=command_line.count, default=200, help="us that do not count")
    parser.add_argument("--controls", type=controls, default=["encc", "fast-cnp", "dcqcn"])
    parser.add_argument("--verbose", action="store_true", help="each run as it ends")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.skip >= asked.until:
        parser.error(f"--skip {asked.skip}: nothing is left of --until {asked.until}")
    if os.geteuid():
        parser.error("namespaces need root: sudo .venv/bin/python tests/bench/incast_live.py")
    found = played(asked, program())
    if asked.json:
        rows = {
            name: [[asdict(one) for one in pair] for pair in pairs] for name, pairs in found.items()
        }
        print(json.dumps({"scale": asked.scale, "rows": rows}))
        return 0
    print("| control | | real time | simulator | real over simulated |")
    print("|---|---|---|---|---|")
    for name, metrics in estimated(found).items():
        for metric, each in metrics.items():
            print(f"| {name} | {METRICS[metric]} |", " | ".join(map(str, each)), "|")
    real = [pair[0] for pairs in found.values() for pair in pairs]
    print(
        f"\n{asked.senders}:1 at {asked.rate} Gb/s, time scale {asked.scale}, softswitch and eBPF; "
        f"{len(real)} runs, played {sum(each.attempts for each in real)} times; the machine stood "
        f"still for at most {max(each.stalled_share for each in real):.1%} of one"
    )
    return 0


def numbers(text: str) -> list[int]:
    """Parse an argument: seeds, with commas. Raises what argparse reports."""
    return [int(each) for each in text.split(",")]


def controls(text: str) -> list[str]:
    """Parse an argument: names of `CONTROLS`, with commas. Raises what argparse reports."""
    names = text.split(",")
    unknown = [each for each in names if each not in CONTROLS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: choose of {', '.join(CONTROLS)}")
    return names


if __name__ == "__main__":
    command_line.run(main)
