"""Who gets how much where flows are not alike, by congestion control: runs in virtual time.

    python tests/bench/shared_links.py --seeds 1,2,3,4,5,6 --controls powertcp,swift,encc

100 Gb/s everywhere, packets of 4 kB, flows that never stop. Prints payload's share of a line.

    late          two hosts 1 us away; the second one begins 1 ms after the first; 4 ms
    near-far      two hosts 1 us away and two 100 km (500 us) away to one receiver; 60 ms
    parking-lot   five switches in a row, a flow along all four links and one along each; 4 ms
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
CONTROLS = {
    "powertcp": ("path_telemetry: hops", "powertcp"),
    "swift": ("ecn: hpcc-dcqcn", "swift"),
    "bolt": ("bolt: true", "bolt"),
    "bolt-published": ("bolt: true", "bolt, bolt_overrides: {steps: whole, ai: 1}"),
    "encc": ("path_telemetry: hops", "encc"),
    "dcqcn": ("ecn: hpcc-dcqcn", "dcqcn"),
}
PS_PER_MS = 10**9
GBPS = 100
HEAD = """\
topology:
  {shape}
  link: {{rate: 100Gbps, delay: 1us, queue: 64MB, mtu: 4200B}}
  classes:
    cnp: {{dscp: 48, queue: 6}}
    roce: {{dscp: 26, queue: 3, lossless: true, {tells}}}
    rest: {{queue: 0}}
  {links}
until: {until}ms
sample: 10us
buffer: {{shared: 256MB, alpha: 1, headroom: formula}}
transport: {{congestion_control: {control}}}
traffic:
"""
FLOW = "  - incast: {{to: {to}, from: [{host}], persistent: true, start: {start}ns}}\n"
STAR = "switches: [s1]\n  hosts: [{hosts}]"


def star(far: int, senders: int) -> tuple[str, str]:
    """Return the shape and links of hosts around a switch, the last `far` of them 100 km away."""
    hosts = [f"h{n + 1}" for n in range(senders + 1)]
    links = [
        f'    - {{a: {host}, b: "s1:{n + 1}"{", delay: 500us" if n > senders - far else ""}}}'
        for n, host in enumerate(hosts)
    ]
    return STAR.format(hosts=", ".join(hosts)), "links:\n" + "\n".join(links)


def row(links: int) -> tuple[str, str]:
    """Return switches in a row: a1 to b1 along all, a2 to b2 along the first link, and so on."""
    switches = [f"s{n + 1}" for n in range(links + 1)]
    hosts = [f"{end}{n + 1}" for n in range(links + 1) for end in "ab"]
    lines = [f'    - {{a: "s{n + 1}:9", b: "s{n + 2}:10"}}' for n in range(links)]
    lines += ['    - {a: a1, b: "s1:1"}', f'    - {{a: b1, b: "s{links + 1}:1"}}']
    for n in range(links):
        lines += [
            f'    - {{a: a{n + 2}, b: "s{n + 1}:2"}}',
            f'    - {{a: b{n + 2}, b: "s{n + 2}:3"}}',
        ]
    shape = f"switches: [{', '.join(switches)}]\n  hosts: [{', '.join(hosts)}]"
    return shape, "links:\n" + "\n".join(lines)


def case(name: str, seed: int) -> tuple[tuple[str, str], int, str]:
    """Return shape and links, how many ms it lasts, and its traffic."""
    chance = random.Random(seed)
    if name == "late":
        starts = [chance.randrange(10_000), 10**6 + chance.randrange(10_000)]
        flows = [FLOW.format(to="h1", host=f"h{n + 2}", start=at) for n, at in enumerate(starts)]
        return star(0, 2), 4, "".join(flows)
    if name == "near-far":
        flows = [
            FLOW.format(to="h1", host=f"h{n + 2}", start=chance.randrange(10_000)) for n in range(4)
        ]
        return star(2, 4), 60, "".join(flows)
    flows = [
        FLOW.format(to=f"b{n + 1}", host=f"a{n + 1}", start=chance.randrange(10_000))
        for n in range(5)
    ]
    return row(4), 4, "".join(flows)


def shares(folder: Path, flows: int, from_ms: float, to_ms: float) -> npt.NDArray[np.float64]:
    """Return each flow's payload over a line between two times."""
    table = pq.read_table(folder / "flow_rates.parquet")
    at = table["at_ps"].to_numpy() / PS_PER_MS
    chosen = (at > from_ms) & (at <= to_ms)
    got = np.bincount(
        table["flow"].to_numpy()[chosen], table["bytes"].to_numpy()[chosen], minlength=flows
    )
    return got * 8 / ((to_ms - from_ms) * 1e6) / GBPS


