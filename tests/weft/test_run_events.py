"""A run whose topology has scripted events: real switches, asked what they were told.

        s3              h1-s1 jitters, s1 -> s2 takes longer, s1-s3 goes down
       /  \\
     s1 -- s2
     |      |
     h1     h2
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulation import run_state, teardown
from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
PATIENCE_S = 60.0
TOPOLOGY = """\
time_scale: 1000
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
switches: [s1, s2, s3]
hosts: [h1, h2]
links:
  - {a: h1, b: s1:1}
  - {a: h2, b: s2:1}
  - {a: s1:2, b: s2:2}
  - {a: s1:3, b: s3:1}
  - {a: s2:3, b: s3:2}
events:
  - {at: 0us, link: s1-s3, do: down}
  - {at: 1us, link: s1-s2, towards: s2, delay: 2us, reorder: {share: 50%, by: 10ns}}
  - {at: 2us, link: h1-s1, jitter: 20ns}
  - {at: 3us, link: s2-s3, degraded: 50%}
  - {at: 4us, link: s2-s3, do: clear}
  - {at: 3600s, link: h1-s1, do: down}
"""


@dataclass
class Up:
    """A run that stays up: what it said in JSON, and its process."""

    result: dict[str, Any]
    process: subprocess.Popen[str]

    def ports(self, switch: str) -> dict[int, dict[str, Any]]:
        with DiagnosticsClient(self.result["p4runtime"][switch]) as client:
            return client.port_stats()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    root = tmp_path_factory.mktemp("events")
    topology = root / "events.yaml"
    topology.write_text(TOPOLOGY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_state.RUN_ROOT_VARIABLE, str(root / "run"))
        patch.setenv(run_state.LOG_ROOT_VARIABLE, str(root / "log"))
        arguments = ["run-topo", str(topology), "--json", "--cli", "--seconds", "1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.cli", *arguments],
            cwd=REPOSITORY,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                pytest.fail(f"run-topo failed: {process.communicate()[1]}")
            yield Up(json.loads(line), process)
            _, errors = process.communicate("exit\n", timeout=PATIENCE_S)
            assert process.returncode == 0
            assert [line.split(" (")[0] for line in errors.splitlines()[:5]] == [
                "event at 0.000 s: s1-s3 down",
                "event at 0.001 s: s1-s2 towards s2: delay, reorder",
                "event at 0.002 s: h1-s1: jitter",
                "event at 0.003 s: s2-s3: degraded",
                "event at 0.004 s: s2-s3 clear",
            ]
            assert "failed" not in errors
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            teardown.stop()


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}"
        time.sleep(0.02)


def test_the_fabric_works_around_what_happens(up: Up) -> None:
    assert up.result["ok"] is True
    summary = up.result["events"]
    assert summary.startswith("5 played, at most ") and ", 1 to come" in summary
    assert "failed" not in summary


HAPPENED = {
    "s1-s3": "down",
    "delay": 2_000_000_000,  # 2 us at time scale 1000
    "reorder": (1 << 31, 10_000_000),
    "jitter": (20_000_000, 20_000_000),
}


def events_of_s1(up: Up) -> dict[str, object]:
    """Return what s1 has received of them."""
    s1 = up.ports("s1")
    link, host = s1[2]["link"], s1[1]["link"]
    return {
        "s1-s3": s1[3]["state"],
        "delay": link["tx_delay_ps"],
        "reorder": (link["send"]["reorder"], link["send"]["reorder_ps"]),
        "jitter": (host["send"]["jitter_ps"], host["receive"]["jitter_ps"]),
    }


def test_switches_were_told(up: Up) -> None:
    assert events_of_s1(up) == HAPPENED
    assert up.ports("s1")[2]["wire"]["send"]["reordered"] > 0
    assert up.ports("s3")[1]["state"] == "down"
    s2 = up.ports("s2")
    assert not any(s2[2]["link"]["send"].values())  # only towards s2
    assert s2[2]["link"]["tx_delay_ps"] == 500_000_000
    assert s2[3]["link"]["rate_bps"] == 100_000_000  # cleared


def test_a_switch_that_comes_back_is_told_again(up: Up) -> None:
    record = run_state.read_record(next((run_state.run_root()).glob("w*")))
    assert record is not None
    (old,) = [process for process in record.processes if process.role == "switch s1"]
    os.kill(old.pid, signal.SIGKILL)

    def is_told() -> bool:
        try:
            return events_of_s1(up) == HAPPENED
        except DiagnosticsError:
            return False

    until("s1 to end", lambda: not old.is_alive())
    until("s1 to be back and told", is_told)
