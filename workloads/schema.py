"""The shape of a run file: a topology, what it carries, how long and how closely it is watched.

description: ring AllReduce on a fat tree
topology: fattree4                     a name, a file, or the topology itself as a mapping
until: 20ms                            without it: to the end of all messages
sample: 10us                           how often queues and links are looked at
record: {paths: {window: 100us}}       what else is kept: which links flows take, and
record: {telemetry: {flows: all}}      what their packets collect on their way
seed: 1
buffer: {shared: 64MB, alpha: 1/8, headroom: formula, watchdog: 100ms}
transport: {} takes all defaults (transport_schema.py); without it flows are open loop
controller: {delay: 1ms}
clocks: {ppm: 50, jitter: 330ns}       each card has a clock of its own; without it they are in step
receivers: {h3: {rate: 40Gbps}}        hosts that take what arrives only so fast
programs: [{program: a.py:Ping, hosts: h1}]     what runs on hosts (docs/host-programs.md)
events: [...]                          as in a topology file, behind those of the topology
traffic: [{cbr: {...}}, {incast: {...}}, ...]
job: {ranks: 16, placement: stride, tp: 2, dp: 8, phases: [...]}      or jobs: [...]
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from topologies.document import Document
from topologies.errors import TopologyError
from topologies.event_schema import EventEntry
from topologies.fields import (
    MAX_MOMENT_PS,
    MAX_VOLUME,
    Count,
    CountOrNone,
    Dscp,
    Model,
    Moment,
    Queue,
    Rate,
    Size,
    Volume,
    parse_volume,
)
from topologies.schema import schema_problem
from topologies.units import parse_share, parse_size
from workloads.chakra import trace_name
from workloads.flow_sizes import MIXES, FlowSizes, from_points, of_size
from workloads.job_schema import JobEntry
from workloads.transport_schema import Operation, TransportFields, transport_entry

if TYPE_CHECKING:
    from workloads.transport_schema import TransportFields as TransportEntry

_ALPHA = re.compile(r"([0-9]+)(?:/([0-9]+))?")
ROCE_DSCP = 26  # of RoCE data, by custom
MIN_PAYLOAD, MAX_PAYLOAD = 1, 4096


def _alpha(value: object) -> int:
    """Return the threshold's share as 1/256ths: 1/8 -> 32. From 1/256 to 128."""
    match = _ALPHA.fullmatch(str(value).replace(" ", ""))
    if match is None or match.group(2) == "0":
        raise ValueError(
            f"{value!r} is not an alpha: write a fraction such as 1/8, or a whole number"
        )
    units = Fraction(int(match.group(1)), int(match.group(2) or 1)) * 256
    if units.denominator != 1 or not 1 <= units <= 128 * 256:
        raise ValueError(f"alpha is a multiple of 1/256, from 1/256 to 128, not {value}")
    return int(units)


def _headroom(value: object) -> object:
    if value in ("formula", "none"):
        return value
    try:
        return parse_size(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is not a headroom: write formula (what the link needs), none, or a size"
        ) from None


def _cell(value: object) -> int:
    """Return a matrix's bytes: 0, or a size."""
    return 0 if value == 0 and not isinstance(value, bool) else parse_volume(value)


def _topology(value: object) -> object:
    if not isinstance(value, str | dict):
        raise ValueError("a topology is a name, a file, or the topology itself as a mapping")
    return value


