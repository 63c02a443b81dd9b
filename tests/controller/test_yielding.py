"""Switches that nothing is planned for: any other controller may be their primary, whatever its id.

ours (an election id only while it writes) --- switch --- theirs (1, as in most examples)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import topologies
from controller import CompiledProgram, FabricController, NotPrimary
from controller.diff import Change, Operation
from controller.entries import Exact, TableEntry, call, match
from controller.entry_files import NO_ENTRIES, OwnEntries
from controller.primacy import AT_REST, Standing
from controller.session import SwitchSession

THEIRS = 1


def change(number: int, operation: Operation = Operation.INSERT) -> Change:
    """Return an entry of its own for each number."""
    forward = call("forward_to", port=1, src_mac=1, dst_mac=2)
    return Change(operation, TableEntry("next_hop", match(next_hop=Exact(number)), forward))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def resting(address: str, program: CompiledProgram) -> SwitchSession:
    """Our session with a switch that nothing is planned for."""
    return SwitchSession("s1", address, 1, program, election_id=AT_REST, yields=True)


def other(address: str, program: CompiledProgram, election_id: int = THEIRS) -> SwitchSession:
    """Another controller's."""
    return SwitchSession("s1", address, 1, program, election_id=election_id)


def test_anybody_may_come_and_we_write_when_nobody_is_there(
    switches: Any, program: CompiledProgram
) -> None:
    """Whoever it is may come again with the same id, and never meets us in the place."""
    address = switches.start("s1", 1)

    async def scenario() -> None:
        heard: list[int | None] = []
        async with resting(address, program) as ours:
            ours.on_standing(
                lambda each: heard.append(
                    each.highest_election_id if each.standing is Standing.BACKUP else None
                )
            )
            assert await ours.set_pipeline()
            for turn in range(3):
                assert ours.election_id == AT_REST and not heard
                async with other(address, program) as theirs:
                    assert theirs.is_primary and theirs.election_id == THEIRS
                    await until(lambda: heard == [THEIRS])
                    with pytest.raises(NotPrimary, match=r"is primary, with election id 1$") as no:
                        await ours.write([change(90)])
                    assert no.value.election_id == THEIRS
                    await ours.write([])  # nothing is written, so no place is needed
                    await theirs.write([change(2 * turn)])
                    assert change(2 * turn).entry in await ours.read_entries("next_hop")
                await until(lambda: heard == [THEIRS, None])
                heard.clear()
                await ours.write([change(2 * turn + 1)])
                await ours.packet_out(bytes(64), egress_port=1)
            assert len(await ours.read_entries("next_hop")) == 6

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_two_clients_and_higher_ids(switches: Any, program: CompiledProgram) -> None:
    """The place is theirs to share out: we take it when none of them is left."""
    address = switches.start("s1", 1)

    async def scenario() -> None:
        async with resting(address, program) as ours:
            await ours.set_pipeline()
            async with other(address, program, 7) as second:
                with suppress(NotPrimary):
                    await other(address, program).connect()
                assert second.is_primary
                async with other(address, program, 1 << 70):
                    await until(lambda: ours.highest_election_id == 1 << 70)
                    with pytest.raises(NotPrimary, match=f"election id {1 << 70}"):
                        await ours.write([change(1)])
                # Ours leaves the place vacant, BMv2 gives it to the next.
                await until(lambda: second.standing is not Standing.BACKUP)
            await until(lambda: ours.standing is not Standing.BACKUP)
            await ours.write([change(1)])
            async with other(address, program, 1 << 70) as again:
                assert again.is_primary

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_what_belongs_together_is_not_interrupted(
    softswitches: Any, program: CompiledProgram
) -> None:
    address = softswitches.start("s1", 1)

    async def scenario() -> None:
        async with resting(address, program) as ours:
            await ours.set_pipeline()
            async with ours.holding():
                await ours.write([change(1)])
                assert ours.is_primary and ours.election_id == THEIRS
                async with ours.holding():
                    await ours.write([change(2)])
                assert ours.is_primary
                theirs = other(address, program)
                theirs._timeout = 0.3
                with pytest.raises(NotPrimary):
                    await theirs.connect()
                await ours.write([change(3)])
            assert ours.standing is Standing.VACANT and ours.election_id == AT_REST
            async with other(address, program):
                pass

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_claim_that_was_too_late_leaves_us_at_rest(
    softswitches: Any, program: CompiledProgram
) -> None:
    """The other one is back before we ask for its id: the switch ends our stream."""
    address = softswitches.start("s1", 1)

    async def scenario() -> None:
        async with resting(address, program) as ours:
            await ours.set_pipeline()
            async with other(address, program):
                await until(lambda: ours.standing is Standing.BACKUP)
                ours.standing = Standing.VACANT  # as if the news were still on the way
                with pytest.raises(NotPrimary, match=r"is primary, with election id 1$"):
                    await ours.write([change(1)])
                await until(lambda: ours.standing is Standing.BACKUP)
                assert ours.election_id == AT_REST
            await until(lambda: ours.standing is Standing.VACANT)
            await ours.write([change(1)])

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_write_that_is_interrupted_leaves_the_place(
    softswitches: Any, program: CompiledProgram
) -> None:
    """At whatever moment: Ctrl-C at the prompt cancels what the controller does.

    Also in the middle of what it sends on the stream, which is over after some turns of the loop.
    """
    address = softswitches.start("s1", 1)
    moments = [(steps, 0.0005) for steps in range(12)] + [(turns, 0.0) for turns in range(1, 16)]

    async def scenario() -> None:
        async with resting(address, program) as ours:
            await ours.set_pipeline()
            for number, (steps, wait_s) in enumerate(moments):
                writing = asyncio.create_task(ours.write([change(number)]))
                for _ in range(steps):
                    await asyncio.sleep(wait_s)
                writing.cancel()
                with suppress(asyncio.CancelledError):
                    await writing
                async with other(address, program) as theirs:
                    await theirs.write([change(100 + number)])
                await until(lambda: ours.standing is Standing.VACANT)
                await ours.write([change(200 + number)])

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_fabric_s_own_and_planned_switches(softswitches: Any, program: CompiledProgram) -> None:
    """Triangle: s1 is left alone, s2 and s3 are planned for, and nobody takes these with id 1."""
    topology = topologies.load("triangle")
    addresses = softswitches.start_all(topology)

    async def scenario() -> None:
        said: list[str] = []

        async def hears(text: str) -> None:
            await until(lambda: any(text in line for line in said))
            said.clear()

        own = {"s1": NO_ENTRIES}
        async with FabricController(
            topology, addresses, program, own=own, tell=said.append
        ) as controller:
            assert len((await controller.bring_up()).loaded) == 3
            s1, s2, _ = controller.sessions.values()
            assert (s1.standing, s1.election_id) == (Standing.VACANT, AT_REST)
            assert (s2.standing, s2.election_id) == (Standing.PRIMARY, 100)
            assert controller.next_election_ids() == {"s1": AT_REST, "s2": 101, "s3": 101}
            link = topology.link_at("s1", 2)
            async with other(addresses["s1"], program) as theirs:
                await hears("with election id 1; this prompt only reads until it leaves")
                await theirs.write([change(70)])
                assert await controller.set_link(link, up=False) > 0  # the others' entries
                controller.check_beatable(controller.next_election_ids())
                with pytest.raises(NotPrimary):
                    controller.check_beatable({"s1": 1, "s2": 101, "s3": 101})
                with pytest.raises(NotPrimary, match=r"s1: .* with election id 1$"):
                    await controller.replace("s1", program, NO_ENTRIES)
                with pytest.raises(NotPrimary):
                    controller.lendable_id("s1")
                # Its switch dies, and the other one is there before us.
                softswitches.kill("s1")
            softswitches.start("s1", 1, addresses["s1"])
            async with other(addresses["s1"], program):
                assert (await controller.restore("s1")).held_by == THEIRS
            await hears("s1: the other controller has left: program loaded")
            # A controller that takes the place of this one.
            await controller.retire()
            async with FabricController(
                *(topology, addresses, program),
                own=own,
                election_id={"s1": 9, "s2": 101, "s3": 101},
                down=[link],
                tell=said.append,
            ) as new:
                assert set((await new.bring_up()).written.values()) == {0}
                assert new.sessions["s1"].election_id == AT_REST
                async with other(addresses["s1"], program, 8) as later:
                    assert later.election_id == 9  # one that was asked for is remembered
                    await hears("with election id 9")
                await hears("s1: the other controller has left: what it wrote stays")
                # From now on it is planned for, and no longer anybody's.
                assert await new.replace("s1", program, None) > 0
                assert new.sessions["s1"].election_id == 100
                with pytest.raises(NotPrimary):
                    await other(addresses["s1"], program, 99).connect()

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_program_and_its_entries_are_loaded_to_the_end(
    softswitches: Any, program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during `reload --drop-entries` leaves no switch with the program alone."""
    monkeypatch.setattr("controller.session.UPDATES_PER_WRITE", 5)  # 200 writes
    topology = topologies.load("single")
    addresses = softswitches.start_all(topology)
    entries = OwnEntries(updates=tuple(change(n).encode(program.p4info) for n in range(1, 1000)))
    other_program = CompiledProgram(program.json_text + " ", program.p4info_text)

    async def scenario() -> None:
        own = {"s1": NO_ENTRIES}
        async with FabricController(topology, addresses, program, own=own) as controller:
            await controller.bring_up()
            session, programs = controller.sessions["s1"], [other_program, program]
            for turn in range(4):
                loaded = programs[turn % 2]
                replacing = asyncio.create_task(controller.replace("s1", loaded, entries))
                while not session.is_primary and not replacing.done():
                    await asyncio.sleep(0)
                await asyncio.sleep(turn * 0.01)
                replacing.cancel()
                with suppress(asyncio.CancelledError):
                    await replacing
                # Whatever comes next waits for it.
                await controller.set_link(topology.links[0], up=True)
                assert session.program is loaded and session.election_id == AT_REST
                assert len(await session.read_entries("next_hop")) == 999
            assert set((await controller.bring_up()).loaded) == set()

    asyncio.run(asyncio.wait_for(scenario(), 120))
