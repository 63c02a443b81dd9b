"""Links that lose some packets are found by heartbeats' counts, and avoided by who sends into them.

h1, h2 -- s1 -- s3 -- s2 -- h3, h4      two spines, s3 and s4; flows of h1 use both links of s1 to
            `--- s4 ---'                them, each with 10 % of its rate or more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mechanisms import registry
from mechanisms.dpfr.settings import LOSSES, WEIGHT
from simulator.runner import Simulation
from tests.mechanisms.dpfr import cuts
from workloads.loader import read_run

FROM_US = 300
SEEN_US = FROM_US + 2000
RUN = """\
topology:
  {shape}
  link: {link}
  classes: {{cnp: {{dscp: 48, queue: 6}}, roce: {{dscp: 26, queue: 3{roce}}}}}
  dpfr: {dpfr}
until: {until}us
events: [{events}]
{more}
traffic:
{traffic}
"""
TWO_SPINES = "generator: leaf_spine\n  leaves: 2\n  spines: 2\n  hosts_per_leaf: 2"
LINK = "{rate: 400Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}"


@dataclass(frozen=True)
class Ran:
    """Counts of all switches, lost packets by flow, drops of full queues, flows that failed."""

    counts: dict[str, int]
    lost: tuple[int, ...]
    full: int
    failed: int


def flows(
    rate: str = "5Gbps",
    of: Sequence[str] = ("h1",),
    count: int = 16,
    size: str = "1200kB",
    at_us: int = 0,
    to: str = "h3",
) -> str:
    """Return so many flows of each host; 16 of 5 Gb/s are 10 % of each of two links."""
    return "\n".join(
        f"  - message: {{from: {host}, to: {to}, bytes: {size}, payload: 4096B, rate: {rate}, "
        f"udp_port: {49152 + 7 * port}, start: {at_us}us}}"
        for host in of
        for port in range(count)
    )


def text_of(
    events: str, until_us: int, dpfr: str, traffic: str, more: str, shape: str = TWO_SPINES
) -> str:
    return RUN.format(
        shape=shape,
        link=LINK,
        dpfr=dpfr,
        until=until_us,
        events=events,
        more=more,
        traffic=traffic,
        roce=", lossless: true, ecn: hpcc-dcqcn" if more else "",
    )


def ran(
    events: str = "",
    *,
    until_us: int = 5000,
    dpfr: str = "true",
    traffic: str = "",
    more: str = "",
    shape: str = TWO_SPINES,
    seed: int = 1,
    out: Path | None = None,
) -> Ran:
    """Run it; flows end before `until_us`, so that what has not arrived is lost."""
    run = read_run(text_of(events, until_us, dpfr, traffic or flows(), more, shape))
    program = cuts.program(registry.defines(run.topology))
    outcome = Simulation(run, program, seed=seed).run(out)
    end = outcome.end
    lost = end.flow_stats["sent_packets"].astype(np.int64)
    lost -= end.flow_stats["received_packets"].astype(np.int64)
    full = sum(port["drop_queue"] for each in end.switches.values() for port in each.ports.values())
    failed = int(outcome.summary["transport"]["failed"]) if outcome.summary else 0
    return Ran(dict(end.counters["dpfr"]), tuple(lost.tolist()), full, failed)


@pytest.mark.parametrize("share", ["1%", "10%"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_loss_one_way_is_seen_within_2_ms_and_avoided(share: str, seed: int) -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, loss: {share}, towards: s3}}"
    late = flows(at_us=SEEN_US)
    found = ran(event, traffic=flows(size="2MB") + "\n" + late, seed=seed)
    assert found.counts["degraded"] == found.counts["lossy"] == 1
    assert sum(found.lost[:16]) > 0
    assert sum(found.lost[16:]) == 0


def test_loss_behind_the_only_way_is_avoided_from_further_away() -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, loss: 1%, towards: s1}}"
    back = flows(of=("h3",), to="h1", size="2MB")
    late = flows(of=("h3",), to="h1", at_us=SEEN_US)
    found = ran(event, traffic=back + "\n" + late)
    assert found.counts["degraded"] == 1
    assert sum(found.lost[16:]) == 0


def test_loss_is_not_avoided_where_it_does_not_matter() -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, loss: 1%, towards: s3}}"
    found = ran(event, dpfr="{loss: false}")
    assert found.counts["degraded"] == found.counts["lossy"] == found.counts["rerouted"] == 0
    assert found.counts["gaps"] > LOSSES
    assert sum(found.lost) > LOSSES


def test_loss_below_the_threshold_is_borne() -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, loss: 0.5%, towards: s3}}"
    found = ran(event, dpfr="{loss: 5%}")
    assert found.counts["gaps"] > 0
    assert found.counts["degraded"] == 0


def test_lossy_links_are_used_where_there_are_no_others() -> None:
    events = (
        f"{{at: {FROM_US}us, link: s1-s3, loss: 5%, towards: s3}}, "
        f"{{at: {FROM_US}us, link: s1-s4, loss: 5%, towards: s4}}"
    )
    found = ran(events)
    sent = 16 * -(-1_200_000 // 4096)
    assert found.counts["degraded"] == 2
    assert found.counts["no_way"] == 0
    assert 0 < sum(found.lost) < 0.1 * sent


def test_a_dead_link_is_worse_than_a_lossy_one() -> None:
    events = (
        f"{{at: {FROM_US}us, link: s1-s3, loss: 5%, towards: s3}}, "
        f"{{at: {SEEN_US}us, link: s1-s4, do: down}}"
    )
    found = ran(events, traffic=flows(at_us=SEEN_US + 200))
    assert found.counts["degraded"] == 1
    assert found.counts["went_down"] == 2
    assert found.counts["no_way"] == 0
    assert 0 < sum(found.lost) < 0.1 * 16 * 293


def test_a_link_that_is_good_again_is_used_again() -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, loss: 2%, towards: s3, lasts: 2ms}}"
    good = WEIGHT * LOSSES * 8.4 / 1000
    before = ran(event, until_us=int(1000 * (2 + 0.8 * good)))
    after = ran(event, until_us=int(1000 * (2.5 + 1.2 * good)))
    assert (before.counts["degraded"], before.counts["recovered"]) == (1, 0)
    assert (after.counts["degraded"], after.counts["recovered"]) == (1, 1)


def test_drops_of_full_queues_are_no_losses_of_links() -> None:
    """Two hosts' line rates into one port; both ways of the fabric carry what they can."""
    traffic = flows("60Gbps", of=("h1", "h2", "h4"), size="20MB")
    found = ran(traffic=traffic, until_us=3000)
    assert found.full > 1000
    assert {name: found.counts[name] for name in ("gaps", "lossy", "went_down")} == {
        "gaps": 0,
        "lossy": 0,
        "went_down": 0,
    }


