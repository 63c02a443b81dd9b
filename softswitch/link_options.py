"""The daemon's `--link PORT:KEY=VALUE,...`: how the link at a port is emulated.

    rate=10Gbit  delay=5us  rx-delay=5us              queue=64 (packets), 64KB or 64cells
    weights=0:1/3:4                                   queues that share; the others are strict
    loss=1%  burst=1%/20%/100%  bit-errors=1e-9       lost (burst: turns bad/good again/loss then)
    corrupt=0.1%  duplicate=1%  reorder=1%/10us  jitter=5us  flow=src:10.0.1.1+proto:udp  seed=7

What goes wrong does so on what the port sends; with `rx-` in front, on what it receives.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from softswitch.impairments import Flow, changes

_RATES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_RECEIVE = "rx-"
_QUEUES = 8


@dataclass(frozen=True, slots=True)
class Link:
    """`--link`: a port's emulated link. None: as without the option.

    `weights`: by queue, of those that share; `send` and `receive`: members of core.PortImpair.
    """

    port: int
    rate_bps: int = 0
    delay_ps: int = 0
    rx_delay_ps: int = 0
    queue_packets: int | None = None
    queue_bytes: int = 0
    queue_cells: int = 0
    weights: Mapping[int, int] = field(default_factory=dict)
    send: Mapping[str, int] = field(default_factory=dict)
    receive: Mapping[str, int] = field(default_factory=dict)


def parse_link(text: str, port: Callable[[str], int]) -> Link:
    """Parse the option's value; `port` reads its number. Raises argparse.ArgumentTypeError."""
    head, colon, body = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT:KEY=VALUE,...")
    values: dict[str, int] = {}
    weights: dict[int, int] = {}
    wires: dict[str, dict[str, int]] = {"": {}, _RECEIVE: {}}
    for part in body.split(","):
        key, equals, value = part.partition("=")
        prefix = _RECEIVE if key.startswith(_RECEIVE) else ""
        match key:
            case "rate":
                values["rate_bps"] = _rate(value)
            case "delay":
                values["delay_ps"] = duration(value)
            case "rx-delay":
                values["rx_delay_ps"] = duration(value)
            case "queue":
                values |= _queue(value)
            case "weights":
                weights = _weights(value)
            case _ if key.removeprefix(_RECEIVE) in _IMPAIRMENTS:
                try:
                    wires[prefix] |= _IMPAIRMENTS[key.removeprefix(_RECEIVE)](value)
                except ValueError as error:
                    raise argparse.ArgumentTypeError(f"{key}: {error}") from None
            case _:
                known = ", ".join(["rate", "delay", "rx-delay", "queue", "weights", *_IMPAIRMENTS])
                raise argparse.ArgumentTypeError(f"{part!r}: known are {known}, each with =")
        if not equals:
            raise argparse.ArgumentTypeError(f"{part!r} has no value")
    return Link(port(head), **values, weights=weights, send=wires[""], receive=wires[_RECEIVE])


def _queue(text: str) -> dict[str, int]:
    cells = re.fullmatch(r"(\d+)\s*cells", text, re.IGNORECASE)
    if text.isdecimal():
        return {"queue_packets": int(text)}
    if cells is not None:
        return {"queue_packets": 0, "queue_cells": int(cells[1])}
    what = "a queue: 64 (packets), 64KB or 64cells"
    return {"queue_packets": 0, "queue_bytes": _scaled(text, _SIZES, what)}


def _weights(text: str) -> dict[int, int]:
    weights: dict[int, int] = {}
    for part in text.split("/"):
        found = re.fullmatch(r"(\d+):(\d+)", part)
        if found is None or int(found[1]) >= _QUEUES or not int(found[2]):
            raise argparse.ArgumentTypeError(
                f"weights: {part!r} is not QUEUE:WEIGHT, such as 3:4 (queues are 0 to 7)"
            )
        weights[int(found[1])] = int(found[2])
    return weights


def _burst(text: str) -> dict[str, int]:
    match text.split("/"):
        case [enter, leave]:
            return changes(burst=(enter, leave))
        case [enter, leave, loss]:
            return changes(burst=(enter, leave, loss))
    raise ValueError(f"{text!r} is not TURNS-BAD/TURNS-GOOD[/LOSS], such as 1%/20%")


def _reorder(text: str) -> dict[str, int]:
    share, slash, delay = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not SHARE/TIME, such as 1%/10us")
    return changes(reorder=(share, duration(delay)))


def _flow(text: str) -> dict[str, int]:
    parts: dict[str, str] = {}
    for part in text.split("+"):
        key, colon, value = part.partition(":")
        if not colon or key not in ("src", "dst", "proto", "sport", "dport", "share"):
            raise ValueError(f"{part!r}: a flow is src:, dst:, proto:, sport:, dport: joined by +")
        parts[key] = value
    ports: dict[str, int | None] = {}
    for name in ("sport", "dport"):
        value = parts.get(name, "1")
        if not value.isdecimal():
            raise ValueError(f"{name}:{value} is not a number")
        ports[name] = int(value) if name in parts else None
    flow = Flow(parts.get("src"), parts.get("dst"), parts.get("proto"), **ports)
    return changes(flow=flow, flow_loss=parts.get("share", 1))


def _seed(text: str) -> dict[str, int]:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return changes(seed=int(text))


_IMPAIRMENTS: dict[str, Callable[[str], dict[str, int]]] = {
    "loss": lambda text: changes(loss=text),
    "burst": _burst,
    "bit-errors": lambda text: changes(bit_errors=text),
    "corrupt": lambda text: changes(corrupt=text),
    "duplicate": lambda text: changes(duplicate=text),
    "reorder": _reorder,
    "jitter": lambda text: changes(jitter_ps=duration(text)),
    "flow": _flow,
    "seed": _seed,
}


def _rate(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:bit|bps|bit/s|b/s)", text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate with unit, such as 10Mbit")
    return round(float(found[1]) * _RATES[found[2].lower()])


def duration(text: str) -> int:
    """Return picoseconds of 5us. Raises argparse.ArgumentTypeError."""
    return _scaled(text, _TIMES, "a time with unit, such as 5us")


def _scaled(text: str, units: dict[str, int], what: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower())
    if found is None or found[2] not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return round(float(found[1]) * units[found[2]])
