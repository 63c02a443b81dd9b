"""The lab data-centres-train: ranks in their places, the job's overlap, what distance adds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import results
from experiments.api import Runtime
from experiments.lab_code import Hooks
from experiments.loader import load
from topologies.oversubscription import long_hauls
from workloads.plan import plan

LAB = load("data-centres-train")
RUN = (sys.executable, "-m", "weft.cli", "lab", "run", "data-centres-train")
CONTROLS = 5


def runs_of_lab() -> Any:
    measure = Hooks.of(LAB.folder).get("measure_simulator")
    assert measure is not None
    return sys.modules[measure.__module__]


def variant(name: str) -> Any:
    (found,) = [each for each in LAB.variants(Runtime.SIMULATOR) if each.variant.name == name]
    return found


def test_every_variant_is_a_run_file() -> None:
    LAB.check()
    alone, copy, one_bucket = 7 * CONTROLS, 4 * CONTROLS, 3 * (CONTROLS - 1)
    assert len(LAB.variants(Runtime.SIMULATOR)) == alone + copy + one_bucket


@pytest.mark.parametrize("place", ["one", "100km", "three-in-one", "three-300km"])
def test_places_differ_in_the_long_links_length_alone(place: str) -> None:
    one = variant("alone-three-in-one-none" if "three" in place else "alone-one-none")
    here, there = (
        each.run_file(LAB.folder).topology for each in (one, variant(f"alone-{place}-none"))
    )
    long = [link for link in there.links if link.delay_ps > 500_000 or not link.delay_ps]
    assert len(long) == (3 if "three" in place else 1)
    for ours, theirs in zip(here.links, there.links, strict=True):
        assert (ours.rate_bps, ours.queue_bytes) == (theirs.rate_bps, theirs.queue_bytes)
        assert ours.delay_ps == (0 if theirs in long else theirs.delay_ps)


def test_the_job_s_hosts_could_send_eight_times_what_a_long_link_carries() -> None:
    for name, ranks in (("alone-one-none", 16), ("alone-three-in-one-none", 8)):
        topology = variant(name).run_file(LAB.folder).topology
        (rate,) = {link.rate_bps for link in topology.links if not link.delay_ps}
        assert ranks * topology.link_at("h1").rate_bps == 8 * rate
        assert all(haul.out_bps % rate == 0 for haul in long_hauls(topology))


def test_ranks_stay_in_their_place_and_are_shuffled_there() -> None:
    runs = runs_of_lab()
    topology = variant("alone-100km-none").run_file(LAB.folder).topology
    near, far = runs.places(topology, 16)
    assert (len(near[0]), len(near[1]), len(far[0]), len(far[1])) == (16, 4, 16, 4)
    assert near[1] == ["h9", "h10", "h19", "h20"]
    assert {topology.host(name).group for name in near[0] + near[1]} == {"dc 1"}
    assert {topology.host(name).group for name in far[0] + far[1]} == {"dc 2"}


def test_overlap_is_what_has_computing_behind_it() -> None:
    runs = runs_of_lab()
    assert runs.overlap(variant("alone-one-none").mapping) == pytest.approx(5 / 6)
    assert runs.overlap(variant("one-bucket-one-none").mapping) == 0


def test_the_longest_computing_is_that_of_one_rank() -> None:
    run = variant("alone-one-none").run_file(LAB.folder)
    rows = plan(run, 1).messages.messages
    gaps = rows["gap_ps"][rows["gap_ps"] > 0].reshape(-1, 32).sum(axis=0)
    assert runs_of_lab().computed_ps(plan(run, 1), 32) == gaps.max()
    assert 252 * 10**9 < gaps.min() < gaps.max() <= 252 * 10**9 * 101 // 100


@pytest.mark.long
def test_300_km_add_their_latency_once_and_little_more(tmp_path: Path) -> None:
    variants = [f"--variant=alone-{place}-fast-cnp" for place in ("one", "300km")]
    command = [*RUN, *variants, "--seeds=1", "--workers=1", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = results.read(tmp_path / "out")
    metrics = {each.name: each.metrics for each in found.variants}
    one, apart = metrics["alone-one-fast-cnp"], metrics["alone-300km-fast-cnp"]

    def of(metric: str) -> tuple[float, float]:
        values = one[metric].values[0], apart[metric].values[0]
        assert values[0] is not None and values[1] is not None
        return values[0], values[1]

    bounds, steps = of("bound"), of("step")
    assert bounds[1] - bounds[0] == pytest.approx(1.5)
    assert 0 < steps[0] - bounds[0] < 0.5 and 0 < steps[1] - bounds[1] < 0.5
    assert steps[1] / steps[0] < 1.02
    assert of("sent again") == (0, 0)
