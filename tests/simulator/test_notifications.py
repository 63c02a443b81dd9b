"""Notifications in datagrams in virtual time: from a module of one switch to the table of a host.

    h1, h2 -- s1 ---- s3, s4 ---- s2 -- h3, h4        the default fabric, 100 Gb/s, 1 us a link

s1 makes what h1's packets ask for, s3 relays it, and s2 lets its hosts have a copy
(tests/p4src/alarm.p4). Every time is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import topologies
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.p4info import P4Info
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from hostagent.notifications import HeardCounts
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from protocols.notification import Notification, NotificationType, datagram, rate_of
from simulator.core import EngineError, HostPort, ScriptFrame
from simulator.core.binding import Transport
from softswitch import Switch
from softswitch.core import CoreConfig, PortConfig
from tests.p4src import alarm_scenario as scenario
from tests.p4src.alarm_scenario import LINK_DOWN, alarm
from tests.simulator.conftest import DELAY, RATE, Net

US = 1_000_000
DOWN = NotificationType.LINK_DOWN
RELAYS = {"s1": ((3,), ()), "s3": ((), (1, 2)), "s4": ((), ()), "s2": ((3,), (1, 2, 3))}
"""By which ports a switch sends its own, and by which it relays others'."""
NOTHING = HeardCounts({}, 0, 0, 0)


@pytest.fixture(scope="module")
def program() -> tuple[bytes, Any]:
    json, p4info = scenario.compiled("weft")
    return json.encode(), p4info


class Fabric(Net):
    """The default fabric with the controller's entries and the alarm's."""

    def __init__(self, program: tuple[bytes, Any]) -> None:
        super().__init__(program)
        self.topology = topologies.load("leafspine")
        self.nodes: dict[str, int] = {}
        for host in self.topology.hosts:
            gateway = self.topology.switch(host.switch).mac
            port = HostPort(
                RATE, DELAY, mac=number(host.mac), gateway_mac=number(gateway),
                ip=int(host.address.ip), mtu=4200,
            )  # fmt: skip
            self.nodes[host.name] = self.engine.add_host([port])
        for switch in self.topology.switches:
            self.nodes[switch.name] = self._switch(switch.name)
        for link in self.topology.links:
            ends = [(self.nodes[end.node], self._port(end)) for end in (link.a, link.b)]
            self.link(*ends)

    def _port(self, end: Any) -> int:
        return end.port if self.topology.is_switch(end.node) else 0

    def _switch(self, name: str) -> int:
        config = CoreConfig(cpu_port=255, tick_ps=1000, priorities=8, queue_packets=0)
        switch = Switch.from_json(*self.program, config=config, module=self.engine.module)
        info = P4Info(self.program[1])
        facts = TargetFacts(priorities=8, clone_classes=True)
        model = FabricModel(self.topology, info, facts, FabricPolicy())
        entries = [*desired_entries(model, name), *scenario.entries(*RELAYS[name])]
        switch.write([change.encode(info) for change in changes(entries, (), info)])
        node = self.engine.add_switch(switch.core)
        self.switches[node] = switch
        for port in self.topology.ports_of(name):
            line = PortConfig(rate_bps=RATE, tx_delay_ps=DELAY, queue_packets=0)
            switch.core.configure_port(port.number, line)
        return node

    def say(self, at: int, host: str, frame: Any) -> None:
        self.engine.add_script([ScriptFrame(self.nodes[host], 0, at, bytes(frame))])

    def heard(self, host: str) -> list[Any]:
        return self.engine.notifications(self.nodes[host], 0)

    def counts(self, host: str) -> HeardCounts:
        return self.engine.notification_counts(self.nodes[host], 0)


def number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def slot(octets: int) -> int:
    return max(84, octets + 24) * 8 * 10**12 // RATE


@pytest.fixture
def fabric(program: tuple[bytes, Any]) -> Iterator[Fabric]:
    made = Fabric(program)
    yield made
    made.engine.close()
    for switch in made.switches.values():
        switch.close()