def _nodes(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _positive(value: int) -> int:
    if value == 0:
        raise ValueError("has to be more than nothing")
    return value


Alpha = Annotated[int, BeforeValidator(_alpha)]
Headroom = Annotated[Any, BeforeValidator(_headroom)]  # bytes, "formula" or "none"
Load = Annotated[int, BeforeValidator(parse_share)]  # 1/2^32 of a link
Payload = Annotated[Size, Field(ge=MIN_PAYLOAD, le=MAX_PAYLOAD)]
Frame = bytes
UdpPort = Annotated[int, Field(ge=1, le=65535, strict=True)]
Ends = Annotated[list[str], BeforeValidator(_nodes), Field(min_length=1)]
Node = Annotated[int, Field(ge=0, strict=True)]
Cell = Annotated[int, BeforeValidator(_cell)]


class BufferEntry(Model):
    """A switch's shared buffer, and PFC for the topology's lossless classes."""

    shared: Size
    alpha: Alpha = 32
    headroom: Headroom = "formula"
    xon_gap: Size | None = None
    watchdog: Moment | None = None
    restore: Moment | None = None


class ControllerEntry(Model):
    """The controller: how long it takes from an event to a write."""

    delay: Moment = 1_000_000_000


class ClocksEntry(Model):
    """The cards' clocks: how far they are off at most, and how unevenly frames come."""

    ppm: Annotated[int, Field(ge=0, le=1000)] = 50
    jitter: Moment | None = None  # without it the time of a full frame on the card's line


class ReceiverEntry(Model):
    """A host that takes what arrives only so fast; `buffer`: what waits before it pauses."""

    rate: Annotated[Rate, AfterValidator(_positive)]
    buffer: Size = 512_000


class ProgramEntry(Model):
    """A program on each of some hosts: of the list in C, or module:Class, or file.py:Class.

    `sha256`: of the file, if it has to be a certain one.
    """

    program: Annotated[str, Field(min_length=1)]
    hosts: Ends
    settings: dict[str, Any] = Field(default={})
    sha256: str | None = None


class FlowSettings(Model):
    """What packets of RoCE traffic look like; the queue is that of the DSCP's class."""

    dscp: Dscp = ROCE_DSCP
    queue: Queue | None = None
    payload: Payload | None = None  # bytes a packet; without it what the MTU allows, 256 to 4096
    udp_port: UdpPort | None = None  # the source port; without it chosen by the pair
    start: Moment = 0
    transport: Literal["none"] | None = None  # open loop, whatever the run's transport
    operation: Operation | None = None  # of messages; without it the transport's


class CbrEntry(FlowSettings):
    """Packets of one size at one rate (as it counts on the wire), from each to each of `to`."""

    source: Ends = Field(alias="from")
    to: Ends
    rate: Rate
    stop: Moment | None = None
    packets: Count | None = None


class PoissonEntry(CbrEntry):
    """As cbr, with exponentially distributed times between packets; `rate` is the mean."""


class IncastEntry(FlowSettings):
    """Many to one: a message of each, `rounds` times, or at line rate as long as the run lasts."""

    to: str
    source: Annotated[Ends | None, Field(alias="from")] = None
    senders: Count | None = None
    bytes: Volume | None = None
    persistent: bool = False
    rounds: Count = 1
    every: Moment | None = None
    rate: Rate | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> IncastEntry:
        if (self.source is None) == (self.senders is None):
            raise ValueError("say who sends: from: [h1, h2], or senders: 32")
        if (self.bytes is None) != self.persistent:
            raise ValueError("say what each sends: bytes: 64kB, or persistent: true")
        if self.persistent and (self.rounds > 1 or self.every is not None):
            raise ValueError("a persistent incast has no rounds")
        return self


class HotspotEntry(Model):
    """Hosts that are sent to more often: `share` of all messages go to one of them."""

    hosts: Ends
    share: Load


SizePoints = Annotated[list[tuple[CountOrNone, CountOrNone]], Field(min_length=2)]


class MixEntry(FlowSettings):
    """Messages at Poisson times, of random pairs; sizes: a distribution, a file of one, or a size.

    `hotspot`: hosts that get a share of all messages, beside what they get by chance.
    """

    sizes: str
    load: Load
    stop: Moment
    hosts: Ends | None = None
    rate: Rate | None = None
    hotspot: HotspotEntry | None = None
    imported: dict[str, SizePoints] = Field(default={})

    def distribution(self) -> FlowSizes | None:
        """Return what sizes are drawn from; None where nothing has that name."""
        if self.sizes in self.imported:
            return from_points(self.sizes, self.imported[self.sizes])
        if self.sizes in MIXES:
            return MIXES[self.sizes]
        try:
            return of_size(parse_size(self.sizes))
        except ValueError:
            return None


class MessageEntry(FlowSettings):
    """`count` messages from each of `from` to each of `to`, one behind the other."""

    source: Ends = Field(alias="from")
    to: Ends
    bytes: Volume
    count: Count = 1
    gap: Moment = 0
    rate: Rate | None = None


class PermutationEntry(FlowSettings):
    """`count` messages from each host to another one, so that each also receives from one alone.

    `shift`: to the host so many places on (a stride; half of them: a tornado); None: drawn.
    """

    bytes: Volume
    hosts: Ends | None = None
    shift: Count | None = None
    count: Count = 1
    gap: Moment = 0
    rate: Rate | None = None


class ImportedMatrix(Model):
    """What a connection matrix says (workloads/htsim.py has the shapes)."""

    nodes: int
    connections: Annotated[list[tuple[Node, Node, Count, CountOrNone]], Field(min_length=1)]
    waits: list[tuple[Node, Node]]

    @model_validator(mode="after")
    def _is_whole(self) -> ImportedMatrix:
        if any(max(a, b) >= self.nodes or a == b for a, b, *_ in self.connections):
            raise ValueError(f"connections join two of {self.nodes} nodes, counted from 0")
        if any(max(pair) >= len(self.connections) for pair in self.waits):
            raise ValueError("waits join two places of connections, counted from 0")
        return self


class MatrixEntry(FlowSettings):
    """Who sends how much to whom: a table of sizes, or a file of another simulator's, imported."""

    bytes: list[list[Cell]] | None = None
    htsim: str | None = None
    hpcc: str | None = None
    csv: str | None = None
    imported: dict[str, ImportedMatrix] = Field(default={})
    hosts: Ends | None = None
    rate: Rate | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> MatrixEntry:
        given = self.bytes, self.htsim, self.hpcc, self.csv
        if sum(each is not None for each in given) != 1:
            raise ValueError(
                "say who sends what: a table of bytes, htsim: FILE, hpcc: FILE or csv: FILE"
            )
        for number, row in enumerate(self.bytes or (), start=1):
            if len(row) != len(self.bytes or ()):
                raise ValueError(
                    f"row {number} of bytes has {len(row)} sizes, and there are "
                    f"{len(self.bytes or ())} rows: a row a sender, a column a receiver"
                )
            if row[number - 1]:
                raise ValueError(f"row {number} of bytes: sends to itself: write 0 there")
        if self.bytes is not None and not any(map(any, self.bytes)):
            raise ValueError("no host sends anything: write sizes such as 2MB into bytes")
        return self

    def matrix(self) -> ImportedMatrix:
        """Return the connections, whichever way they were given."""
        if (file := self.htsim or self.hpcc or self.csv) is not None:
            return self.imported[file]
        table = self.bytes or []
        rows = [(a, b, size, 0) for a, row in enumerate(table) for b, size in enumerate(row)]
        found = [row for row in rows if row[2]]
        return ImportedMatrix(nodes=len(table), connections=found, waits=[])


class TraceNode(Model):
    """A node of a trace (workloads/chakra.py): `after` are places of the trace's list of nodes.

    `ps`: how long it computes. `meeting`, `turn`: which collective it is a part of, and the rank's
    place in its group. `send`: the place of the send that a receive waits for.
    """

    rank: CountOrNone
    id: int
    name: str = ""
    kind: Literal["compute", "send", "recv", "collective"]
    after: list[CountOrNone] = Field(default=[])
    ps: Annotated[int, Field(ge=0, le=MAX_MOMENT_PS)] = 0
    bytes: Annotated[int, Field(ge=0, le=MAX_VOLUME)] = 0
    peer: CountOrNone | None = None
    collective: str | None = None
    root: CountOrNone = 0
    send: CountOrNone | None = None
    meeting: CountOrNone | None = None
    turn: CountOrNone = 0


class ImportedTrace(Model):
    """What the files of a trace say."""

    ranks: Count
    nodes: list[TraceNode]


class TraceEntry(FlowSettings):
    """An execution trace: computing, messages and collectives of ranks, each behind what it needs.

    `chakra`: the files' name without `.RANK.et`. Ranks are `hosts` in turn. `groups`: a JSON file
    of process groups. `teraflops`: of a rank, for computing with operations and no duration.
    """

    chakra: str
    groups: str | None = None
    teraflops: Annotated[float, Field(gt=0, le=1e6, strict=True)] | None = None
    allreduce: Literal["ring", "tree"] = "ring"
    imported: dict[str, ImportedTrace] = Field(default={})
    hosts: Ends | None = None
    rate: Rate | None = None

    def trace(self) -> ImportedTrace:
        """Return the nodes."""
        return self.imported[trace_name(self.chakra, self.groups, self.teraflops)]


class UdpFields(Model):
    """A UDP header."""

    sport: UdpPort = 49152
    dport: UdpPort = 4791


class ScriptEntry(Model):
    """A frame at a time: as hex digits, or UDP to a host with so many bytes in all."""

    at: Moment
    source: str = Field(alias="from")
    hex: str | None = None
    to: str | None = None
    udp: UdpFields | None = None
    bytes: Volume | None = None  # of the whole frame, without its FCS
    dscp: Dscp = 0
    ttl: Annotated[int, Field(ge=1, le=255, strict=True)] = 64
    times: Count = 1
    every: Moment | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> ScriptEntry:
        if (self.hex is None) == (self.to is None):
            raise ValueError("say what is sent: hex: 'ff...', or to: h2 and bytes: 1000B")
        if self.hex is not None:
            self.frame()
            if self.udp is not None or self.bytes is not None:
                raise ValueError("'hex' is the whole frame: 'udp' and 'bytes' belong to 'to'")
        elif self.bytes is None:
            raise ValueError("say how long the frame is: bytes: 1000B")
        if (self.times > 1) != (self.every is not None):
            raise ValueError("'times' and 'every' belong together: times: 10, every: 1us")
        return self

    def frame(self) -> Frame:
        """Return the bytes that `hex` says. Raises ValueError."""
        digits = re.sub(r"[\s:]", "", self.hex or "")
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            raise ValueError("'hex' has to be pairs of hexadecimal digits, 0 to f") from None
        if len(data) < 14:
            raise ValueError(
                f"a frame has at least 14 bytes (its Ethernet header), not {len(data)}"
            )
        return data


class TrafficEntry(Model):
    """One entry of `traffic`: one kind of it."""

    cbr: CbrEntry | None = None
    poisson: PoissonEntry | None = None
    incast: IncastEntry | None = None
    mix: MixEntry | None = None
    message: MessageEntry | None = None
    permutation: PermutationEntry | None = None
    matrix: MatrixEntry | None = None
    trace: TraceEntry | None = None
    script: Annotated[list[ScriptEntry] | None, Field(min_length=1)] = None

    @model_validator(mode="after")
    def _one_kind(self) -> TrafficEntry:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"one kind an entry: {', '.join(TrafficEntry.model_fields)}")
        if getattr(self, self.kind) is None:
            raise ValueError(f"{self.kind}: is empty: say what, as in docs/workloads.md")
        return self

    @property
    def kind(self) -> str:
        """The kind that is given."""
        return next(iter(self.model_fields_set))


