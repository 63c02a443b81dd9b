"""DPFR in real time: what lint says of its times, and a fabric that loses a link and a switch.

The runs are the lab's own (labs/dpfr), two tiers over namespaces:

    s4    s5        spines; a link from one of them to a leaf dies in silence, or it is killed
    | \\ / | ...
    s1  s2  s3      leaves, a host each that writes into the next one's memory
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import topologies
from controller.entries import CloneSession, MulticastGroup, TableEntry
from controller.parts import View
from controller.policy import FabricPolicy
from mechanisms.dpfr.entries import entries
from mechanisms.dpfr.mechanism import MECHANISM
from simulator.fabric import target_facts
from topologies.errors import TopologyError
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology

FABRIC = """\
time_scale: {scale}
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
link: {{rate: 400Gbps, delay: 500ns, queue: 1MB, mtu: 2200B}}
dpfr: {{{dpfr}}}
"""


def topology(dpfr: str, scale: int = 10_000) -> Topology:
    return topologies.loads(FABRIC.format(dpfr=dpfr, scale=scale))


def remarks(dpfr: str, scale: int = 10_000) -> list[Remark]:
    return list(MECHANISM.remarks(topology(dpfr, scale)))


def test_times_that_a_machine_holds_need_no_remark() -> None:
    assert remarks("period: 2us") == []
    assert remarks("") == []


def test_virtual_time_has_no_shortest_period() -> None:
    assert remarks("period: 640ns", scale=1) == []


def test_a_period_below_a_busy_machine_s_stalls_is_a_warning() -> None:
    (found,) = remarks("period: 900ns")
    assert (found.severity, found.path) == (Severity.WARNING, ("dpfr",))
    assert "dead here after 27ms of silence" in found.message
    assert found.right == "period: 1us, or more misses"
    assert remarks("period: 1us") == remarks("period: 900ns, misses: 4") == []


def test_ticks_that_no_process_keeps_are_a_warning_and_bmv2_needs_longer_ones() -> None:
    refused, bmv2 = remarks("period: 8400ns", scale=10)
    assert refused.severity is Severity.WARNING
    assert "2 links to others ticks every 42us" in refused.message
    assert refused.right == "period: 20us would do, or the simulator"
    assert bmv2.severity is Severity.INFO and bmv2.right == "period: 100us or more there"


# --- without telling others -------------------------------------------------------------------


def held(dpfr: str, switch: str) -> list[Any]:
    made = topology(dpfr, scale=1)
    view = View(made, target_facts(made), FabricPolicy.of(made), frozenset(), made.switch(switch))
    return list(entries(view))


def test_without_remote_a_switch_has_nobody_to_tell() -> None:
    usual, alone = held("remote: true", "s3"), held("remote: false", "s3")
    assert usual == held("", "s3")
    assert {type(each) for each in usual} >= {CloneSession, MulticastGroup}
    assert not {type(each) for each in alone} & {CloneSession, MulticastGroup}
    tables = [{e.table for e in each if isinstance(e, TableEntry)} for each in (usual, alone)]
    assert tables[0] - tables[1] == {"dpfr_behind"}
    listeners = [
        {
            dict(e.action.arguments)["listeners"]
            for e in each
            if isinstance(e, TableEntry) and e.table in ("dpfr_candidates", "dpfr_destination")
        }
        for each in (usual, alone)
    ]
    assert listeners[0] - {0}
    assert listeners[1] == {0}


def test_remote_is_yes_or_no() -> None:
    with pytest.raises(TopologyError, match=r"remote"):
        topology("remote: 1")


# --- running ----------------------------------------------------------------------------------


LAB = Path(__file__).parents[3] / "labs" / "dpfr"


@pytest.mark.root
@pytest.mark.parametrize(
    "variant", ["dpfr-spine-usual", pytest.param("dpfr-leaf-link-usual", marks=pytest.mark.long)]
)
def test_a_fault_under_rdma_fails_no_write(variant: str, tmp_path: Path) -> None:
    fails_no_write(variant, "softswitch", tmp_path)


@pytest.mark.root
@pytest.mark.long
@pytest.mark.reference("simple_switch_grpc")
def test_a_link_that_goes_silent_on_bmv2_fails_no_write(tmp_path: Path) -> None:
    fails_no_write("dpfr-leaf-link-usual", "bmv2", tmp_path)


def fails_no_write(variant: str, runtime: str, tmp_path: Path) -> None:
    """All flows are back six seconds after the fault, which a machine at rest takes half of one
    for; how long exactly is the lab's matter. Writes fail in no case."""
    shutil.copytree(LAB, tmp_path / "labs" / "dpfr")
    written = tmp_path / "labs" / "dpfr" / "lab.yaml"
    text = written.read_text()
    for usual, here in (
        ("live_until_us: 250", "live_until_us: 700"),
        ("{every_ns: 2000, ports: 4}", "{every_ns: 20000, ports: 4}"),
        ("  beside: simulator\n", ""),
    ):
        assert text.count(usual) == 1, usual
        text = text.replace(usual, here)
    written.write_text(text)
    out = tmp_path / "out"
    command = [
        str(Path(sys.executable).parent / "weft"), "lab", "run", "dpfr", "--runtime", runtime,
        "--labs", str(tmp_path / "labs"), "--variant", variant, "--seeds", "1", "--out", str(out),
        "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    results = json.loads((out / "results.json").read_text())
    runs = {run["runtime"]: run for each in results["variants"] for run in each["runs"]}
    assert not runs[runtime]["failure"], done.stderr
    seen = runs[runtime]["metrics"]
    assert seen["failed work requests"] == 0 and seen["WRITEs"] > 20
    assert seen["cut off for good"] == 0
    assert seen["lost probes"] > 0, "the fault was one"
