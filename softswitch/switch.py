"""The in-process switch: the same pipelines and P4Runtime rules, with time given by the caller.

    sw = Switch.from_json("l3.json", "l3.p4info.txtpb")
    sw.table_add("I.route", {"h.ip.dst": ("10.0.0.0", 8)}, "I.fwd", {"mac": 2, "port": 2})
    sw.inject(port=1, packet=frame, at_ns=0)
    for output in sw.run_until(at_ns=1_000_000): ...

Nothing happens by itself: packets move when `run_until` says how late it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from softswitch.core import (
    CoreConfig,
    CoreStats,
    Direction,
    ImpairStats,
    OutputKind,
    PortConfig,
    PortImpair,
    PortState,
    PortStats,
    Scheduler,
    SwitchCore,
)
from softswitch.core import Output as CoreOutput
from softswitch.device import Device
from softswitch.p4runtime.forwarding import Forwarding
from softswitch.p4runtime.names import MatchValue, Names, Value, metadata_names
from softswitch.p4runtime.pipeline import Pipeline, read_p4info
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.p4runtime.status import Code, EntityError, UpdateStatus, WriteError
from softswitch.tracing.recorder import Recorder, Tracer
from softswitch.tracing.records import PacketTrace

PS_PER_NS = 1000


class SwitchError(Exception):
    """The switch was used in a way that can't work; the message says what would."""


