"""Other controllers that become primary of a fabric's switches, and leave again.

ours (election id 100) --- switch --- theirs (1000, or another program)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller import (
    CompiledProgram,
    ControllerError,
    FabricController,
    NotPrimary,
    UnknownName,
)
from controller.diff import Change, Operation
from controller.entries import Lpm, MulticastGroup, TableEntry, call, match
from controller.entry_files import NO_ENTRIES
from controller.errors import ReadFailed, WriteFailed
from controller.primacy import Standing
from controller.session import SwitchSession
from topologies import Topology

THEIRS = 1000
STRAY = TableEntry("ipv4_route", match(dst=Lpm(0xC0A80000, 16)), call("route_to", next_hop=1))


@dataclass
class Ours:
    """Our controller, what it said, and a way to meet another one at s1."""

    controller: FabricController
    program: CompiledProgram
    said: list[str] = field(default_factory=list)

    def other(self, election_id: int = THEIRS) -> SwitchSession:
        """Another controller's session with s1."""
        address = self.controller.sessions["s1"].address
        return SwitchSession("s1", address, 1, self.program, election_id=election_id)

    async def hears(self, text: str) -> None:
        """Wait until something with this text was said."""
        deadline = time.monotonic() + 60
        while not any(text in line for line in self.said):
            assert time.monotonic() < deadline, f"{text!r} is not among {self.said}"
            await asyncio.sleep(0.01)


@pytest.fixture
def play(
    switches: Any, topology: Topology, program: CompiledProgram
) -> Callable[[Callable[[Ours], Any]], None]:
    """Return a function that runs a story with a fabric that is up."""
    addresses = switches.start_all(topology)

    def run(story: Callable[[Ours], Any]) -> None:
        async def scenario() -> None:
            said: list[str] = []
            async with FabricController(
                topology, addresses, program, tell=said.append
            ) as controller:
                await controller.bring_up()
                await story(Ours(controller, program, said))

        asyncio.run(asyncio.wait_for(scenario(), 120))

    return run


def test_a_primary_that_comes_and_goes(play: Any, topology: Topology) -> None:
    """What it wrote goes, what was to be written meanwhile comes, and nothing else."""

    async def story(ours: Ours) -> None:
        session = ours.controller.sessions["s1"]
        link = topology.link_at("s1", 3)
        async with ours.other() as other:
            await other.write([Change(Operation.INSERT, STRAY)])
            await ours.hears("s1: another controller is primary now, with election id 1000")
            assert session.standing is Standing.BACKUP
            with pytest.raises(NotPrimary, match="is primary, with election id 1000") as refused:
                await ours.controller.set_link(link, up=False)
            assert refused.value.election_id == THEIRS
            assert "above 1000" in refused.value.remedy
            assert STRAY in await ours.controller.read_entries("s1")  # reading goes on
            with pytest.raises(NotPrimary):
                ours.controller.check_beatable({"s1": 1000, "s2": 1, "s3": 1, "s4": 1})
            ours.controller.check_beatable({"s1": 1001, "s2": 1, "s3": 1, "s4": 1})
        await ours.hears("s1: the other controller has left: primary again")
        assert session.standing is Standing.PRIMARY
        there = set(await ours.controller.read_entries("s1"))
        assert STRAY not in there
        assert there >= set(ours.controller.model.installed["s1"])  # and default actions
        assert set((await ours.controller.bring_up()).written.values()) == {0}
        assert await ours.controller.set_link(link, up=True) > 0

    play(story)


def test_several_in_turn_and_one_that_comes_back(play: Any) -> None:
    async def story(ours: Ours) -> None:
        session = ours.controller.sessions["s1"]
        for election_id in (1000, 2000, 1 << 70):
            async with ours.other(election_id):
                await ours.hears(f"with election id {election_id}")
                with pytest.raises(NotPrimary):
                    await session.claim()
            ours.said.clear()
            await asyncio.wait_for(_primary(session), 60)
        assert set((await ours.controller.bring_up()).written.values()) == {0}

    play(story)


