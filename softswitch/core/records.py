"""The plain values that go in and out of the core, and its error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import gcd
from typing import Any, TypeVar

R = TypeVar("R", bound="_Record")

CLOSED_QUEUE = 0xFFFF_FFFF
"""A queue's capacity in packets with which it takes none, as BMv2's depth 0 (WS_QUEUE_CLOSED)."""

_LEAST_QUANTUM = 2048
_REASONS = {
    -1: "no such object",
    -2: "an equal entry is there",
    -3: "full",
    -4: "malformed",
    -5: "still in use",
    -6: "out of memory",
    -7: "can't be loaded",
    -8: "the table is constant",
}


class CoreError(Exception):
    """A call that the core refused. `code` is a CoreErrorCode, or -errno from a DaemonLoop."""

    def __init__(self, code: int, message: str, reason: str | None = None) -> None:
        super().__init__(f"{message}: {reason or _REASONS.get(code, f'error {code}')}")
        self.code = code
        self.message = message


class CoreErrorCode(IntEnum):
    """The values of `CoreError.code` (enum ws_error)."""

    ENOENT = -1
    EEXIST = -2
    EFULL = -3
    EINVAL = -4
    EBUSY = -5
    ENOMEM = -6
    ELOAD = -7
    ECONST = -8


class OutputKind(IntEnum):
    """What an output is (enum ws_output_kind)."""

    PACKET = 0
    CPU = 1
    DIGEST = 2


class PortState(IntEnum):
    """enum ws_port_state."""

    UP = 0
    DOWN = 1
    BLOCKED = 2


class Target(IntEnum):
    """What an entry points to (enum ws_target)."""

    ACTION = 0
    MEMBER = 1
    GROUP = 2


class _Record:
    """A dataclass with the member names of a C struct."""

    __slots__ = ()

    def as_dict(self) -> dict[str, int]:
        """Return the fields as cffi initialises the struct."""
        return {f.name: int(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def read(cls: type[R], struct: Any) -> R:
        """Read the fields from the C struct."""
        names = (f.name for f in dataclasses.fields(cls))  # type: ignore[arg-type]
        return cls(**{name: int(getattr(struct, name)) for name in names})


@dataclass(frozen=True, slots=True)
class CoreConfig(_Record):
    """struct ws_config; defaults are BMv2's."""

    cpu_port: int = 0
    """0: none."""
    drop_port: int = 511
    priorities: int = 1
    """Queues a port, 1 to 8; a higher number is served first."""
    tick_ps: int = 1_000_000
    """Unit of the program's timestamps: 1 000 000 = us, 1 000 = ns."""
    depth_cell_bytes: int = 0
    """0: queue depth in packets; else in cells of this many bytes."""
    queue_packets: int = 64
    recirculate_ps: int = 1_000_000
    recirculate_packets: int = 1024
    seed: int = 1


@dataclass(frozen=True, slots=True)
class PortConfig(_Record):
    """struct ws_port_config."""

    rate_bps: int = 0
    """0: not limited. A frame counts 24 B more, at least 84 B."""
    tx_delay_ps: int = 0
    rx_delay_ps: int = 0
    queue_packets: int = 64
    """Of each queue; 0: not limited by count; CLOSED_QUEUE: takes none."""
    queue_bytes: int = 0
    """Of each queue; 0: not limited by bytes."""
    rate_pps: int = 0
    """BMv2's packets per second of each queue; 0: none."""
    queue_cells: int = 0
    """Of each queue, in cells of depth_cell_bytes (256 B if that is 0); 0: not limited by cells."""


