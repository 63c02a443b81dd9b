"""Packets that the target itself makes, since v1model has neither a timer nor the state of ports.

    --ticker period=100us,start=30us,packet=ffffffffffff02000000000188b5
    --port-report packet=ffffffffffff02000000000188b500000000

They come in by a port of their own, which has no link: to the P4 program they are packets like any
other. Times of the daemon's option are real, as those of `--link` are.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from softswitch.link_options import duration

TICKER_PORT = 509
"""Where ticks come in, on every target; P4 programs call it TICKER_PORT, too. Links end at 254."""

LEAST_BYTES, MOST_BYTES = 14, 1514
"""An Ethernet header; a frame that every interface takes."""

MOST_REPORT_BYTES = 128
"""The core's WS_REPORT_BYTES."""

LEAST_REAL_PS = 10_000_000
"""The shortest period of a daemon, 10 us: what it does between two ticks takes a part of that."""

MOST_REAL_PS = 1 << 60
"""The longest time that the core takes (WS_DELAY_MAX)."""


@dataclass(frozen=True, slots=True)
class TickerOption:
    """`--ticker`: tick k at `start_ps` + k * `period_ps` of the switch's clock."""

    period_ps: int
    packet: bytes
    start_ps: int = 0


def packet_bytes(text: str, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a packet in hex, spaces left out.

    Raises ValueError, which says what would be right.
    """
    digits = re.sub(r"\s", "", text)
    if not re.fullmatch(r"[0-9A-Fa-f]*", digits):
        raise ValueError("a packet is written in hex, two digits a byte")
    if len(digits) % 2:
        raise ValueError(f"a packet has two hex digits a byte, and these are {len(digits)}")
    if not LEAST_BYTES <= len(digits) // 2 <= most:
        raise ValueError(
            f"a packet has {LEAST_BYTES} to {most} bytes, from the Ethernet header on, "
            f"not {len(digits) // 2}"
        )
    return bytes.fromhex(digits)


def parse_ticker(text: str) -> TickerOption:
    """Return the option's value. Raises argparse.ArgumentTypeError."""
    values: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key not in ("period", "packet", "start") or not equals:
            raise argparse.ArgumentTypeError(f"{part!r}: known are period, packet, start, with =")
        values[key] = value
    missing = next((key for key in ("period", "packet") if key not in values), None)
    if missing is not None:
        raise argparse.ArgumentTypeError(f"{text!r} has no {missing}=")
    period_ps, start_ps = duration(values["period"]), duration(values.get("start", "0ns"))
    if period_ps < LEAST_REAL_PS:
        raise argparse.ArgumentTypeError(
            f"a period of {values['period']} is too short for a process: at least 10us"
        )
    if max(period_ps, start_ps) > MOST_REAL_PS:
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: no time is longer than 13 days")
    try:
        packet = packet_bytes(values["packet"])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return TickerOption(period_ps, packet, start_ps)


def parse_port_report(text: str) -> bytes:
    """Return the packet of `--port-report`. Raises argparse.ArgumentTypeError."""
    key, equals, value = text.partition("=")
    if key != "packet" or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not packet=HEX")
    try:
        return packet_bytes(value, MOST_REPORT_BYTES)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
