"""A controller that we did not write: finsy, over TCP, against the in-process server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import finsy
import pytest

if TYPE_CHECKING:
    from conftest import Running

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CPU_PORT = 255
TIMEOUT_S = 20.0

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
