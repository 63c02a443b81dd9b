"""The lab dual-plane: its variants, what fails in each, and what it reckons."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.api import Runtime
from experiments.lab_code import Hooks
from experiments.loader import load

ROOT = Path(__file__).parents[2]
LAB = load("dual-plane")
RUN = (sys.executable, "-m", "weft.cli", "lab", "run", "dual-plane")


def test_it_has_all_its_variants() -> None:  # test_lab_file.py reads each
    assert len(LAB.variants(Runtime.SIMULATOR)) == 4 * 11 - 3 * 7 + 2
    assert len(LAB.variants(Runtime.SOFTSWITCH)) == 5


@pytest.mark.parametrize("failure", ["none", "link", "silent", "restored", "allreduce"])
def test_what_fails_in_real_time_is_there(failure: str) -> None:
    measure = Hooks.of(LAB.folder).get("measure_live")
    assert measure is not None
    real = sys.modules[measure.__module__]
    (planned,) = (
        each for each in LAB.variants(Runtime.SOFTSWITCH) if each.variant.labels["real"] == failure
    )
    own = {"variant": planned.variant, "mapping": planned.mapping, "folder": LAB.folder}
    seen = set()
    for seed in range(1, 13):
        context = SimpleNamespace(**own, settings=LAB.entry.settings, seed=seed)
        run = real.run_file(context)
        assert [event.do.value for event in run.topology.events] == {
            "none": [], "link": ["down"], "silent": ["set"],
        }.get(failure, ["down", "up"])  # fmt: skip
        seen |= {(event.at_ps, event.links) for event in run.topology.events}
        for event in run.topology.events:
            (link,) = (run.topology.links[number] for number in event.links)
            assert not all(run.topology.is_switch(end.node) for end in (link.a, link.b))
    assert (len(seen) > 3) == (failure != "none")  # the seed draws them


@pytest.mark.parametrize(
    ("failure", "found"),
    [
        ("none", []),
        ("link", [{"at": "500000ns", "link": "h6:1-s4:2", "do": "down"}]),
        ("silent", [{"at": "500000ns", "link": "h6:1-s4:2", "loss": "100%"}]),
        ("there", [{"at": "500000ns", "link": "h6:1-s4:2", "loss": "100%", "towards": "s4"}]),
        ("back", [{"at": "500000ns", "link": "h6:1-s4:2", "loss": "100%", "towards": "h6"}]),
        ("lossy", [{"at": "500000ns", "link": "h6:1-s4:2", "loss": "10%"}]),
        (
            "slow",
            [{"at": "500000ns", "link": "h6:1-s4:2", "rate": "20Gbps", "towards": "h6"}],
        ),
        ("leaf", [{"at": "500000ns", "switch": "s4", "do": "kill"}]),
        ("spine", [{"at": "500000ns", "switch": "s7", "do": "kill"}]),
        (
            "restored",
            [
                {"at": "500000ns", "link": "h6:1-s4:2", "do": "down"},
                {"at": "1500000ns", "link": "h6:1-s4:2", "do": "up"},
            ],
        ),
    ],
)
def test_what_fails(failure: str, found: list[dict[str, str]]) -> None:
    """h6 is the second host of the second leaf: s2 in plane A, s4 in plane B."""
    measure = Hooks.of(LAB.folder).get("measure_simulator")
    assert measure is not None
    cut = sys.modules[measure.__module__].Cut(plane=1, host=6, at_us=500.0, back_us=1500.0)
    assert list(cut.events(failure)) == found
    assert cut.switches == ["s3", "s4", "s7", "s8"]


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RUN, "--quick", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.long
def test_real_time_agrees_with_the_simulator(tmp_path: Path) -> None:
    real = ("--runtime", "softswitch", "--quick", "--seeds", "1")
    done = subprocess.run(
        [*RUN, *real, "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
