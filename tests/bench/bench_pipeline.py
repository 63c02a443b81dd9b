"""Packets per second of the compiled base L3 path alone, from inject to take_output.

    python tests/bench/bench_pipeline.py [--json] [--so PIPELINE.so]

One core, no sockets. The driving loop is Python, but each of its calls hands over 256 packets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import command_line
import l3

from softswitch.core import CoreConfig, PortConfig, SwitchCore

BATCH = 256
NEVER = (1 << 63) - 1


class Drive:
    """Pushes the same batch of frames through a switch, a (virtual) microsecond apart."""

    def __init__(self, core: SwitchCore, frames: list[bytes]) -> None:
        self.core = core
        self.keep = [core.ffi.from_buffer("uint8_t[]", frame) for frame in frames]
        self.packets = core.ffi.new("struct ws_packet_in[]", BATCH)
        for i in range(BATCH):
            data = self.keep[i % len(frames)]
            self.packets[i].port, self.packets[i].data = 1, data
            self.packets[i].length = len(data)
        self.outputs = core.ffi.new("struct ws_output[]", BATCH)
        self.now = 0

    def rate(self, seconds: float) -> float:
        """Packets per second over about `seconds`; each packet must come out."""
        inject, take = self.core.lib.ws_inject, self.core.lib.ws_take_output
        switch, packets, outputs, now = self.core.pointer, self.packets, self.outputs, self.now
        started = time.perf_counter()
        elapsed, sent, done = 0.0, 0, 0
        while elapsed < seconds:
            for _ in range(64):
                now += 1_000_000
                inject(switch, packets, BATCH, now)
                done += take(switch, outputs, BATCH, NEVER)
            sent += 64 * BATCH
            elapsed = time.perf_counter() - started
        self.now = now + 1_000_000
        self.core.advance(self.now)
        done += len(self.core.take_output())
        if done != sent:
            raise SystemExit(f"error: {sent} packets in, {done} out: the program does not forward")
        return done / elapsed


def measure(so: Path | None, rounds: int, seconds: float) -> dict[str, float]:
    """Median Mpps by number of flows, and with a rate-limited port."""
    results = {}
    for name, flows, config in (
        ("1 flow", 1, None),
        ("64 flows", 64, None),
        ("256 flows", 256, None),
        ("256 flows, port with a rate", 256, PortConfig(rate_bps=400_000_000_000, queue_packets=0)),
    ):
        with l3.switch() if so is None else SwitchCore(CoreConfig()) as core:
            if so is not None:
                l3.load(core, so)
            if config is not None:
                core.configure_port(l3.OUT_PORT, config)
            drive = Drive(core, l3.frames(flows))
            drive.rate(0.1)  # touches memory, fills caches
            results[name] = statistics.median(drive.rate(seconds) for _ in range(rounds)) / 1e6
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--so", type=Path, help="a compiled l3 pipeline; default: compile it")
    parser.add_argument("--rounds", type=command_line.count, default=5)
    parser.add_argument("--seconds", type=command_line.seconds, default=0.5, help="of one round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = measure(arguments.so, arguments.rounds, arguments.seconds)
    if arguments.json:
        print(json.dumps(results))
        return
    print("base L3 path, 64 B frames, 1 000 routes, one core, medians")
    for name, mpps in results.items():
        print(f"  {name:30} {mpps:6.2f} Mpps")


if __name__ == "__main__":
    command_line.run(main)
