"""Switches that run pipelines/lanes.c, frames for them, PFC frames, a wire between two of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.core import BufferConfig, CoreConfig, Output, PortConfig, SwitchCore

SECOND = 1_000_000_000_000
PFC_ADDRESS = bytes.fromhex("0180c2000001")
LOSSLESS = 3
EVER = SECOND * 1000


def wire_ps(length: int, rate_bps: int) -> int:
    """Time of a frame on the wire, rounded up."""
    return -(-max(length + 24, 84) * 8 * SECOND // rate_bps)


def ip_frame(
    length: int, *, dscp: int, out: int = 1, queue: int = 0, group: int = 0, clone: int = 0
) -> bytes:
    """Return an IPv4 frame of `length` bytes with a DSCP, and where lanes.c is to send it."""
    head = bytes([2, clone, group, 0, queue, out]) + bytes.fromhex("02000000000a0800")
    return (head + bytes([0x45, dscp << 2])).ljust(length, b"\0")


def pfc_frame(quanta: dict[int, int]) -> bytes:
    """IEEE 802.1Qbb: quanta by class, as a far end would send it."""
    mask = sum(1 << c for c in quanta)
    times = b"".join(quanta.get(c, 0).to_bytes(2, "big") for c in range(8))
    head = PFC_ADDRESS + bytes.fromhex("02000000000b88080101")
    return (head + mask.to_bytes(2, "big") + times).ljust(60, b"\0")


@dataclass(frozen=True)
class Pause:
    """A PFC frame that came out of a switch."""

    port: int
    at_ps: int
    quanta: dict[int, int]


def read_pause(out: Output) -> Pause | None:
    """Return the PFC frame in an output; None: another frame."""
    if out.data[:6] != PFC_ADDRESS:
        return None
    assert len(out.data) == 60 and out.data[12:16] == bytes.fromhex("88080101")
    times = {c: int.from_bytes(out.data[18 + 2 * c : 20 + 2 * c], "big") for c in range(8)}
    mask = int.from_bytes(out.data[16:18], "big")
    assert not any(times[c] for c in range(8) if not mask >> c & 1)
    return Pause(out.port, out.at_ps, {c: times[c] for c in range(8) if mask >> c & 1})


def pauses(core: SwitchCore, until: int = EVER) -> list[Pause]:
    """Return the PFC frames among what came out, the rest forgotten."""
    return [p for p in map(read_pause, core.take_output(until)) if p is not None]


def same_class(**changes: int | tuple[int, ...]) -> BufferConfig:
    """DSCP d is of class d mod 8, class 3 is lossless."""
    values: dict[str, int | tuple[int, ...]] = {
        "shared_bytes": 100_000,
        "alpha_q8": (256,) * 8,
        "class_of_dscp": tuple(d % 8 for d in range(64)),
        "lossless": 1 << LOSSLESS,
        **changes,
    }
    return BufferConfig(**values)  # type: ignore[arg-type]


def lanes_core(so: Path, *, sanitize: bool, **config: int) -> SwitchCore:
    """Return a switch with eight queues a port that runs lanes.c."""
    core = SwitchCore(CoreConfig(priorities=8, **config), sanitize=sanitize)
    core.load(so)
    return core


def in_class(size: int) -> list[int]:
    """Bytes of headroom by class: so many in the lossless one."""
    return [size if c == LOSSLESS else 0 for c in range(8)]


@dataclass
class Wire:
    """A cable between ports of two switches; each end's tx delay is the cable's.

    Time goes in windows of that delay: what is sent in one arrives in a later one.
    """

    ends: tuple[SwitchCore, SwitchCore]
    ports: tuple[int, int]
    delay_ps: int
    others: tuple[list[tuple[int, int, bytes]], list[tuple[int, int, bytes]]]
    """What else arrives at each end: (time, port, frame), in order."""
    arrived: list[tuple[int, int, bool]] = field(default_factory=list)
    """At the second end: (time, bytes of the frame, whether a PFC frame)."""
    sent_back: list[Pause] = field(default_factory=list)
    """PFC frames that arrived at the first end."""

    def run(self, until: int) -> None:
        """Both switches up to `until`."""
        inbox: tuple[deque[Output], deque[Output]] = (deque(), deque())
        rest = tuple(deque(frames) for frames in self.others)
        now = 0
        while now < until:
            now = min(now + self.delay_ps, until)
            for end, core in enumerate(self.ends):
                self._window(core, inbox[end], rest[end], now, self.ports[end])
            for end, core in enumerate(self.ends):
                for out in core.take_output(EVER):
                    if out.port == self.ports[end]:
                        inbox[1 - end].append(out)
                        self._note(end, out)

    @staticmethod
    def _window(
        core: SwitchCore,
        inbox: deque[Output],
        rest: deque[tuple[int, int, bytes]],
        end: int,
        port: int,
    ) -> None:
        while True:
            first = inbox[0].at_ps if inbox else EVER
            other = rest[0][0] if rest else EVER
            if min(first, other) > end:
                break
            if first <= other:
                out = inbox.popleft()
                core.inject(
                    port, out.data, first, tail_length=out.tail_length, tail_seed=out.tail_seed
                )
            else:
                at, number, data = rest.popleft()
                core.inject(number, data, at)
        core.advance(end)

    def _note(self, end: int, out: Output) -> None:
        pause = read_pause(out)
        if end == 0:
            self.arrived.append((out.at_ps, len(out.data) + out.tail_length, pause is not None))
        elif pause is not None:
            self.sent_back.append(pause)


def port_100g(**changes: int) -> PortConfig:
    """100 Gb/s, no limits of its own."""
    return PortConfig(**{"rate_bps": 100_000_000_000, "queue_packets": 0, **changes})