@dataclass(frozen=True, slots=True)
class QueueConfig(_Record):
    """struct ws_queue_config: BMv2's limits of one queue."""

    packets: int = 64
    """0: not limited by count; CLOSED_QUEUE: takes none."""
    rate_pps: int = 0
    """Packets per second; 0: none."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """How a port chooses among its queues (struct ws_scheduler).

    `quanta[c]`: 0 for a strict queue (the highest is served first, before all others), else the
    bytes of queue c in a round of deficit round robin; a frame counts 24 B more, at least 84 B.
    """

    quanta: tuple[int, ...] = (0,) * 8

    @classmethod
    def of_weights(cls, weights: Mapping[int, int]) -> Scheduler:
        """Return a scheduler whose queues share exactly by these weights; the others are strict."""
        for queue, weight in weights.items():
            if not 0 <= queue < 8 or weight < 1:
                raise ValueError(
                    f"queue {queue} with weight {weight}: queues are 0 to 7, weights 1 up"
                )
        common = gcd(*weights.values()) or 1
        least = min(weights.values(), default=1) // common
        # A round lets the least of them send a frame of the usual size.
        unit = -(-_LEAST_QUANTUM // least)
        quanta = [0] * 8
        for queue, weight in weights.items():
            quanta[queue] = weight // common * unit
        return cls(tuple(quanta))


class Direction(IntEnum):
    """Of a port's wire (enum ws_direction): what it sends, or what it receives."""

    SEND = 0
    RECEIVE = 1


@dataclass(frozen=True, slots=True)
class PortImpair(_Record):
    """struct ws_port_impair: what goes wrong on the wire, in one direction of a port.

    Probabilities are of a frame and in units of 2^-32, but `bit_error` in units of 2^-64;
    softswitch.impairments makes them of shares such as "1%".
    """

    loss: int = 0
    burst_enter: int = 0
    burst_leave: int = 0
    burst_loss: int = 0
    bit_error: int = 0
    corrupt: int = 0
    duplicate: int = 0
    reorder: int = 0
    reorder_ps: int = 0
    jitter_ps: int = 0
    flow_loss: int = 0
    flow_src: int = 0
    flow_src_mask: int = 0
    flow_dst: int = 0
    flow_dst_mask: int = 0
    flow_protocol: int = 0
    flow_sport: int = 0
    flow_dport: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ImpairStats(_Record):
    """struct ws_impair_stats: what went wrong so far."""

    frames: int = 0
    lost: int = 0
    lost_fcs: int = 0
    lost_flow: int = 0
    corrupted: int = 0
    duplicated: int = 0
    reordered: int = 0


@dataclass(frozen=True, slots=True)
class PortStats(_Record):
    """struct ws_port_stats."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drop_down: int
    drop_queue: int
    depth_packets: int
    depth_bytes: int
    max_depth_packets: int
    waited: int = 0
    wait_ps: int = 0


@dataclass(frozen=True, slots=True)
class QueuePeak(_Record):
    """struct ws_queue_peak: how long a queue was since it is watched; `above_at` in ps, or -1."""

    bytes: int
    above_at: int


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """struct ws_buffer_config; `alpha_q8` and `class_of_dscp` by class and DSCP."""

    shared_bytes: int
    alpha_q8: tuple[int, ...] = (32,) * 8
    class_of_dscp: tuple[int, ...] = (0,) * 64
    lossless: int = 0
    xon_gap_bytes: int = 0
    watchdog_ps: int = 0
    watchdog_restore_ps: int = 0


@dataclass(frozen=True, slots=True)
class PfcStats:
    """struct ws_pfc_stats: each a value by class."""

    xoff_sent: tuple[int, ...]
    xon_sent: tuple[int, ...]
    xoff_received: tuple[int, ...]
    xon_received: tuple[int, ...]
    paused_ps: tuple[int, ...]
    drop_headroom: tuple[int, ...]
    drop_shared: tuple[int, ...]
    watchdog_events: tuple[int, ...]
    watchdog_drops: tuple[int, ...]
    bytes: tuple[int, ...]
    most_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BufferStats(_Record):
    """struct ws_buffer_stats."""

    shared_bytes: int
    used_bytes: int
    most_used_bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """struct ws_waiting: packets of an ingress port in a queue; `paused`: 1 if that is, now."""

    ingress_port: int
    egress_port: int
    queue: int
    paused: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CoreStats(_Record):
    """struct ws_stats."""

    ingress: int
    egress: int
    drop_ingress: int
    drop_egress: int
    drop_no_pipeline: int
    drop_recirculate: int
    drop_bad_port: int
    drop_bad_priority: int
    clone_unknown_session: int
    multicast_unknown_group: int
    parser_errors: int
    assert_failures: int
    recirculated: int
    resubmitted: int
    cloned: int
    replicated: int
    digests: int
    drop_no_memory: int
    endless_passes: int


@dataclass(frozen=True, slots=True)
class LoopStats(_Record):
    """struct wd_stats."""

    rx: int
    tx: int
    tx_blocked: int
    tx_errors: int
    wakeups: int
    truncated: int
    rx_dropped: int
    events_dropped: int
    cpu_ns: int
    held_back_ns: int


@dataclass(frozen=True, slots=True)
class TickerStats(_Record):
    """struct wd_ticker_stats: a ticker's settings, its ticks, and how late they were, in ps."""

    port: int
    start_ps: int
    period_ps: int
    ticks: int
    skipped: int
    """Too late to be made up for."""
    late_p50_ps: int
    late_p99_ps: int
    late_max_ps: int


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """struct wd_port_stats: what a port's interface does to what the port sends."""

    discipline: str
    """The interface's root queueing discipline, such as "noqueue" or "htb"."""
    blocked: int
    lost: int


