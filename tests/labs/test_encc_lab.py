"""The lab encc: its variants are run files, its arithmetic, and that it sees who is unfair."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from experiments.api import Runtime
from experiments.loader import load
from labs.shares import jain, queued, rates

LAB = load("encc")
CASES, CONTROLS = 11, 8
FAIRNESS = load("congestion-control-fairness")
RUN = (sys.executable, "-m", "weft.cli", "lab", "run", "encc")


@dataclass
class Results:
    """A result folder of rows that are said here."""

    rows: dict[str, dict[str, list[Any]]]
    sample_ps: int = 10
    now_ps: int = 100
    asked: list[str] = field(default_factory=list)

    def table(self, name: str, columns: list[str]) -> pa.Table:
        self.asked.append(name)
        return pa.table({column: self.rows[name][column] for column in columns})


def test_every_variant_is_a_run_file() -> None:
    LAB.check()
    assert len(LAB.variants(Runtime.SIMULATOR)) == CASES * CONTROLS


def test_the_best_set_is_that_of_the_other_labs() -> None:
    texts = (each.folder / "lab.yaml" for each in (LAB, FAIRNESS))
    ours, theirs = (yaml.safe_load(text.read_text())["axes"]["control"]["best"] for text in texts)
    assert ours == theirs


def test_what_waits_is_counted_by_sample_and_port_and_is_nothing_where_no_row_is() -> None:
    rows = {
        "at_ps": [10, 30, 30, 30, 40, 110],
        "node": ["s1", "s1", "s1", "s2", "s1", "s1"],
        "port": [1, 1, 2, 1, 1, 1],
        "bytes": [5, 100, 7, 9, 50, 1],
    }
    found = queued(Results({"queues": rows}), "s1", 1, 10, 100)  # type: ignore[arg-type]
    assert found.tolist() == [0, 100, 50, 0, 0, 0, 0, 0, 0]


def test_rates_are_of_what_came_between_two_times() -> None:
    rows = {"at_ps": [1000, 2000, 2000, 3000], "flow": [0, 0, 1, 0], "bytes": [1, 2, 4, 8]}
    found = rates(Results({"flow_rates": rows}), 2, 1000, 3000)  # type: ignore[arg-type]
    assert found.tolist() == [40, 16]
    assert jain(np.array([0.0, 1.0])) == 0.5


@pytest.mark.long
def test_who_is_unfair_over_distance_is_seen(tmp_path: Path) -> None:
    """Marks come at each flow's own pace; rates by telemetry end at the same share."""
    variants = [f"--variant=near-and-far-{control}" for control in ("hpcc-dcqcn-paper", "encc")]
    out = tmp_path / "results"
    command = [*RUN, *variants, "--seeds=1", "--out", str(out), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    runs = {each["name"]: each["runs"][0] for each in json.loads(told.stdout)["variants"]}
    found = {name: run["metrics"]["Jain"] for name, run in runs.items()}
    assert found["near-and-far-encc"] > 0.95 > 0.7 > found["near-and-far-hpcc-dcqcn-paper"]
