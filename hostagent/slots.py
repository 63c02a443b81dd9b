"""Queue pairs' slots in the kernel's maps, as Python has them: what goes in and what comes out."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hostagent import algorithms
from hostagent.algorithms import Parameters
from hostagent.rnic.native import native


@dataclass(frozen=True)
class Plane:
    """One interface of a queue pair over planes: its own and its peer's address there.

    `congestion_control`: what this plane alone runs with, whose line may be another one than those
    of the others.
    """

    local_ip: int
    peer_ip: int
    congestion_control: Parameters | None = None


@dataclass(frozen=True)
class Slot:
    """A queue pair as the kernel keeps it: struct cc_slot.

    `algorithms`: those that apply, by name; `rates`: what each alone allows, in bits/s, `rate_bps`
    the smallest of these, 0 without any; `states`: each one's own fields, as its header in
    hostagent/include has them. `first_cut_at`: when the rate was first lowered, 0 for never; times
    are ns of CLOCK_MONOTONIC. `notified`: switches' notifications that an algorithm hears; `cnps`:
    all other CNPs.

    A queue pair over planes has a slot for each: this is number `plane` of `planes` (0: it is no
    such queue pair), and `shared` is the first one's slot, by which they belong together.
    `lost_at`: the last loss of the plane that its algorithms have heard of, 0 for none; `probes`:
    how many probes by it were answered.
    """

    number: int
    local_ip: int
    qpn: int
    peer_ip: int
    peer_qpn: int
    algorithms: tuple[str, ...]
    packets: int
    bytes: int
    cnps: int
    notified: int
    marked: int
    acks: int
    naks: int
    last_ns: int
    first_cut_at: int
    rate_bps: int
    line_rate_bps: int
    rates: Mapping[str, int]
    states: Mapping[str, Mapping[str, int]]
    shared: int = 0
    plane: int = 0
    planes: int = 0
    lost_at: int = 0
    probes: int = 0

    @property
    def local(self) -> str:
        """Its own address, dotted."""
        return str(ipaddress.IPv4Address(self.local_ip))

    @property
    def peer(self) -> str:
        """Its peer's address, dotted."""
        return str(ipaddress.IPv4Address(self.peer_ip))


def read_slot(number: int, row: Any) -> Slot:
    """Return a copy of a struct cc_slot, which it changes, with its rates of now."""
    module, now = native(), time.monotonic_ns()
    ffi: Any = module.ffi
    own = algorithms.members(ffi, row.algorithms)
    rate = module.lib.cc_rate_now(row, now)
    rates: dict[str, int] = {}
    for place, name in enumerate(algorithms.names(ffi)):
        if name in own:
            row.algorithms = 1 << place
            rates[name] = module.lib.cc_rate_now(row, now)
    lines = [getattr(row, name).params.line_rate for name in own]
    return Slot(
        number,
        row.local_ip,
        row.qpn,
        row.peer_ip,
        row.peer_qpn,
        own,
        row.packets,
        row.bytes,
        row.cnps,
        row.notified,
        row.marked,
        row.acks,
        row.naks,
        row.last_at,
        row.first_cut_at,
        rate,
        min(lines, default=0),
        rates,
        {name: algorithms.state(ffi, getattr(row, name)) for name in own},
        row.shared,
        row.plane,
        row.planes,
        row.lost_at,
        row.probes,
    )
