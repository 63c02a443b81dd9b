"""`weft perf` between hosts of a real run, from another terminal: what it measures, what fails.

                s1
           /  |    |  \\
          h1  h2   h3  h4         400 Gb/s and 500 ns in the fabric; 40 Mb/s and 5 ms here
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulation import run_state, teardown
from hostagent.rnic.client import EndpointClient

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0
RATE_BPS = 40e6
ROUND_TRIP_US = 20_000  # four times 5 ms


class Lab:
    """A run of a topology with its prompt, and commands beside it."""

    def __init__(self, root: Path, topology: str = "single") -> None:
        self.root = root / "run"
        self.environment = {
            **os.environ,
            run_state.RUN_ROOT_VARIABLE: str(self.root),
            run_state.LOG_ROOT_VARIABLE: str(root / "log"),
        }
        self.runner = self.start("run-topo", topology, "--cli", "--json", "--seconds", "1")
        assert self.runner.stdout is not None
        line = self.runner.stdout.readline()
        assert line, self.runner.communicate()[1]
        self.result: dict[str, Any] = json.loads(line)
        self.directory = self.root / self.result["run"]
        deadline = time.monotonic() + PATIENCE_S
        while not (self.directory / "control").exists():  # the prompt comes behind that line
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of weft."""
        return subprocess.Popen(
            [sys.executable, "-m", "weft.cli", *words],
            cwd=REPOSITORY, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def do(self, *words: str) -> tuple[int, str, str]:
        """Its exit code and what it says."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def perf(self, *words: str) -> dict[str, Any]:
        """Return the result of a measurement that goes well."""
        code, out, err = self.do("perf", *words, "--json")
        assert code == 0, out + err
        found: dict[str, Any] = json.loads(out)
        return found

    def endpoint(self, host: str) -> int:
        """Return the process of a host's endpoint."""
        record = run_state.read_record(self.directory)
        assert record is not None
        ours = [p for p in record.processes if p.role == f"endpoint of {host}" and p.is_alive()]
        assert len(ours) == 1
        return ours[0].pid

    def wait_for_data(self, host: str) -> None:
        """Until a measurement's data arrives there."""
        deadline = time.monotonic() + PATIENCE_S
        with EndpointClient.connect(self.directory / f"{host}.rnic", PATIENCE_S) as client:
            client.send("watch", interval_ms=20, all=True)
            while not any(pair.get("received_bytes") for pair in client.answer()["pairs"]):
                assert time.monotonic() < deadline


@contextmanager
def lab_of(root: Path, topology: str = "single") -> Iterator[Lab]:
    """Run a fabric for the block, of which nothing is left."""
    found = Lab(root, topology)
    record = run_state.read_record(found.directory)
    assert record is not None
    yield found
    latest = run_state.read_record(found.directory) or record
    found.runner.communicate("exit\n", timeout=PATIENCE_S)
    left = [p for p in latest.processes if p.is_alive()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(found.root))
        teardown.stop()
    assert found.runner.returncode == 0
    assert not left, "the run's end ends its endpoints"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_of(tmp_path_factory.mktemp("perf")) as found:
        yield found


def test_run_topo_has_its_row(lab: Lab) -> None:
    [row] = [row for row in lab.result["rows"] if row["what"].startswith("RDMA WRITE")]
    assert row["what"] == "RDMA WRITE h1 -> h2" and row["ok"]
    assert " of 40 Mb/s (fabric " in row["result"] and " of 400 Gb/s)" in row["result"]


def test_two_sources_at_once(lab: Lab) -> None:
    report = lab.perf(
        "write", "h1,h2", "h3", "--bw", "-s", "16kB", "-n", "30", "-q", "2", "--depth", "4"
    )
    assert (report["runtime"], report["clock"], report["time_scale"]) == (
        "softswitch", "real", 10000,
    )  # fmt: skip
    assert {e["mode"] for e in report["parameters"]["endpoints"].values()} <= {
        "af_xdp", "af_packet",
    }  # fmt: skip
    [measurement] = report["measurements"]
    for row in measurement["rows"]:
        assert row["iterations"] == 60 and row["failures"] == []
        assert 0 < row["bw_average_gbps"] * 1e9 < RATE_BPS
        fabric = row["fabric"]["bw_average_gbps"]
        assert fabric == pytest.approx(row["bw_average_gbps"] * 10000)
    assert 0 < measurement["jain"] <= 1


def test_latency_is_what_the_links_make_it(lab: Lab) -> None:
    report = lab.perf("read", "h1", "h3", "--lat", "-s", "8", "-n", "5", "--set", "none")
    [row] = report["measurements"][0]["rows"]
    assert row["iterations"] == 5
    assert row["t_min_usec"] >= ROUND_TRIP_US
    assert row["fabric"]["t_min_usec"] == pytest.approx(row["t_min_usec"] / 10000)


def test_a_peer_that_is_gone_harms_nobody_else(lab: Lab) -> None:
    assert lab.do("link", "h2", "s1", "down")[0] == 0
    killed = lab.start("perf", "write", "h3", "h4", "--bw", "--duration", "30s", "--depth", "2")
    beside = lab.start(
        "perf", "write", "h1,h2", "h3", "--bw", "-s", "16kB", "-n", "20", "--depth", "4"
    )
    lab.wait_for_data("h4")
    os.kill(lab.endpoint("h4"), signal.SIGKILL)
    out, err = beside.communicate(timeout=PATIENCE_S)
    assert beside.returncode == 1
    assert (
        err == "error: bandwidth, 16384 B: h2 -> h3: h3 does not answer (retries exceeded)\n"
        or (err == "error: bandwidth, 16000 B: h2 -> h3: h3 does not answer (retries exceeded)\n")
    )
    [h1] = [line.split() for line in out.splitlines() if line.startswith("  h1") and "real" in line]
    assert h1[2] == "20"
    out, err = killed.communicate(timeout=PATIENCE_S)
    assert killed.returncode == 1
    assert "h3 -> h4: h4 does not answer" in err and err.count("\n") == 1
    assert lab.do("link", "h2", "s1", "up")[0] == 0
    lab.perf("write", "h3", "h4", "--bw", "-s", "4kB", "-n", "2")  # it is started again


def test_ctrl_c_leaves_what_was_measured(lab: Lab) -> None:
    process = lab.start("perf", "send", "h1", "h3", "--bw", "-s", "4kB", "--duration", "60s")
    lab.wait_for_data("h3")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "BW average[Gb/sec]" in out and "interrupted: this is what was measured" in out


WRONG = {
    "more queue pairs than a host has": (
        ["write", "h1", "h2", "-q", "1100", "-n", "1", "-s", "8", "--bw"], 1, "1024 queue pairs",
    ),
    "packets that do not fit": (["write", "h1", "h2", "--mtu", "2048"], 1, "at most 1024"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name: str, lab: Lab) -> None:
    words, code, said = WRONG[name]
    got, out, err = lab.do("perf", *words)
    assert (got, out) == (code, "")
    assert said in err and err.count("\n") == 1


def test_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli", "perf", "write", "h1", "h2"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error: no run is up\n")
