"""A run file in slow motion: everything that has a time or a rate, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.errors import LabError
from experiments.slow_motion import slowed
from workloads.loader import read_run
from workloads.model import RunFile

HEAD = "topology: {generator: single, hosts: 3, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}\n"
US = 10**6


def read(text: str) -> RunFile:
    return read_run(HEAD + text, directory=Path())


def test_the_runs_own_times() -> None:
    message = "traffic: [{message: {from: h1, to: h2, bytes: 1MB}}]\n"
    run = slowed(read(f"until: 5us\nsample: 1us\n{message}"), 100)
    assert (run.until_ps, run.sample_ps) == (500 * US, 100 * US)
    assert slowed(read(message), 100).until_ps is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("cbr: {from: h1, to: h2, rate: 10Gbps, start: 1us, stop: 2us}",
         {"rate": 10**8, "start_": 100 * US, "stop": 200 * US, "packets": None}),
        ("poisson: {from: h1, to: h2, rate: 10Gbps, packets: 7}",
         {"rate": 10**8, "start_": 0, "stop": None, "packets": 7}),
        ("incast: {to: h1, senders: 2, bytes: 64kB, rounds: 3, every: 4us}",
         {"bytes": 64000, "rounds": 3, "every": 400 * US, "rate": None}),
        ("message: {from: h1, to: h2, bytes: 1MB, count: 2, gap: 3us, rate: 1Gbps}",
         {"bytes": 10**6, "count": 2, "gap": 300 * US, "rate": 10**7}),
    ],
)  # fmt: skip
def test_traffic(entry: str, expected: dict[str, int | None]) -> None:
    (slow,) = slowed(read(f"until: 9us\ntraffic: [{{{entry}}}]\n"), 100).traffic
    given = getattr(slow, slow.kind)
    for name, value in expected.items():
        assert getattr(given, name.rstrip("_")) == value, name


def test_scripts_and_that_the_file_itself_stays() -> None:
    run = read("until: 9us\ntraffic: [{script: [{at: 2us, from: h1, to: h2, bytes: 100B}]}]\n")
    assert run.traffic[0].script is not None
    slow = slowed(run, 100).traffic[0].script
    assert slow is not None
    assert (slow[0].at, slow[0].bytes) == (200 * US, 100)
    assert run.traffic[0].script[0].at == 2 * US
    assert slowed(run, 1) is run


def test_jobs_compute_in_fabric_time() -> None:
    job = "job: {ranks: 2, dp: 2, phases: [{allreduce: {bytes: 1MB, over: dp}}]}\n"
    with pytest.raises(LabError, match="jobs can't be slowed down"):
        slowed(read(job), 100)