def waits(folder: Path, from_ms: float) -> tuple[float, float]:
    """Return p50 and p99 of the longest queue of any switch, in us of its line."""
    table = pq.read_table(folder / "queues.parquet")
    at = table["at_ps"].to_numpy() // (10**7)
    late = (table["at_ps"].to_numpy() > from_ms * PS_PER_MS) & np.char.startswith(
        np.array(table["node"].to_pylist(), dtype=str), "s"
    )
    longest = np.zeros(int(at.max()) + 1)
    np.maximum.at(longest, at[late], table["bytes"].to_numpy()[late])
    p50, p99 = np.percentile(longest[int(from_ms * 100) :] * 8 / GBPS / 1e3, (50, 99))
    return float(p50), float(p99)


def jain(of: npt.NDArray[np.float64]) -> float:
    """Return Jain's index."""
    return float(of.sum() ** 2 / (len(of) * (of**2).sum()))


def measured(name: str, folder: Path) -> dict[str, float]:
    """Return what is said of one run."""
    if name == "late":
        steps = {ms: shares(folder, 2, 1 + ms - 0.1, 1 + ms) for ms in (0.1, 0.3, 1, 3)}
        found = {f"Jain {ms} ms on": jain(each) for ms, each in steps.items()}
        total = shares(folder, 2, 3, 4).sum()
        return {**found, "line": float(total), "p99, us": waits(folder, 2)[1]}
    if name == "near-far":
        near1, near2, far1, far2 = shares(folder, 4, 40, 60)
        p50, p99 = waits(folder, 40)
        found = {"near": (near1 + near2) / 2, "far": (far1 + far2) / 2}
        return {**found, "line": near1 + near2 + far1 + far2, "p50, us": p50, "p99, us": p99}
    through, *each = shares(folder, 5, 2, 4)
    return {"all links": through, "one link": sum(each) / 4, "line": through + min(each)}


def played(name: str, control: str, seed: int) -> dict[str, float]:
    """Play one run and measure it."""
    tells, transport = CONTROLS[control]
    (shape, links), until, traffic = case(name, seed)
    text = HEAD.format(shape=shape, links=links, until=until, tells=tells, control=transport)
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder) / "run.yaml", Path(folder) / "out"
        run.write_text(text + traffic)
        weft = Path(sys.executable).parent / "weft"
        command = [str(weft), "sim", str(run), "--out", str(out), "--seed", str(seed)]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name}, {control}, seed {seed}: {done.stderr[-800:]}")
        return measured(name, out)


def main() -> None:
    """Print a table for each case: medians, [lowest, highest]."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="late,near-far,parking-lot")
    parser.add_argument("--seeds", default="1,2,3,4,5,6")
    parser.add_argument("--controls", default=",".join(CONTROLS))
    asked = parser.parse_args()
    for name in asked.cases.split(","):
        for place, control in enumerate(asked.controls.split(",")):
            found = [played(name, control, int(seed)) for seed in asked.seeds.split(",")]
            if not place:
                print(f"\n| {name} | {' | '.join(found[0])} |\n|---|{'---|' * len(found[0])}")
            cells = []
            for key in found[0]:
                values = [each[key] for each in found]
                cells.append(f"{np.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]")
            print(f"| {control} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