class PathsEntry(Model):
    """Which links flows take. `window`: over which links of a switch are compared."""

    window: Annotated[Moment, AfterValidator(_positive)] = 100_000_000


def _flows_named(value: object) -> object:
    """Take one flow for a list of one, and `all` for a list of none."""
    if value == "all":
        return []
    if value == []:
        raise ValueError("name flows, such as ['h1>h4', '*>h3'], or write all")
    return [value] if isinstance(value, str | int) else value


def _flow_name(value: object) -> str:
    text = str(value)
    src, _, dst = text.partition(">")
    if not text.isdecimal() and not (src.strip() and dst.strip()):
        raise ValueError(f"{text!r} is no flow: write 'SRC>DST' ('*>h3': all to h3) or its number")
    return text if text.isdecimal() else f"{src.strip()}>{dst.strip()}"


class TelemetryEntry(Model):
    """What flows' packets have collected on their way. `every`: a packet of a flow in this time.

    Without `every` it is the run's `sample`.
    """

    flows: Annotated[
        list[Annotated[str, BeforeValidator(_flow_name)]], BeforeValidator(_flows_named)
    ] = Field(default=[])
    every: Annotated[Moment, AfterValidator(_positive)] | None = None


class RecordEntry(Model):
    """What a run keeps beside what every run does."""

    paths: PathsEntry | None = None
    telemetry: TelemetryEntry | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> RecordEntry:
        if self.paths is None and self.telemetry is None:
            raise ValueError(
                "say what is recorded: paths: {window: 100us}, or paths: {}; "
                "telemetry: {flows: all, every: 10us}"
            )
        return self


