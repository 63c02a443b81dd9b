"""A port's link as the side channel's JSON: what is in force, and changes of it.

A change names members of ws_port_config, `quanta` (ws_scheduler), and under `send` and `receive`
members of ws_port_impair; times may be given in nanoseconds as NAME_ns. `clear` forgets what
goes wrong before that. With `queue` it is about that queue alone, and names `rate_pps` and
`queue_packets`. What a change leaves out stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from softswitch.core import (
    Direction,
    PortConfig,
    PortImpair,
    QueueConfig,
    Scheduler,
    SwitchCore,
)
from softswitch.p4runtime.status import Code, EntityError

Json = dict[str, Any]

_QUEUES = 8
_LEAST_QUANTUM, _MOST_QUANTUM = 84, 1 << 24
_FRAMES = 1 << 32
_WORD = (1 << 32) - 1
_DELAY = 1 << 60
_MOST = {
    "tx_delay_ps": _DELAY,
    "rx_delay_ps": _DELAY,
    "reorder_ps": _DELAY,
    "jitter_ps": _DELAY,
    "queue_packets": _WORD,
    "loss": _FRAMES,
    "burst_enter": _FRAMES,
    "burst_leave": _FRAMES,
    "burst_loss": _FRAMES,
    "bit_error": 1 << 63,
    "corrupt": _FRAMES,
    "duplicate": _FRAMES,
    "reorder": _FRAMES,
    "flow_loss": _FRAMES,
    "flow_src": _WORD,
    "flow_src_mask": _WORD,
    "flow_dst": _WORD,
    "flow_dst_mask": _WORD,
    "flow_protocol": 255,
    "flow_sport": 65535,
    "flow_dport": 65535,
}
"""Highest values of members; the others take what fits 63 bits."""


@dataclass(frozen=True)
class LinkChange:
    """What to change of a port's link."""

    link: Mapping[str, int]
    quanta: tuple[int, ...] | None
    clear: bool
    wires: Mapping[Direction, Mapping[str, int]]
    queue: int | None = None

    @classmethod
    def read(cls, request: Json) -> LinkChange:
        """Parse a request without its port. Raises EntityError that names a valid value."""
        rest = dict(request)
        clear = rest.pop("clear", False)
        if not isinstance(clear, bool):
            raise _wrong(f'"clear" has to be true or false, not {clear!r}')
        queue = rest.pop("queue", None)
        if queue is not None:
            return cls(_of_queue(queue, rest), None, False, {}, queue)
        quanta = _quanta(rest.pop("quanta", None))
        wires = {}
        for direction in Direction:
            name = direction.name.lower()
            members = rest.pop(name, None)
            if members is not None and not isinstance(members, dict):
                raise _wrong(f'"{name}" has to be an object, not {members!r}')
            if members is not None:
                wires[direction] = _members(members, PortImpair)
        return cls(_members(rest, PortConfig), quanta, clear, wires)

    def apply(self, core: SwitchCore, port: int) -> None:
        """Change the port; the caller holds the core's lock. Raises CoreError."""
        if self.queue is not None:
            _change_queue(core, port, self.queue, self.link)
        elif self.link:
            apart = _queues_apart(core, port)
            core.configure_port(port, replace(core.port_config(port), **self.link))
            for queue, config in apart.items():
                kept = {name: value for name, value in config.items() if name not in self.link}
                _change_queue(core, port, queue, kept)
        if self.quanta is not None:
            core.schedule_port(port, Scheduler(self.quanta))
        for direction in Direction if self.clear else self.wires:
            before = core.port_impair(port, direction)
            if self.clear:
                before = PortImpair(seed=before.seed)  # the random numbers go on
            after = replace(before, **self.wires.get(direction, {}))
            if after != before or self.clear:
                core.impair_port(port, direction, after)


def link_row(core: SwitchCore, port: int) -> Json:
    """Return the settings in force.

    These are the members of ws_port_config, `queues` (by number: those with limits of their own),
    `quanta`, `send` and `receive`.
    """
    return {
        **asdict(core.port_config(port)),
        "queues": {str(queue): own for queue, own in _queues_apart(core, port).items()},
        "quanta": list(core.port_scheduler(port).quanta),
        **{d.name.lower(): asdict(core.port_impair(port, d)) for d in Direction},
    }


def wire_row(core: SwitchCore, port: int) -> Json:
    """Return the counts of impaired frames that the port sent and received (ws_impair_stats)."""
    return {d.name.lower(): asdict(core.port_impair_stats(port, d)) for d in Direction}


_OF_QUEUE = ("rate_pps", "queue_packets")


def _of_queue(queue: object, given: Json) -> dict[str, int]:
    if not _whole(queue) or queue not in range(_QUEUES):
        raise _wrong(f'"queue" is a number from 0 to {_QUEUES - 1}, not {queue!r}')
    for name in given:
        if name not in _OF_QUEUE:
            raise _wrong(f"a queue has no {name!r} of its own; it has {', '.join(_OF_QUEUE)}")
    return _members(given, PortConfig)


def _change_queue(core: SwitchCore, port: int, queue: int, change: Mapping[str, int]) -> None:
    now = core.queue_config(port, queue)
    packets = change.get("queue_packets", now.packets)
    after = QueueConfig(packets, change.get("rate_pps", now.rate_pps))
    if after != now:
        core.configure_queue(port, queue, after)


def _queues_apart(core: SwitchCore, port: int) -> dict[int, dict[str, int]]:
    """Return the queues whose limits differ from the port's, with members named as in a change."""
    config = core.port_config(port)
    apart = {}
    for queue in range(core.config.priorities):
        own = core.queue_config(port, queue)
        if (own.packets, own.rate_pps) != (config.queue_packets, config.rate_pps):
            apart[queue] = {"queue_packets": own.packets, "rate_pps": own.rate_pps}
    return apart


def _quanta(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != _QUEUES or not all(map(_whole, value)):
        raise _wrong(f'"quanta" are {_QUEUES} whole numbers, not {value!r}')
    if any(quantum and not _LEAST_QUANTUM <= quantum <= _MOST_QUANTUM for quantum in value):
        raise _wrong(f'"quanta" are 0 (strict) or {_LEAST_QUANTUM} to {_MOST_QUANTUM} bytes')
    return tuple(value)


def _members(given: Json, kind: type[PortConfig] | type[PortImpair]) -> dict[str, int]:
    known = {field.name for field in fields(kind)}
    found = {}
    for name, value in given.items():
        scale, member = 1, name
        if name.endswith("_ns") and f"{name[:-3]}_ps" in known:
            scale, member = 1000, f"{name[:-3]}_ps"
        if member not in known:
            raise _wrong(f"a link has no {name!r}; it has {', '.join(sorted(known))}")
        most = _MOST.get(member, (1 << 63) - 1) // scale
        if not _whole(value) or not 0 <= value <= most:
            raise _wrong(f"{name} has to be a whole number from 0 to {most}, not {value!r}")
        found[member] = value * scale
    return found


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(message: str) -> EntityError:
    return EntityError(Code.INVALID_ARGUMENT, message)
