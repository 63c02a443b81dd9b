"""Plays random run files on another checkout of Weft and on this one, and compares what they give.

    python tests/shipped/beside.py OTHER [--cases 40] [--seed 1] [--keep DIR]

OTHER has its own environment (`make setup` there). Cases mix generators, distances, rates, senders,
NICs, classes, mechanisms, buffers, transports and link events; each is played for a few hundred
microseconds. The tables, their columns and the keys of the summary have to be equal, and so has the
message where a file is refused. Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import goldens
import yaml

TOPOLOGIES: tuple[dict[str, Any], ...] = (
    {"generator": "single", "hosts": 9},
    {"generator": "leaf_spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 3},
    {"generator": "fat_tree", "k": 4},
    {
        "generator": "two_dc",
        "spines": 1,
        "leaves": 2,
        "hosts_per_leaf": 2,
        "long_link": {"length": "20km"},
    },
    {
        "generator": "two_dc",
        "spines": 2,
        "leaves": 1,
        "hosts_per_leaf": 4,
        "long_link": {"length": "7km"},
    },
    {"generator": "rail", "groups": 2, "hosts_per_group": 2, "rails": 2, "spines": 2},
    {
        "switches": ["s1", "s2", "s3"],
        "hosts": [f"h{n}" for n in range(1, 7)],
        "links": [
            *({"a": f"h{n}", "b": f"s{1 + (n > 3)}:{n}"} for n in range(1, 7)),
            {"a": "s1:11", "b": "s2:11", "delay": "100us"},
            {"a": "s1:12", "b": "s3:11"},
            {"a": "s3:12", "b": "s2:12", "rate": "100Gbps"},
        ],
    },
)
MARKING = (
    None,
    "200kB",
    {"min": "100kB", "max": "400kB", "probability": "10%"},
    "hpcc-dcqcn",
    "ns3-rdma",
    "hpcc-dcqcn-paper",
)
FAST = (None, True, True, {"gateway": True}, {"low": "100kB", "high": "300kB"}, {"share": "5%"})
_TIMES = re.compile(r" \d+\.\d s$", re.MULTILINE)
CONTROL = ("dcqcn", "fast-cnp", "none", "nonsense")


def draw(chance: random.Random) -> dict[str, Any]:
    """Return one run file. Some are refused: what is not possible together is drawn, too."""
    topology = dict(chance.choice(TOPOLOGIES))
    delay = chance.choice(["200ns", "500ns", "5us", "50us"])
    rate = chance.choice(["25Gbps", "100Gbps", "400Gbps"])
    mtu = chance.choice(["1500B", "4200B"])
    topology["link"] = {"rate": rate, "delay": delay, "queue": "4MB", "mtu": mtu}
    roce: dict[str, Any] = {"dscp": 26, "queue": 3}
    if chance.random() < 0.5:
        roce["lossless"] = True
    marks, fast = chance.choice(MARKING), chance.choice(FAST)
    roce.update({key: value for key, value in (("ecn", marks), ("fast_cnp", fast)) if value})
    topology["classes"] = {"cnp": {"dscp": 48, "queue": 6}, "roce": roce, "rest": {"queue": 0}}
    hosts = _hosts(topology)
    if chance.random() < 0.4:
        topology["stock_nics"] = sorted(chance.sample(hosts, chance.randint(1, 3)))
    run: dict[str, Any] = {
        "topology": topology,
        "until": chance.choice(["150us", "400us"]),
        "sample": "10us",
        "seed": chance.randint(1, 99),
        "traffic": [_traffic(chance, hosts) for _ in range(chance.randint(1, 3))],
    }
    if chance.random() < 0.8:
        run["transport"] = _transport(chance)
    if roce.get("lossless") or chance.random() < 0.3:
        run["buffer"] = {
            "shared": "16MB",
            "alpha": chance.choice(["1/8", 1]),
            "headroom": "formula",
        }
    if "links" in topology and chance.random() < 0.8:
        ends = chance.sample(["s1-s2", "s1-s3", "s3-s2"], chance.randint(1, 2))
        run["events"] = [
            {"at": chance.choice(["50us", "90us"]), "link": link, "do": "down"} for link in ends
        ] + [{"at": "130us", "link": ends[0], "do": "up"}]
        run["controller"] = {"delay": chance.choice(["10us", "1ms"])}
    return run


def _hosts(topology: dict[str, Any]) -> list[str]:
    if "hosts" in topology and isinstance(topology["hosts"], list):
        return list(topology["hosts"])
    counts = {"single": 9, "leaf_spine": 9, "fat_tree": 16, "rail": 4, "two_dc": 8}
    return [f"h{n}" for n in range(1, 1 + counts[topology["generator"]])]


def _traffic(chance: random.Random, hosts: list[str]) -> dict[str, Any]:
    to, *others = chance.sample(hosts, len(hosts))
    some = others[: chance.randint(1, len(others))]
    kind = chance.choice(["incast", "persistent", "message", "cbr", "mix"])
    if kind == "incast":
        return {"incast": {"to": to, "from": some, "bytes": "256kB", "rounds": 3}}
    if kind == "persistent":
        return {"incast": {"to": to, "from": some, "persistent": True}}
    if kind == "message":
        operation = chance.choice(["write", "send", "read"])
        said = {"from": some[0], "to": to, "bytes": "64kB", "count": 20}
        return {"message": {**said, "operation": operation} if chance.random() < 0.5 else said}
    if kind == "cbr":
        return {"cbr": {"from": some[0], "to": to, "rate": "5Gbps"}}
    return {"mix": {"sizes": chance.choice(["websearch", "hadoop"]), "load": 0.4, "stop": "100us"}}


def _transport(chance: random.Random) -> dict[str, Any]:
    control = chance.choice(CONTROL[:3] if chance.random() < 0.95 else CONTROL)
    said: dict[str, Any] = {"congestion_control": control}
    if chance.random() < 0.4:
        said["parameters"] = chance.choice(["ns3-rdma", "hpcc-dcqcn-paper", "hpcc-dcqcn", "none"])
    if chance.random() < 0.3:
        said["overrides"] = chance.choice(
            [{"rate_ai": "100Mbps"}, {"gain": 0.01}, {"alpha_timer": "1ms"}]
        )
    if chance.random() < 0.3:
        said["fast_overrides"] = chance.choice([{}, {"min_rate": "1Gbps"}])
    if chance.random() < 0.5:
        said["retransmission"] = chance.choice(["go-back-n", "selective-repeat"])
    if chance.random() < 0.3:
        said["udp_ports"] = chance.choice([2, 4])
    return said


def play(checkout: Path, run_file: Path, out: Path) -> tuple[goldens.Golden | None, str]:
    """Return the run's hashes, None if it was refused, and what it said on standard error."""
    command = [str(checkout / ".venv/bin/weft"), "sim", str(run_file), "--out", str(out)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    said = f"exit {done.returncode}\n{_TIMES.sub('', done.stderr)}"
    if done.returncode != 0:
        return None, said
    _forget_idle_algorithms(out / "summary.json")
    return goldens.folder(out, "summary.json"), said


def _forget_idle_algorithms(path: Path) -> None:
    """Leave out of `transports` what is null: older versions name algorithms that do not run."""
    summary = json.loads(path.read_text())
    for each in summary.get("transports") or ():
        for key in [key for key, value in each.items() if value is None]:
            del each[key]
    path.write_text(json.dumps(summary))


def compare(other: Path, run_file: Path, scratch: Path) -> Iterator[str]:
    """Yield what differs between the two checkouts."""
    before, said_before = play(other, run_file, scratch / "before")
    after, said_after = play(goldens.ROOT, run_file, scratch / "after")
    if said_before != said_after:
        yield f"says otherwise: {said_before!r} / {said_after!r}"
    if (before is None) != (after is None):
        yield "refused by one alone"
    elif before is not None and after is not None:
        yield from goldens.differences(before, after)


def main() -> int:
    """Play all cases; the exit code is 1 if one differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, metavar="OTHER", help="the other checkout")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where run files that differ go")
    asked = parser.parse_args()
    if not (asked.other / ".venv/bin/weft").exists():
        parser.error(f"{asked.other} has no .venv/bin/weft: run `make setup` there")
    chance, wrong, refused = random.Random(asked.seed), 0, 0
    for number in range(asked.cases):
        run = draw(chance)
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            run_file = scratch / "run.yaml"
            run_file.write_text(yaml.safe_dump(run, sort_keys=False))
            lines = list(compare(asked.other.resolve(), run_file, scratch))
            refused += not (scratch / "after").exists()
            if lines and asked.keep:
                asked.keep.mkdir(parents=True, exist_ok=True)
                (asked.keep / f"case-{number}.yaml").write_text(run_file.read_text())
        wrong += bool(lines)
        print("\n".join([f"case {number}: {'differs' if lines else 'equal'}", *lines]), flush=True)
    print(f"{asked.cases} cases, {wrong} differ; {refused} were refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
