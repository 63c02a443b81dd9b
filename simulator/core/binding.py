"""The engine as typed Python: one method a function of sim.h, bulk data as numpy arrays.

Times are integer picoseconds. Rows of bulk calls are structured arrays with the layouts of the C
structs: FLOW, STREAM, MESSAGE and so on. Nodes, links, flows and messages are named by number.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostagent.algorithms import pack
from hostagent.notifications import Heard, HeardCounts, heard_counts, heard_rows
from simulator.core.collecting import Collecting
from simulator.core.programs import Programs
from simulator.core.records import (
    Clock,
    CollectiveStats,
    HostPort,
    HostPortStats,
    Pattern,
    Punt,
    Receiver,
    ReceiverStats,
    ScriptFrame,
    Stop,
    StreamKind,
    Sum,
    Tapped,
    Ticker,
    TickerStats,
    Totals,
    Transport,
)
from softswitch.core import CoreError, Output, OutputKind, PortImpair, SwitchCore
from softswitch.core.native import attach_log

NEVER = (1 << 63) - 1
Rows = NDArray[np.void]

_loaded: dict[bool, Any] = {}
_BATCH = 65536


def native(*, sanitize: bool = False) -> Any:
    """Return the module with engine and switch core (`.ffi`, `.lib`), compiled first if need be.

    Raises softswitch.core.build.CoreBuildError.
    """
    if sanitize not in _loaded:
        from simulator.core import build  # not above: as a command it is to be loaded as one

        build.ensure(sanitize=sanitize)
        module = importlib.import_module(f"simulator.core.{build.module_name(sanitize)}")
        attach_log(module)
        _loaded[sanitize] = module
    return _loaded[sanitize]


class EngineError(Exception):
    """The engine refuses a call, or can't go on; the message says why."""


def _dtype(ffi: Any, name: str) -> np.dtype[np.void]:
    """Return the numpy type with a C struct's layout; flat structs of integers."""
    kinds = {"int64_t": "<i8", "uint64_t": "<u8", "uint32_t": "<u4", "uint16_t": "<u2"}
    kinds |= {"uint8_t": "u1", "ws_time": "<i8"}
    struct = ffi.typeof(f"struct {name}")
    fields = [(field, item) for field, item in struct.fields if field != "pad_"]
    return np.dtype(
        {
            "names": [field for field, _ in fields],
            "formats": [kinds[item.type.cname] for _, item in fields],
            "offsets": [item.offset for _, item in fields],
            "itemsize": ffi.sizeof(struct),
        }
    )


