"""Reading real switches: everything is there, nothing is disturbed, and what fails is said."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from controller import CompiledProgram, run
from controller.session import SwitchSession
from mechanisms.fast_cnp.counters import OUTCOMES
from observe.metrics_reader import FabricReader
from topologies import Topology

FRAME = bytes.fromhex("020000000001020000000002") + b"\x88\xb5" + b"reader" + bytes(40)


def test_counts_of_the_fabric_on_every_target(
    switches: Any,
    topology: Topology,
    program: CompiledProgram,
    wait_for: Callable[[Callable[[], bool]], None],
) -> None:
    addresses = switches.start_all(topology)
    with (
        run(topology, addresses, program) as controller,
        FabricReader(topology, addresses, side_channel=False) as reader,
    ):
        for _ in range(3):
            controller.packet_out("s1", 4, FRAME)
        wait_for(lambda: reader.sample()["s1"].ports[4].tx_packets == 3)
        sample = reader.sample()
        assert {name: sorted(found.ports) for name, found in sample.items()} == {
            "s1": [1, 2, 3, 4], "s2": [1, 2, 3, 4], "s3": [1, 2], "s4": [1, 2],
        }  # fmt: skip
        port = sample["s1"].ports[4]
        assert port.tx_bytes >= 3 * len(FRAME)
        assert port.rate_bps == 40_000_000  # 400 Gb/s at time_scale 10000
        assert (port.marked_packets, port.roce_packets, port.roce_naks) == (0, 0, 0)
        assert set(port.counters) == {"allreduce", "bolt", "dlb", "dpfr", "fast_cnps", "iglb"}
        assert set(port.counters["fast_cnps"]) == set(OUTCOMES)
        assert not any(port.counters["fast_cnps"].values())
        assert port.queue_bytes is None
        assert sample["s1"].drops["no_route"] == 0
        assert not any(found.error for found in sample.values())


def test_the_side_channel_tells_what_p4runtime_cannot(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)
    with (
        run(topology, addresses, program),
        FabricReader(topology, addresses, side_channel=True) as reader,
    ):
        first, second = reader.sample()["s3"], reader.sample()["s3"]
        assert second.at_ns > first.at_ns
        assert first.cpu_ns is not None
        assert {"no_route", "receive_overrun"} <= set(first.drops)


def test_a_switch_without_a_program_has_ports_and_no_counters(
    softswitches: Any, topology: Topology
) -> None:
    addresses = softswitches.start_all(topology)
    with FabricReader(topology, addresses, side_channel=True) as reader:
        sample = reader.sample()["s1"]
    assert not sample.error
    assert sample.ports[1].marked_packets is None
    assert sample.ports[1].counters == {}
    assert "ingress" in sample.drops
    assert "no_route" not in sample.drops


def test_no_controller_notices_the_reader(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)

    async def scenario() -> None:
        with FabricReader(topology, addresses, side_channel=True) as reader:
            await asyncio.to_thread(reader.sample)
            # With the lowest election id there is: whoever else took part would be primary.
            async with SwitchSession("s1", addresses["s1"], 1, program, election_id=1) as session:
                await session.set_pipeline()
                await asyncio.to_thread(reader.sample)
                assert session.is_primary
                await session.write([])

    asyncio.run(scenario())


def test_a_switch_that_dies_is_said_and_holds_up_no_other(
    softswitches: Any, topology: Topology, program: CompiledProgram
) -> None:
    addresses = softswitches.start_all(topology)
    with (
        run(topology, addresses, program),
        FabricReader(topology, addresses, side_channel=True) as reader,
    ):
        assert not reader.sample()["s2"].error
        softswitches.kill("s2")
        sample = reader.sample()
        assert sample["s2"].error == f"no switch answers on {addresses['s2']}"
        assert sample["s2"].ports == {}
        assert not sample["s1"].error


def test_a_switch_that_comes_back_is_read_again(
    softswitches: Any, topology: Topology, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    addresses = softswitches.start_all(topology)
    with FabricReader(topology, addresses, side_channel=True) as reader:
        assert not reader.sample()["s2"].error
        softswitches.kill("s2")
        assert reader.sample()["s2"].error
        again = ["--device-id", "2", "--no-p4", "--", "--grpc-server-addr", addresses["s2"]]
        process = subprocess.Popen(
            [sys.executable, "-m", "softswitch", *again],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for(lambda: not reader.sample()["s2"].error)
        finally:
            process.kill()
            process.wait()
