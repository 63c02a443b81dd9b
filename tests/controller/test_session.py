"""The controller against running switches, over P4Runtime: bring-up, reading, packets, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller import (
    BlockingController,
    CompiledProgram,
    ControllerError,
    FabricController,
    NotPrimary,
    PortCounters,
    ProgramError,
    SwitchUnreachable,
    UnknownName,
    WriteFailed,
    run,
)
from controller.diff import Change, Operation
from controller.entries import Exact, Lpm, TableEntry, call, match
from controller.errors import PipelineRefused, SeveralFailures
from controller.fabric_state import desired_entries
from controller.session import UPDATES_PER_WRITE, PacketIn, SwitchSession
from topologies import Topology

FRAME = b"\xff\xff\xff\xff\xff\xff\x02\x00\x0a\x00\x01\x01\x88\xb5" + bytes(46)
HEADER_BYTES = 2  # of packet_out, which counters count as part of the packet that arrived


def test_bring_up_and_nothing_the_second_time(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    with BlockingController(topology, fabric, program) as controller:
        first = controller.bring_up()
        assert set(first.loaded) == set(fabric)
        assert all(count > 0 for count in first.written.values())
        again = controller.bring_up()
        assert again.loaded == ()
        assert set(again.written.values()) == {0}
    with run(topology, fabric, program) as restarted:
        last = restarted.bring_up()
        assert last.loaded == ()
        assert set(last.written.values()) == {0}


def test_a_restart_mends_what_was_changed_meanwhile(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    route = match(dst=Lpm(0x0A000101, 32))
    other = match(dst=Lpm(0x0A000102, 32))
    stray = match(dst=Lpm(0xC0A80000, 16))
    to_1 = call("route_to", next_hop=1)
    meddling = [
        Change(Operation.DELETE, TableEntry("ipv4_route", route, to_1)),
        Change(Operation.MODIFY, TableEntry("ipv4_route", other, to_1)),
        Change(Operation.INSERT, TableEntry("ipv4_route", stray, to_1)),
    ]

    async def scenario() -> None:
        async with FabricController(topology, fabric, program) as controller:
            await controller.bring_up()
            await controller.sessions["s1"].write(meddling)
        async with FabricController(topology, fabric, program) as controller:
            mended = await controller.bring_up()
            assert mended.written == {"s1": 3, "s2": 0, "s3": 0, "s4": 0}
            assert set(await controller.read_entries("s1")) >= set(
                desired_entries(controller.model, "s1")
            )
            rows = await controller.read_table("s1", "ipv4_route")
            assert [row.action for row in rows if row.key == "dst 10.0.1.2/32"] == [
                "route_to(next_hop=2)"
            ]
            assert not any("192.168" in row.key for row in rows)

    asyncio.run(scenario())


def test_tables_are_read_with_names(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    with run(topology, fabric, program) as controller:
        rows = {(row.table, row.key): row.action for row in controller.read_table("s1")}
        assert rows["ipv4_route", "dst 10.0.2.0/24"] == "route_to_group(group=1)"
        assert rows["ecmp_group", "group 1"] == "group 1"
        assert rows["ecmp_members", "group 1"] == "one of members 3, 4"
        assert rows["ecmp_members", "member 3"] == "choose_next_hop(next_hop=3)"
        assert rows["router", "(default)"] == "set_router_mac(mac=02:01:00:00:00:01)"
        assert rows["next_hop", "next_hop 1"] == (
            "forward_to(port=1, src_mac=02:01:00:00:00:01, dst_mac=02:00:0a:00:01:01)"
        )
        only = controller.read_table("s3", "ipv4_route")
        assert sorted(row.key for row in only) == ["dst 10.0.1.0/24", "dst 10.0.2.0/24"]
        with pytest.raises(UnknownName, match="no table 'ipv4_rout'; did you mean 'ipv4_route'"):
            controller.read_table("s1", "ipv4_rout")
        with pytest.raises(UnknownName, match="no switch 's9'; available: s1, s2, s3, s4"):
            controller.read_table("s9")


def test_packets_out_and_in_and_counters(
    fabric: dict[str, str],
    topology: Topology,
    program: CompiledProgram,
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    with run(topology, fabric, program) as controller:
        seen: list[PacketIn] = []
        undo = controller.on_packet(seen.append)
        controller.packet_out("s2", 255, FRAME)  # out of the CPU port: it comes back
        wait_for(lambda: len(seen) == 1)
        assert seen[0].switch == "s2"
        assert seen[0].payload == FRAME
        assert seen[0].metadata["ingress_port"] == 255
        undo()
        for _ in range(3):
            controller.packet_out("s1", 4, FRAME)
        sent = 3 * (len(FRAME) + HEADER_BYTES)
        wait_for(lambda: controller.read_port_counters()["s1"][4] == PortCounters(0, 0, 3, sent))
        counters = controller.read_port_counters()
        assert set(counters) == set(fabric)
        assert set(counters["s1"]) == {1, 2, 3, 4}
        assert counters["s1"][3] == PortCounters(0, 0, 0, 0)
        assert controller.read_counter("s1", "port_tx") == {4: (3, sent)}
        assert len(seen) == 1


def test_a_failed_link_is_routed_around(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    with run(topology, fabric, program) as controller:
        link = topology.link_at("s1", 3)

        def routes(switch: str) -> dict[str, str]:
            return {row.key: row.action for row in controller.read_table(switch, "ipv4_route")}

        before = routes("s1")
        assert controller.set_link(link, up=False) > 0
        assert routes("s1")["dst 10.0.2.0/24"] == "route_to(next_hop=4)"
        assert routes("s2")["dst 10.0.1.0/24"] == "route_to(next_hop=4)"
        assert controller.set_link(link, up=True) > 0
        assert routes("s1") == before
        assert set(controller.bring_up().written.values()) == {0}


def test_refused_updates_are_named_one_by_one(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    there = TableEntry("next_hop", match(next_hop=Exact(1)), call("no_such", port=1))
    forward = call("forward_to", port=1, src_mac=1, dst_mac=2)
    twice = TableEntry("next_hop", match(next_hop=Exact(1)), forward)
    fresh = TableEntry("next_hop", match(next_hop=Exact(99)), forward)
    absent = TableEntry("next_hop", match(next_hop=Exact(98)), forward)

    async def scenario() -> None:
        async with FabricController(topology, fabric, program) as controller:
            await controller.bring_up()
            session = controller.sessions["s1"]
            insert, modify = Operation.INSERT, Operation.MODIFY
            changes = [Change(insert, twice), Change(insert, fresh), Change(modify, absent)]
            with pytest.raises(WriteFailed) as caught:
                await session.write(changes)
            first, second = caught.value.failures
            assert (first.code, second.code) == ("ALREADY_EXISTS", "NOT_FOUND")
            assert first.update.startswith("INSERT next_hop next_hop=0x1 -> forward_to(")
            assert str(caught.value).count("\n") == 1
            assert str(caught.value).startswith("s1: INSERT next_hop")
            assert fresh in await session.read_entries("next_hop")
            with pytest.raises(UnknownName, match="no action 'no_such'"):
                await session.write([Change(insert, there)])

    asyncio.run(scenario())


def test_a_whole_batch_of_refused_updates_has_its_reasons(
    fabric: dict[str, str], topology: Topology, program: CompiledProgram
) -> None:
    no_such = [
        Change(
            Operation.DELETE,
            TableEntry("ipv4_route", match(dst=Lpm(n, 32)), call("route_to", next_hop=1)),
        )
        for n in range(UPDATES_PER_WRITE)
    ]

    async def scenario() -> None:
        async with FabricController(topology, fabric, program) as controller:
            await controller.bring_up()
            with pytest.raises(WriteFailed) as error:
                await controller.sessions["s1"].write(no_such)
            assert len(error.value.failures) == UPDATES_PER_WRITE
            assert {failure.code for failure in error.value.failures} == {"NOT_FOUND"}

    asyncio.run(scenario())


def test_one_controller_is_primary(
    switches: Any, program: CompiledProgram, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    address = switches.start("s1", 1)

    async def scenario() -> None:
        async with SwitchSession("s1", address, 1, program, election_id=5) as first:
            for election_id in (4, 5):
                with pytest.raises(NotPrimary, match="another controller is primary"):
                    await SwitchSession(
                        "s1", address, 1, program, election_id=election_id
                    ).connect()
            assert first.is_primary
            async with SwitchSession("s1", address, 1, program, election_id=6) as second:
                assert second.is_primary
                async with asyncio.timeout(60):
                    while first.is_primary:
                        await asyncio.sleep(0.01)
                with pytest.raises(NotPrimary, match="is primary, with election id 6"):
                    await first.write([])

    asyncio.run(scenario())


def test_who_comes_while_the_last_one_leaves_waits_for_its_place(
    switches: Any, program: CompiledProgram
) -> None:
    address = switches.start("s1", 1)

    async def scenario() -> None:
        leaving = SwitchSession("s1", address, 1, program)
        await leaving.connect()
        coming = SwitchSession("s1", address, 1, program)
        connected = asyncio.create_task(coming.connect())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(connected), 0.3)
        await leaving.close()
        await connected
        assert coming.is_primary
        await coming.write([])
        await coming.close()

    asyncio.run(scenario())


def test_nobody_answers(topology: Topology, program: CompiledProgram) -> None:
    addresses = {switch.name: "127.0.0.1:1" for switch in topology.switches}
    with pytest.raises(SeveralFailures) as caught:
        BlockingController(topology, addresses, program, timeout=0.2)
    lines = str(caught.value).splitlines()
    assert lines == [f"s{i}: nothing answers at 127.0.0.1:1 after 0.2 s" for i in (1, 2, 3, 4)]
    assert all(isinstance(failure, SwitchUnreachable) for failure in caught.value.failures)


def test_a_switch_that_dies_is_named(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)
    with run(topology, addresses, program) as controller:
        softswitches.kill("s3")
        with pytest.raises(SwitchUnreachable, match=r"^s3: lost 127\.0\.0\.1:"):
            controller.read_port_counters()
        assert controller.read_table("s1", "ipv4_route")


def test_a_program_that_is_none_is_refused(switches: Any, program: CompiledProgram) -> None:
    broken = CompiledProgram("no JSON at all", program.p4info_text)
    address = switches.start("s1", 1)

    async def scenario() -> None:
        async with SwitchSession("s1", address, 1, broken) as session:
            with pytest.raises(PipelineRefused, match="s1: refused the program: "):
                await session.set_pipeline()

    asyncio.run(scenario())


def test_unreadable_program_files(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("{}")
    (tmp_path / "p.txtpb").write_text("tables { oops")
    with pytest.raises(
        ProgramError, match=r"missing.json: can't read the compiled program: No such"
    ):
        CompiledProgram.load(tmp_path / "missing.json", tmp_path / "p.txtpb")
    with pytest.raises(ProgramError, match=r"p.txtpb: not P4Info as text protobuf"):
        CompiledProgram.load(tmp_path / "p.json", tmp_path / "p.txtpb")


def test_every_switch_needs_an_address(topology: Topology, program: CompiledProgram) -> None:
    with pytest.raises(ControllerError, match="no P4Runtime address given for s2, s3, s4"):
        FabricController(topology, {"s1": "127.0.0.1:1"}, program)