def test_a_claim_that_comes_too_late_is_a_backup_again(
    softswitches: Any, program: CompiledProgram
) -> None:
    """The one that left is back with its id before we ask for that: the switch ends our stream."""
    address = softswitches.start("s1", 1)

    async def scenario() -> None:
        async with SwitchSession("s1", address, 1, program) as ours:
            other = SwitchSession("s1", address, 1, program, election_id=THEIRS)
            await other.connect()
            async with asyncio.timeout(60):
                while ours.standing is not Standing.BACKUP:
                    await asyncio.sleep(0.01)
            ours.standing = Standing.VACANT  # as if the news of its coming back were on the way
            with pytest.raises(NotPrimary, match="with election id 1000"):
                await ours.claim()
            assert ours.standing is Standing.BACKUP and other.is_primary
            await other.close()
            async with asyncio.timeout(60):
                while ours.standing is not Standing.VACANT:
                    await asyncio.sleep(0.01)
            await ours.set_pipeline()  # takes the place
            assert ours.is_primary and ours.election_id == THEIRS

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_program_that_the_other_loaded_stays(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    """Also when its switch dies before anybody looked, and is started again."""
    addresses = softswitches.start_all(topology)
    other_program = CompiledProgram(
        program.json_text.replace("ipv4_route", "ipv4_road"),
        program.p4info_text.replace("ipv4_route", "ipv4_road"),
    )

    async def scenario() -> None:
        said: list[str] = []
        async with FabricController(topology, addresses, program, tell=said.append) as controller:
            await controller.bring_up()
            ours = Ours(controller, other_program, said)
            async with ours.other() as other:
                await other.set_pipeline()
                await ours.hears("s1: the other controller has loaded another program")
                softswitches.kill("s1")
            softswitches.start("s1", 1, addresses["s1"])
            back = await controller.restore("s1")
            assert back.loaded and back.written == 0
            assert "ipv4_road" in controller.sessions["s1"].p4info.tables
            assert "s1" in controller.own
            assert set((await controller.bring_up()).loaded) == set()

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_switch_that_is_back_may_have_another_primary(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)

    async def scenario() -> None:
        said: list[str] = []
        async with FabricController(topology, addresses, program, tell=said.append) as controller:
            await controller.bring_up()
            ours = Ours(controller, program, said)
            softswitches.kill("s1")
            softswitches.start("s1", 1, addresses["s1"])
            async with ours.other():
                assert (await controller.restore("s1")).held_by == THEIRS
            await ours.hears("s1: the other controller has left: program loaded")
            assert set((await controller.bring_up()).written.values()) == {0}

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_registers(softswitches: Any, topology: Topology) -> None:
    """Read and written by name; whatever does not fit is one clear error."""
    from compiler import compile_p4  # its own program, as fabric.p4 has no register
    from tests.weft.prompt_lab import REPOSITORY

    made = compile_p4(REPOSITORY / "tests" / "weft" / "programs" / "stateful.p4")
    program = CompiledProgram.of(made)
    addresses = softswitches.start_all(topology)
    own = {switch.name: NO_ENTRIES for switch in topology.switches}

    async def scenario() -> None:
        async with FabricController(topology, addresses, program, own=own) as controller:
            await controller.bring_up()
            assert await controller.read_register("s1", "settings") == dict.fromkeys(range(8), 0)
            await controller.write_register("s1", "MyIngress.settings", 3, 65535)
            assert await controller.read_register("s1", "settings", 3) == {3: 65535}
            assert (await controller.read_register("s2", "settings"))[3] == 0
            with pytest.raises(ControllerError, match=r"settings\[3\]: 65536 does not fit into 16"):
                await controller.write_register("s1", "settings", 3, 65536)
            with pytest.raises(WriteFailed, match=r"register settings\[8\]: OUT_OF_RANGE"):
                await controller.write_register("s1", "settings", 8, 1)
            with pytest.raises(ReadFailed, match="OUT_OF_RANGE"):
                await controller.read_register("s1", "settings", 8)
            with pytest.raises(UnknownName, match="did you mean 'settings'"):
                await controller.read_register("s1", "setting")
            group = Change(Operation.INSERT, MulticastGroup(5, ((1, 1), (2, 1))))
            await controller.sessions["s1"].write([group])
            rows = await controller.read_table("s1")
            assert ("multicast group", "5", "to port 1, port 2") in {
                (row.table, row.key, row.action) for row in rows
            }

    asyncio.run(asyncio.wait_for(scenario(), 120))


async def _primary(session: SwitchSession) -> None:
    while not session.is_primary:
        await asyncio.sleep(0.01)
