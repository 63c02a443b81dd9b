"""Packets that go round for ever in a real-time switch: they must not keep everything else out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch.codegen import Bmv2Program, build_pipeline
from softswitch.core import CoreConfig, DaemonLoop, SwitchCore
from tests.softswitch import tiny_program as tiny

CPU_PORT = 255
ROUNDS_FULL = 1000
"""Packets on the recirculation path that takes 1024: a round of theirs takes 100 times its 1 us."""
MOST_WAIT_S = 1.0
"""For the lock of a switch that is free every few milliseconds, on a machine that is not."""


def going_round() -> Any:
    """Build a program that sends each packet back into ingress: for ever, by resubmitting it."""
    made = tiny.Tiny()
    made.type("h_t", [["x", 16, False]])
    made.header("h", "h_t")
    made.emit("h")
    made.state("start", [tiny.extract("h")])
    made.doc["field_lists"] = [{"name": "none", "id": 1, "elements": []}]
    made.action("again", tiny.call("resubmit", tiny.const(1)))
    return made


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[DaemonLoop]:
    core = SwitchCore(CoreConfig(cpu_port=CPU_PORT))
    core.load(build_pipeline(Bmv2Program.from_json(going_round().json()), cache_dir=tmp_path))
    loop = DaemonLoop(core)
    loop.start()
    yield loop
    began = time.monotonic()
    loop.close()
    assert time.monotonic() - began < MOST_WAIT_S
    core.close()


def test_packets_that_resubmit_themselves_leave_room_for_others(loop: DaemonLoop) -> None:
    lines: list[tuple[int, str]] = []
    with loop.locked() as core:
        core.set_log(lambda level, line: lines.append((level, line)))
        now = loop.now()
        for _ in range(ROUNDS_FULL):
            core.inject(CPU_PORT, bytes(60), now)
    waits = []
    for _ in range(20):
        time.sleep(0.01)
        began = time.monotonic()
        loop.packet_out(bytes(60))
        with loop.locked() as core:
            waits.append(time.monotonic() - began)
            stats = core.stats()
    assert max(waits) < MOST_WAIT_S
    assert stats.resubmitted > ROUNDS_FULL
    assert loop.stats().held_back_ns > 0
    with loop.locked() as core:
        core.set_log(None)
    (line,) = lines
    assert line[0] == 3
    assert "slower than time" in line[1]


def test_switch_that_keeps_up_has_the_time_of_the_clock(loop: DaemonLoop) -> None:
    loop.packet_out(bytes(60))  # one packet that goes round is no load
    before, began = loop.now(), time.monotonic_ns()
    time.sleep(0.05)
    passed = (loop.now() - before) // 1000
    held = loop.stats().held_back_ns
    assert abs(passed + held - (time.monotonic_ns() - began)) < 20_000_000
    assert held < 40_000_000