class Engine:
    """One simulation: switches, hosts, links, traffic and the event loop."""

    def __init__(self, seed: int = 1, *, sanitize: bool = False) -> None:
        """Create an engine. Raises softswitch.core.build.CoreBuildError, MemoryError."""
        self.module = native(sanitize=sanitize)
        self.ffi: Any = self.module.ffi
        self.lib: Any = self.module.lib
        pointer = self.lib.sim_create(seed & (1 << 64) - 1)
        if pointer == self.ffi.NULL:
            raise MemoryError("no memory for a simulation")
        self.pointer: Any = pointer
        self._finalizer = weakref.finalize(self, self.lib.sim_destroy, pointer)
        self._switches: dict[int, SwitchCore] = {}  # kept alive as long as the engine uses them
        self.programs = Programs(self.module, pointer)
        self.collecting = Collecting(self)
        names = (
            "flow_config",
            "stream_config",
            "message",
            "flow_stats",
            "message_times",
            "stripes",
        )
        for name in names:
            setattr(self, name.removesuffix("_config") + "_dtype", self.dtype(name))

    flow_dtype: np.dtype[np.void]
    stream_dtype: np.dtype[np.void]
    stripes_dtype: np.dtype[np.void]
    message_dtype: np.dtype[np.void]
    flow_stats_dtype: np.dtype[np.void]
    message_times_dtype: np.dtype[np.void]

    def dtype(self, name: str) -> np.dtype[np.void]:
        """Return the layout of struct sim_NAME: flow_config, stream_config, message, queue_sample,
        ...
        """
        return _dtype(self.ffi, f"sim_{name}")

    def seed(self, seed: int) -> None:
        """Be as if made with this seed, before flows are added."""
        self.lib.sim_seed(self.pointer, seed & (1 << 64) - 1)

    def close(self) -> None:
        """Free the engine; neither it nor what it handed out may be used afterwards."""
        self._finalizer()

    def check(self, status: int) -> int:
        """Return a status of C that is no failure. Raises EngineError."""
        if status < 0:
            text = self.ffi.string(self.lib.sim_error(self.pointer)).decode(errors="replace")
            raise EngineError(text or f"status {status}")
        return status

    # --- the network ---------------------------------------------------------------------------

    def new_core(self, config: Any = None) -> SwitchCore:
        """Return a switch core that this engine can use (for a `Device` or `Switch` around it)."""
        return SwitchCore(config, module=self.module)

    def add_switch(self, core: SwitchCore) -> int:
        """Add a core made by `new_core`; return its node."""
        if core.lib is not self.lib:
            raise EngineError("the switch is not of the engine's module: make it with new_core")
        node = self.check(self.lib.sim_add_switch(self.pointer, core.pointer))
        self._switches[node] = core
        return node

    def touch(self, node: int) -> None:
        """Say that a switch was written to, or its ports set, since the last run."""
        self.check(self.lib.sim_touch(self.pointer, node))

    def add_host(self, ports: Sequence[HostPort]) -> int:
        """Add a host with these interfaces; return its node."""
        array = self.ffi.new("struct sim_port_config[]", [asdict(port) for port in ports])
        return self.check(self.lib.sim_add_host(self.pointer, array, len(ports)))

    def configure_host_port(self, node: int, port: int, config: HostPort) -> None:
        """Change an interface's rate, delay or addresses (those of flows stay)."""
        wanted = self.ffi.new("struct sim_port_config *", asdict(config))
        self.check(self.lib.sim_configure_host_port(self.pointer, node, port, wanted))

    def set_clock(self, node: int, port: int, clock: Clock) -> None:
        """Give an interface's card a clock of its own. Raises EngineError (out of range)."""
        wanted = self.ffi.new("struct sim_clock *", asdict(clock))
        self.check(self.lib.sim_set_clock(self.pointer, node, port, wanted))

    def set_receiver(self, node: int, port: int, receiver: Receiver) -> None:
        """Let a host take what arrives only so fast. Raises EngineError (thresholds, twice)."""
        wanted = self.ffi.new("struct sim_receiver *", asdict(receiver))
        self.check(self.lib.sim_set_receiver(self.pointer, node, port, wanted))

    def receiver_stats(self, node: int, port: int) -> ReceiverStats:
        """Return the counts of an interface with a receiver.

        Raises EngineError where it has none.
        """
        found = self.ffi.new("struct sim_receiver_stats *")
        self.check(self.lib.sim_receiver_stats_get(self.pointer, node, port, found))
        return ReceiverStats(*(int(getattr(found, f)) for f in ReceiverStats.__dataclass_fields__))

    def add_link(self, node_a: int, port_a: int, node_b: int, port_b: int) -> int:
        """Join two ends; return the link's number."""
        return self.check(self.lib.sim_add_link(self.pointer, node_a, port_a, node_b, port_b))

    def set_link(self, link: int, up: bool) -> None:
        """Take a link down, which loses what is on it, or up."""
        self.check(self.lib.sim_set_link(self.pointer, link, int(up)))

    def drain(self, node: int, port: int, on: bool) -> None:
        """Let queue pairs over planes send nothing new by a host's interface, or let them again.

        Raises EngineError where there is no such interface.
        """
        self.check(self.lib.sim_drain(self.pointer, node, port, int(on)))

    def set_node(self, node: int, alive: bool) -> None:
        """Kill a node, or bring it back with empty queues."""
        self.check(self.lib.sim_set_node(self.pointer, node, int(alive)))

    def impair_host_port(self, node: int, port: int, impair: PortImpair) -> None:
        """Set the impairments of frames that a host's interface sends."""
        wanted = self.ffi.new("struct ws_port_impair *", asdict(impair))
        self.check(self.lib.sim_impair_host_port(self.pointer, node, port, wanted))

    # --- traffic ---------------------------------------------------------------------------------

    def _array(self, rows: Rows, name: str) -> tuple[Any, int, Rows]:
        given = np.ascontiguousarray(rows, dtype=self.dtype(name))
        return self.ffi.from_buffer(f"struct sim_{name}[]", given.view(np.uint8)), len(given), given

    def add_transports(self, transports: Sequence[Transport]) -> int:
        """Add transports; return the first one's number (a flow's `transport` is that + 1).

        Raises EngineError, AlgorithmError.
        """
        array = self.ffi.new("struct sim_transport_config[]", max(1, len(transports)))
        for row, transport in zip(array, transports, strict=False):
            for name in ("ack_every", "window_packets", "retries", "rnr_retries", "udp_ports"):
                setattr(row, name, getattr(transport, name))
            row.max_reads, row.repeat = transport.max_reads, int(transport.repeat)
            row.cnp_dscp, row.cnp_queue = transport.cnp_dscp, transport.cnp_queue
            if transport.ack_class is not None:
                row.ack_apart, (row.ack_dscp, row.ack_queue) = 1, transport.ack_class
            row.path_kind, row.path_pause_ns = int(transport.path_kind), transport.path_pause_ns
            row.path_idle_rounds = transport.path_idle_rounds
            row.path_rounds = transport.path_rounds
            row.timeout_ps, row.reorder_ps = transport.timeout_ps, transport.reorder_ps
            row.cnp_interval_ns = transport.cnp_interval_ns
            row.cc = pack(self.ffi, transport.congestion_control)[0]
            row.planes, row.link_delay_ps = vars(transport.planes), transport.link_delay_ps
        return self.check(self.lib.sim_add_transports(self.pointer, array, len(transports)))

    def add_flows(self, rows: Rows) -> int:
        """Add flows (`flow_dtype`); return the first one's number."""
        if not len(rows):
            return int(self.check(0))
        array, n, _keep = self._array(rows, "flow_config")
        return self.check(self.lib.sim_add_flows(self.pointer, array, n))

    def set_source_port(self, flow: int, port: int) -> None:
        """Let a flow's data have another UDP source port from `now` on, also while it is sent.

        Raises EngineError (no such flow, ports that end behind 65535).
        """
        if not 1 <= port <= 0xFFFF:
            raise EngineError(f"flow {flow}: a source port is from 1 to 65535, not {port}")
        self.check(self.lib.sim_set_source_port(self.pointer, flow, port))

    def stripe_flows(self, rows: Rows) -> None:
        """Let flows that follow each other carry messages together (`stripes_dtype`).

        Behind `add_flows` and before messages, which name the first flow. Raises EngineError.
        """
        if len(rows):
            array, n, _keep = self._array(rows, "stripes")
            self.check(self.lib.sim_stripe_flows(self.pointer, array, n))

    def add_streams(self, rows: Rows) -> int:
        """Add streams (`stream_dtype`); return the first one's number."""
        if not len(rows):
            return int(self.check(0))
        array, n, _keep = self._array(rows, "stream_config")
        return self.check(self.lib.sim_add_streams(self.pointer, array, n))

    def add_messages(
        self,
        rows: Rows,
        first: NDArray[np.integer[Any]],
        following: NDArray[np.integer[Any]],
        *,
        hold: bool = False,
    ) -> int:
        """Add messages (`message_dtype`) and which wait for which, in CSR form.

        `following[first[i]:first[i + 1]]` wait for message i. Returns the first one's number.
        `hold`: they begin with `start_messages`, as what collectives wait for must.
        """
        if not len(rows):
            return int(self.check(0))
        if len(first) != len(rows) + 1:
            raise EngineError(f"{len(rows)} messages need {len(rows) + 1} offsets")
        array, n, _keep = self._array(rows, "message")
        offsets = np.ascontiguousarray(first, dtype=np.uint64)
        targets = np.ascontiguousarray(following, dtype=np.uint32)
        if len(offsets) and int(offsets[-1]) > len(targets):
            raise EngineError("offsets point behind the dependents")
        if not len(targets):
            targets = np.zeros(1, dtype=np.uint32)
        add = self.lib.sim_hold_messages if hold else self.lib.sim_add_messages
        return int(
            self.check(
                add(
                    self.pointer,
                    array,
                    self.ffi.from_buffer("uint64_t[]", offsets),
                    self.ffi.from_buffer("uint32_t[]", targets),
                    n,
                )
            )
        )

    def start_messages(self) -> None:
        """Let messages begin that were held. Raises EngineError."""
        self.check(self.lib.sim_start_messages(self.pointer))

    def add_pattern(
        self, pattern: Pattern, flows: NDArray[np.integer[Any]], ideal_ps: NDArray[np.int64]
    ) -> int:
        """Add a pattern of collectives; return its number. Raises EngineError.

        `flows`: by channel and rank in a ring, else by step, channel and rank; `ideal_ps`: of the
        messages in that order, in a ring those of the smaller pieces and then of the larger.
        """
        config = self.ffi.new("struct sim_pattern *", asdict(pattern))
        each = pattern.channels * pattern.ranks
        wanted = (each, 2 * each) if pattern.kind == self.lib.SIM_RING else (each * pattern.steps,)
        if len(flows) != wanted[0] or ideal_ps.size != wanted[-1]:
            raise EngineError(f"a pattern of {wanted[0]} flows got {len(flows)}")
        return self.check(
            self.lib.sim_add_pattern(
                self.pointer,
                config,
                self.ffi.from_buffer("uint32_t[]", np.ascontiguousarray(flows, dtype=np.uint32)),
                self.ffi.from_buffer("int64_t[]", np.ascontiguousarray(ideal_ps, dtype=np.int64)),
            )
        )

    def add_collective(
        self,
        pattern: int,
        heads: NDArray[np.integer[Any]],
        after: Sequence[NDArray[np.integer[Any]]],
    ) -> int:
        """Add a collective; return its number. Raises EngineError.

        `heads`: by rank, the message with which it begins; `after`: rows of messages by rank that
        wait until it has sent and received all.
        """
        behind = [np.zeros(0), *after, np.zeros(1)]  # no buffer is empty
        return self.check(
            self.lib.sim_add_collective(
                self.pointer,
                pattern,
                self.ffi.from_buffer("uint32_t[]", np.ascontiguousarray(heads, dtype=np.uint32)),
                self.ffi.from_buffer("uint32_t[]", np.concatenate(behind).astype(np.uint32)),
                len(after),
            )
        )

    def add_script(self, packets: Sequence[tuple[int, int, int, bytes] | ScriptFrame]) -> None:
        """Add frames to send as they are: (node, interface, at_ps, bytes), or `ScriptFrame`s."""
        rows = self.ffi.new("struct sim_script_packet[]", max(1, len(packets)))
        keep = []
        for row, packet in zip(rows, packets, strict=False):
            frame = ScriptFrame(*packet)
            keep.append(self.ffi.from_buffer("uint8_t[]", frame.data))
            row.node, row.port, row.at = frame.node, frame.port, frame.at
            row.length, row.data = len(frame.data), keep[-1]
            row.tail_length, row.tail_seed = frame.tail_length, frame.tail_seed
        self.check(self.lib.sim_add_script(self.pointer, rows, len(packets)))

    def add_ticker(self, ticker: Ticker) -> int:
        """Let the same packet come into a switch at a period; return the ticker's number.

        Raises EngineError (no such switch, a port with a link, period or packet out of range).
        """
        row = self.ffi.new("struct sim_ticker *")
        packet = self.ffi.from_buffer("uint8_t[]", ticker.packet)
        row.node, row.port = ticker.node, ticker.port
        try:
            row.start_ps, row.period_ps = ticker.start_ps, ticker.period_ps
        except OverflowError:
            raise EngineError("a ticker's times are less than 2^63 ps") from None
        row.length, row.data = len(ticker.packet), packet
        return self.check(self.lib.sim_add_ticker(self.pointer, row))

    def ticker_stats(self, number: int) -> TickerStats:
        """Return the counts of a ticker. Raises EngineError where there is none."""
        found = self.ffi.new("struct sim_ticker_stats *")
        if self.lib.sim_ticker_stats_get(self.pointer, number, found) < 0:
            raise EngineError(f"there is no ticker {number}")
        return TickerStats(int(found.ticks), int(found.missed), int(found.next_ps))

    # --- running ------------------------------------------------------------------------------

    def run(self, until: int = NEVER, *, budget: int = NEVER, to_the_end: bool = False) -> Stop:
        """Run until `until` (included) or another reason to stop.

        Raises EngineError when memory runs out, and ProgramError when a program fails; and ever
        after: part of what happened is missing.
        """
        stop = self.lib.sim_run(self.pointer, until, budget, int(to_the_end))
        if stop == self.lib.SIM_FAILED:
            self.programs.raise_failure()
            self.check(self.lib.SIM_ENOMEM)
        return Stop(stop)

    @property
    def now(self) -> int:
        """Virtual time."""
        return int(self.lib.sim_now(self.pointer))

    def take_punts(self) -> list[Punt]:
        """Return the packets and digests for the controller since the last call."""
        rows = self.ffi.new("struct sim_punt[]", 64)
        punts: list[Punt] = []
        while n := self.lib.sim_take_punts(self.pointer, rows, 64):
            for i in range(n):
                out = rows[i].output
                data = bytes(self.ffi.buffer(out.data, out.length)) if out.length else b""
                output = Output(OutputKind(out.kind), out.port, data, out.at, out.id, out.program)
                punts.append(Punt(rows[i].node, output))
        return punts

    # --- what happened ------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Return the sums over the whole run."""
        found = self.ffi.new("struct sim_totals *")
        self.lib.sim_totals_get(self.pointer, found)
        return Totals(**{name: int(getattr(found, name)) for name in Totals.__dataclass_fields__})

    def flow_stats(self, first: int, n: int) -> Rows:
        """Return the statistics of flows `first` .. (`flow_stats_dtype`). Raises EngineError."""
        rows = np.zeros(n, dtype=self.flow_stats_dtype)
        if n:
            array = self.ffi.from_buffer("struct sim_flow_stats[]", rows.view(np.uint8))
            self.check(self.lib.sim_flow_stats_get(self.pointer, first, n, array))
        return rows

    def transport_stats(self, first: int, n: int) -> Rows:
        """Return the counts of the transports of flows `first` .. Raises EngineError."""
        rows = np.zeros(n, dtype=self.dtype("transport_stats"))
        if n:
            array = self.ffi.from_buffer("struct sim_transport_stats[]", rows.view(np.uint8))
            self.check(self.lib.sim_transport_stats_get(self.pointer, first, n, array))
        return rows

    def plane_rows(self) -> Rows:
        """Return what became of planes, by flow, end and interface: sim_plane_row."""
        n = self.lib.sim_plane_rows(self.pointer, self.ffi.NULL, 0)
        rows = np.zeros(n, dtype=self.dtype("plane_row"))
        if n:
            array = self.ffi.from_buffer("struct sim_plane_row[]", rows.view(np.uint8))
            self.lib.sim_plane_rows(self.pointer, array, n)
        return rows

    def migration_rows(self) -> Rows:
        """Return where those stand that use one interface at a time: sim_migration_row."""
        n = self.lib.sim_migration_rows(self.pointer, self.ffi.NULL, 0)
        rows = np.zeros(n, dtype=self.dtype("migration_row"))
        if n:
            array = self.ffi.from_buffer("struct sim_migration_row[]", rows.view(np.uint8))
            self.lib.sim_migration_rows(self.pointer, array, n)
        return rows

    def collective_stats(self, first: int, n: int) -> list[CollectiveStats]:
        """Return what is known of collectives `first` .. Raises EngineError."""
        rows = self.ffi.new("struct sim_collective_stats[]", max(1, n))
        self.check(self.lib.sim_collective_stats_get(self.pointer, first, n, rows))

        def total(known: Any) -> Sum:
            return Sum((int(known.high) << 32) + int(known.low), int(known.most))

        return [
            CollectiveStats(
                int(row.messages),
                int(row.done),
                int(row.first_ready),
                int(row.last_done),
                total(row.sums[0]),
                total(row.sums[1]),
            )
            for row in list(rows)[:n]
        ]

    def collective_spread(self, number: int, *, slowdown: bool = False) -> Rows:
        """Return how often times from ready to done came, or slowdowns: sim_spread_row."""
        rows = np.zeros(self.lib.SIM_SPREAD_ROWS, dtype=self.dtype("spread_row"))
        array = self.ffi.from_buffer("struct sim_spread_row[]", rows.view(np.uint8))
        which = self.lib.SIM_SLOWDOWN if slowdown else self.lib.SIM_COMPLETION
        found = self.lib.sim_collective_spread_get(self.pointer, number, which, array)
        return rows[: self.check(found)].copy()

    def flow_messages(self, first: int, n: int) -> Rows:
        """Return what collectives' messages of flows `first` .. have done: sim_flow_messages."""
        rows = np.zeros(n, dtype=self.dtype("flow_messages"))
        if n:
            array = self.ffi.from_buffer("struct sim_flow_messages[]", rows.view(np.uint8))
            self.check(self.lib.sim_flow_messages_get(self.pointer, first, n, array))
        return rows

    def message_times(self, first: int, n: int) -> Rows:
        """Return the times of messages `first` .. (`message_times_dtype`); -1: not yet."""
        rows = np.zeros(n, dtype=self.message_times_dtype)
        if n:
            array = self.ffi.from_buffer("struct sim_message_times[]", rows.view(np.uint8))
            self.check(self.lib.sim_message_times_get(self.pointer, first, n, array))
        return rows

    def host_port_stats(self, node: int, port: int) -> HostPortStats:
        """Return the counts of a host's interface."""
        found = self.ffi.new("struct sim_host_port_stats *")
        self.check(self.lib.sim_host_port_stats_get(self.pointer, node, port, found))
        names = [name for name in HostPortStats.__dataclass_fields__ if name != "paused_ps"]
        values = {name: int(getattr(found, name)) for name in names}
        return HostPortStats(**values, paused_ps=tuple(found.paused_ps))

    def sample(self, interval_ps: int, start_ps: int | None = None) -> None:
        """Sample queues, links and flows from `start_ps` on (None: now + interval); 0 ends it."""
        start = self.now + interval_ps if start_ps is None else start_ps
        self.check(self.lib.sim_sample(self.pointer, start, interval_ps))

    def sample_rest(self) -> None:
        """Sample what has happened since the last sample: for the end of a run, between two."""
        self.lib.sim_sample_rest(self.pointer)

    def take_queue_samples(self) -> Rows:
        """Return the rows of struct sim_queue_sample since the last call, at most 65 536."""
        return self.samples("queue")

    def take_link_samples(self) -> Rows:
        """Return the rows of struct sim_link_sample since the last call, at most 65 536."""
        return self.samples("link")

    def take_flow_samples(self) -> Rows:
        """Return the rows of struct sim_flow_sample since the last call, at most 65 536."""
        return self.samples("flow")

    def samples(self, kind: str) -> Rows:
        """Return the rows of struct sim_KIND_sample since the last call, at most 65 536."""
        rows = np.zeros(_BATCH, dtype=self.dtype(f"{kind}_sample"))
        array = self.ffi.from_buffer(f"struct sim_{kind}_sample[]", rows.view(np.uint8))
        n = getattr(self.lib, f"sim_take_{kind}_samples")(self.pointer, array, _BATCH)
        return rows.view(np.uint8)[: n * rows.itemsize].copy().view(rows.dtype)

    def record_paths(self, most_rows: int) -> None:
        """Record which links flows take, from now on: once, behind `add_flows`.

        A run in which paths and gaps have more rows than `most_rows` ends in an EngineError.
        """
        self.check(self.lib.sim_record_paths(self.pointer, most_rows))

    def path_rows(self) -> Rows:
        """Return the rows of struct sim_path_row by flow, link and direction.

        Raises EngineError.
        """
        rows = self._recorded("path")
        return rows[np.lexsort((rows["direction"], rows["link"], rows["flow"]))]

    def gap_rows(self) -> Rows:
        """Return the rows of struct sim_gap_row by flow and gap. Raises EngineError."""
        rows = self._recorded("gap")
        return rows[np.lexsort((rows["gap_ns"], rows["flow"]))]

    def _recorded(self, kind: str) -> Rows:
        get = getattr(self.lib, f"sim_{kind}_rows")
        n = get(self.pointer, self.ffi.NULL, 0)
        if n < 0:
            raise EngineError("paths are not recorded")
        rows = np.zeros(n, dtype=self.dtype(f"{kind}_row"))
        if n:
            array = self.ffi.from_buffer(f"struct sim_{kind}_row[]", rows.view(np.uint8))
            get(self.pointer, array, n)
        return rows

    def flow_orders(self, first: int, n: int) -> Rows:
        """Return the order in which packets of flows `first` .. arrived: sim_flow_order.

        Raises EngineError.
        """
        rows = np.zeros(n, dtype=self.dtype("flow_order"))
        if n:
            array = self.ffi.from_buffer("struct sim_flow_order[]", rows.view(np.uint8))
            self.check(self.lib.sim_flow_orders_get(self.pointer, first, n, array))
        return rows

    def notifications(self, node: int, port: int) -> list[Heard]:
        """Return what switches have said to a host's interface in datagrams, the latest first."""
        rows = self.ffi.new("struct rnic_notification[]", self.lib.RNIC_NOTIFICATIONS)
        n = self.lib.sim_notifications(self.pointer, node, port, rows, len(rows))
        if n < 0:
            raise EngineError(f"node {node} has no interface {port}")
        return heard_rows(rows, n)

    def notification_counts(self, node: int, port: int) -> HeardCounts:
        """Return how many datagrams came to the notifications' port of a host's interface."""
        row = self.ffi.new("struct rnic_notification_counts *")
        if self.lib.sim_notification_counts_get(self.pointer, node, port, row) < 0:
            raise EngineError(f"node {node} has no interface {port}")
        return heard_counts(row)

    def tap(self, node: int, port: int, capacity: int = 65536) -> None:
        """Copy what a port sends and receives, up to `capacity` frames until taken; 0 ends it."""
        self.check(self.lib.sim_tap(self.pointer, node, port, capacity))

    def take_tapped(self) -> list[Tapped]:
        """Return the frames of all taps since the last call.

        A sent one has the time of its last bit.
        """
        rows = self.ffi.new("struct sim_tapped[]", 4096)
        frames: list[Tapped] = []
        while n := self.lib.sim_take_tapped(self.pointer, rows, 4096):
            for i in range(n):
                row = rows[i]
                data = bytes(self.ffi.buffer(row.data, row.length))
                where = (row.at, row.node, row.port, bool(row.sent))
                frames.append(Tapped(*where, row.tail_length, row.tail_seed, data))
        return frames

    def tap_missed(self) -> int:
        """Return the number of frames that no tap had room for."""
        return int(self.lib.sim_tap_missed(self.pointer))


def exponential(mean_ps: int, random: int) -> int:
    """Return an exponentially distributed time from 64 random bits, the same on every machine."""
    return int(native().lib.sim_exponential(mean_ps, random))


__all__ = [
    "NEVER",
    "Clock",
    "CollectiveStats",
    "CoreError",
    "Engine",
    "EngineError",
    "HostPort",
    "HostPortStats",
    "Pattern",
    "Punt",
    "Receiver",
    "ReceiverStats",
    "ScriptFrame",
    "Stop",
    "StreamKind",
    "Sum",
    "Tapped",
    "Ticker",
    "TickerStats",
    "Totals",
    "Transport",
]