class RunEntry(Model):
    """A run file; `topology` is checked apart, where its own errors come from."""

    topology: Annotated[Any, BeforeValidator(_topology)]
    description: str = ""
    until: Annotated[Moment, AfterValidator(_positive)] | None = None
    sample: Annotated[Moment, AfterValidator(_positive)] = 10_000_000
    record: RecordEntry | None = None
    seed: CountOrNone = 1
    buffer: BufferEntry | None = None
    transport: TransportEntry | None = None
    controller: ControllerEntry = ControllerEntry()
    clocks: ClocksEntry | None = None
    receivers: dict[str, ReceiverEntry] = Field(default={})
    programs: list[ProgramEntry] = Field(default=[])
    events: list[EventEntry] = Field(default=[])
    traffic: list[TrafficEntry] = Field(default=[])
    job: JobEntry | None = None
    jobs: list[JobEntry] = Field(default=[])

    @model_validator(mode="after")
    def _one_form(self) -> RunEntry:
        if self.job is not None and self.jobs:
            raise ValueError("give job (one) or jobs (a list), not both")
        return self


def completed() -> type[RunEntry]:
    """Return the form of a run file, of which every part is known when the first one is read."""
    transport = transport_entry()
    if not RunEntry.__pydantic_complete__:
        RunEntry.model_rebuild(_types_namespace={"TransportEntry": transport})
    return _with_transport(transport)


@cache
def _with_transport(transport: type[TransportFields]) -> type[RunEntry]:
    """Return the form with the senders that are known now, if not those of the first one."""
    if RunEntry.model_fields["transport"].annotation == transport | None:
        return RunEntry
    field: Any = (transport | None, None)
    return create_model("RunEntry", __base__=RunEntry, transport=field)


def validate_run(document: Document) -> RunEntry:
    """Check a document against the form of a run file. Raises TopologyError with every mistake."""
    if not isinstance(document.data, dict):
        message = "a run file is a mapping: start with topology and traffic or job"
        raise TopologyError([document.problem((), message)])
    try:
        return completed().model_validate(document.data)
    except ValidationError as error:
        raise TopologyError(
            [schema_problem(document, detail, RunEntry) for detail in error.errors()]
        ) from None
