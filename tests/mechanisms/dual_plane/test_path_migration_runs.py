"""`failover: {mode: migrate}` in runs: what is cut is left, and what others have published."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from hostagent.rnic.planes import FIRST_HASH, FIRST_TURN
from mechanisms.dual_plane.lint import failover_remarks
from mechanisms.program import FABRIC
from simulator.runner import Simulation
from tests.mechanisms.dual_plane.test_failover_entry import RUN, planned
from topologies import TopologyError
from workloads.loader import read_run

MS = 10**9
CUT = """\
  events:
    - {at: 100us, link: "h1:%d-s%d:1", do: down}
until: 1ms
"""


def test_opponents() -> None:
    bond = planned("failover: {mode: migrate, like: bond}").planes
    nccl = planned("failover: {mode: migrate, like: nccl}, retries: 7, timeout: 4.3s").planes
    assert (bond.first, bond.tries, bond.switch_ps) == (FIRST_HASH, 0, 100 * MS)
    assert (nccl.first, nccl.tries, nccl.switch_ps) == (FIRST_TURN, 8, 10 * MS)
    assert nccl.return_ps == 2_700 * MS
    assert bond.by_link and nccl.by_link
    assert not list(failover_remarks(read_run(RUN % "failover: {mode: migrate, like: nccl}")))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("failover: {mode: migrate, like: bond, tries: 1}", "'like' says all of path migration"),
        ("failover: {like: bond}", "write {mode: migrate, like: bond} and nothing else"),
        ("failover: {mode: migrate, like: team}", "bond"),
    ],
)
def test_mistakes_are_told(keys: str, told: str) -> None:
    with pytest.raises(TopologyError) as error:
        read_run(RUN % keys)
    assert told in str(error.value)


@cache
def program() -> CompiledProgram:
    return CompiledProgram.of(compile_p4(FABRIC))


@pytest.mark.parametrize("repeat", ["go-back-n", "selective-repeat"])
@pytest.mark.parametrize("plane", [0, 1])
@pytest.mark.parametrize("keys", ["first: 1", "like: bond", "like: nccl"])
def test_a_run_migrates_when_the_plane_that_it_uses_is_cut(
    repeat: str, plane: int, keys: str, tmp_path: Path
) -> None:
    text = (RUN % f"failover: {{mode: migrate, {keys}}}, link_delay: 20us").replace(
        "selective-repeat", repeat
    )
    text = text.replace("until: 1ms\n", CUT % (plane, plane + 1))
    text = text.replace(
        "incast: {to: h2, from: h1, persistent: true}", "message: {from: h1, to: h2, bytes: 16MB}"
    )
    outcome = Simulation(read_run(text), program()).run(tmp_path)
    moved, transport = outcome.summary["migrations"], outcome.summary["transport"]
    done = outcome.summary["messages"]["done"]
    assert moved["ends"] == 2
    assert transport["failed"] == 0
    if keys == "first: 1":
        assert moved["count"] == (2 if plane == 1 else 0)
        assert moved["by"] == ({"link": 1, "the peer": 1} if plane == 1 else {})
        assert done == 1
    else:  # the software of the others has not noticed within this millisecond
        assert moved["count"] == 0
        assert done == 1 or transport["repeated_packets"] == 0
    assert "planes" not in outcome.summary
