"""Each generator's topology for real: switches up, every interface reaches every other it should.

No TCP here and no proof beyond reachability and spreading: `weft run-topo` itself is tested in
test_cli_run.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from controller import CompiledProgram
from emulation import proofs, run_state
from emulation.session import Session
from emulation.switch_node import Target
from softswitch import program_cache
from weft.run_topo import PROGRAM

pytestmark = pytest.mark.root

# Name, and how many pairs of interfaces reach each other: a plane's or data centre's all.
FABRICS = [
    ("single", 12),
    ("rail", 768),
    ("dualplane", 24),
    ("dualplane8", 112),
    ("two-dc", 56),
    ("fattree4", 240),
]


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    compiled = program_cache.compile_program(program_cache.Job(PROGRAM))
    return CompiledProgram.of(compiled)


@pytest.fixture
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    session = Session(topologies.load(request.param), Target.SOFTSWITCH)
    session.claim()
    try:
        yield session
    finally:
        session.close()


@pytest.mark.parametrize(("session", "pairs"), FABRICS, indirect=["session"])
def test_a_generated_fabric_carries_packets_between_all(
    session: Session, pairs: int, program: CompiledProgram
) -> None:
    session.build_network()
    session.wait_for_switches()
    session.bring_up(program)
    ping = proofs.all_pairs_ping(session)
    assert ping.ok, ping.result
    assert ping.result.startswith(f"{pairs} pairs, 0 % lost, the first packets included")
    spread = proofs.roce_over_spines(session)
    assert spread.ok, spread.result
    counted, _ = proofs.counters_agree(session)
    assert counted.ok, counted.result
