"""The rule by which a watched queue changes its rate, in Python's integers and divisions.

What watch.p4 and claim.p4 of p4src/modules/fast_cnp do with shifts, scaled numbers and registers of
a width. Everything is rounded as there: down, once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OVERHEAD = 24
MOST_BYTES = (1 << 24) - 1


@dataclass
class Queue:
    """A watched queue. `numbers`: the arguments of its table's action; `parts`: of the cut table.

    `parts`: by the first excess, in 256ths of a window, to which 256th of the rate it is cut.
    `far`: it is a number that the packets fill.
    """

    numbers: Mapping[str, int]
    parts: Mapping[int, int] = field(default_factory=dict)
    far: bool = True
    depth: int = 0
    filled: int = 0
    begins: int = 0
    bytes: int = 0
    depth_before: int = 0
    rate: int = 0
    base: int = 0
    base_at: int = 0
    lowest: int = 0
    loops: tuple[int, int] = (0, 0)
    loops_at: int = 0
    span: int = 0

    def __post_init__(self) -> None:
        self.rate = self.numbers["most"]

    def packet(self, now: int, length: int, depth: int | None = None) -> None:
        """Count a packet of so many bytes that leaves, at a tick.

        `depth`: bytes of a port's own queue.
        """
        n = self.numbers
        if self.far:
            drained = (now - self.filled) * n["drain"] // 2**16
            self.depth = max(self.depth - drained, 0) + length
            self.filled = now
        else:
            assert depth is not None
            self.depth = depth
        self.bytes += length + OVERHEAD
        if now - self.begins >= n["window"]:
            self._close(now, now - self.begins)

    def asked(self, now: int, validity: int) -> int | None:
        """Take a packet of a source of so long a loop, at a tick: return the rate to report to it.

        None where everybody may send at the most.
        """
        n = self.numbers
        since, loop = max(now - self.begins, 0), (n["unit"] << self.span) >> 8
        forgotten = min(since, 2**32 - 1) * (self.rate >> 16) > n["packets"] * n["speed"]
        if self.rate == n["most"] or (since > 4 * loop and forgotten):
            return None
        before, latest = self.loops
        if now - self.loops_at >= loop:
            self.loops, self.loops_at = (latest, validity), now
        else:
            self.loops = (before, max(latest, validity))
        return said(self.rate)

    @property
    def active(self) -> bool:
        """Whether sources are told."""
        return self.rate < self.numbers["most"]

    def _windows(self, of: int) -> int:
        return of * self.numbers["share"] // 2**16

    def _loop(self) -> int:
        n = self.numbers
        loop = max(n["window_loop"] + 2, max(self.loops) + 1)
        ticks = min((n["unit"] << loop) >> 8, 2**32 - 1)
        for more in range(8):
            if (ticks << more) * (self.rate >> 16) >= n["packets"] // 2 * n["speed"]:
                return loop + more
        return loop + 7

    def _close(self, now: int, passed: int) -> None:
        n = self.numbers
        time = min(passed, 2**32 - 1)
        came = self.bytes + (0 if self.far else self.depth)
        fits = time * n["drain"] // 2**16 + (0 if self.far else self.depth_before)
        excess = min(self._windows(min(max(came - fits, 0), MOST_BYTES)), 2**16 - 1)
        lack = min(self._windows(min(max(fits - came, 0), MOST_BYTES)), 2**16 - 1)
        loop = self.span = self._loop()
        ticks, windows = (n["unit"] << loop) >> 8, loop - n["window_loop"]
        beyond = self.depth - n["wanted_depth"]
        above, below = max(beyond, 0), max(-beyond, 0)
        above = self._windows(min(above, MOST_BYTES)) // 2 ** (windows + 1)
        below = self._windows(below) // 2 ** (windows + 1)
        change = excess + min(above, 64) - lack - min(below, 64)
        most_quiet = self.rate == n["most"] and self.depth <= n["burst_depth"]
        by = min(self.rate * abs(change) // 2 ** (8 + windows), self.rate // 2)
        self.rate += by if change < 0 else -by
        idle = passed > 4 * ticks and time * (self.rate >> 16) > n["packets"] * n["speed"]
        if self.rate > n["most"] or idle or most_quiet:
            self.rate = n["most"]
        self.rate = max(self.rate, n["least"])
        if now - self.base_at >= ticks or idle or self.base == 0:
            self.base, self.base_at, self.lowest = self.rate, now, self.depth
        self.lowest = min(self.lowest, self.depth)
        grown = (self.depth - self.lowest) * (self.rate >> 16)
        if (
            excess
            and not most_quiet
            and self.depth > n["wanted_depth"]
            and grown > n["packets"] * n["line"]
        ):
            self._cut(excess)
        self.begins, self.bytes, self.depth_before = now, 0, self.depth

    def _cut(self, excess: int) -> None:
        for first, part in sorted(self.parts.items(), reverse=True):
            if excess >= first:
                cut = max(self.base * part // 256, self.numbers["least"])
                self.rate = min(self.rate, cut)
                return


def said(rate: int) -> int:
    """Return a rate as a notification says it: what of protocols.notification.rate_of P4 does."""
    units, exponent = rate >> 16, 0
    while units >= 1 << 12:
        units, exponent = units >> 1, exponent + 1
    return exponent << 12 | units
