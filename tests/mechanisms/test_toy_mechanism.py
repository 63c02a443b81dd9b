"""A mechanism made from nothing, in a copy of the house: a few new files, a line in each list.

It counts marked packets in the switch and sends at a fixed rate (the folder `toy` beside this).
After that it is everywhere: settings, lint, program, entries, simulator, results, perf, top,
metrics, the agent's view, prompt. docs/architecture.md walks through it.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOY = Path(__file__).with_name("toy")
ROOMS = (
    "compiler", "controller", "emulation", "experiments", "hostagent", "labs", "mechanisms",
    "observe", "p4src", "protocols", "simulator", "softswitch", "topologies", "weft", "workloads",
)  # fmt: skip
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.so", "_build")

FILES = {
    "toy.p4": "p4src/modules/toy.p4",
    "toy.h": "hostagent/include/toy.h",
    "mechanism.py": "mechanisms/toy/mechanism.py",
}
LINES = {
    "p4src/mechanisms.p4": '#include "modules/toy.p4"\n',
    "hostagent/include/cc_algorithms.h": '#include "toy.h"\n',
}

TOPOLOGY = """
time_scale: 1
generator: single
hosts: 3
link: {rate: 100Gbps, delay: 500ns, queue: 4MB}
classes:
  roce: {dscp: 26, queue: 3, ecn: 20kB, toy: true}
"""
RUN = """
topology: toy.yaml
until: 200us
transport: {congestion_control: toy, toy_rate: 60Gbps}
traffic:
  - incast: {from: [h2, h3], to: h1, bytes: 1MB}
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a copy of the house with the toy in it."""
    copy = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=NOT_COPIED)
    for source, target in FILES.items():
        (copy / target).parent.mkdir(exist_ok=True)
        shutil.copy(TOY / source, copy / target)
    (copy / "mechanisms" / "toy" / "__init__.py").write_text('"""Toy."""\n')
    for path, line in LINES.items():
        with (copy / path).open("a") as file:
            file.write(line)
    registry = copy / "mechanisms" / "registry.py"
    text = registry.read_text()
    registry.write_text(text.replace(",\n)\n", ',\n    "toy",\n)\n', 1))
    (copy / "toy.yaml").write_text(TOPOLOGY)
    (copy / "run.yaml").write_text(RUN)
    for package in ("hostagent.rnic", "simulator.core", "softswitch.core"):
        run(copy, "-m", f"{package}.build")
    yield copy


def run(house: Path, *arguments: str) -> str:
    """Run Python on the copy; return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=house, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def weft(house: Path, *words: str) -> str:
    """Run a command of the copy."""
    return run(house, "-c", f"import sys; from weft.cli import main; sys.exit(main({[*words]!r}))")


def test_few_files_and_one_line_in_each_list(house: Path) -> None:
    new, changed = [], {}
    for room in ROOMS:
        for path in (house / room).rglob("*"):
            name = path.relative_to(house)
            if not path.is_file() or path.suffix in (".so", ".pyc") or "_build" in name.parts:
                continue
            if not (ROOT / name).exists():
                new.append(str(name))
            elif not filecmp.cmp(path, ROOT / name, shallow=False):
                before = (ROOT / name).read_text().splitlines()
                changed[str(name)] = len(path.read_text().splitlines()) - len(before)
    assert len(new) <= 8, new
    assert len(changed) <= 3 and set(changed.values()) == {1}, changed


def test_a_run_has_its_counts_its_parameters_and_its_rate(house: Path) -> None:
    summary: dict[str, Any] = json.loads(weft(house, "sim", "run.yaml", "--out", "out", "--json"))
    assert summary["toy_marked"]["marked"] > 0
    # What the toy counts at the one congested port is what the receiver gets.
    assert abs(summary["toy_marked"]["marked"] - summary["flows"]["marked"]) <= 2
    (transport,) = summary["transports"]
    assert transport["congestion_control"] == "toy"
    assert transport["toy"]["fixed_rate_bps"] == 60 * 10**9
    printed = weft(house, "sim", "run.yaml", "--out", "out")
    assert "toy marks" in printed and "left with CE" in printed
    assert "at 60000000000 b/s" in printed


def test_perf_goes_at_the_fixed_rate(house: Path) -> None:
    words = ("perf", "write", "h1", "h2", "--bw", "-n", "20", "--sim", "toy.yaml")
    report = json.loads(weft(house, *words, "--congestion", "toy", "--json"))
    (measured,) = report["measurements"]
    (row,) = measured["rows"]
    assert 0.8 < row["bw_average_gbps"] < 1.0  # of frames at 1 Gb/s


def test_lint_remarks(house: Path) -> None:
    (house / "unmarked.yaml").write_text(TOPOLOGY.replace("ecn: 20kB, ", ""))
    printed = weft(house, "topo", "check", "unmarked.yaml")
    assert "nothing marks its packets, so none are counted" in printed
    assert "nothing marks" not in weft(house, "topo", "check", "toy.yaml")


VIEWS = """
import topologies
from controller.fabric_state import FabricModel, SwitchReady, step
from controller.program import CompiledProgram
from mechanisms.contract import Running
from mechanisms.program import job
from mechanisms.registry import mechanisms
from observe import agent_rows, metrics_exposition, top_rows
from observe.samples import PortSample, SwitchSample
from softswitch.program_cache import compile_program

used = topologies.load("toy.yaml")
unused = topologies.loads(open("toy.yaml").read().replace(", toy: true", ""))
for topology in (used, unused):
    built = compile_program(job(topology))
    print("program", "toy_marked" in built.p4info_text)
program = CompiledProgram.of(compile_program(job(used)))
model = FabricModel(used, program.p4info)
_, writes = step(model, SwitchReady("s1", ()), 0)
print("entries", sum(getattr(each.entry, "table", "") == "toy_port" for each in writes["s1"]))
elsewhere = topologies.loads(open("toy.yaml").read() + "toy_switches: [s9]\\n")
_, writes = step(FabricModel(elsewhere, program.p4info), SwitchReady("s1", ()), 0)
print("named", sum(getattr(each.entry, "table", "") == "toy_port" for each in writes["s1"]))
print("top", "toy marks" in top_rows.columns(used), "toy marks" in top_rows.columns(unused))
print("order", top_rows.order_of("toy-marked").title)
print("agent", "toy b/s" in agent_rows.COLUMNS)
port = PortSample(0, 0, 0, 0, 0, counters={"toy_marked": {"marked": 7}})
sample = {"s1": SwitchSample(0, {1: port})}
shown = metrics_exposition.exposition(
    metrics_exposition.Exposed("w1", "simulator", used, sample, 0.0)
).decode()
print("metric", [line for line in shown.splitlines() if line.startswith("weft_port_toy_marked")])
(word,) = [word for each in mechanisms() for word in each.words if word.name == "toy"]
print("word", list(word.run(Running(used, None, None), "")))
"""


def test_it_is_in_program_entries_top_metrics_agent_and_prompt(house: Path) -> None:
    said = [line.split(" ", 1) for line in run(house, "-c", VIEWS).splitlines()]
    assert [rest for what, rest in said if what == "program"] == ["True", "False"]
    found = {what: rest for what, rest in said if what != "program"}
    assert found["entries"] == "3"
    assert found["named"] == "0"
    assert found["top"] == "True False"
    assert found["order"] == "toy marks"
    assert found["agent"] == "True"
    assert 'what="marked"' in found["metric"] and "7.0" in found["metric"]
    assert found["word"] == "['s1 count for toy']"
