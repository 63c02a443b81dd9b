"""A controller that we did not write: finsy, over TCP, against the in-process server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import finsy
import pytest
from finsy.proto import stratum

if TYPE_CHECKING:
    from conftest import Running

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
TIMEOUT_S = 60.0

FRAME = bytes.fromhex(
    "0a000000001102cc00000001080045000028000100004011aec10a010001c00002010fa0138800147eab"
    "68656c6c6f20776f726c6421"
)


def connect(running: Running) -> finsy.Switch:
    return finsy.Switch(
        "s1",
        f"127.0.0.1:{running.server.port}",
        finsy.SwitchOptions(
            p4info=GOLDEN / "features.p4info.txtpb",
            p4blob=GOLDEN / "features.json",
            device_id=3,
            fail_fast=True,
        ),
    )


def test_finsy_sets_the_pipeline_writes_and_reads(running: Running) -> None:
    async def controller() -> None:
        async with connect(running) as switch:
            assert switch.is_primary
            entry = finsy.P4TableEntry(
                "FabricIngress.acl",
                match=finsy.P4TableMatch({"hdr.ipv4.src": "10.1.0.0/16", "hdr.ipv4.$valid$": 1}),
                action=finsy.P4TableAction("FabricIngress.to_cpu"),
                priority=10,
            )
            everything = [finsy.P4TableEntry("FabricIngress.acl")]
            await switch.insert([entry])
            found = [e async for e in switch.read(everything)]
            assert [(e.match, e.priority) for e in found] == [
                ({"src": (0x0A010000, 16), "$valid$": 1}, 10)
            ]
            with pytest.raises(finsy.P4ClientError, match="ALREADY_EXISTS"):
                await switch.insert([entry])
            await switch.delete([entry])
            assert [e async for e in switch.read(everything)] == []

    asyncio.run(asyncio.wait_for(controller(), TIMEOUT_S))


def test_finsy_exchanges_packets(running: Running) -> None:
    async def controller() -> None:
        async with connect(running) as switch:
            await switch.write([finsy.P4PacketOut(FRAME, egress_port=3, pad=0)])
            await switch.write([finsy.P4PacketOut(FRAME, egress_port=CPU_PORT, pad=0)])
            received = await anext(switch.read_packets())
            assert received.payload == FRAME[2:]
            assert running.sent == [(3, FRAME)]

    asyncio.run(asyncio.wait_for(controller(), TIMEOUT_S))


def test_finsy_uses_registers_meters_counters_and_replication(running: Running) -> None:
    """Each array and group as finsy writes and reads it."""

    async def controller() -> None:
        async with connect(running) as switch:
            rates = finsy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
            writes = [
                finsy.P4RegisterEntry("FabricEgress.depth", index=3, data=77),
                finsy.P4MeterEntry("FabricIngress.port_meter", index=2, config=rates),
                finsy.P4CounterEntry(
                    "FabricIngress.port_counter",
                    index=5,
                    data=finsy.P4CounterData(packet_count=8, byte_count=9),
                ),
            ]
            await switch.modify(writes)
            groups = [
                finsy.P4MulticastGroupEntry(7, replicas=[1, 2, (3, 4)]),
                finsy.P4CloneSessionEntry(5, replicas=[6], packet_length_bytes=64),
            ]
            await switch.insert(groups)
            register, meter, counter = [
                e
                async for e in switch.read(
                    [
                        finsy.P4RegisterEntry("FabricEgress.depth", index=3),
                        finsy.P4MeterEntry("FabricIngress.port_meter", index=2),
                        finsy.P4CounterEntry("FabricIngress.port_counter", index=5),
                    ]
                )
            ]
            assert register.data == 77
            assert meter.config == rates
            assert (counter.data.packet_count, counter.data.byte_count) == (8, 9)
            kept = [
                e
                async for e in switch.read(
                    [finsy.P4MulticastGroupEntry(), finsy.P4CloneSessionEntry()]
                )
            ]
            assert kept[0].multicast_group_id == 7 and len(kept[0].replicas) == 3
            assert (kept[1].session_id, kept[1].packet_length_bytes) == (5, 64)
            with pytest.raises(finsy.P4ClientError, match="OUT_OF_RANGE"):
                await switch.modify(
                    [finsy.P4RegisterEntry("FabricEgress.depth", index=512, data=1)]
                )

    asyncio.run(asyncio.wait_for(controller(), TIMEOUT_S))


def test_finsy_takes_roles(running: Running) -> None:
    """Two finsy controllers, each the primary of its own role; one may only write the acl."""

    async def controller() -> None:
        async with connect(running) as switch:
            schema = switch.p4info
            config = stratum.P4RoleConfig(
                exclusive_p4_ids=[schema.tables["FabricIngress.acl"].id], receives_packet_ins=True
            )
            options = finsy.SwitchOptions(
                device_id=3, role_name="acl", role_config=config, fail_fast=True
            )
            async with finsy.Switch("acl", f"127.0.0.1:{running.server.port}", options) as other:
                assert switch.is_primary and other.is_primary
                entry = finsy.P4TableEntry(
                    "FabricIngress.acl",
                    match=finsy.P4TableMatch({"hdr.ipv4.$valid$": 1}),
                    action=finsy.P4TableAction("FabricIngress.to_cpu"),
                    priority=10,
                )
                await other.insert([entry])
                with pytest.raises(finsy.P4ClientError, match="PERMISSION_DENIED"):
                    await other.insert([finsy.P4MulticastGroupEntry(7, replicas=[1])])
                ears = [asyncio.create_task(anext(who.read_packets())) for who in (switch, other)]
                await asyncio.sleep(0)  # both listen from here on
                running.arrive(1, FRAME)
                packets = await asyncio.gather(*ears)
                assert packets[0].payload == packets[1].payload

    asyncio.run(asyncio.wait_for(controller(), TIMEOUT_S))
