"""The process that ticks for a switch without tickers of its own (BMv2): one end of a veth pair.

    python -m emulation.ticker_process w3f2a-s1-t509 'period=1ms,packet=ffffffffffff...,start=0ns'

Tick k of each ticker is due at start + k * period after the process began, by absolute times, so
that nothing drifts. A process that comes late makes up for up to BEHIND ticks, then skips the
oldest. It ends at SIGTERM, or with the interface, and says what it did and how late it was.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from softswitch.ticker_options import TickerOption, parse_ticker

BEHIND = 1024
BUCKET_NS = 1000
NS_PER_S = 10**9
PS_PER_NS = 1000
_PR_SET_TIMERSLACK = 29
_PASSING = (errno.ENETDOWN, errno.ENOBUFS, errno.EAGAIN)
"""What a send may fail with and the next one not: the tick is lost, as on a cable."""

_GONE = (errno.ENODEV, errno.ENXIO)


class Ticks:
    """One ticker: when its next tick is due (ns of the monotonic clock), and what it has done."""

    def __init__(self, option: TickerOption, began_ns: int) -> None:
        self.packet = option.packet
        self.began_ns = began_ns
        self.start_ps, self.period_ps = option.start_ps, option.period_ps
        self.ticks = self.skipped = self.lost = 0
        self.late: dict[int, int] = {}  # by microsecond
        self.most_ns = 0

    @property
    def due_ns(self) -> int:
        """When the next tick is due: rounded once, so that no period's fraction adds up."""
        passed = self.ticks + self.skipped
        return self.began_ns + (self.start_ps + passed * self.period_ps) // PS_PER_NS

    def skip(self, now_ns: int) -> None:
        """Leave out the oldest ticks of more than BEHIND that are due."""
        behind = (now_ns - self.due_ns) * PS_PER_NS // self.period_ps
        self.skipped += max(0, behind - BEHIND + 1)

    def ticked(self, late_ns: int) -> None:
        """Count one that was sent."""
        self.ticks += 1
        bucket = late_ns // BUCKET_NS
        self.late[bucket] = self.late.get(bucket, 0) + 1
        self.most_ns = max(self.most_ns, late_ns)

    def late_us(self, percent: int) -> int:
        """Return how late so many of a hundred ticks were at most, in microseconds."""
        wanted, seen = -(-self.ticks * percent // 100), 0
        for bucket, count in sorted(self.late.items()):
            seen += count
            if seen >= wanted:
                return bucket + 1
        return 0

    def __str__(self) -> str:
        return (
            f"{self.ticks} ticks, {self.skipped} skipped, {self.lost} lost; late: "
            f"p50 {self.late_us(50)} us, p99 {self.late_us(99)} us, most {self.most_ns // 1000} us"
        )


def tick(device: socket.socket, all_ticks: Sequence[Ticks]) -> NoReturn:
    """Send what is due, forever. Raises OSError when the interface is gone."""
    while True:
        each = min(all_ticks, key=lambda ticks: ticks.due_ns)
        now = time.monotonic_ns()
        if each.due_ns > now:
            time.sleep((each.due_ns - now) / NS_PER_S)  # clock_nanosleep, to an absolute time
        each.skip(time.monotonic_ns())
        due = each.due_ns
        try:
            device.send(each.packet)
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            each.lost += 1
        each.ticked(time.monotonic_ns() - due)


def _end(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Tick until SIGTERM (0), or until the interface is gone (1)."""
    parser = argparse.ArgumentParser(prog="ticker", description="Ticks for one switch.")
    parser.add_argument("interface")
    parser.add_argument("ticker", nargs="+", type=parse_ticker)
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # the default of 50 us would be late
    all_ticks: list[Ticks] = []
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as device:  # 0: it receives none
            device.bind((options.interface, 0))
            began = time.monotonic_ns()
            all_ticks += [Ticks(option, began) for option in options.ticker]
            print(f"ticking on {options.interface}", flush=True)
            tick(device, all_ticks)
    except OSError as error:
        lacks = "it is gone" if all_ticks else "there is no such interface here"
        says = lacks if error.errno in _GONE else error.strerror
        print(f"{options.interface}: {says}", file=sys.stderr)
        return 1
    finally:
        for each in all_ticks:
            print(each, flush=True)


if __name__ == "__main__":
    sys.exit(main())
