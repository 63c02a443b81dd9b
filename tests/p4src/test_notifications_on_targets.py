"""Notifications in datagrams on running switches: BMv2 and our daemon do, frame for frame, what the
in-process switch does, with our compiler's program and with p4c's.

    this test -- veth -- ports 1 to 4 of s1 -- P4Runtime -- the controller's and the alarm's entries
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from scapy.layers.inet import UDP, IPOption_NOP
from scapy.layers.l2 import Ether

from controller import CompiledProgram, FabricPolicy
from controller.diff import changes
from controller.fabric_state import FabricModel, desired_entries
from controller.session import SwitchSession
from protocols.notification import NEIGHBOURS_MAC, Notification, NotificationType, datagram
from tests.p4src import alarm_scenario as scenario
from tests.p4src.alarm_scenario import LINK_DOWN, alarm, from_switch
from tests.p4src.conftest import Bench, Program, new_switch
from tests.p4src.test_fabric_on_targets import (
    NO_FACTS,
    PORTS,
    START_SECONDS,
    Wires,
    is_sentinels,
    sentinel,
    target,
)

pytestmark = pytest.mark.root
__all__ = ["target"]

MADE_BY, RELAYED_BY = (3, 4), (1, 2, 3, 4)
POLICY = FabricPolicy(class_of_dscp={})  # the targets' default is one queue a port


@pytest.fixture(
    scope="module",
    params=["weft", pytest.param("p4c", marks=pytest.mark.reference("p4c-bm2-ss"))],
)
def program(request: Any) -> Program:
    """fabric.p4 with the alarm's module, compiled with warnings as errors."""
    return Program(*scenario.compiled(request.param))


def frames(topology: Any) -> list[tuple[int, bytes]]:
    """Return the frames to send, by port: made, taken, relayed, routed, forged and wrong ones."""
    spine, s1 = topology.switch("s3").mac, topology.switch("s1").mac
    h1 = topology.host("h1")
    heard = {**LINK_DOWN, "switch_id": 9}
    numbers = iter(range(1, 100))

    def said(**fields: Any) -> Notification:
        return Notification(**{**heard, "sequence": next(numbers), **fields})

    quality = {**LINK_DOWN, "type": NotificationType.PATH_QUALITY, "port": 3}
    forged = datagram(said())
    twice = from_switch(spine, said())
    cut = datagram(said())
    cut[UDP].len = 20
    sent = [
        (1, alarm(topology, LINK_DOWN)),
        (1, alarm(topology, {**LINK_DOWN, "hops": 0, "severity": 0})),
        (1, alarm(topology, quality, quality=0xDEADBEEF)),
        (1, bytes(alarm(topology, LINK_DOWN)) + bytes(range(200))),
        (1, bytes(alarm(topology, LINK_DOWN, to="10.0.2.2")) + bytes(range(200))),
        (1, alarm(topology, LINK_DOWN, to="10.0.1.2")),
        (1, bytes(alarm(topology, quality, to="10.0.2.2", quality=7)) + bytes(range(200))),
        (3, twice),
        (4, twice),
        (3, from_switch(spine, said(hops=0))),
        (4, from_switch(spine, said(hops=15))),
        (3, from_switch(spine, said(type=5), body=bytes(range(20)))),
        (3, from_switch(spine, said(type=5), body=bytes(range(64)))),
        (3, from_switch(spine, said(type=5))),
        (3, from_switch(spine, said(type=1))),
        (3, from_switch(spine, said(type=15))),
        (3, from_switch(spine, said(type=0))),
        (3, bytes(from_switch(spine, said())) + bytes(2)),
        (3, bytes(from_switch(spine, said()))[:57]),
        (3, Ether(src=spine, dst=NEIGHBOURS_MAC) / cut),
        (3, Ether(src=spine, dst=s1) / datagram(said(), to="10.0.1.2")),
        (3, Ether(src=spine, dst=NEIGHBOURS_MAC) / datagram(said(), ttl=254)),
        (1, Ether(src=h1.mac, dst=s1) / forged),
        (1, Ether(src=h1.mac, dst=NEIGHBOURS_MAC) / forged),
        (1, Ether(src=h1.mac, dst=s1) / datagram(said(), to="10.0.2.1")),
    ]
    for port in (1, 3):
        first, options = datagram(said(), to="10.0.1.2"), datagram(said(), to="10.0.1.2")
        first.flags = "MF"
        options.options = [IPOption_NOP()] * 4
        sent += [(port, Ether(src=spine, dst=s1) / each) for each in (first, options)]
    return [(port, bytes(frame)) for port, frame in sent]


@pytest.fixture
def here(program: Program, topology: Any) -> Iterator[Bench]:
    """s1 in this process, with what the running one holds."""
    compiled = CompiledProgram.of(program)
    switch = new_switch(program, priorities=1)
    bench = Bench(switch, compiled.p4info, "s1", topology)
    bench.install(*wanted(compiled, topology))
    yield bench
    switch.close()


def wanted(compiled: CompiledProgram, topology: Any) -> list[Any]:
    model = FabricModel(topology, compiled.p4info, NO_FACTS, POLICY)
    own = scenario.entries(MADE_BY, RELAYED_BY, clone_classes=False)
    return [*desired_entries(model, "s1"), *own]


async def install(address: str, compiled: CompiledProgram, topology: Any) -> None:
    """Install the entries, which the switch must then report to hold."""
    async with SwitchSession("s1", address, 1, compiled, timeout=START_SECONDS) as session:
        await session.set_pipeline()
        entries = wanted(compiled, topology)
        await session.write(changes(entries, (), compiled.p4info))
        held = await session.read_entries()
        assert {each.key for each in entries} <= {each.key for each in held}


def test_frame_for_frame_as_in_process(
    target: tuple[Wires, str], here: Bench, topology: Any, program: Program
) -> None:
    wires, address = target
    asyncio.run(install(address, CompiledProgram.of(program), topology))
    passed = 0
    for number, (port, frame) in enumerate(frames(topology)):
        wires.send(port, frame)
        here.send(port, frame)
        for out, each in here.pending:
            got = wires.receive(out)
            assert (got or b"").hex() == each.hex(), f"port {out}, after frame {number}"
            passed += 1
        if not here.pending:  # what is sent to another port next must not overtake it
            wires.send(port, sentinel(port))
            assert is_sentinels(wires.receive(port) or b""), f"after frame {number}"
        here.pending.clear()
    assert passed == 27
    for port in PORTS:  # and nothing else has come out
        wires.send(port, sentinel(port))
        assert is_sentinels(wires.receive(port) or b"")