@dataclass(frozen=True, slots=True)
class Output:
    """A packet that left: its last bit reached the far end of `port`'s link at `at_ns`."""

    port: int
    packet: bytes
    at_ns: int


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A packet for the controller; `metadata` by name, `message` as P4Runtime carries it."""

    payload: bytes
    metadata: Mapping[str, int]
    at_ns: int
    message: p4r.PacketIn


@dataclass(frozen=True, slots=True)
class DigestList:
    """A digest list: `rows` holds one tuple of member values per message."""

    name: str
    list_id: int
    rows: tuple[tuple[int, ...], ...]
    at_ns: int
    message: p4r.DigestList


class Switch:
    """One switch under a virtual clock, in nanoseconds from 0 (kept in picoseconds inside)."""

    def __init__(
        self,
        config: CoreConfig | None = None,
        *,
        cache_dir: Path | None = None,
        module: ModuleType | None = None,
    ) -> None:
        """Create a switch without a pipeline.

        `config`: of the core. `cache_dir`: for builds. `module`: the extension module whose core it
        is (SwitchCore); None: the core's own.
        """
        self.config = config if config is not None else CoreConfig()
        self.core = SwitchCore(self.config, module=module)
        self.device = Device(self.core, clock=lambda: self._now_ps, cache_dir=cache_dir)
        self.packet_ins: list[PacketIn] = []
        self.digests: list[DigestList] = []
        self.idle_timeouts: list[p4r.IdleTimeoutNotification] = []
        self._now_ps = 0
        self._outputs: list[Output] = []
        self._names: Names | None = None
        self._recorder = Recorder(self.core, lambda: self.device.program, cache_dir)

    @classmethod
    def from_json(
        cls,
        json: str | Path | bytes,
        p4info: str | Path | p4i.P4Info,
        *,
        config: CoreConfig | None = None,
        cache_dir: Path | None = None,
        module: ModuleType | None = None,
        **options: int,
    ) -> Switch:
        """Create a switch that runs BMv2 JSON: paths, or the JSON's bytes and a P4Info message.

        `options` are fields of CoreConfig, such as cpu_port=255 or tick_ps=1_000.
        Raises PipelineError for files that can't be used, OSError for files that can't be read.
        """
        core = replace(config or CoreConfig(), **options)
        switch = cls(core, cache_dir=cache_dir, module=module)
        data = json if isinstance(json, bytes) else Path(json).read_bytes()
        info = p4info if isinstance(p4info, p4i.P4Info) else read_p4info(Path(p4info))
        switch.set_pipeline(info, data)
        return switch

    @classmethod
    def from_p4(
        cls,
        source: str | Path,
        *,
        include_dirs: Sequence[str | Path] = (),
        defines: Sequence[str] = (),
        config: CoreConfig | None = None,
        cache_dir: Path | None = None,
        module: ModuleType | None = None,
        **options: int,
    ) -> Switch:
        """Create a switch that runs a P4_16 program, compiled here.

        Raises the compiler's errors too.
        """
        from compiler import compile_p4  # slow to load, and JSON needs none of it

        result = compile_p4(
            Path(source), include_dirs=[Path(d) for d in include_dirs], defines=list(defines)
        )
        return cls.from_json(
            result.json_text.encode(),
            result.p4info,
            config=config,
            cache_dir=cache_dir,
            module=module,
            **options,
        )

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the core; the switch can't be used afterwards."""
        self.core.close()

    def set_pipeline(self, p4info: p4i.P4Info, json: bytes) -> None:
        """Load another pipeline, which forgets all entries. Raises PipelineError."""
        self.load(self.device.prepare(p4info, json))

    def load(self, prepared: Pipeline) -> None:
        """Load a pipeline that was prepared before; one may be loaded by many switches."""
        self.device.load(prepared)
        self._names = Names(prepared.schema)
        self._recorder.renew()

    def reconcile(self, p4info: p4i.P4Info, json: bytes) -> None:
        """Run a changed pipeline that keeps what was written (P4Runtime's RECONCILE_AND_COMMIT).

        Raises PipelineError, or ReconcileError with what can't stay; nothing has changed then.
        """
        prepared = self.device.prepare(p4info, json)
        self.device.reconcile(prepared)
        self._names = Names(prepared.schema)
        self._recorder.renew()

    # --- time and packets ---------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The switch's time."""
        return self._now_ps // PS_PER_NS

    def inject(self, port: int, packet: bytes, at_ns: int | None = None) -> None:
        """Inject a packet whose last bit arrives at `port` at `at_ns` (default: now)."""
        self._inject(port, packet, self._moment(at_ns))

    def packet_out(
        self,
        payload: bytes | p4r.PacketOut,
        metadata: Mapping[str, Value] | None = None,
        at_ns: int | None = None,
    ) -> None:
        """Send a packet of the controller: a message, or a payload with metadata by name.

        Raises EntityError for metadata that P4Info does not have.
        """
        if not self.config.cpu_port:
            raise SwitchError("packet_out needs a CPU port: pass CoreConfig(cpu_port=...)")
        if isinstance(payload, bytes):
            payload = self.names.packet_out(payload, metadata or {})
        data = self.device.packet_out(payload)
        self._inject(self.config.cpu_port, data, self._moment(at_ns))

    def run_until(self, at_ns: int) -> list[Output]:
        """Do everything due up to and at `at_ns`; return the packets that left meanwhile.

        Packet-ins, digests and idle time-outs are appended to the lists of that name.
        """
        until = at_ns * PS_PER_NS
        if until < self._now_ps:
            raise SwitchError(f"run_until({at_ns}): the switch is at {self.now_ns} ns already")
        self._run(until)
        outputs, self._outputs = self._outputs, []
        return outputs

    def _run(self, until: int) -> None:
        """Do everything up to `until`, stopping at each timer of digests and idle entries."""
        while True:
            timer = self.device.next_timer()
            step = until if timer is None else max(self._now_ps, min(timer, until))
            self._advance(step)
            for message in self.device.timers(step):
                self._notify(message, step)
            timer = self.device.next_timer()
            if step >= until and (timer is None or timer > until):
                return

    def _advance(self, until: int) -> None:
        self._now_ps = until
        self.core.advance(until)
        self._recorder.collect()
        for output in self.core.take_output(until):
            if output.kind is OutputKind.PACKET:
                at_ns = output.at_ps // PS_PER_NS
                self._outputs.append(Output(output.port, output.data, at_ns))
            else:
                self._deliver(output)

    def _deliver(self, output: CoreOutput) -> None:
        message = self.device.notification(output)
        if message is not None:
            self._notify(message, output.at_ps)

    def _notify(self, message: p4r.StreamMessageResponse, at_ps: int) -> None:
        at_ns = at_ps // PS_PER_NS
        match message.WhichOneof("update"):
            case "packet":
                header = self._forwarding.schema.packet_in
                packet = message.packet
                self.packet_ins.append(
                    PacketIn(packet.payload, metadata_names(header, packet), at_ns, packet)
                )
            case "digest":
                digest = message.digest
                name = self._forwarding.schema.digests[digest.digest_id].name
                rows = tuple(_row(data) for data in digest.data)
                self.digests.append(
                    DigestList(name, digest.list_id, rows, digest.timestamp, digest)
                )
            case "idle_timeout_notification":
                self.idle_timeouts.append(message.idle_timeout_notification)

    def _inject(self, port: int, data: bytes, at_ps: int) -> None:
        if at_ps > self._now_ps:
            self._run(at_ps)
        self.core.inject(port, data, at_ps)
        self._recorder.collect()

    def _moment(self, at_ns: int | None) -> int:
        if at_ns is None:
            return self._now_ps
        at_ps = at_ns * PS_PER_NS
        if at_ps < self._now_ps:
            raise SwitchError(f"at_ns {at_ns} is in the past: the switch is at {self.now_ns} ns")
        return at_ps

    def acknowledge(self, digest: DigestList) -> None:
        """Acknowledge a digest list, so that its messages may come again."""
        self.device.acknowledge(
            p4r.DigestListAck(digest_id=digest.message.digest_id, list_id=digest.list_id)
        )

    # --- traces -------------------------------------------------------------------------------

    def trace(
        self, filter: str | None = None, *, ports: Sequence[int] = (), limit: int | None = None
    ) -> Tracer:
        """Trace packets that arrive from now on, until its `stop` or the end of a `with`.

        `filter`: pcap syntax, such as `udp dst port 4791`; `ports`: of arrival, none for all;
        `limit`: so many packets at most. Raises FilterError, TraceError.
        """
        return self._recorder.start(filter, ports, limit)

    @property
    def traced(self) -> list[PacketTrace]:
        """What was traced, by arrival; packets in queues as far as they got."""
        return self._recorder.packets()

    def explain(self) -> str:
        """Return `traced` as text: each packet's parser states, tables, changes, queue and end."""
        return self._recorder.explain()

    # --- ports and counters -------------------------------------------------------------------

    def set_port(self, port: int, state: PortState = PortState.UP, *, pause_mask: int = 0) -> None:
        """Take a port up or down or block it; bit c of `pause_mask` stops priority c (PFC)."""
        self.device.set_port(port, state, pause_mask)

    def configure_port(
        self,
        port: int,
        *,
        rate_bps: int = 0,
        delay_ns: int = 0,
        rx_delay_ns: int = 0,
        queue_packets: int | None = None,
        queue_bytes: int = 0,
        queue_cells: int = 0,
        rate_pps: int = 0,
        weights: Mapping[int, int] | None = None,
        send: PortImpair | None = None,
        receive: PortImpair | None = None,
    ) -> None:
        """Set a port's rate (0: not limited), delays and queue capacity (0: not limited).

        `weights`: by queue, of those that share what the others, which are strict, leave. `send`,
        `receive`: what goes wrong on the wire, from softswitch.impairments. What is not given is
        as if it never had been.
        """
        packets = self.config.queue_packets if queue_packets is None else queue_packets
        self.core.configure_port(
            port,
            PortConfig(
                rate_bps=rate_bps,
                tx_delay_ps=delay_ns * PS_PER_NS,
                rx_delay_ps=rx_delay_ns * PS_PER_NS,
                queue_packets=packets,
                queue_bytes=queue_bytes,
                queue_cells=queue_cells,
                rate_pps=rate_pps,
            ),
        )
        self.core.schedule_port(port, Scheduler.of_weights(weights or {}))
        self.core.impair_port(port, Direction.SEND, send or PortImpair())
        self.core.impair_port(port, Direction.RECEIVE, receive or PortImpair())

    def stats(self, port: int) -> PortStats:
        """Return what a port has carried and dropped."""
        return self.core.port_stats(port)

    def impair_stats(self, port: int, direction: Direction = Direction.SEND) -> ImpairStats:
        """Return the counts of impaired frames on a port's wire."""
        return self.core.port_impair_stats(port, direction)

    def switch_stats(self) -> CoreStats:
        """Return what the switch has done and dropped."""
        return self.core.stats()

    # --- P4Runtime ----------------------------------------------------------------------------

    def write(self, updates: Sequence[p4r.Update]) -> None:
        """Write as P4Runtime's Write does. Raises WriteError with one status per update."""
        self._forwarding  # noqa: B018 - the check that there is a pipeline
        statuses = self.device.write(updates)
        if any(status.code is not Code.OK for status in statuses):
            raise WriteError(statuses)

    def try_write(self, updates: Sequence[p4r.Update]) -> list[UpdateStatus]:
        """Write as `write` does, but return the statuses instead of raising."""
        self._forwarding  # noqa: B018 - the check that there is a pipeline
        return self.device.write(updates)

    def read(self, *entities: p4r.Entity) -> Iterator[p4r.Entity]:
        """Read as P4Runtime's Read does. Raises ReadError after what could be read."""
        return self.device.read(entities)

    def insert(self, **entity: object) -> None:
        """Insert one entity of the given kind: `insert(table_entry=...)`."""
        self._write_one(p4r.Update.INSERT, entity)

    def modify(self, **entity: object) -> None:
        """Modify one entity of the given kind: `modify(table_entry=...)`."""
        self._write_one(p4r.Update.MODIFY, entity)

    def delete(self, **entity: object) -> None:
        """Delete one entity of the given kind: `delete(table_entry=...)`."""
        self._write_one(p4r.Update.DELETE, entity)

    def _write_one(self, kind: p4r.Update.Type.ValueType, entity: Mapping[str, object]) -> None:
        self.write([p4r.Update(type=kind, entity=p4r.Entity(**entity))])  # type: ignore[arg-type]

    # --- by name ------------------------------------------------------------------------------

    @property
    def names(self) -> Names:
        """Builds entities of the loaded pipeline by name."""
        if self._names is None:
            raise SwitchError("no pipeline is loaded: use from_p4, from_json or set_pipeline")
        return self._names

    def table_add(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str | None = None,
        params: Mapping[str, Value] | None = None,
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
    ) -> None:
        """Insert an entry by names. Raises UnknownName, WriteError."""
        self.insert(
            table_entry=self.names.entry(
                table, match, action, params, priority=priority, member=member, group=group
            )
        )

    def table_delete(
        self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0
    ) -> None:
        """Delete an entry by names."""
        self.delete(table_entry=self.names.key(table, match, priority))

    def table_default(
        self, table: str, action: str, params: Mapping[str, Value] | None = None
    ) -> None:
        """Set a table's default action by name."""
        self.modify(table_entry=self.names.entry(table, None, action, params))

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Return (packets, bytes) of one cell of an indirect counter, both whatever its unit."""
        array = self._forwarding.schema.counters[self.names.counter_id(name)]
        value = self.core.counter_get(array.index, index)
        return value.packets, value.bytes

    def register_read(self, name: str, index: int) -> int:
        """Read one cell of a register."""
        register = self._forwarding.schema.registers[self.names.register_id(name)]
        return self.core.register_get(register.index, index)

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one cell of a register."""
        register = self._forwarding.schema.registers[self.names.register_id(name)]
        self.core.register_set(register.index, index, value)

    @property
    def _forwarding(self) -> Forwarding:
        if self.device.forwarding is None:
            raise SwitchError("no pipeline is loaded: use from_p4, from_json or set_pipeline")
        return self.device.forwarding


def _row(data: object) -> tuple[int, ...]:
    match data.WhichOneof("data"):  # type: ignore[attr-defined]
        case "struct":
            members = data.struct.members  # type: ignore[attr-defined]
        case "tuple":
            members = data.tuple.members  # type: ignore[attr-defined]
        case _:
            members = [data]
    return tuple(int.from_bytes(m.bitstring, "big") for m in members)


__all__ = [
    "DigestList",
    "EntityError",
    "Output",
    "PacketIn",
    "PortState",
    "Switch",
    "SwitchError",
]
