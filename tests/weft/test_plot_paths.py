"""`weft plot` of what `record: {paths: ...}` keeps: links, imbalance, gaps.

h1 - s1 == two spines == s2 - h2
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.program import CompiledProgram
from simulator.runner import Simulation
from softswitch.program_cache import Job, compile_program
from tests.weft.test_plot import ALWAYS, RECORDED, make_result
from weft.cli import main
from workloads.loader import read_run

RUN = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 1
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
record: {paths: {window: 20us}}
until: 1ms
traffic:
  - cbr: {from: h1, to: h2, rate: 10Gbps, payload: 1000B, packets: 100}
  - cbr: {from: h1, to: h2, rate: 10Gbps, payload: 1000B, packets: 100, start: 500us}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plot") / "result"
    found = compile_program(Job(Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"))
    Simulation(read_run(RUN, name="two"), CompiledProgram.of(found)).run(out)
    return out


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("paths", ("carried for flows [kB]", "flows", "leaf to spine (4)", "host to leaf (2)")),
        ("imbalance", ("windows of 20 µs", "the median switch", "p50 2", "p99 2")),
        ("gaps", ("Gaps in 2 flows (198 gaps)", "512 ns", "1.02 µs", "gaps [%]")),
    ],
)
def test_a_figure_says_what_was_recorded(
    result: Path, tmp_path: Path, what: str, texts: tuple[str, ...]
) -> None:
    path = tmp_path / "x.svg"
    assert main(["plot", str(result), "--what", what, "-o", str(path)]) == 0
    drawn = path.read_text()
    for text in (*texts, "simulator, time scale 1, two on two, seed 1"):
        assert text in drawn


def test_they_are_drawn_where_they_are_there(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(result), "-o", str(tmp_path / "x.png")]) == 0
    printed = [Path(line).stem.partition("-")[2] for line in capsys.readouterr().out.split()]
    assert [what for what in printed if what in RECORDED] == list(RECORDED)
    assert set(printed) <= {*ALWAYS, *RECORDED}


@pytest.mark.parametrize("what", RECORDED)
def test_a_run_that_did_not_record_says_how_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    folder = make_result(tmp_path / "r")
    assert main(["plot", str(folder), "--what", what]) == 1
    error, remedy = capsys.readouterr().err.splitlines()
    assert f"no {what} to plot: the run did not record paths" in error
    assert "record: {paths: {}}" in remedy


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("paths", "no flow sent anything"),
        ("imbalance", "no switch with two uplinks"),
        ("gaps", "no flow sent two packets"),
    ],
)
def test_nothing_recorded_is_nothing_to_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str, why: str
) -> None:
    found = compile_program(Job(Path(__file__).resolve().parents[2] / "p4src" / "fabric.p4"))
    idle = RUN.replace("packets: 100}", "packets: 100, start: 900us}")
    Simulation(read_run(idle), CompiledProgram.of(found), until_ps=10**6).run(tmp_path / "r")
    assert main(["plot", str(tmp_path / "r"), "--what", what]) == 1
    assert why in capsys.readouterr().err