def test_from_a_module_to_the_tables_of_hosts_two_hops_on(fabric: Fabric) -> None:
    ask = alarm(fabric.topology, LINK_DOWN)
    fabric.say(5 * US, "h1", ask)
    fabric.engine.run()
    at = 5 * US + slot(len(ask)) + 3 * slot(14 + 20 + 8 + 16) + 4 * DELAY
    for name in ("h3", "h4"):
        (row,) = fabric.heard(name)
        said = {**LINK_DOWN, "destination": 0x0A000201, "hops": 0, "switch_id": 1, "sequence": 1}
        assert {key: getattr(row, key) for key in said} == said
        assert (row.at_ns, row.times, row.body_bytes) == (at // 1000, 1, 0)
        assert row.local_ip == int(fabric.topology.host(name).address.ip)
        assert fabric.counts(name) == replace(NOTHING, types={DOWN: 1})
    for name in ("h1", "h2"):
        assert (fabric.heard(name), fabric.counts(name)) == ([], NOTHING)
    remembered = [s.register_read("alarm_last", DOWN) for s in fabric.switches.values()]
    assert [bool(each) for each in remembered] == [False, True, True, False]  # s2, s3 of s1 to s4
    assert fabric.engine.totals().received == fabric.engine.totals().received_other == 2


def test_the_latest_and_how_often(fabric: Fabric) -> None:
    for n, severity in enumerate((1, 2, 3)):
        fabric.say(n * 10 * US, "h1", alarm(fabric.topology, {**LINK_DOWN, "severity": severity}))
    other = {**LINK_DOWN, "port": 5}
    fabric.say(15 * US, "h1", alarm(fabric.topology, other))
    fabric.engine.run()
    rows = fabric.heard("h3")
    found = [(row.port, row.severity, row.sequence, row.times) for row in rows]
    assert found == [(0xABC, 3, 4, 3), (5, 15, 3, 1)]


def test_a_body_arrives_and_is_counted(fabric: Fabric) -> None:
    quality = {**LINK_DOWN, "type": NotificationType.PATH_QUALITY}
    fabric.say(0, "h1", alarm(fabric.topology, quality, quality=0x1234))
    fabric.engine.run()
    (row,) = fabric.heard("h4")
    assert (row.kind, row.body_bytes) == (NotificationType.PATH_QUALITY, 20)


def test_made_of_a_packet_whose_payload_is_a_length_alone(fabric: Fabric) -> None:
    """As data packets are here: nothing of it is left, neither bytes nor time on the wire."""
    ask, payload = bytes(alarm(fabric.topology, LINK_DOWN)), 1000
    frame = ScriptFrame(fabric.nodes["h1"], 0, 0, ask, tail_length=payload, tail_seed=1)
    fabric.engine.add_script([frame])
    fabric.engine.run()
    at = slot(len(ask) + payload) + 3 * slot(14 + 20 + 8 + 16) + 4 * DELAY
    (row,) = fabric.heard("h3")
    assert (row.at_ns, row.body_bytes) == (at // 1000, 0)


def test_a_host_s_own_ends_at_its_switch(fabric: Fabric) -> None:
    h1, s1 = fabric.topology.host("h1"), fabric.topology.switch("s1")
    said = Notification(**{**LINK_DOWN, "switch_id": 1})
    for target in ("10.0.1.2", "10.0.2.1", "224.0.0.254"):
        forged = bytes.fromhex((s1.mac + h1.mac).replace(":", "")) + b"\x08\x00"
        fabric.say(0, "h1", forged + bytes(datagram(said, to=target)))
    fabric.engine.run()
    assert [fabric.counts(f"h{n}") for n in (1, 2, 3, 4)] == [NOTHING] * 4
    assert fabric.switches[fabric.nodes["s1"]].counter_read("dropped", scenario.SPOOFED)[0] == 3


SLOW = rate_of(10**9 >> 16)
CONGESTION = {**LINK_DOWN, "type": NotificationType.CONGESTION, "queue": SLOW, "hops": 0}


def test_one_of_congestion_reaches_the_queue_pair_that_it_names(fabric: Fabric) -> None:
    """h1's flow to h3 is told, its other one is not; both are of the same card."""
    fast = fast_cnp_parameters(RATE).fields()
    transport = Transport(congestion_control={"fast_cnp": fast}, cnp_interval_ns=50_000)
    fabric.engine.add_transports([transport])
    nodes = fabric.nodes
    for target in ("h3", "h4"):
        fabric.flow(nodes["h1"], nodes[target], transport=1, payload=1024)
    fabric.messages([{"flow": 0, "bytes": 1 << 20}, {"flow": 1, "bytes": 1 << 20}])
    said = {**CONGESTION, "destination_qp": 1}
    fabric.say(20 * US, "h1", alarm(fabric.topology, said, to="10.0.1.1"))
    fabric.engine.run(until=40 * US)
    told = fabric.engine.transport_stats(0, 2)
    assert [int(row["notified"]) for row in told] == [1, 0]
    assert [int(row["first_cut_at"]) >= 0 for row in told] == [True, False]
    assert fabric.counts("h1") == replace(NOTHING, types={1: 1})
    (row,) = fabric.heard("h1")
    assert (row.kind, row.destination_qp) == (NotificationType.CONGESTION, 1)
    fabric.engine.run(to_the_end=True)
    assert fabric.engine.totals().messages_done == 2


def test_what_it_is_for_nobody_s_queue_pair_is_counted(fabric: Fabric) -> None:
    fabric.engine.add_transports([Transport()])
    fabric.flow(fabric.nodes["h1"], fabric.nodes["h3"], transport=1, payload=1024)
    said = {**CONGESTION, "destination_qp": 9}
    fabric.say(0, "h1", alarm(fabric.topology, said, to="10.0.1.1"))
    fabric.engine.run()
    assert fabric.counts("h1") == replace(NOTHING, types={1: 1}, no_queue_pair=1)


def test_an_interface_that_there_is_not(fabric: Fabric) -> None:
    for ask in (fabric.engine.notifications, fabric.engine.notification_counts):
        with pytest.raises(EngineError, match="node 0 has no interface 7"):
            ask(0, 7)
