"""`weft train --interfaces all --failover`: what is refused, each rank's card, what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from emulation.link_state import NoSuchLinkError
from experiments.training import faults
from experiments.training.fabric import Fabric
from experiments.training.job import RankJob, Transport
from experiments.training.planes import PlaneOfRank, in_words, planes_of
from experiments.training.run import RankSeen, Request, Seen, jobs_of, ranks_of
from experiments.ways import Ways
from hostagent.collective.rdma import Line
from hostagent.rnic.planes import (
    NO_PLANES,
    PlaneConfig,
    PlaneLoss,
    PlaneState,
    PlaneStats,
    PlaneUse,
)
from observe.errors import UsageError
from topologies.model import Topology
from weft import cli, torch_setup, train
from weft.perf import parse
from workloads.transport import transport_for
from workloads.transport_schema import transport_entry

SCALE = 300
MS = 10**9
PLANES = topologies.load("dualplane").with_time_scale(SCALE)
BY_PLANES = Ways("all", failover=True)


@pytest.fixture(autouse=True)
def has_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that torch is there: what is checked here is checked before torch is needed."""
    monkeypatch.setattr(torch_setup, "is_ready", lambda: True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dualplane --transport ring --interfaces all", "--interfaces is about queue pairs, which "
         "only --transport rdma has"),
        ("dualplane --transport gloo --failover", "--failover is about queue pairs"),
        ("dualplane --interfaces all", "--interfaces is about queue pairs"),
        ("training --reorder 1us", "--reorder is about queue pairs"),
        ("dualplane --transport rdma --failover", "--failover is of queue pairs over all "
         "interfaces: --interfaces all"),
        ("dualplane --transport rdma --reorder soon", "--reorder soon:"),
        ("training --transport rdma --interfaces all", "the hosts of training have one interface"),
        ("training --transport rdma --interfaces all --failover", "h1 has one interface, and "
         "'failover' needs two planes at least"),
        ("dualplane --transport rdma --interfaces two", "'two' is not one of"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_once(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", *words.split()]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("error") == 1


def last_host(interfaces: str) -> Topology:
    """Return the planes, but of the last host's interfaces: they change places, or one is
    missing.
    """
    *others, last = PLANES.hosts
    one, two = last.interfaces
    kept = {
        "crossed": (replace(one, switch=two.switch), replace(two, switch=one.switch)),
        "one": (one,),
    }
    return replace(PLANES, hosts=(*others, replace(last, interfaces=kept[interfaces])))


@pytest.mark.parametrize(
    ("topology", "ways", "said"),
    [
        (last_host("crossed"), BY_PLANES, "--interfaces all: no links join h4:0 and h1:0"),
        (last_host("one"), Ways("all"), "--interfaces all: h4 has 1 interface and h1 has 2"),
        (last_host("one"), BY_PLANES, "h4 has one interface, and 'failover' needs two planes"),
        (
            replace(PLANES, stock_nics=frozenset({"h2"})),
            BY_PLANES,
            "--failover: h2 has a stock NIC",
        ),
    ],
)
def test_planes_that_do_not_meet_are_refused(topology: Topology, ways: Ways, said: str) -> None:
    hosts = ("h1", "h2", "h3", "h4")
    with pytest.raises(UsageError, match=said):
        ranks_of(Request(Transport.RDMA, hosts=hosts, ways=ways), topology)


def test_only_hosts_of_ranks_have_to_meet() -> None:
    request = Request(Transport.RDMA, hosts=("h1", "h3"), ways=BY_PLANES)
    assert ranks_of(request, last_host("one")) == ("h1", "h3")


def jobs(ways: Ways, folder: Path, topology: Topology = PLANES) -> list[RankJob]:
    fabric = Fabric("w1", topology, "softswitch", {}, folder)
    return list(jobs_of(Request(Transport.RDMA, ways=ways), fabric))


def test_a_rank_has_both_planes_as_perf_has_them(tmp_path: Path) -> None:
    job = jobs(BY_PLANES, tmp_path)[1]
    card = job.card
    assert card is not None
    second = PLANES.host("h2").interfaces[1]
    assert card.also == (Line("h2-eth1", str(second.address.ip), str(second.gateway)),)
    # 50 us of silence, a probe each millisecond, a hold-down of 10 ms: 300 times as long here
    assert card.planes == PlaneConfig(PlaneUse.SHARED, 3, silence_ps=15 * MS, probe_ps=300 * MS)
    assert card.control is not None and card.control.keys() == {"dual_plane"}
    assert card.control["dual_plane"]["hold_ns"] == 3_000_000_000
    for line in (card.line_rate_bps, card.control["dual_plane"]["line_rate"]):
        assert line == pytest.approx(200e9 / SCALE)
    assert card.timeout_us == 200_000
    asked = "--bw --interfaces all --failover --retransmission selective-repeat --congestion none"
    perf = parse(["write", "h1", "h2", *asked.split()])
    entry = transport_entry().model_validate(
        {"retransmission": perf.retransmission, **perf.transport()}
    )
    as_perf = transport_for(entry, 400_000_000_000, interfaces=2)
    assert card.planes == as_perf.planes.with_time_scale(SCALE)
    assert card.control == as_perf.fields(SCALE)


def test_a_time_out_does_not_come_before_silence(tmp_path: Path) -> None:
    for scale in (1, 300, 10_000):
        card = jobs(BY_PLANES, tmp_path, PLANES.with_time_scale(scale))[0].card
        assert card is not None
        assert card.timeout_us * 10**6 > (card.planes.misses + 1) * card.planes.silence_ps


def test_without_failover_the_interfaces_are_lines(tmp_path: Path) -> None:
    card = jobs(Ways("all", reorder="10us"), tmp_path)[0].card
    assert card is not None
    assert [each.interface for each in card.also] == ["h1-eth1"]
    assert (card.planes, card.control, card.reorder_us) == (NO_PLANES, None, 3000)
    assert jobs(Ways(), tmp_path)[0].card == replace(card, also=(), reorder_us=0)


def test_what_a_rank_is_told_survives_the_pipe(tmp_path: Path) -> None:
    for job in jobs(BY_PLANES, tmp_path):
        again = RankJob.of(json.loads(job.line()))
        assert again == job
        rdma = again.rdma()
        assert rdma is not None and job.card is not None
        assert [each.interface for each in rdma.lines] == [f"{job.host}-eth0", f"{job.host}-eth1"]
        assert rdma.planes is again.card.planes  # type: ignore[union-attr]
        assert rdma.planes.use is PlaneUse.SHARED


def test_faults_take_ports() -> None:
    found = faults.fault("at step 15: down h1:1 s3 for 1s", PLANES)
    assert found.words == ("down", "h1:1", "s3")
    assert found.undone == ("up", "h1:1", "s3")
    with pytest.raises(NoSuchLinkError, match="no link between h1:0 and s3"):
        faults.fault("at step 15: down h1:0 s3", PLANES)


# --- what is said -------------------------------------------------------------------------------

UP = PlaneStats(
    PlaneState.UP,
    PlaneLoss.NONE,
    0,
    500,
    10**6,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    heard_at=5,
    lost_at=-1,
    up_at=-1,
)
LOST = replace(UP, state=PlaneState.LOST, why=PlaneLoss.LINK, losses=1, moved_packets=7)
BEGAN_NS = [1_000, 2_000, 3_000, 4_000]


def seen(*planes: PlaneStats) -> tuple[PlaneOfRank, ...]:
    rows = [json.loads(json.dumps(each.row(lambda at_ps: at_ps // 1000))) for each in planes]
    return planes_of(rows, BEGAN_NS, 10)


def test_a_plane_is_lost_and_back_in_steps_and_in_the_fabrics_time() -> None:
    whole, back = seen(UP, replace(LOST, lost_at=2_400_000, up_at=4_100_000))
    assert whole == PlaneOfRank(None, 0, None, None, 500, 0, None, None)
    assert back == PlaneOfRank("link", 1, 140_000, 310_000, 500, 7, lost_step=1, up_step=3)
    assert in_words((whole, back)) == "1 lost in step 1 (link), back in 3"


def test_what_was_lost_again_is_not_back() -> None:
    (again,) = seen(replace(LOST, why=PlaneLoss.TIMEOUT, losses=2, lost_at=3_000_000, up_at=10**6))
    assert (again.lost_step, again.up_ps, again.up_step) == (2, None, None)
    assert in_words((again,)) == "0 lost 2 times, last in step 2 (time-out), not back"


def test_before_the_first_step_is_in_it() -> None:
    (early,) = seen(replace(LOST, lost_at=500_000))
    assert (early.lost_step, early.lost_ps) == (0, -50_000)


def test_planes_are_in_the_table_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    calls = {"by_tree": 0, "by_ring": 9, "tree": {}, "ring": {"repeated_packets": 3}}
    planes = (seen(UP, replace(LOST, lost_at=2_400_000)), seen(UP, UP))
    ranks = [RankSeen(n, f"h{n + 1}", "ab" * 32, 0.5, calls, planes[n]) for n in range(2)]
    done = Seen(ranks=ranks)
    fabric = Fabric("w1", PLANES, "softswitch", {}, tmp_path)
    request = Request(Transport.RDMA, ways=BY_PLANES)
    train.show(request, fabric, done)
    told = capsys.readouterr().out
    assert "1 lost in step 1 (link), not back" in told
    assert "all 2 up" in told
    found = json.loads(json.dumps(train.in_json(request, fabric, done)))
    assert (found["interfaces"], found["failover"]) == ("all", True)
    assert found["ranks"][0]["planes"][1] == {
        "why": "link", "losses": 1, "lost_ps": 140_000, "up_ps": None, "sent_packets": 500,
        "moved_packets": 7, "lost_step": 1, "up_step": None,
    }  # fmt: skip
    by_one = train.in_json(Request(Transport.RDMA), fabric, done)
    assert (by_one["interfaces"], by_one["failover"]) == ("one", False)
