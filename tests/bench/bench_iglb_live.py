"""A plan put into switches over P4Runtime: how long it takes, entries a second.

    python tests/bench/bench_iglb_live.py [--flows 8192] [--pinning entries] [--json]

A fat tree of 20 switches (k=4, 16 hosts), each a daemon of its own, and one controller.
A job of so many flows is submitted; then a second one of 16 flows, which comes with a new plan of
all; then a link fails. Entries a second count every update that was written, over the whole time
from the event until its plan is in force.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import command_line
import numpy as np

import topologies
from compiler import compile_p4
from controller import FabricController
from controller.diff import Change
from controller.entries import TableEntry
from controller.jobs import DeclaredJob, FlowSet, JobsSubmitted
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from tests.free_port import free_port
from topologies.model import Topology

TREE = """
generator: fat_tree
time_scale: 1
k: 4
link: {{rate: 100Gbps, delay: 500ns, queue: 8MB, mtu: 4200B}}
classes: {{roce: {{dscp: 26, queue: 3, lossless: true}}, rest: {{queue: 0}}}}
iglb: {{pinning: {pinning}}}
"""
START_S = 60

Write = Callable[[Sequence[Change]], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Installed:
    """One event: seconds to plan and to write, updates of all steps, and pins in all switches."""

    event: str
    plan_s: float
    write_s: float
    updates: int
    pins: int

    @property
    def updates_a_second(self) -> float:
        """Over planning and writing."""
        return self.updates / (self.plan_s + self.write_s)


def job(name: str, flows: int, by: int) -> DeclaredJob:
    """Return a job in which each of 16 hosts sends to the one `by` places on, by many pairs."""
    pairs = flows // 16
    source = np.repeat(np.arange(16), pairs)
    numbers = np.arange(16 * pairs)
    ports = 49152 + np.tile(np.arange(pairs), 16) + 8192 * (by % 2)
    size = np.full(len(numbers), 1 << 20)
    return DeclaredJob(name, source, (source + by) % 16, ports, (FlowSet("all", 0, numbers, size),))


@contextmanager
def daemons(topology: Topology) -> Iterator[dict[str, str]]:
    """Start a switch process for each switch; yield their addresses."""
    addresses, processes = {}, []
    try:
        for switch in topology.switches:
            address = f"127.0.0.1:{free_port()}"
            start = [sys.executable, "-m", "softswitch", "--device-id", str(switch.device_id)]
            rest = ["--no-p4", "--", "--grpc-server-addr", address, "--cpu-port", "255"]
            processes.append(subprocess.Popen([*start, *rest], stdout=subprocess.DEVNULL))
            addresses[switch.name] = address
        yield addresses
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


async def install(topology: Topology, flows: int) -> list[Installed]:
    """Bring a fabric of daemons up, and put plans into it."""
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(topology)))
    found = []
    with daemons(topology) as addresses:
        controller = await _connected(topology, addresses, program)
        try:
            await controller.bring_up()
            written = [0]
            for session in controller.sessions.values():
                session.write = _counting(session.write, written)  # type: ignore[assignment, method-assign]

            async def pins() -> int:
                rows = [await controller.read_entries(s, "iglb_pin") for s in controller.sessions]
                return sum(
                    len([entry for entry in each if isinstance(entry, TableEntry)]) for each in rows
                )

            for name, count, by in (("first", flows, 5), ("second", 16, 6)):
                written[0] = 0
                begin = time.monotonic()
                done = await controller.schedule(JobsSubmitted((job(name, count, by),)))
                took = time.monotonic() - begin
                updates = written[0]
                found.append(
                    Installed(name, done.plan_s, took - done.plan_s, updates, await pins())
                )
            written[0] = 0
            begin = time.monotonic()
            await controller.set_link(topology.link_at("s1", 3), up=False)
            took = time.monotonic() - begin
            found.append(Installed("a link fails", 0.0, took, written[0], await pins()))
        finally:
            await controller.close()
    return found


def _counting(write: Write, written: list[int]) -> Write:
    async def counted(updates: Sequence[Change]) -> None:
        written[0] += len(updates)
        await write(updates)

    return counted


async def _connected(
    topology: Topology, addresses: dict[str, str], program: CompiledProgram
) -> FabricController:
    end = time.monotonic() + START_S
    while True:
        controller = FabricController(topology, addresses, program, timeout=20)
        try:
            return await controller.__aenter__()
        except Exception:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(1)


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--flows", type=int, default=8192)
    parser.add_argument("--pinning", default="entries")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    topology = topologies.loads(TREE.format(pinning=chosen.pinning))
    found = asyncio.run(install(topology, chosen.flows))
    if chosen.json:
        print(json.dumps({"events": [asdict(each) for each in found]}))
        return 0
    for each in found:
        times = f"planned {each.plan_s:.2f} s, written {each.write_s:.2f} s"
        rate = f"{each.updates} updates, {each.updates_a_second:.0f}/s"
        print(f"{each.event}: {times}, {rate}, {each.pins} pins")
    return 0


if __name__ == "__main__":
    command_line.run(main)
