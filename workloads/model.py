"""What a run is: a network, what it carries, and how it is watched. Fabric time throughout.

    RunFile   a run file as it stands there, checked: names resolved, units parsed
    Traffic   what `workloads.plan.plan` makes of it for one seed: flows, streams, messages, script

Flows, streams and messages are numpy arrays with the layout of the structs of the same meaning in
`simulator/core/sim.h`, but for one thing: a flow's `src` and `dst` are numbers of hosts in the
order of `Topology.hosts`, not nodes of an engine.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from topologies.document import Document
from topologies.errors import FieldPath
from topologies.model import Endpoint, Interface, Topology
from workloads.job_schema import JobEntry
from workloads.schema import TrafficEntry
from workloads.transport import Transport
from workloads.transport_schema import TransportFields

if TYPE_CHECKING:
    from workloads.due import DueTraffic

NEVER_PS = (1 << 63) - 1  # WS_NEVER

# sim_flow_config; src and dst are numbers of hosts.
FLOW = np.dtype(
    [
        ("src", np.uint32),
        ("src_port", np.uint32),
        ("dst", np.uint32),
        ("dst_port", np.uint32),
        ("udp_port", np.uint16),
        ("dscp", np.uint8),
        ("queue", np.uint8),
        ("payload", np.uint32),
        ("rate_bps", np.uint64),
        ("transport", np.uint32),
        ("operation", np.uint16),
        ("interfaces", np.uint16),  # 0: one; else all of both hosts
    ],
    align=True,
)
# sim_stream_config
STREAM = np.dtype(
    [
        ("flow", np.uint32),
        ("kind", np.uint32),
        ("payload", np.uint32),
        ("seed", np.uint64),
        ("start_ps", np.int64),
        ("stop_ps", np.int64),
        ("interval_ps", np.int64),
        ("packets", np.uint64),
    ],
    align=True,
)
# sim_message
MESSAGE = np.dtype(
    [
        ("flow", np.uint32),
        ("waits", np.uint32),
        ("bytes", np.uint64),
        ("start_ps", np.int64),
        ("gap_ps", np.int64),
    ],
    align=True,
)
# sim_stripes
STRIPES = np.dtype(
    [
        ("flow", np.uint32),
        ("queue_pairs", np.uint32),
        ("piece_bytes", np.uint64),
        ("outstanding", np.uint32),
    ],
    align=True,
)

Records = npt.NDArray[Any]


class StreamKind(enum.IntEnum):
    """How a stream's packets follow each other: enum sim_stream_kind."""

    CBR = 0
    POISSON = 1


class SpanKind(enum.Enum):
    """What a range of messages is."""

    JOB = "job"
    PHASE = "phase"
    COLLECTIVE = "collective"
    TRAFFIC = "traffic"  # an entry of `traffic` that is made of messages: incast, mix, message


@dataclass(frozen=True)
class BufferSettings:
    """A switch's shared buffer and its PFC.

    `alpha_q8`: dynamic threshold in 1/256 of what is free. `headroom_bytes`: None is the formula
    (what each link needs: `topologies.buffers`), 0 is none. Times are picoseconds.
    """

    shared_bytes: int
    alpha_q8: int = 32
    headroom_bytes: int | None = None
    xon_gap_bytes: int | None = None  # XON that far below the threshold; None: two MTU
    watchdog_ps: int = 0  # 0: no watchdog
    watchdog_restore_ps: int = 0


@dataclass(frozen=True)
class CardClocks:
    """Clocks of the hosts' cards: at most `ppb` parts in 10^9 fast or slow, drawn by the seed.

    What a card sends arrives up to a full frame's time later, always the same, and up to
    `jitter_ps` more, drawn for each frame; None: another full frame's time.
    """

    ppb: int = 50_000
    jitter_ps: int | None = None


@dataclass(frozen=True)
class ReceiverSettings:
    """A host that takes what arrives only at a rate, in frames as they count on a wire.

    `buffer_bytes` may wait at each of its interfaces before it pauses the lossless classes; behind
    it there is the headroom that the link needs. Without such classes what is more is lost.
    """

    rate_bps: int
    buffer_bytes: int


@dataclass(frozen=True)
class PlacedProgram:
    """A program on each of `hosts`, in their order; `program` is what the run file calls it."""

    program: str
    hosts: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    sha256: str | None = None  # of its file, if it has to be a certain one


@dataclass(frozen=True)
class Group:
    """Ranks whose collectives switches carry out; `path`: the first such phase in the run file."""

    members: tuple[Interface, ...]
    path: FieldPath


@dataclass(frozen=True)
class Flow:
    """One flow as people name it: who sends to whom, and what ECMP hashes."""

    src: Endpoint
    dst: Endpoint
    udp_port: int
    dscp: int
    queue: int
    payload: int
    rate_bps: int
    interfaces: int = 1  # from 0 on, of both hosts

    def __str__(self) -> str:
        return f"{self.src}->{self.dst}"


@dataclass(frozen=True)
class MessageArrays:
    """Messages and who waits for whom, as sim_add_messages takes them.

    `next[first[i]:first[i + 1]]` are the messages that wait for message i.
    """

    messages: Records  # MESSAGE
    first: npt.NDArray[np.uint64]  # one more than messages
    next: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(frozen=True)
