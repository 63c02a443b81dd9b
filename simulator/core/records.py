"""What the engine takes and gives, as plain records; most have the layout of a struct of sim.h.

Times are integer picoseconds. `simulator.core.binding` gives them to C and takes them from there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from hostagent.algorithms import Parameters
from hostagent.rnic.card_records import NO_CNPS, Repeat
from hostagent.rnic.path_kinds import PathKind
from hostagent.rnic.planes import NO_PLANES, PlaneConfig
from softswitch.core import Output


class Stop(enum.IntEnum):
    """Why `Engine.run` came back."""

    UNTIL = 0
    IDLE = 1
    DONE = 2
    BUDGET = 3
    PUNT = 4


class StreamKind(enum.IntEnum):
    """How a stream spaces its packets."""

    CBR = 0
    POISSON = 1


@dataclass(frozen=True)
class HostPort:
    """An interface of a host; `ip` and MAC addresses as integers."""

    rate_bps: int
    delay_ps: int
    mac: int
    gateway_mac: int
    ip: int
    mtu: int = 1500


@dataclass(frozen=True)
class Clock:
    """A card's own clock, as struct sim_clock: offset in parts in 10^9, times in ps."""

    ppb: int
    phase_ps: int
    jitter_ps: int
    seed: int


@dataclass(frozen=True)
class Ticker:
    """The same packet into a port of a switch at start_ps + k * period_ps, as struct sim_ticker."""

    node: int
    port: int
    start_ps: int
    period_ps: int
    packet: bytes


class TickerStats(NamedTuple):
    """What a ticker has done; `missed` while its switch was dead. `next_ps`: its next tick."""

    ticks: int
    missed: int
    next_ps: int


@dataclass(frozen=True)
class Receiver:
    """A host that takes frames at a rate, as struct sim_receiver; `classes`: a bit each."""

    rate_bps: int
    buffer_bytes: int
    xoff_bytes: int
    xon_bytes: int
    classes: int


@dataclass(frozen=True)
class ReceiverStats:
    """What happened to what such a host was sent, in frames; bytes that waited at most."""

    taken: int
    dropped: int
    most_bytes: int
    pauses: int
    resumes: int


@dataclass(frozen=True)
class Totals:
    """Sums over the whole run, as struct sim_totals."""

    events: int
    hops: int
    sent: int
    received: int
    lost_link: int
    received_other: int
    in_flight: int
    messages: int
    messages_done: int
    failed_flows: int


@dataclass(frozen=True)
class Transport:
    """struct sim_transport_config: how a flow's ends deal with each other.

    `repeat`, `udp_ports` and `cnp_interval_ns` as hostagent.rnic.binding has them; times in ps.
    `ack_class`: DSCP and queue of acknowledgements, None for the data's.
    """

    repeat: Repeat = Repeat.GO_BACK_N
    ack_every: int = 8
    window_packets: int = 0
    retries: int = 7
    rnr_retries: int = 7
    udp_ports: int = 1
    max_reads: int = 16
    cnp_dscp: int = 48
    cnp_queue: int = 6
    timeout_ps: int = 4_194_304_000
    congestion_control: Parameters = field(default_factory=dict)
    cnp_interval_ns: int = NO_CNPS
    ack_class: tuple[int, int] | None = None
    reorder_ps: int = 0
    path_kind: PathKind = PathKind.NONE
    path_idle_rounds: int = 0
    path_rounds: int = 0
    path_pause_ns: int = 0
    planes: PlaneConfig = NO_PLANES
    link_delay_ps: int = 0


@dataclass(frozen=True)
class HostPortStats:
    """What a host's interface has done; `paused_ps` by queue."""

    tx_packets: int
    tx_bytes: int
    rx_packets: int
    rx_bytes: int
    pfc_received: int
    queue_packets: int
    queue_bytes: int
    paused_ps: tuple[int, ...]


class ScriptFrame(NamedTuple):
    """A frame that an interface sends as it is; the tail stands for payload that is not kept."""

    node: int
    port: int
    at: int
    data: bytes
    tail_length: int = 0
    tail_seed: int = 0


class Punt(NamedTuple):
    """Something that a switch has for the controller."""

    node: int
    output: Output


class Tapped(NamedTuple):
    """A frame that a port sent (`at`: its last bit left) or received."""

    at: int
    node: int
    port: int
    sent: bool
    tail_length: int
    tail_seed: int
    data: bytes


@dataclass(frozen=True)
class Pattern:
    """struct sim_pattern: a collective whose messages are made as they are due."""

    kind: int
    ranks: int
    channels: int
    steps: int
    stride: int
    at_once: int
    bytes: int


class Sum(NamedTuple):
    """The sum of values and the largest."""

    total: int
    most: int


@dataclass(frozen=True)
class CollectiveStats:
    """struct sim_collective_stats; times in ps, -1 for none. Slowdowns in millionths."""

    messages: int
    done: int
    first_ready: int
    last_done: int
    completion_ps: Sum
    slowdown_ppm: Sum
