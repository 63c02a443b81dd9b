"""The queue behind a shaped interface, as a P4 program sees it: on our switch and on BMv2.

    far1 ===veth=== near1 [1 switch 2] near2, htb 1 Mb/s ===veth=== far2
                              [ 3 ] near3 ===veth=== far3

Frames come at twice the rate of the shaper. BMv2 keeps some 200 of them behind its queues (in its
output buffer and its socket), we keep few there: so its queue fills later, and sways. The shaper is
slow: what a stalled machine brings at once is few frames beside the queues' 64.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest

from compiler import compile_p4
from tests.softswitch.veth_rig import in_namespace, ip, link, tap, tc, until

pytestmark = pytest.mark.root

PROGRAM = Path(__file__).parent / "programs" / "depth.p4"
RATE = 1_000_000
SIZE = 1500
PPS = 2 * RATE / (SIZE * 8)
LATE_S = 0.02  # how far a sender may be behind and still make up for it
SENT = {"softswitch": 666, "bmv2": 1665}
QUEUE = 64
START_S = 60.0  # what is to be compiled first included
LAST = 1 << 31  # the number of the frames that end a test

TARGETS = [
    "softswitch",
    pytest.param("bmv2", marks=pytest.mark.reference("simple_switch_grpc")),
]


@dataclass(frozen=True)
class Report:
    """A frame that came out."""

    klass: int
    number: int
    enq_timestamp_us: int
    enq_qdepth: int
    deq_timedelta_us: int

    @property
    def left_us(self) -> int:
        return self.enq_timestamp_us + self.deq_timedelta_us


def frame(number: int, port: int = 2, klass: int = 0) -> bytes:
    head = bytes(12) + bytes([0x88, 0xB5, port, klass]) + number.to_bytes(4, "big")
    return head.ljust(SIZE, b"\0")


def report(data: bytes) -> Report:
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(16, 36, 4)]
    return Report(data[15], words[0], words[1], words[2], words[4])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    compiled = compile_p4(PROGRAM)
    path = tmp_path / "depth.json"
    path.write_text(compiled.json_text)
    return path


@contextmanager
def running(target: str, program: Path, queues: int) -> Iterator[dict[int, socket.socket]]:
    """Run the switch on three links, near2 shaped; yield the sockets at their far ends."""
    ip("link set lo up")
    for n in (1, 2, 3):
        link(n)
    tc("qdisc add dev near2 root handle 5: htb default 1")
    tc(f"class add dev near2 parent 5: classid 5:1 htb rate {RATE} burst 15k")
    taps = {n: tap(f"far{n}") for n in (1, 2, 3)}
    command = [sys.executable, "-m", "softswitch"]
    if target == "bmv2":
        command = [str(shutil.which("simple_switch_grpc")), "--log-level", "off"]
    command += ["-i", "1@near1", "-i", "2@near2", "-i", "3@near3", str(program)]
    command += ["--", "--priority-queues", str(queues), "--grpc-server-addr", "127.0.0.1:9559"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            taps[3].settimeout(0.05)

            def passes() -> bool:
                taps[1].send(frame(0, port=3))
                try:
                    return bool(taps[3].recv(2000))
                except TimeoutError:
                    return False

            until(passes, f"{target} forwards", START_S)
            yield taps
        finally:
            process.terminate()
            for raw in taps.values():
                raw.close()


def offer(raw: socket.socket, frames: Iterator[bytes]) -> None:
    """Send at PPS; after a longer pause at PPS again, without making up for it."""
    due = time.monotonic()
    for data in frames:
        time.sleep(max(0.0, due - time.monotonic()))
        raw.send(data)
        due = max(due + 1 / PPS, time.monotonic() - LATE_S)


def reports(taps: dict[int, socket.socket], port: int) -> list[Report]:
    """All that comes out of a port: until one of the lowest priority comes that is sent after."""
    found: list[Report] = []
    taps[port].settimeout(0.1)

    def ended() -> bool:
        taps[1].send(frame(LAST, port))
        try:
            while not found or found[-1].number != LAST:
                found.append(report(taps[port].recv(2000)))
        except TimeoutError:
            return False
        return True

    until(ended, f"the last frame at port {port}")
    return found[:-1]


@pytest.mark.parametrize("target", TARGETS)
@in_namespace
def test_depth_and_waiting_time_grow_to_the_queues_limit(target: str, program: Path) -> None:
    sent = SENT[target]
    with running(target, program, 1) as taps:
        offer(taps[1], (frame(n) for n in range(sent)))
        taps[1].send(frame(7, port=3))
        got = reports(taps, 2)
        assert 7 in [r.number for r in reports(taps, 3)]
    assert [r.number for r in got] == sorted(r.number for r in got)
    assert max(r.enq_qdepth for r in got) == QUEUE - 1
    assert got[0].enq_qdepth == 0
    late = got[-len(got) // 3 :]
    half = next(r for r in got if r.enq_qdepth >= QUEUE // 2)
    half_s = (half.enq_timestamp_us - got[0].enq_timestamp_us) / 1e6
    rate = (len(late) - 1) * SIZE * 8 / (late[-1].left_us - late[0].left_us)
    print(
        f"{target}: depth {QUEUE // 2} after {half_s:.1f} s; "
        f"the last third: depth {mean(r.enq_qdepth for r in late):.0f}, "
        f"deq_timedelta {mean(r.deq_timedelta_us for r in late) / 1e3:.0f} ms, "
        f"highest {max(r.deq_timedelta_us for r in late) / 1e3:.0f} ms, {rate:.2f} Mb/s"
    )
    assert mean(r.enq_qdepth for r in late) > QUEUE / 3
    # A full queue takes 64 frames' time; half of that at least, as both send in bursts.
    assert max(r.deq_timedelta_us for r in late) > QUEUE * SIZE * 8 * 1e6 / RATE / 2
    assert len(got) < sent - PPS / 4  # the rest found the queue full


@pytest.mark.parametrize("target", TARGETS)
@in_namespace
def test_priorities_are_strict(target: str, program: Path) -> None:
    sent = SENT[target]
    with running(target, program, 3) as taps:
        offer(taps[1], (frame(n, klass=n % 3) for n in range(sent)))
        got = reports(taps, 2)
    of = {klass: [r for r in got if r.klass == klass] for klass in range(3)}
    # A third of twice the rate: all of it passes, but for what a stalled machine brings at once.
    assert len(of[2]) > 0.9 * sent / 3
    assert len(of[0]) < len(of[1]) < len(of[2])
    assert max(r.enq_qdepth for r in of[0]) == QUEUE - 1
    waits = [sorted(r.deq_timedelta_us for r in of[klass]) for klass in range(3)]
    print(
        f"{target}: of the highest priority {sent // 3 - len(of[2])} of {sent // 3} frames lost, "
        f"deq_timedelta {mean(waits[2]) / 1e3:.0f} ms; of the lowest {mean(waits[0]) / 1e3:.0f} ms"
    )
    # One in twenty may have waited for the machine.
    assert waits[2][len(waits[2]) * 19 // 20] < waits[0][-1] / 3