class ScriptPacket:
    """A frame sent as it is, `at_ps` after the start, from a host's interface.

    `tail_length` bytes of the payload stream of `tail_seed` follow `data`.
    """

    at_ps: int
    source: Endpoint
    data: bytes
    tail_length: int = 0
    tail_seed: int = 0


@dataclass(frozen=True)
class Span:
    """A range of messages that has a name and an ideal time.

    Messages `first` to `stop - 1`. What it took is the last one's `done` less `start_ps`, or where
    that is None less the earliest `ready`; `ideal_ps` is what an empty fabric would need
    (docs/workloads.md), and slowdown is the one by the other. Data and barrier messages both count:
    a barrier has no bytes. `parent` is the number of the span around it, -1 for none.
    """

    kind: SpanKind
    name: str
    first: int
    stop: int
    ideal_ps: int
    start_ps: int | None = None
    parent: int = -1
    algorithm: str = ""
    ranks: int = 0
    bytes_per_rank: int = 0


def carriers(flows: Records, stripes: Records) -> Records:
    """Return flows in which those that messages are striped over have the rate of all of them."""
    if not len(stripes):
        return flows
    found = flows.copy()
    found["rate_bps"][stripes["flow"]] *= stripes["queue_pairs"]
    return found


@dataclass(frozen=True)
class Traffic:
    """All that a run sends, and what the parts of it are called.

    `ideal_ps[i]` is message i's own ideal time: alone in an empty fabric, ready to done.
    """

    topology: Topology
    flows: Records  # FLOW
    streams: Records  # STREAM
    messages: MessageArrays
    ideal_ps: npt.NDArray[np.int64]
    script: tuple[ScriptPacket, ...] = ()
    spans: tuple[Span, ...] = ()
    transports: tuple[Transport, ...] = ()  # a flow's `transport` is a number of these + 1
    core_share: float | None = None  # of the messages' bytes; spines where there are no cores
    due: DueTraffic | None = None  # made as they are due; spans' messages are the others
    # Flows that follow each other and carry the first one's messages together: STRIPES.
    stripes: Records = field(default_factory=lambda: np.empty(0, dtype=STRIPES))
    # Carried by programs: message, group, rank, and what is asked for (in_network.order_of).
    orders: tuple[tuple[int, int, int, int], ...] = ()

    def carriers(self) -> Records:
        """Return the flows with the rate of all that carry a flow's messages with it."""
        return carriers(self.flows, self.stripes)

    def first_flows(self) -> npt.NDArray[np.int64]:
        """Return for each flow the one that messages name in its place: itself, or its group's."""
        first = np.arange(len(self.flows), dtype=np.int64)
        for flow, queue_pairs in self.stripes[["flow", "queue_pairs"]].tolist():
            first[flow : flow + queue_pairs] = flow
        return first

    def flow(self, number: int) -> Flow:
        """Return flow `number` with its names."""
        row = self.flows[number]
        hosts = self.topology.hosts
        return Flow(
            Endpoint(hosts[int(row["src"])].name, int(row["src_port"])),
            Endpoint(hosts[int(row["dst"])].name, int(row["dst_port"])),
            int(row["udp_port"]),
            int(row["dscp"]),
            int(row["queue"]),
            int(row["payload"]),
            int(row["rate_bps"]),
            max(1, int(row["interfaces"])),
        )


@dataclass(frozen=True)
class WatchedFlows:
    """Flows whose packets' records are kept: SRC>DST (* is any host) or numbers; none named: all.

    `every_ps`: at most one packet of a flow in this time.
    """

    names: tuple[str, ...]
    every_ps: int


@dataclass(frozen=True)
class RunFile:
    """A run file, checked. `topology` is at time scale 1; times are picoseconds.

    `until_ps` None: to the end of all messages, streams and scripts. `traffic` and `jobs` stand as
    in the file; `workloads.plan` makes flows and messages of them. `job_paths[i]` is where job i
    stands in `document`.
    """

    name: str
    file: str
    topology: Topology
    document: Document = field(repr=False, compare=False)
    traffic: tuple[TrafficEntry, ...] = ()
    jobs: tuple[JobEntry, ...] = ()
    job_paths: tuple[FieldPath, ...] = ()
    description: str = ""
    until_ps: int | None = None
    sample_ps: int = 10_000_000
    paths_window_ps: int | None = None  # None: which links flows take is not recorded
    watched: WatchedFlows | None = None  # None: what packets collect on their way is not recorded
    seed: int = 1
    buffer: BufferSettings | None = None
    transport: TransportFields | None = None  # None: open loop
    controller_delay_ps: int = 1_000_000_000
    clocks: CardClocks | None = None  # None: all cards run by one clock, in step
    receivers: Mapping[str, ReceiverSettings] = field(default_factory=dict)  # by host
    programs: tuple[PlacedProgram, ...] = ()
    directory: Path = Path()  # where files that it names are looked for
    groups: tuple[Group, ...] = ()  # whose AllReduces switches compute, as the topology says

    def with_groups(self, groups: tuple[Group, ...], topology: Topology) -> RunFile:
        """Return it with groups, and the topology that serves them."""
        return replace(self, groups=groups, topology=topology)
