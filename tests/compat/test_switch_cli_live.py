"""`weft cli s1` while a fabric is up: old commands on a switch that has its controller.

make run-topo CLI=1           the default topology, its controller, a prompt that keeps it
weft cli s1 < commands        from another terminal
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation import run_state, teardown
from softswitch.diagnostics import DiagnosticsClient

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 120.0
WEFT = (sys.executable, "-m", "weft.cli")


def cli(*arguments: str, commands: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WEFT, "cli", *arguments], cwd=REPOSITORY, input=commands, text=True,
        capture_output=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a fabric with its prompt open; yield P4Runtime's address by switch."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(folder / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(folder / "log"))
        run = subprocess.Popen(
            [*WEFT, "run-topo", "--cli", "--json", "--seconds", "1"],
            cwd=REPOSITORY, env=dict(os.environ), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert run.stdout is not None
            line = run.stdout.readline()
            if not line:
                pytest.fail(f"run-topo failed: {run.communicate()[1]}")
            record = json.loads(
                (folder / "run" / json.loads(line)["run"] / "fabric.json").read_text()
            )
            yield record["fabric"]["addresses"]
        finally:
            run.communicate("exit\n", timeout=PATIENCE_S)
            teardown.stop()


def test_a_switch_is_found_by_its_name(fabric: dict[str, str]) -> None:
    for name, address in fabric.items():
        done = cli(name, "-c", "switch_info", "-c", "show_ports")
        assert (done.returncode, done.stderr) == (0, "")
        with DiagnosticsClient(address) as switch:
            assert f"device_id                : {switch.switch_stats()['device_id']}" in done.stdout
            interfaces = [row["interface"] for row in switch.port_stats().values()]
        assert all(interface in done.stdout for interface in interfaces)


def test_entries_of_the_controller_are_shown_and_stay(fabric: dict[str, str]) -> None:
    tables = cli("s1", "-c", "show_tables").stdout
    table = next(line.split()[0] for line in tables.splitlines() if "(lpm, 32)" in line)
    count = int(cli("s1", "-c", f"table_num_entries {table}").stdout)
    assert count > 0
    dump = cli("s1", "-c", f"table_dump {table}").stdout
    assert dump.count("Dumping entry 0x") == count
    assert "Dumping entry 0x0\n" in dump


def test_a_file_writes_beside_the_controller(fabric: dict[str, str]) -> None:
    name = next(iter(fabric))
    text = "mc_node_create 7 1 2\n# nothing\nmirroring_add 77 2\nmirroring_get 77\n"
    done = cli(name, "--strict", commands=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "MirroringSessionConfig(port=2, mgid=None)" in done.stdout
    assert "node was created with handle" in done.stdout
    # another session finds both
    again = cli(name, "--strict", "-c", "mirroring_get 77", "-c", "mirroring_delete 77")
    assert again.returncode == 0
    assert cli(name, "--strict", "-c", "mirroring_get 77").returncode == 1


def test_a_switch_that_is_not_in_the_run(fabric: dict[str, str]) -> None:
    done = cli("s99", "-c", "show_tables")
    assert done.returncode != 0
    assert "there is no switch 's99'" in done.stderr and next(iter(fabric)) in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_run_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path))
    done = cli("s1", "-c", "show_tables")
    assert done.returncode != 0
    assert "no run is up" in done.stderr and "make run-topo" in done.stderr
