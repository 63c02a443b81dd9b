"""`weft train`: what is wrong with its arguments, the data it trains on, what it prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import topologies
from experiments.training import faults
from experiments.training.digits import CLASSES, SIDE, digits
from experiments.training.fabric import Fabric
from experiments.training.job import Card, RankJob, Training, Transport
from experiments.training.run import RankSeen, Request, Seen, find_job, jobs_of, ranks_of
from hostagent.collective.worker_settings import WorkerSettings
from observe.errors import UsageError
from weft import cli, torch_setup, train

FABRIC = topologies.load("training")


@pytest.fixture(autouse=True)
def has_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that torch is there: what is checked here is checked before torch is needed."""
    monkeypatch.setattr(torch_setup, "is_ready", lambda: True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["training", "--hosts", "h1,h9"], "no host 'h9' in training; available: h1, h2, h3, h4"),
        (["training", "--hosts", "h1,h3"], "job training has the workers h1, h2, h3, h4"),
        (["training", "--job", "other"], "no job 'other' of switches in training; available: "),
        (["leafspine"], "leafspine has no job whose sums switches make"),
        (["leafspine", "--transport", "ring", "--hosts", "h1,h1"], "host 'h1' is named twice"),
        (["leafspine", "--transport", "ring", "--hosts", "h1"], "at least 2 ranks"),
        (["leafspine", "--transport", "ring", "--ranks", "5"], "leafspine has 4 hosts"),
        (["leafspine", "--hosts", "h1,h2", "--ranks", "2"], "--hosts or --ranks, not both"),
        (["training", "--loss", "1.2"], "loss 1.2:"),
        (["training", "--fault", "kill s3"], "when does it happen?"),
        (
            ["training", "--fault", "at step 3: kill s9"],
            "no switch 's9'; available: s1, s2, s3, s4",
        ),
        (["training", "--fault", "3: paint s1"], "has to be one of kill SWITCH"),
        (["training", "--fault", "3: loss 1% for 2s"], "only kill and down can last for a time"),
        (["training", "--fault", "99: kill s3"], "the last of 40 steps is 39"),
        (["--time-scale", "10"], "--time-scale is for a TOPO"),
        (["training", "--steps", "0"], "0 is not in the range x>=1"),
        (["training", "--transport", "pigeon"], "'pigeon' is not one of"),
    ],
)
def test_wrong_arguments_are_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_link_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "training", "--fault", "3: down s1 s2"]) == 1
    assert "there is no link between s1 and s2" in capsys.readouterr().err


def test_missing_torch_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch_setup, "is_ready", lambda: False)
    assert cli.main(["train", "training"]) == 1
    said = capsys.readouterr().err
    assert "needs PyTorch 2.13.0, which is not installed" in said
    assert "make setup-torch" in said


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("at step 20: kill s3", "at step 20: kill s3"),
        ("5: down s1 s3 for 2.5s", "at step 5: down s1 s3 for 2.5 s"),
        ("step 0: loss 1%", "at step 0: loss 1%"),
        ("7: loss 0.5% h1 s1", "at step 7: loss 0.5% h1 s1"),
    ],
)
def test_faults_are_read(text: str, again: str) -> None:
    found = faults.fault(text, FABRIC)
    assert str(found) == again
    assert faults.fault(again, FABRIC) == found


def test_what_lasts_is_undone() -> None:
    assert faults.fault("1: kill s3 for 4s", FABRIC).undone == ("revive", "s3")
    assert faults.fault("1: down s1 s3 for 4s", FABRIC).undone == ("up", "s1", "s3")


def test_ranks_are_the_jobs_workers() -> None:
    jobs, name, hosts = find_job(FABRIC, None)
    assert (name, hosts) == ("training", ("h1", "h2", "h3", "h4"))
    assert ranks_of(Request(Transport.IN_NETWORK), FABRIC) == hosts
    assert ranks_of(Request(Transport.RING, hosts=("h4", "h1")), FABRIC) == ("h4", "h1")
    worker = jobs.worker(FABRIC, name, "h3", 2)
    assert (worker.rank, worker.ranks, worker.epoch) == (2, 4, 128)


def test_a_ranks_job_survives_the_pipe() -> None:
    import json  # for this alone

    worker = WorkerSettings(1, 0, 2, 64, 256, 32, 32, 8)
    job = RankJob(0, 2, "h1", "w1-h1", "h1-eth0", "10.0.1.1", "10.0.1.254", ("10.0.1.1", 29500),
                  Transport.IN_NETWORK, Training(steps=3), 32, worker,
                  Card("/pins", 10**8, 250_000))  # fmt: skip
    assert RankJob.of(json.loads(job.line())) == job


@pytest.mark.parametrize(
    ("runtime", "mtu", "rate_bps"),
    [("softswitch", 1500, 100_000_000), ("softswitch", 1067, 0), ("bmv2", 1068, 5_000_000)],
)
def test_blocks_are_sent_as_the_links_allow(
    runtime: str, mtu: int, rate_bps: int, tmp_path: Path
) -> None:
    links = tuple(replace(link, mtu_bytes=mtu) for link in FABRIC.links)
    fabric = Fabric("w1", replace(FABRIC, links=links), runtime, {}, tmp_path)
    jobs = jobs_of(Request(Transport.IN_NETWORK), fabric)
    assert {each.block_rate_bps for each in jobs} == {rate_bps}


def test_a_ring_over_rdma_has_the_hosts_cards(tmp_path: Path) -> None:
    fabric = Fabric("w1", FABRIC, "softswitch", {}, tmp_path)
    request = Request(Transport.RDMA, hosts=("h2", "h3"))
    first, second = jobs_of(request, fabric)
    assert (
        first.card == second.card == Card("", 100_000_000, 200_000)
    )  # 100 Gb/s, 1000 times slower
    assert (first.interface, first.worker, second.host) == ("h2-eth0", None, "h3")
    (tmp_path / "h3.rnic").touch()
    with pytest.raises(UsageError, match="h3 has an endpoint that others use"):
        list(jobs_of(request, fabric))


def test_digits_are_the_same_each_time_and_of_all_kinds() -> None:
    pictures, shown = digits(500, 3)
    again, _ = digits(500, 3)
    assert pictures.shape == (500, SIDE * SIDE)
    assert pictures.tobytes() == again.tobytes()
    assert sorted(Counter(shown.tolist())) == list(range(CLASSES))
    means = np.array([pictures[shown == digit].mean(axis=0) for digit in range(CLASSES)])
    nearest = ((pictures[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert 0.3 < (nearest == shown).mean() < 0.9  # they can be learnt, and not at a glance


def test_the_curve_falls_as_the_loss_does() -> None:
    assert train.curve([8, 7, 6, 5, 4, 3, 2, 1]) == "█▇▆▅▄▃▂▁"[0] * 2 + "▇▆▅▄▃▂"
    assert len(train.curve([1.0] * 1000)) == 60
    assert train.curve([]) == ""


def test_a_job_is_ok_only_with_equal_weights_on_all_ranks() -> None:
    seen = Seen(ranks=[RankSeen(rank, f"h{rank}", "ab", 0.5, None) for rank in range(2)])
    assert seen.ok
    seen.ranks[1] = RankSeen(1, "h1", "ac", 0.5, None)
    assert (seen.ok, seen.sha256) == (False, None)
    assert not Seen().ok
