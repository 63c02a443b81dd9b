"""Ports that lose their carrier: links are dead at once, and a host's senders hear that it is gone.

h1, h2 -- s1 -- s3 -- s2 -- h3, h4      two spines, s3 and s4
            `--- s4 ---'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hostagent.notifications import Heard
from mechanisms import registry
from mechanisms.dpfr.mechanism import port_state
from protocols.notification_types import NotificationType
from simulator.runner import Simulation
from softswitch.core import CoreError, SwitchCore
from tests.mechanisms.dpfr import cuts
from tests.mechanisms.dpfr.test_losses import flows, text_of
from topologies.tickers import TICKER_PORT
from workloads.loader import read_run

CUT_US = 300
HEARTBEATS_US = 3 * 8.4
GAP_US = 4174 * 8 / 20_000
"""From a packet of such a flow to the next: 20 Gb/s."""


class Ran:
    """A run that is over: lost packets by flow, counts, and what hosts have heard."""

    def __init__(
        self,
        events: Sequence[str],
        traffic: str,
        *,
        dpfr: str = "true",
        until_us: int = 1500,
        controller: str = "1s",
    ) -> None:
        text = text_of(", ".join(events), until_us, dpfr, traffic, "")
        text += f"\ncontroller: {{delay: {controller}}}\n"
        run = read_run(text)
        self.simulation = Simulation(run, cuts.program(registry.defines(run.topology)), seed=1)
        self.end: Any = self.simulation.run().end
        sent = self.end.flow_stats["sent_packets"].astype(np.int64)
        self.lost = (sent - self.end.flow_stats["received_packets"].astype(np.int64)).tolist()
        self.counts = dict(self.end.counters["dpfr"])

    def heard(self, host: str) -> list[Heard]:
        return self.simulation.engine.notifications(self.simulation.fabric.nodes[host], 0)

    def address(self, host: str) -> int:
        return int(self.simulation.file.topology.host(host).interfaces[0].address.ip)


def cut(what: str, lasts: str = "") -> list[str]:
    more = f", lasts: {lasts}" if lasts else ""
    return [f"{{at: {CUT_US}us, {what}, do: down{more}}}"]


@pytest.mark.parametrize("link", ["s1-s3", "s2-s3"])
def test_a_link_without_carrier_is_dead_at_once(link: str) -> None:
    """Beside s1, and behind s3, which has no other way and says so: a few microseconds."""
    found = Ran(cut(f"link: {link}"), flows("20Gbps", size="2MB"))
    assert found.counts["lost_carrier"] == found.counts["went_down"] == 2
    assert 0 < max(found.lost) * GAP_US < 5


def test_without_it_heartbeats_find_out() -> None:
    found = Ran(cut("link: s2-s3"), flows("20Gbps", size="2MB"), dpfr="{carrier: false}")
    assert found.counts["lost_carrier"] == 0
    assert found.counts["went_down"] == 2
    assert max(found.lost) * GAP_US > HEARTBEATS_US


def test_a_link_that_has_its_carrier_back_is_held_down_and_used_again() -> None:
    short = Ran(cut("link: s2-s3", "12us"), flows("20Gbps", size="2MB"), until_us=CUT_US + 100)
    long = Ran(cut("link: s2-s3", "12us"), flows("20Gbps", size="2MB"), until_us=CUT_US + 500)
    assert (short.counts["went_down"], short.counts["came_up"]) == (2, 0)
    assert (long.counts["went_down"], long.counts["came_up"]) == (2, 2)


def test_senders_hear_that_a_host_lost_its_port() -> None:
    """Each of three, behind the same leaf and another."""
    traffic = flows("20Gbps", of=("h1", "h2", "h4"), count=2, size="2MB")
    found = Ran(cut("link: s2-h3"), traffic, until_us=CUT_US + 400)
    port = found.simulation.file.topology.host("h3").interfaces[0]
    assert found.counts["lost_carrier"] == 1
    assert found.counts["went_down"] == found.counts["masked"] == 0
    assert found.counts["unplugged"] > 100
    assert found.heard("h3") == []
    for host in ("h1", "h2", "h4"):
        (heard,) = found.heard(host)
        assert heard.kind is NotificationType.LINK_DOWN
        assert (heard.destination, heard.switch_id) == (found.address("h3"), 2)
        assert (heard.severity, heard.destination_qp, heard.hops) == (15, 0, 0)
        assert heard.times == 3  # copies, a round after another
        assert port.switch == "s2"


def test_the_first_news_comes_after_a_gap_and_the_way_back() -> None:
    """The next packet is on its way already; back from the leaf there are three links of 500 ns."""
    found = Ran(
        cut("link: s2-h3"),
        flows("20Gbps", of=("h1", "h2", "h4"), count=2, size="2MB"),
        until_us=CUT_US + 4,
    )
    for host in ("h1", "h2", "h4"):
        (heard,) = found.heard(host)
        assert CUT_US * 1000 < heard.at_ns < (CUT_US + 4) * 1000


def test_they_hear_it_again_while_they_go_on() -> None:
    """Copies at once, then once in each refresh of 56 periods: 470 us."""
    long = flows("20Gbps", count=2, size="5MB")
    found = Ran(cut("link: s2-h3"), long, dpfr="{refresh: 64}", until_us=CUT_US + 1300)
    (heard,) = found.heard("h1")
    assert heard.times == 3 + 2


def test_a_host_whose_port_is_back_is_served_again() -> None:
    late = flows("20Gbps", at_us=CUT_US + 200, size="500kB")
    found = Ran(cut("link: s2-h3", "100us"), flows("20Gbps", size="1MB") + "\n" + late)
    assert sum(found.lost[:16]) > 0
    assert sum(found.lost[16:]) == 0


@pytest.mark.parametrize("wrong", ["1", "maybe"])
def test_carrier_is_true_or_false(wrong: str) -> None:
    with pytest.raises(Exception, match="carrier"):
        read_run(text_of("", 1, f"{{carrier: {wrong}}}", flows(count=1), ""))


def test_a_switch_that_is_killed_hears_nothing_of_its_ports() -> None:
    event = f"{{at: {CUT_US}us, switch: s3, do: kill, lasts: 400us}}"
    found = Ran([event], flows("20Gbps", size="2MB"))
    assert found.counts["lost_carrier"] == 2
    assert found.counts["went_down"] == 2


def test_a_switch_that_returns_learns_which_ports_are_without_carrier() -> None:
    """h3 loses its port, then s2 is started anew: the senders to h3 are notified by the new one."""
    events = [*cut("link: s2-h3"), "{at: 400us, switch: s2, do: kill, lasts: 100us}"]
    traffic = flows("20Gbps", of=("h1",), count=4, size="4MB")
    found = Ran(events, traffic, until_us=1500, controller="10us")
    (heard,) = found.heard("h1")
    assert heard.at_ns > 510_000
    assert heard.destination == found.address("h3")
    assert found.counts["unplugged"] > 100


def test_a_link_without_carrier_when_its_switch_returns_is_used_again_later() -> None:
    """s1 returns while its link to s3 is down: it is no host's port, and is used again later."""
    events = [
        "{at: 200us, link: s1-s3, do: down, lasts: 800us}",
        "{at: 300us, switch: s1, do: kill, lasts: 100us}",
    ]
    found = Ran(events, flows("20Gbps", count=8, size="4MB"), until_us=2200, controller="10us")
    assert found.counts["unplugged"] == 0
    assert found.heard("h1") == found.heard("h3") == []
    assert found.counts["went_down"] == found.counts["came_up"] > 0


@pytest.mark.parametrize(("port", "believed"), [(1, 0), (2, 0), (3, 0), (TICKER_PORT, 1)])
def test_nobody_but_the_target_says_how_a_port_is(port: int, believed: int) -> None:
    """The same bytes by ports of s2 to hosts and to s3 do nothing."""
    run = read_run(text_of("", 1, "true", flows(count=1), ""))
    simulation = Simulation(run, cuts.program(registry.defines(run.topology)), seed=1)
    said = port_state()[:-4] + bytes([0, 1, 0, 0])
    simulation.fabric.switches["s2"].device.core.inject(port, said)
    end: Any = simulation.run().end
    assert end.counters["dpfr"]["lost_carrier"] == believed


@pytest.mark.parametrize(("port", "length"), [(1 << 16, 58), (TICKER_PORT, 3), (TICKER_PORT, 129)])
def test_a_core_refuses_reports_that_it_can_not_write(port: int, length: int) -> None:
    with pytest.raises(CoreError, match="reports of ports"):
        SwitchCore().report_ports(port, bytes(length))
