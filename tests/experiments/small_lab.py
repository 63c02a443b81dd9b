"""A small lab for tests: three hosts on a switch, one or two of which send to the third.

h2 --+
     s1 -- h1        100 Gb/s; "slow": 50 Gb/s
h3 --+
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

LAB = """\
title: Two share a link
teaches: what a queue is
minutes: {simulator: 0.1, softswitch: 0.2}
runtimes: [simulator, softswitch, bmv2]
seeds: [1, 2]
settings: {least: 90}
base:
  topology:
    generator: single
    hosts: 3
    link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  until: 100us
  sample: 1us
  traffic:
    - incast: {to: h1, from: [h2], persistent: true, start: 10us}
axes:
  senders:
    one:
    two: {traffic.0.incast.from: [h2, h3]}
variants:
  slow: {title: a slow link, labels: {senders: one}, set: {topology.link.rate: 50Gbps}}
quick: [{senders: two}]
live: {seeds: [3], time_scale: 100, beside: simulator, only: [{senders: one}]}
"""

CHECKS = """\
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labs import Check, Context, Figure, Measured, Run, Table
from experiments.drawing import bars, drawing, where


def measure(run: Run) -> dict[str, Measured]:
    seconds = run.summary["end"]["now_ps"] / run.time_scale / 1e12
    queued = run.results.table("queues", ["bytes"])["bytes"].to_pylist()
    first = run.results.table("flows", ["first_sent_ps"])["first_sent_ps"].to_pylist()
    return {
        "goodput": Measured(8 * run.summary["flows"]["received_bytes"] / seconds / 1e9, "Gb/s"),
        "peak_queue": Measured(max(queued, default=0) / 1e6, "MB"),
        "begins": Measured(min(first) / run.time_scale / 1e6, "us"),
        "loss": Measured(None, "packets"),
    }


def measure_live(context: Context) -> dict[str, Measured]:
    (context.out / "seen.txt").write_text(context.variant.name)
    context.tell(0.5, "half")
    rate = float(str(context.mapping["topology"]["link"]["rate"]).removesuffix("Gbps"))
    return {"goodput": Measured(rate, "Gb/s"), "scale": Measured(context.time_scale)}


def checks(table: Table) -> Iterator[Check]:
    yield Check.at_least("full", lambda: table.median("one", "goodput"), LEAST, "Gb/s")
    yield Check.within("half", lambda: table.ratio("slow", "one", "goodput"), 0.45, 0.55)
    yield Check.reported("queue of two", lambda: table.median("two", "peak_queue"), "MB")


def figures(table: Table, out: Path) -> Iterator[Figure]:
    with drawing(out / "goodput.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(), "goodput")
    yield Figure(out / "goodput.png", "Goodput of each <variant>.")
"""

README = """\
# Two share a link

A queue is **bytes in minus bytes out**.

![the network](net.svg)

| senders | what happens |
|---|---|
| two | a queue |

<script>alert(1)</script>
"""

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg"><circle r="4"/></svg>'


def write(
    labs: Path,
    name: str = "small",
    *,
    least: float = 80,
    replaced: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Path:
    """Write the lab into a directory of labs; return its folder.

    `least`: what its first check asks for. `replaced`: "lab" and "checks" with (old, new) text of
    lab.yaml and checks.py.
    """
    folder = labs / name
    folder.mkdir(parents=True)
    files = {"lab": ("lab.yaml", LAB), "checks": ("checks.py", CHECKS.replace("LEAST", str(least)))}
    for kind, (file, text) in files.items():
        old, new = replaced.get(kind, ("", ""))
        assert old in text, old
        (folder / file).write_text(text.replace(old, new) if old else text)
    (folder / "README.md").write_text(README)
    (folder / "net.svg").write_text(PICTURE)
    return folder