@dataclass(frozen=True, slots=True)
class Counter(_Record):
    """struct wp_counter."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of a multicast group."""

    port: int
    rid: int = 0
    backup: bool = False
    """Stands in for the last one before it that is no backup, while its port and those of all
    between are down."""


@dataclass(frozen=True, slots=True)
class Session(_Record):
    """A clone session: a port, a multicast group or both; `truncate` bytes, 0 = no.

    `priority`: of the queues that clones wait in; 0 leaves it to the clones' metadata.
    """

    egress_port: int = 0
    port_valid: bool = False
    group: int = 0
    group_valid: bool = False
    truncate: int = 0
    priority: int = 0

    @classmethod
    def to_port(cls, port: int, *, truncate: int = 0) -> Session:
        """Return a session whose clones leave by one port."""
        return cls(egress_port=port, port_valid=True, truncate=truncate)

    @classmethod
    def to_group(cls, group: int, *, truncate: int = 0, priority: int = 0) -> Session:
        """Return a session whose clones are replicated to a multicast group."""
        return cls(group=group, group_valid=True, truncate=truncate, priority=priority)


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Two rates per second and bursts, in the meter's unit (bytes or packets); cir <= pir."""

    cir: int
    cburst: int
    pir: int
    pburst: int

    @staticmethod
    def as_c(config: MeterConfig | None) -> dict[str, int]:
        """Return the fields as cffi initialises struct ws_meter_config; None: not configured."""
        if config is None:
            return {"configured": 0}
        return {**dataclasses.asdict(config), "configured": 1}


@dataclass(frozen=True, slots=True)
class Spec:
    """What an entry does: an action with its values, a member, or a group."""

    target: Target
    action: int = 0
    args: tuple[int, ...] = ()
    ref: int = 0

    @classmethod
    def of_action(cls, action: int, args: Sequence[int] = ()) -> Spec:
        """Run action `action` (index) with one value a parameter."""
        return cls(Target.ACTION, action=action, args=tuple(args))

    @classmethod
    def of_member(cls, handle: int) -> Spec:
        """Refer to a member of the table's action profile."""
        return cls(Target.MEMBER, ref=handle)

    @classmethod
    def of_group(cls, handle: int) -> Spec:
        """Refer to a group of the table's action profile."""
        return cls(Target.GROUP, ref=handle)


class KeepKind(IntEnum):
    """What a `Keep` names (enum ws_keep_kind)."""

    REGISTER = 0
    COUNTER = 1
    METER = 2
    ENTRY = 3


@dataclass(frozen=True, slots=True)
class Keep:
    """State that a new program takes over: array `old` as `new`, or a table's entry by its handles.

    Of an entry: its direct counter, last hit and direct meter; handle 0 is the default entry.
    """

    kind: KeepKind
    old: int
    new: int
    old_handle: int = 0
    new_handle: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """Something that left the pipeline.

    `port`: the egress port, or the digest's index in the descriptor's `learns`. `at_ps`: when the
    last bit arrives at the far end, or the digest was made. `id` orders outputs of equal time.
    `program`: number of the program that made it (see SwitchCore.program_number). A simulated
    packet is `data` and `tail_length` bytes of `SwitchCore.payload(tail_seed, ...)`.
    """

    kind: OutputKind
    port: int
    data: bytes
    at_ps: int
    id: int
    program: int = 0
    tail_length: int = 0
    tail_seed: int = 0