@pytest.mark.parametrize(
    ("what", "lasts", "gaps", "dead"),
    [
        ("link: s1-s3, loss: 100%", "12us", True, False),
        ("link: s1-s3, do: down", "12us", False, True),
        ("link: s1-s3, do: down", "300us", False, True),
        ("switch: s3, do: down", "300us", False, True),
    ],
)
def test_an_interruption_is_no_lossy_link(what: str, lasts: str, gaps: bool, dead: bool) -> None:
    found = ran(f"{{at: {FROM_US}us, {what}, lasts: {lasts}}}", traffic=flows("20Gbps"))
    assert (found.counts["gaps"] > 0) == gaps
    assert (found.counts["went_down"] > 0) == dead
    assert found.counts["lossy"] == 0


@pytest.mark.parametrize("switch", ["s1", "s3"])
def test_a_switch_that_begins_anew_has_lost_nothing(switch: str) -> None:
    event = f"{{at: {FROM_US}us, switch: {switch}, do: kill, lasts: 3ms}}"
    found = ran(event, traffic=flows("20Gbps", size="9MB"))
    assert found.counts["went_down"] > 0
    assert found.counts["lossy"] == found.counts["gaps"] == 0


def test_what_is_overtaken_or_twice_is_not_lost() -> None:
    event = f"{{at: {FROM_US}us, link: s1-s3, reorder: {{share: 5%, by: 9us}}, duplicate: 1%}}"
    found = ran(event)
    assert found.counts["lossy"] == 0


def test_rdma_goes_on_over_a_lossy_link(tmp_path: Path) -> None:
    more = "transport: {}\nbuffer: {shared: 32MB, alpha: 1/2, headroom: formula}"
    traffic = "\n".join(
        f"  - incast: {{to: {to}, from: [h1, h2], persistent: true}}" for to in ("h3", "h4")
    )
    for share in ("1%", "100%"):
        event = f"{{at: {FROM_US}us, link: s1-s3, loss: {share}, towards: s3}}"
        found = ran(event, traffic=traffic, more=more, out=tmp_path / share[:-1], until_us=4000)
        assert found.failed == 0
        seen = "degraded" if share == "1%" else "went_down"
        assert found.counts[seen] > 0


@pytest.mark.parametrize("wrong", ["0", "60%", "0.001%", "true"])
def test_a_loss_that_means_nothing_is_refused(wrong: str) -> None:
    text = text_of("", 1, f"{{loss: {wrong}}}", flows(count=1), "")
    with pytest.raises(Exception, match="loss"):
        read_run(text)
