"""`weft train` on real fabrics: four ranks in their hosts' namespaces, switches that add, and die.

      s3    s4         roots of the job's trees; s3 dies
      | \\  / |
      s1    s2         leaves; every link loses 1 %
     /  \\  /  \
    h1  h2 h3  h4      ranks
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from emulation import run_state

pytestmark = [
    pytest.mark.root,
    pytest.mark.reference(module="torch", names="make setup-torch installs PyTorch"),
]

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
DEADLINE_S = 400.0
STEPS = 8


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Keep records and logs of runs below the test's own directory."""
    return {
        **os.environ,
        run_state.RUN_ROOT_VARIABLE: str(tmp_path / "run"),
        run_state.LOG_ROOT_VARIABLE: str(tmp_path / "log"),
    }


def start(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "weft.cli", *words],
        cwd=REPOSITORY, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def train(environment: dict[str, str], *words: str) -> dict[str, Any]:
    """Return the result of a job that goes well."""
    process = start(environment, "train", *words, "--steps", str(STEPS), "--json")
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out + err
    found: dict[str, Any] = json.loads(out)
    assert len(found["steps"]) == STEPS
    assert [each["host"] for each in found["ranks"]] == ["h1", "h2", "h3", "h4"]
    assert {each["sha256"] for each in found["ranks"]} == {found["sha256"]}
    return found


def test_a_spine_dies_every_link_loses_and_the_weights_are_those_of_the_quiet_ring(
    environment: dict[str, str],
) -> None:
    faulty = train(environment, "training", "--loss", "1%", "--fault", "at step 3: kill s3")
    assert {each["what"] for each in faulty["events"]} == {
        "loss of 1% on all 8 links, both directions",
        "s3: killed",
    }
    calls = [each["calls"] for each in faulty["ranks"]]
    assert all(each["by_tree"] > 0 for each in calls)
    assert sum(each["tree"]["repeated"] for each in calls) > 0
    assert all(each["tree"]["blocks taken"] > 0 for each in calls)  # of DDP's first broadcast
    quiet = train(environment, "training", "--transport", "ring")
    assert {each["calls"]["by_tree"] for each in quiet["ranks"]} == {0}
    assert faulty["sha256"] == quiet["sha256"]
    cards = train(environment, "training", "--transport", "rdma", "--loss", "1%")
    counted = [each["calls"]["ring"] for each in cards["ranks"]]
    assert all(each["sent_packets"] > 0 for each in counted)
    assert sum(each["repeated_packets"] for each in counted) > 0
    assert cards["sha256"] == quiet["sha256"]


def test_jobs_follow_one_another_in_the_fabric_that_is_up(environment: dict[str, str]) -> None:
    """Each start of the job begins at epochs of its own; a killed switch can be revived."""
    runner = start(environment, "run-topo", "training", "--cli", "--json", "--seconds", "1")
    try:
        assert runner.stdout is not None
        line = runner.stdout.readline()
        assert line, runner.communicate()[1]
        control = Path(environment[run_state.RUN_ROOT_VARIABLE], json.loads(line)["run"], "control")
        deadline = time.monotonic() + DEADLINE_S
        while not control.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        first = train(environment)
        second = train(environment, "--fault", "at step 2: kill s4 for 1s")
        assert first["sha256"] == second["sha256"]
        assert [each["what"] for each in second["events"]] == ["s4: killed", "s4: revived"]
    finally:
        runner.send_signal(signal.SIGTERM)
        runner.communicate(timeout=DEADLINE_S)
