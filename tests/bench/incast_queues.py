"""What waits in front of a receiver under an N:1 incast, by congestion control (docs/encc.md).

    python tests/bench/incast_queues.py --senders 16,60 --rates 100,400 --seeds 1,2,3

One switch, hosts 1 us away, packets of 4 kB, senders that never stop and begin at random within
10 us; 3 ms, of which the queue counts from 2N base round trips on, sampled each microsecond.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).resolve().parents[2]
LONG_HAUL = ROOT / "labs/long-haul-fast-cnp/lab.yaml"
"""Which has the best DCQCN of a sweep."""


def controls() -> dict[str, tuple[str, str]]:
    """Return by name what the class has and what `transport:` has, in YAML's flow style."""
    best = yaml.safe_load(LONG_HAUL.read_text())["axes"]["control"]["best"]
    of_best = {key: best[f"transport.{key}"] for key in ("parameters", "overrides")}
    return {
        "encc": ("path_telemetry: hops", "congestion_control: encc"),
        "encc-word": ("path_telemetry: most-used", "congestion_control: encc"),
        "powertcp": ("path_telemetry: hops", "congestion_control: powertcp"),
        "bolt": ("bolt: true", "congestion_control: bolt"),
        "bolt-published": (
            "bolt: true",
            "congestion_control: bolt, bolt_overrides: {steps: whole, ai: 1}",
        ),
        "swift": ("ecn: hpcc-dcqcn", "congestion_control: swift"),
        "hpcc-dcqcn": ("ecn: hpcc-dcqcn", "parameters: hpcc-dcqcn"),
        "hpcc-dcqcn-paper": ("ecn: hpcc-dcqcn-paper", "parameters: hpcc-dcqcn-paper"),
        "best": (
            f"ecn: {json.dumps(best['topology.classes.roce.ecn'])}", json.dumps(of_best)[1:-1],
        ),
        "fast-cnp": ("ecn: hpcc-dcqcn, fast_cnp: true", "congestion_control: fast-cnp"),
    }  # fmt: skip


TRIP_US = 5  # at 100 Gb/s; shorter at more
PS = 10**6
RUN = """\
topology:
  generator: single
  hosts: {hosts}
  link: {{rate: {rate}Gbps, delay: 1us, queue: 32MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, {tells}}}
    rest: {{queue: 0}}
until: 3ms
sample: 1us
buffer: {{shared: 64MB, alpha: 1, headroom: formula}}
transport: {{{control}}}
traffic:
{traffic}
"""
FLOW = "  - incast: {{to: h1, from: [h{host}], persistent: true, start: {start}ns}}"


def measured(folder: Path, rate: int, skip_us: int) -> tuple[float, float, float, float]:
    """Return payload's share, the queue's p50 and p99 (us of the link), and Jain's index."""
    queues = pq.read_table(folder / "queues.parquet")
    flows = pq.read_table(folder / "flow_rates.parquet")
    at = queues["at_ps"].to_numpy() // PS
    switch = np.array(queues["node"].to_pylist()) == "s1"
    to_receiver = switch & (queues["port"].to_numpy() == 1)
    end = int(flows["at_ps"].to_numpy().max()) // PS
    waits = np.zeros(end + 2)
    np.add.at(waits, np.minimum(at[to_receiver], end + 1), queues["bytes"].to_numpy()[to_receiver])
    late = flows["at_ps"].to_numpy() > skip_us * PS
    got = np.bincount(flows["flow"].to_numpy()[late], flows["bytes"].to_numpy()[late])
    us = waits[skip_us : end + 1] * 8 / rate / 1e3
    share = got.sum() * 8 / (end - skip_us) / 1e3 / rate
    p50, p99 = np.percentile(us, (50, 99))
    return float(share), float(p50), float(p99), float(got.sum() ** 2 / (len(got) * (got**2).sum()))


def played(control: str, senders: int, rate: int, seed: int) -> tuple[float, float, float, float]:
    """Play one run and measure it."""
    tells, transport = controls()[control]
    chance = random.Random(seed)
    flows = [FLOW.format(host=n + 2, start=chance.randrange(10_000)) for n in range(senders)]
    text = RUN.format(
        hosts=senders + 1,
        rate=rate,
        tells=tells,
        control=transport,
        traffic="\n".join(flows),
    )
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run.yaml", Path(folder) / "out"
        run.write_text(text)
        weft = Path(sys.executable).parent / "weft"
        command = [str(weft), "sim", str(run), "--out", str(out), "--seed", str(seed)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return measured(out, rate, max(2 * senders * TRIP_US, 200))


def main() -> None:
    """Print a row for each control, rate and number of senders: medians, [lowest, highest]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--senders", default="16,60")
    parser.add_argument("--rates", default="100,400", help="Gb/s")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--controls", default=",".join(controls()))
    asked = parser.parse_args()
    print("| | Gb/s | control | payload / line | queue p50, us | p99, us | Jain |")
    print("|---|---|---|---|---|---|---|")
    for senders in map(int, asked.senders.split(",")):
        for rate in map(int, asked.rates.split(",")):
            for control in asked.controls.split(","):
                seeds = map(int, asked.seeds.split(","))
                values = np.array([played(control, senders, rate, seed) for seed in seeds])
                cells = [
                    f"{np.median(column):.3g} [{column.min():.3g}, {column.max():.3g}]"
                    for column in values.T
                ]
                print(f"| {senders}:1 | {rate} | {control} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
