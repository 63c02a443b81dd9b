"""An endpoint's input and output: its addresses, pairs, tasks, counters, refusals."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hostagent.rnic.card_records import Failure, Operation
from hostagent.rnic.measurement import Times

MAX_RATE_BPS = 1 << 42  # what the algorithms' integers hold (hostagent/include)

MAX_QPS = 1 << 20


class EndpointError(Exception):
    """The endpoint can't do what was asked; the message says why."""


class TaskKind(enum.IntEnum):
    """What the loop does for a queue pair by itself (enum rnicd_task_kind)."""

    NONE = 0
    BANDWIDTH = 1
    LATENCY = 2
    SERVE = 3
    ANSWER = 4


@dataclass(frozen=True)
class EndpointInterface:
    """One more interface of an endpoint's card; addresses and rate as `EndpointConfig` has them."""

    interface: str
    ip: int
    mac: int
    gateway_mac: int
    line_rate_bps: int = 0


@dataclass(frozen=True)
class EndpointConfig:
    """Addresses are integers in host order; `line_rate_bps` 0: frames leave as fast as they can.

    `more`: the card's interfaces beside the first. Raises ValueError for a number out of range.
    """

    interface: str
    ip: int
    mac: int
    gateway_mac: int
    line_rate_bps: int = 0
    max_qps: int = 1024
    af_packet: bool = False
    cnp_dscp: int = 48
    check_icrc: bool = True
    more: tuple[EndpointInterface, ...] = ()

    @property
    def interfaces(self) -> tuple[EndpointInterface, ...]:
        """All interfaces, the first one in front."""
        own = (self.interface, self.ip, self.mac, self.gateway_mac, self.line_rate_bps)
        return (EndpointInterface(*own), *self.more)

    def __post_init__(self) -> None:
        if not 1 <= self.max_qps <= MAX_QPS:
            raise ValueError(f"{self.max_qps} queue pairs: from 1 to {MAX_QPS} are possible")
        for each in self.interfaces:
            if not 0 <= each.line_rate_bps <= MAX_RATE_BPS:
                raise ValueError(
                    f"a line rate of {each.line_rate_bps} bit/s: from 0 to {MAX_RATE_BPS} is "
                    "possible"
                )


@dataclass(frozen=True)
class Pair:
    """A queue pair as its peer has to know it."""

    qpn: int
    psn: int
    rkey: int
    address: int


@dataclass(frozen=True)
class Task:
    """struct rnicd_task; `count` messages of `size`, sent from and to the queue pair's buffer."""

    kind: TaskKind
    operation: Operation
    size: int
    count: int = 0
    depth: int = 1
    rkey: int = 0
    remote_address: int = 0
    duration_ns: int = 0


@dataclass(frozen=True)
class TaskState:
    """struct rnicd_task_state; `posts`: when each message was posted, if that was asked for.

    `times`: when each was complete (BANDWIDTH), how long each took (LATENCY).
    """

    posted: int
    completed: int
    started_ns: int
    ended_ns: int
    done: bool
    failure: Failure
    posts: Times
    times: Times


@dataclass(frozen=True)
class EndpointStats:
    """struct rnicd_stats, as far as it is of use to others."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_batches: int
    wakeups: int
    tx_full: int
    rx_dropped: int
    tx_dropped: int
    cpu_ns: int
