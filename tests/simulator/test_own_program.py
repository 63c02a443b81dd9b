"""Programs of the user's in virtual time: what the topology says is what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.entry_files import EntryFileError
from controller.program import CompiledProgram
from mechanisms.program import FABRIC, job
from mechanisms.switch_programs import NotSteerableError
from simulator.runner import Simulation
from softswitch import program_cache
from workloads.loader import read_run

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "my-own-p4"
RUN = f"""
topology: {EXAMPLE}/net.yaml
until: 1ms
traffic:
  - message: {{from: [h1, h2], to: h3, bytes: 200kB}}
"""
EXPLICIT = """
topology:
  program: {forward}
  controller: {controller}
  entries: {entries}
  switches: [{switches}]
  hosts: [h1, h2]
  link: {{rate: 100Gbps, delay: 500ns, queue: 1MB}}
  links: [{{a: h1, b: "s1:1"}}, {{a: h2, b: "s2:1"}}, {{a: "s1:2", b: "s2:2"}}]
until: 1ms
traffic: [message: {{from: h1, to: h2, bytes: 100kB}}]
"""


def fabric_program(run: Any) -> CompiledProgram:
    return CompiledProgram.of(program_cache.compile_program(job(run.topology)), FABRIC)


def simulate(text: str, folder: Path) -> tuple[Simulation, dict[str, Any]]:
    run = read_run(text, directory=folder)
    simulation = Simulation(run, fabric_program(run))
    return simulation, simulation.run(folder / "out").summary


def explicit(folder: Path, **parts: str) -> str:
    usual = {
        "forward": str(EXAMPLE / "forward.p4"),
        "controller": "none",
        "entries": "{}",
        "switches": "s1, s2",
    }
    return EXPLICIT.format(**usual | parts)


@pytest.mark.parametrize("transport", ["", "transport: {}\n"])
def test_raw_and_rdma_traffic_passes_by_the_entries_of_files(
    tmp_path: Path, transport: str
) -> None:
    simulation, summary = simulate(RUN + transport, tmp_path)
    assert summary["messages"]["done"] == 2
    assert summary["drops"]["packets"] == 0
    assert simulation.installed == 9
    pipeline = simulation.fabric.switches["s1"].device.pipeline
    assert pipeline is not None
    assert [t.preamble.name for t in pipeline.p4info.tables] == ["MyIngress.route"]


def test_what_no_entry_names_is_lost(tmp_path: Path) -> None:
    _, summary = simulate(explicit(tmp_path), tmp_path)
    assert summary["messages"]["done"] == 0
    assert summary["drops"]["by_reason"] == {"ingress": summary["flows"]["sent_packets"]}


def test_a_switch_of_ones_own_beside_one_that_the_controller_plans_for(tmp_path: Path) -> None:
    entries = tmp_path / "s2-commands.txt"
    entries.write_text(
        "table_add route forward 10.0.2.1/32 => 02:00:0a:00:02:01 1\n"
        "table_add route forward 10.0.1.0/24 => 02:01:00:00:00:01 2\n"
    )
    text = (
        explicit(
            tmp_path,
            forward=str(FABRIC),
            controller="fabric",
            switches=f"s1, {{name: s2, program: {EXAMPLE}/forward.p4, entries: {entries}}}",
        )
        .replace("controller: fabric", "")
        .replace("entries: {}", "")
    )
    simulation, summary = simulate(text, tmp_path)
    assert summary["messages"]["done"] == 1
    assert list(simulation.control.own) == ["s2"]
    assert list(simulation.control.model.installed) == ["s1"]


def test_a_switch_that_is_started_again_gets_its_entries(tmp_path: Path) -> None:
    events = "events: [{at: 100us, switch: s1, do: kill, lasts: 100us}]\n"
    later = RUN.replace("until: 1ms", "until: 3ms").replace("200kB", "200kB, start: 2ms")
    simulation, summary = simulate(later + events, tmp_path)
    assert summary["messages"]["done"] == 2
    assert simulation.control.updates == 9 + 3


def test_wrong_files_are_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s1.txt").write_text("table_add rout forward 10.0.2.1/32 => 1 1\n")
    with pytest.raises(EntryFileError, match=r"s1.txt:1: .*Invalid table name \(rout\)"):
        simulate(explicit(tmp_path, entries=f"{{s1: {tmp_path}/s1.txt}}"), tmp_path)
    with pytest.raises(
        NotSteerableError, match=r"controller: fabric, but forward.p4 can't have it"
    ):
        simulate(explicit(tmp_path, controller="fabric"), tmp_path)
    text = explicit(tmp_path, forward=str(FABRIC), entries=f"{{s1: {tmp_path}/s1.txt}}")
    with pytest.raises(EntryFileError, match="the fabric's controller writes all entries"):
        simulate(text.replace("controller: none", ""), tmp_path)


def test_units_and_cpu_port_are_those_of_the_topology(tmp_path: Path) -> None:
    simulation, summary = simulate(explicit(tmp_path), tmp_path)
    core = simulation.fabric.switches["s1"].device.core.config
    assert (core.tick_ps, core.depth_cell_bytes, core.cpu_port) == (1000, 256, 255)
    text = explicit(tmp_path, controller="none\n  units: bmv2\n  cpu_port: 510")
    simulation, summary = simulate(text, tmp_path)
    core = simulation.fabric.switches["s1"].device.core.config
    assert (core.tick_ps, core.depth_cell_bytes, core.cpu_port) == (1_000_000, 0, 510)
    assert summary["drops"]["by_reason"] == {"ingress": summary["flows"]["sent_packets"]}
