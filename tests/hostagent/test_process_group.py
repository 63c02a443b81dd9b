"""torch.distributed's backend "weft": real DDP by a switch, by the ring, and beside gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostagent.udp_switch import UdpSwitch

pytestmark = pytest.mark.reference(module="torch", names="make setup-torch installs PyTorch")

ROOT = Path(__file__).resolve().parents[2]
RANKS = 3
DEADLINE_S = 240.0


def run(folder: Path, backend: str, switch: UdpSwitch | None = None) -> list[dict[str, Any]]:
    """Run the job; return what each rank printed. All have to end with 0, to their very end."""
    folder.mkdir()
    words = [str(RANKS), str(folder), backend]
    if switch is not None:
        words += [switch.gateway, *map(switch.address, range(RANKS))]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.hostagent.ddp_ranks", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ranks = map(json.loads, done.stdout.splitlines())
    return sorted(ranks, key=lambda said: said["rank"])


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(tmp_path_factory.mktemp("ring") / "job", "weft")


def test_a_switch_and_the_ring_come_to_the_same_weights(
    ring: list[dict[str, Any]], tmp_path: Path
) -> None:
    with UdpSwitch(RANKS, loss=0.01) as switch:
        tree = run(tmp_path / "job", "weft", switch)
    assert len({each["weights"] for each in (*ring, *tree)}) == 1
    assert {each["by_tree"] > 0 for each in tree} == {True}
    assert {each["by_tree"] for each in ring} == {0}


def test_what_only_moves_comes_as_from_gloo(ring: list[dict[str, Any]], tmp_path: Path) -> None:
    gloo = run(tmp_path / "job", "gloo")
    assert len({each["moved"] for each in (*ring, *gloo)}) == 1
    assert len({each["weights"] for each in gloo}) == 1


def test_int32_is_summed_exactly_in_every_form(ring: list[dict[str, Any]]) -> None:
    whole = [RANKS * each + sum(range(RANKS)) for each in range(2 * RANKS)]
    wrapped = (RANKS * (2**31 - 1) + 2**31) % 2**32 - 2**31
    for each in ring:
        rank = each["rank"]
        part, at_root, sums = each["summed"]
        assert part == whole[2 * rank : 2 * rank + 2]
        assert at_root == [sum(range(RANKS)) if rank == 1 else rank]
        assert sums == [wrapped]


def test_what_switches_do_not_add_is_said(ring: list[dict[str, Any]]) -> None:
    float64, most = ring[0]["refused"]
    assert "all-reduce of torch.float64: switches add torch.float32 and torch.int32" in float64
    assert 'the backend "weft" sums; MAX needs gloo' in most
