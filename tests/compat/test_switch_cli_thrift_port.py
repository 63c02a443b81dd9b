"""`--thrift-port N`: a daemon that was started with it is found by it, as BMv2 is by its CLI."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.switch_cli_bench import compile_into
from tests.free_port import free_port

LAB = Path(__file__).parent / "switch_cli_lab"
PATIENCE_S = 60.0


def daemon(program: Path, port: int, ready: Path) -> list[str]:
    command = [sys.executable, "-m", "softswitch", str(program), "--device-id", "3"]
    command += ["--thrift-port", str(port), "--", "--grpc-server-addr", "127.0.0.1:0"]
    return [*command, "--ready-file", str(ready)]


def cli(*arguments: str, commands: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft.cli", "cli", *arguments], input=commands, text=True,
        capture_output=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program's JSON alone: the daemon derives P4Info."""
    return compile_into(tmp_path_factory.mktemp("lab"), LAB / "lab.p4") / "lab.json"


@pytest.fixture(scope="module")
def port(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port, ready = free_port(), tmp_path_factory.mktemp("ready") / "ready"
    process = subprocess.Popen(
        daemon(program, port, ready), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the daemon is not ready"
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_a_switch_is_found_by_its_thrift_port(port: int) -> None:
    where = ("--thrift-port", str(port), "--thrift-ip", "localhost", "--pre", "SimplePreLAG")
    done = cli(*where, commands="table_add lpm drop 10.0.0.0/8 =>\nswitch_info\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Obtaining JSON from switch...\nDone\n")
    assert "Entry has been added with handle 0\n" in done.stdout
    assert "device_id                : 3\n" in done.stdout
    assert f"thrift_port              : {port}\n" in done.stdout
    # another session goes on from there
    done = cli(*where[:2], "-c", "table_delete lpm 0", "-c", "table_add lpm drop 10.0.0.0/8 =>")
    assert done.stdout.endswith("Entry has been added with handle 16777216\n")


def test_names_may_come_from_a_file(port: int, program: Path) -> None:
    done = cli("--thrift-port", str(port), "--json", str(program), commands="show_pvs\n")
    assert done.stdout.startswith(
        "Control utility for runtime P4 table manipulation\nRuntimeCmd: P"
    )
    done = cli("--thrift-port", str(port), "--json", "no-such.json")
    assert done.returncode == 2
    assert "no-such.json: No such file or directory" in done.stderr


def test_a_port_where_nothing_is_says_what_would(port: int) -> None:
    other = free_port()
    done = cli("--thrift-port", str(other), "-c", "show_tables")
    assert done.returncode == 2
    assert f"no switch answers on 127.0.0.1:{other}" in done.stderr
    assert f"started with --thrift-port {other}" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_one_way_to_say_which_switch(port: int) -> None:
    done = cli("s1", "--thrift-port", str(port))
    assert done.returncode == 2
    assert "SWITCH and --thrift-port both say which switch" in done.stderr


def test_a_second_daemon_on_the_port_says_so(port: int, program: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        daemon(program, port, tmp_path / "ready"), capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"can't listen on 127.0.0.1:{port}" in done.stderr and "--thrift-port" in done.stderr
