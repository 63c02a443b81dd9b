"""iGLB in topology files: `iglb: true`, or what differs from the usual."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from topologies.extensions import Setting
from topologies.fields import Duration, Model
from topologies.model import Topology

KEY = "iglb"
HOLD_DOWN_PS = 1_000_000_000
FLOWS = 512
MOST_FLOWS = 1 << 16


class Pinning(enum.Enum):
    """How switches are made to send a flow where the plan wants it."""

    ENTRIES = "entries"
    PORTS = "ports"


class Order(enum.Enum):
    """In which order jobs that come together choose their paths."""

    TOGETHER = "together"
    INTENSITY = "intensity"


@dataclass(frozen=True)
class Iglb:
    """How jobs' flows are planned and pinned.

    `pinning`: with exact entries; or queue pairs get source ports that switches' hashes send where
    the plan wants them, and entries are only for what is planned again after a failure.
    `hold_down_ps`: a link that returns is used by plans after so long without another change, in
    fabric ps. `flows`: of each host, that switches have room for; a power of two. `rotate`: jobs
    of a run file that repeat iterations start later, where their bursts meet less then. `order`:
    jobs are planned together, or those first that compute most for a second of traffic.
    """

    pinning: Pinning = Pinning.ENTRIES
    hold_down_ps: int = HOLD_DOWN_PS
    flows: int = FLOWS
    rotate: bool = False
    order: Order = Order.TOGETHER


def _order(word: object) -> Order:
    if isinstance(word, Order):
        return word
    known = [each.value for each in Order]
    if word not in known:
        raise ValueError(f"{word!r} is not an order of jobs: known are {', '.join(known)}")
    return Order(word)


def _pinning(word: object) -> Pinning:
    if isinstance(word, Pinning):
        return word
    known = [each.value for each in Pinning]
    if word not in known:
        raise ValueError(f"{word!r} is not a way of pinning: known are {', '.join(known)}")
    return Pinning(word)


def _power(flows: int) -> int:
    if flows & (flows - 1):
        raise ValueError(f"flows is a power of two, such as {1 << flows.bit_length()}, not {flows}")
    return flows


class IglbEntry(Model):
    """What a file may say: `{pinning: ports, hold_down: 1ms, flows: 512}`."""

    pinning: Annotated[Pinning, BeforeValidator(_pinning)] = Pinning.ENTRIES
    hold_down: Duration = HOLD_DOWN_PS
    flows: Annotated[int, Field(ge=1, le=MOST_FLOWS, strict=True), AfterValidator(_power)] = FLOWS
    rotate: Annotated[bool, Field(strict=True)] = False
    order: Annotated[Order, BeforeValidator(_order)] = Order.TOGETHER


def _said(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: IglbEntry | None) -> Iglb | None:
    if entry is None:
        return None
    return Iglb(entry.pinning, entry.hold_down, entry.flows, entry.rotate, entry.order)


IGLB = Setting(
    KEY,
    Annotated[IglbEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    Iglb,
    "topology",
)


def setting_of(topology: Topology) -> Iglb | None:
    """Return what a topology's file says of iGLB; None where it does not use it."""
    found: Iglb | None = topology.setting(KEY)
    return found
