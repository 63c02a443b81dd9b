"""What summing in the switch costs: to compile programs with so many lanes, and a packet.

    python tests/bench/bench_allreduce.py [--json] [--lanes 32 --lanes 256]

A root adds up what eight workers send; each eighth contribution becomes eight results. No sockets.
CPU time is that of one core, and of the C compiler; wall time is this machine's as it is now.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import command_line

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the tests' own package is not installed

from softswitch.program_cache import Job, compile_program  # noqa: E402
from tests.mechanisms.allreduce import switches, wire  # noqa: E402
from tests.mechanisms.allreduce.switches import AllReduceSwitch, Membership  # noqa: E402
from tests.mechanisms.allreduce.wire import HEADERS, Message  # noqa: E402

LANES = (32, 256, 512)
MEASURED = (32, 256)
WORKERS, SLOTS = 8, 64
CHUNK_AT = HEADERS + 8
NEVER = (1 << 63) - 1
OUTPUTS = 256
FABRIC = ("PROFILE", "WITH_FABRIC", "WITH_ALLREDUCE")


def cpu_seconds() -> float:
    """Return this process' CPU time and that of the programs that it has run."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def compile_cost(lanes: int) -> dict[str, float]:
    """Compile fabric.p4 with so many lanes, with nothing in the cache; return seconds."""
    defines = (*FABRIC, f"ALLREDUCE_LANES={lanes}")
    before = os.environ.get("WEFT_CACHE_DIR")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["WEFT_CACHE_DIR"] = empty
        cpu, wall = cpu_seconds(), time.perf_counter()
        try:
            made = compile_program(Job(ROOT / "p4src/fabric.p4", defines=defines))
        finally:
            os.environ.pop("WEFT_CACHE_DIR")
            if before is not None:
                os.environ["WEFT_CACHE_DIR"] = before
    return {
        "cpu_s": cpu_seconds() - cpu,
        "wall_s": time.perf_counter() - wall,
        "gcc_wall_s": made.timings["gcc"],
        "json_bytes": len(made.json_text),
    }


class Aggregation:
    """Eight workers' contributions for all slots and both versions, over and over again."""

    def __init__(self, lanes: int) -> None:
        ports = tuple(range(1, WORKERS + 1))
        member = Membership(1, 0, ports, None, 0, SLOTS)
        program = switches.program(lanes, SLOTS)
        self.switch = AllReduceSwitch(program, [member], {port: port for port in ports}, ports)
        self.core = self.switch.switch.core
        values = tuple(range(lanes))
        self.chunks = range(2 * SLOTS)
        said = Message(wire.AllReduceKind.CONTRIBUTION, lanes=values)
        self.frames = [
            (chunk, port, bytearray(wire.frame(said.of_chunk(chunk, SLOTS), port)))
            for chunk in self.chunks
            for port in ports
        ]
        ffi = self.core.ffi
        self.packets = ffi.new("struct ws_packet_in[]", len(self.frames))
        self.kept = [ffi.from_buffer("uint8_t[]", frame) for *_, frame in self.frames]
        for i, (_, port, frame) in enumerate(self.frames):
            self.packets[i].port, self.packets[i].data = port, self.kept[i]
            self.packets[i].length = len(frame)
        self.outputs = ffi.new("struct ws_output[]", OUTPUTS)
        self.now, self.laps = 0, 0

    def lap(self) -> float:
        """Send all contributions of the next chunks; return CPU ns of one."""
        for chunk, _, frame in self.frames:
            number = chunk + self.laps * len(self.chunks)
            frame[CHUNK_AT : CHUNK_AT + 4] = number.to_bytes(4, "big")
        self.laps += 1
        self.now += 1_000_000
        lib, switch, done = self.core.lib, self.core.pointer, 0
        before = time.process_time_ns()
        lib.ws_inject(switch, self.packets, len(self.frames), self.now)
        while n := lib.ws_take_output(switch, self.outputs, OUTPUTS, NEVER):
            done += n
        spent = time.process_time_ns() - before
        if done != len(self.frames):  # as many results as contributions
            raise SystemExit(f"error: {len(self.frames)} contributions, {done} results")
        return spent / len(self.frames)


def hop_cost(lanes: int, rounds: int) -> float:
    """Return the median of rounds: CPU ns of a contribution, with its share of the results."""
    aggregation = Aggregation(lanes)
    aggregation.lap()  # touches memory
    return statistics.median(aggregation.lap() for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lanes", type=int, action="append", choices=[1 << i for i in range(1, 11)],
        help="of the programs; may be given several times; default: 32, 256 and 512",
    )  # fmt: skip
    parser.add_argument("--rounds", type=command_line.count, default=50)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chosen = tuple(arguments.lanes or LANES)
    result: dict[str, Any] = {
        "compile": {lanes: compile_cost(lanes) for lanes in chosen},
        "hop_ns": {
            lanes: hop_cost(lanes, arguments.rounds)
            for lanes in (chosen if arguments.lanes else MEASURED)
        },
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print("fabric.p4 with AllReduce, all of it: P4 to machine code, nothing in the cache")
    for lanes, cost in result["compile"].items():
        print(
            f"  {lanes:5} lanes  {cost['cpu_s']:6.1f} s of CPU  {cost['wall_s']:6.1f} s by the "
            f"clock, of which gcc {cost['gcc_wall_s']:.1f}  JSON {cost['json_bytes'] / 1e6:.1f} MB"
        )
    print(f"a contribution of {WORKERS} workers to one switch, with its share of the results")
    for lanes, ns in result["hop_ns"].items():
        print(f"  {lanes:5} lanes  {ns:6.0f} ns of CPU  {ns / lanes:.2f} ns a lane")


if __name__ == "__main__":
    command_line.run(main)
