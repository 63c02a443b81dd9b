"""Sessions that begin anew, and programs that change under entries that stay."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller import (
    CompiledProgram,
    FabricController,
    Reloaded,
    SwitchUnreachable,
    TargetFacts,
    run,
)
from controller.diff import Change, Operation
from controller.entries import Exact, Lpm, TableEntry, call, match
from controller.errors import PipelineRefused
from controller.session import SwitchSession
from topologies import Topology

P4SRC = Path(__file__).parents[2] / "p4src"
STRAY = TableEntry(
    "ipv4_route", match(dst=Lpm(0xC0A80000, 16)), call("route_to", next_hop=1)
)  # of somebody else than our controller


def edited(tmp_path: Path, old: str, new: str) -> CompiledProgram:
    """fabric.p4 with one piece of its modules' text replaced."""
    for source in P4SRC.rglob("*.p4"):
        text = source.read_text()
        copy = tmp_path / source.relative_to(P4SRC)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(old, new))
    result = compile_p4(tmp_path / "fabric.p4")
    return CompiledProgram.of(result)


def test_a_switch_that_was_started_again_gets_everything_back(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)
    with run(topology, addresses, program) as controller:
        before = controller.read_entries("s3")
        softswitches.kill("s3")
        with suppress(SwitchUnreachable):  # that s3 is gone may not be known yet
            controller.set_link(topology.link_at("s1", 4), up=False)
        softswitches.start("s3", topology.switch("s3").device_id, addresses["s3"])
        restored = controller.restore("s3")
        assert restored.loaded
        assert restored.written > 0
        controller.set_link(topology.link_at("s1", 4), up=True)
        assert set(controller.read_entries("s3")) == set(before)
        again = controller.restore("s3")
        assert (again.loaded, again.written) == (False, 0)
        assert set(controller.bring_up().written.values()) == {0}


def test_a_changed_program_keeps_the_entries_of_all(
    switches: Any, program: CompiledProgram, topology: Topology, tmp_path: Path
) -> None:
    addresses = switches.start_all(topology)
    changed = edited(tmp_path, "ROUTES;", "ROUTES * 2;")
    assert changed.cookie != program.cookie

    facts = TargetFacts(reconciles=switches.target == "softswitch")

    async def scenario() -> None:
        async with FabricController(topology, addresses, program, facts) as controller:
            await controller.bring_up()
            await controller.sessions["s1"].write([Change(Operation.INSERT, STRAY)])
            before = set(await controller.read_entries("s1"))
            assert STRAY in before
            done = await controller.reload("s1", changed)
            assert done is (Reloaded.KEPT if facts.reconciles else Reloaded.WRITTEN_AGAIN)
            assert set(await controller.read_entries("s1")) == before
            assert await controller.reload("s1", changed) is Reloaded.UNCHANGED
            # The fabric still knows what to write to a switch with another program.
            link = topology.link_at("s1", 3)
            assert await controller.set_link(link, up=False) > 0
            assert await controller.set_link(link, up=True) > 0
            assert set(await controller.read_entries("s1")) == before - {STRAY}

    asyncio.run(scenario())


def test_a_program_that_cannot_keep_an_entry_changes_nothing(
    softswitches: Any, program: CompiledProgram, topology: Topology, tmp_path: Path
) -> None:
    addresses = softswitches.start_all(topology)
    small = edited(tmp_path, "size = ROUTES;", "size = 2;")
    with run(topology, addresses, program, TargetFacts(reconciles=True)) as controller:
        before = set(controller.read_entries("s1"))
        with pytest.raises(PipelineRefused, match=r"^s1: refused the program: .*ipv4_route"):
            controller.reload("s1", small)
        assert set(controller.read_entries("s1")) == before
        assert set(controller.bring_up().written.values()) == {0}


def test_after_a_shell_was_primary_the_controller_is_again(
    switches: Any, program: CompiledProgram, topology: Topology
) -> None:
    addresses = switches.start_all(topology)
    device = topology.switch("s1").device_id
    entry = TableEntry(
        "next_hop", match(next_hop=Exact(77)), call("forward_to", port=1, src_mac=1, dst_mac=2)
    )

    async def scenario() -> None:
        async with FabricController(topology, addresses, program) as controller:
            await controller.bring_up()
            shell = SwitchSession("s1", addresses["s1"], device, program, election_id=101)
            async with shell:
                await shell.write([Change(Operation.INSERT, entry)])
            await controller.take_back("s1", 102)
            assert entry in await controller.read_entries("s1")
            others = controller._others
            others.standing_changed(controller.sessions["s1"])  # as when it is told late
            await asyncio.gather(*others._tasks)
            assert entry in await controller.read_entries("s1")
            await controller.sessions["s1"].write([Change(Operation.DELETE, entry)])

    asyncio.run(scenario())
