"""A card's input and output: its configuration, work, events and packets (rnic.h).

Times are integer picoseconds, addresses integers in host order.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from hostagent.rnic.path_kinds import PathKind
from hostagent.rnic.planes import NO_PLANES, PlaneConfig

NEVER = (1 << 63) - 1
NO_CNPS = (1 << 64) - 1
"""A cnp_interval_ns: this queue pair reports no congestion."""


class Status(enum.IntEnum):
    """Why a call was refused (enum rnic_status)."""

    OK = 0
    NO_SUCH = -1
    EXISTS = -2
    FULL = -3
    INVALID = -4
    NO_MEMORY = -5
    STATE = -6


class CardError(Exception):
    """The card refuses a call; the message says why, `status` of which kind it is."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


class Operation(enum.IntEnum):
    """What a work request does."""

    SEND = 0
    SEND_IMM = 1
    WRITE = 2
    WRITE_IMM = 3
    READ = 4


class Repeat(enum.IntEnum):
    """How what was lost is sent again."""

    GO_BACK_N = 0
    SELECTIVE = 1


class Access(enum.IntFlag):
    """What peers may do with a region."""

    REMOTE_WRITE = 1
    REMOTE_READ = 2


class EventKind(enum.IntEnum):
    """What an event says (enum rnic_event_kind)."""

    COMPLETED = 0
    RECEIVED = 1
    PLACED = 2
    FAILED = 3
    QP_FAILED = 4
    MIGRATED = 5


class Failure(enum.IntEnum):
    """Why work did not complete, or a queue pair is in error (enum rnic_failure)."""

    NONE = 0
    FLUSHED = 1
    RETRY_EXCEEDED = 2
    RNR_EXCEEDED = 3
    REMOTE_ACCESS = 4
    REMOTE_INVALID = 5
    REMOTE_OPERATION = 6
    LOCAL_LENGTH = 7


class PacketKind(enum.IntEnum):
    """What a packet is for."""

    DATA = 0
    RESPONSE = 1
    ACK = 2
    CNP = 3
    READ_REQUEST = 4
    PROBE = 5


class QueuePairState(enum.IntEnum):
    """Where a queue pair stands."""

    RESET = 0
    READY = 1
    ERROR = 2


@dataclass(frozen=True)
class CardConfig:
    """struct rnic_config; `whole`: packets carry payload and ICRC."""

    mac: int
    gateway_mac: int
    ip: int
    max_qps: int = 256
    line_rate_bps: int = 0
    whole: bool = True
    check_icrc: bool = True
    cnp_dscp: int = 48
    cnp_queue: int = 6
    cc_base_ns: int = 0
    clock_ppb: int = 0
    pace_slack_ps: int = 0

    def __post_init__(self) -> None:
        """Raise CardError for a class or queue that there is not."""
        if not 0 <= self.cnp_dscp < 64 or not 0 <= self.cnp_queue < 8:
            raise CardError(
                f"CNPs have a DSCP of 0 to 63 and a queue of 0 to 7, "
                f"not {self.cnp_dscp} and {self.cnp_queue}",
                Status.INVALID,
            )


@dataclass(frozen=True)
class Interface:
    """struct rnic_interface: one more of a card's interfaces."""

    mac: int
    gateway_mac: int
    ip: int
    line_rate_bps: int = 0
    clock_ppb: int = 0


@dataclass(frozen=True)
class QueuePairConfig:
    """struct rnic_qp_config without the slot.

    `path_kind` chooses among the `udp_ports` paths (path_choice.h).

    `ack_apart`: acknowledgements go by `ack_dscp` and `ack_queue`, not by the data's. It has
    `interfaces` of the card's, from `interface` on.
    """

    qpn: int
    mtu: int = 1024
    udp_port: int = 0xC000
    udp_ports: int = 1
    dscp: int = 26
    queue: int = 3
    repeat: Repeat = Repeat.GO_BACK_N
    ttl: int = 64
    first_psn: int = 0
    ack_every: int = 1
    window_packets: int = 0
    reorder_ps: int = 0
    retries: int = 7
    rnr_retries: int = 7
    timeout_ps: int = 4_194_304_000
    rnr_timer_ps: int = 0
    rate_bps: int = 0
    max_reads: int = 0
    send_depth: int = 0
    cnp_interval_ns: int = NO_CNPS
    ack_apart: bool = False
    ack_dscp: int = 0
    ack_queue: int = 0
    interface: int = 0
    interfaces: int = 1
    path_kind: PathKind = PathKind.NONE
    path_idle_rounds: int = 0
    path_rounds: int = 0
    path_pause_ns: int = 0
    planes: PlaneConfig = NO_PLANES

    def fields(self) -> dict[str, Any]:
        """Return the structure's fields, as cffi takes them."""
        return {**vars(self), "planes": vars(self.planes)}


@dataclass(frozen=True)
class Work:
    """A work request. `data` is sent, or READ into (then a writable buffer); its length counts.

    Header-only cards take `length` instead.
    """

    id: int
    operation: Operation
    data: Any = None
    length: int | None = None
    immediate: int = 0
    remote_address: int = 0
    rkey: int = 0


@dataclass(frozen=True)
class Event:
    """struct rnic_event."""

    kind: EventKind
    qpn: int
    id: int
    bytes: int
    immediate: int | None
    status: Failure
    operation: Operation
    at: int


def event_of(row: Any) -> Event:
    """Return a struct rnic_event as Python has it."""
    return Event(
        EventKind(row.kind),
        row.qpn,
        row.id,
        row.bytes,
        row.immediate if row.has_immediate else None,
        Failure(row.status),
        Operation(row.operation),
        row.at,
    )


@dataclass(frozen=True)
class Packet:
    """What the card sends: `frame` whole with ICRC, or header alone with `tail` bytes to follow."""

    frame: bytes
    tail: int
    qpn: int
    queue: int
    psn: int
    repeated: bool
    kind: PacketKind
