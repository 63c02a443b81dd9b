"""`weft cli` prints what BMv2's own tool prints, letter for letter.

switch_cli_lab/*.expected is what BMv2 1.15's simple_switch_CLI (tools/runtime_CLI.py and
targets/simple_switch/sswitch_CLI.py, Thrift) printed for each *.commands on a new
`simple_switch_grpc lab.json`, lab.json by `p4c-bm2-ss --p4v 16 lab.p4` (p4c 1.2.5):

    simple_switch_CLI --thrift-port PORT < entries.commands > entries.expected
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.switch_cli_bench import bench_of, compile_into

LAB = Path(__file__).parent / "switch_cli_lab"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_into(tmp_path_factory.mktemp("lab"), LAB / "lab.p4")


@pytest.mark.parametrize("commands", sorted(LAB.glob("*.commands")), ids=lambda path: path.stem)
def test_the_text_is_bmv2s(commands: Path, compiled: Path) -> None:
    with bench_of(compiled) as bench:
        done = subprocess.run(
            [sys.executable, "-m", "weft.cli", "cli", "--grpc", bench.address],
            input=commands.read_text(),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == commands.with_suffix(".expected").read_text().splitlines()


def test_handles_are_the_same_for_the_next_session(compiled: Path) -> None:
    with bench_of(compiled) as bench:
        bench.done("table_add lpm drop 10.0.1.7/24 =>", "table_add lpm drop 10.0.2.0/24 =>")
        bench.done("table_delete lpm 0", "table_add lpm drop 10.0.3.5/24 =>")
        before = bench.done("table_dump lpm")
        bench.shell = bench.open()
        assert bench.done("table_dump lpm") == before
        assert "Dumping entry 0x1000000" in before
        assert "* address.low         : LPM       0a000305/24" in before
        bench.done("table_delete lpm 0")
        assert bench.shell.failures == 1  # that one has gone
        assert bench.done("table_add lpm drop 10.0.4.0/24 =>")[-1].endswith("handle 2")


def test_lags_send_where_bmv2_sends_them(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bench_of(compiled) as bench:
        bench.done("mc_mgrp_create 4", "mc_node_create 9 1 | 1 2", "mc_set_lag_membership 1 3 4")
        bench.done("mc_set_lag_membership 2 5", "mc_node_associate 4 0")
        assert bench.done("mc_dump") == [
            "==========",
            "MC ENTRIES",
            "**********",
            "mgrp(4)",
            "  -> (L1h=0, rid=9) -> (ports=[1], lags=[1, 2])",
            "==========",
            "LAGS",
            "lag(2) -> ports=[1]",
            "lag(1) -> ports=[1]",
            "==========",
        ]
        assert "lag(1) has ports 3, 4" in capsys.readouterr().err  # what BMv2's CLI means
        # BMv2's hash over a LAG's members is always 255: of two members the second one.
        groups = bench.shell._groups_there()
        assert groups == {4: [(1, 9), (4, 9), (5, 9)]}
        bench.done("mc_set_lag_membership 1 3 4 6")
        assert bench.shell._groups_there() == {4: [(1, 9), (3, 9), (5, 9)]}
