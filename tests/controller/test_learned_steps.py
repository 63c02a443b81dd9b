"""Steps of what is learned: what follows hears which switches do not hold what they were to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from controller.diff import Change, Operation
from controller.entries import Entry
from controller.errors import SwitchUnreachable, WriteFailed
from controller.fabric_state import FabricModel, FabricReady
from controller.learned_steps import LearnedSteps
from controller.loop import ControlLoop
from controller.parts import Learned
from mechanisms.iglb.mechanism import MECHANISM
from mechanisms.iglb.pins import pin
from tests.simulator.fabric_program import fabric_program
from topologies.loader import loads

FABRIC = """\
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
time_scale: 1
link: {rate: 100Gbps, delay: 500ns, queue: 1MB}
iglb: true
"""
PINS = tuple(pin(1, (1, 2, port), 2) for port in (50_000, 50_001))


class Session:
    """A switch with room for so many entries, or None that nothing reaches."""

    name = "s1"

    def __init__(self, room: int | None) -> None:
        self.p4info = fabric_program().p4info
        self.room = room
        self.held: dict[object, Entry] = {}

    async def write(self, updates: Sequence[Change]) -> None:
        if self.room is None:
            raise SwitchUnreachable("s1 does not answer")
        for each in updates:
            if each.operation is Operation.INSERT and len(self.held) >= self.room:
                raise WriteFailed("s1", ["it is full"])
            self.held[each.entry.key] = each.entry

    async def read_entries(self, table: str) -> tuple[Entry, ...]:
        return tuple(each for each in self.held.values() if each.table == table)


@pytest.mark.parametrize(("room", "holds"), [(2, 2), (1, 1), (0, 0), (None, 2)])
def test_what_follows_hears_who_does_not_hold_it(room: int | None, holds: int) -> None:
    topology = loads(FABRIC)
    loop = ControlLoop(FabricModel(topology, fabric_program().p4info, parts=(MECHANISM,)))
    loop.handle(FabricReady({each.name: () for each in topology.switches}), 0)
    session: Any = Session(room)
    heard: list[frozenset[str]] = []

    def then(failed: frozenset[str], now: int) -> None:
        heard.append(failed)

    async def scenario() -> None:
        steps = asyncio.Lock()
        writer = LearnedSteps(loop, {"s1": session}, steps, lambda: 0)
        before = set(loop.model.learned["s1"])
        async with steps:
            await writer.write(loop.tell("iglb", lambda _: Learned({"s1": PINS}, then=then), now=0))
        # Of a switch that answers it is known what it holds; another one is given all later.
        pins = {each.key for each in PINS}
        assert len(pins & set(loop.model.learned["s1"])) == holds
        assert room is None or pins & set(session.held) == pins & set(loop.model.learned["s1"])
        assert before <= set(loop.model.learned["s1"]) or room is not None

    asyncio.run(scenario())
    assert heard == [frozenset() if room == 2 else frozenset({"s1"})]
