"""The C core as typed Python: one method a function of `weft_switch.h`, nothing added.

Times are integer picoseconds since the switch's start. Objects are named by their index in the
pipeline's descriptor, entries and members by handles above 0 (softswitch.core.objects). One thread
at a time; while a `DaemonLoop` runs, inside `loop.locked()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from softswitch.core.objects import ProgramObjects
from softswitch.core.records import (
    BufferConfig,
    BufferStats,
    CoreConfig,
    CoreStats,
    Direction,
    ImpairStats,
    Output,
    OutputKind,
    PfcStats,
    PortConfig,
    PortImpair,
    PortState,
    PortStats,
    QueueConfig,
    QueuePeak,
    Scheduler,
    Waiting,
)

_OUTPUT_BATCH = 256
_NEVER = (1 << 63) - 1


class SwitchCore(ProgramObjects):
    """One switch: tables, passes, queues; no clock, no socket, no thread."""

    def __init__(
        self, config: CoreConfig | None = None, *, sanitize: bool = False, module: Any = None
    ) -> None:
        """As NativeSwitch. Raises CoreError, build.CoreBuildError."""
        super().__init__(config, sanitize=sanitize, module=module)
        self._outputs = self.ffi.new("struct ws_output[]", _OUTPUT_BATCH)

    def seed(self, seed: int) -> None:
        """Be as if made with this seed, before the first packet."""
        self.config = replace(self.config, seed=seed)
        self.lib.ws_seed(self.pointer, seed)

    # --- packets and time ----------------------------------------------------------------------

    def inject(
        self, port: int, data: bytes, at_ps: int = 0, *, tail_length: int = 0, tail_seed: int = 0
    ) -> None:
        """Inject a packet that arrives at `port` at `at_ps` (0 or past: now), after everything due
        before.

        With a tail the packet is `data` and `payload(tail_seed, tail_length)`; the core does not
        store
        the tail's bytes.
        """
        packet = self.ffi.new("struct ws_packet_in *")
        buffer = self.ffi.from_buffer("uint8_t[]", data)
        packet.port, packet.length, packet.data, packet.at = port, len(data), buffer, at_ps
        packet.tail_length, packet.tail_seed = tail_length, tail_seed
        self.lib.ws_inject(self.pointer, packet, 1, at_ps)

    def inject_batch(self, packets: Sequence[tuple[int, bytes, int]], now_ps: int) -> None:
        """Inject packets, (port, data, at_ps) each, in order of arrival.

        A later `at_ps` arrives later.
        """
        array = self.ffi.new("struct ws_packet_in[]", len(packets))
        keep = []
        for i, (port, data, at_ps) in enumerate(packets):
            keep.append(self.ffi.from_buffer("uint8_t[]", data))
            array[i].port, array[i].length = port, len(data)
            array[i].data, array[i].at = keep[-1], at_ps
        self.lib.ws_inject(self.pointer, array, len(packets), now_ps)

    def advance(self, now_ps: int) -> None:
        """Run everything due up to and at `now_ps`, each event at its scheduled time."""
        self.lib.ws_advance(self.pointer, now_ps)

    def next_event(self) -> int | None:
        """Return when `advance` or `take_output` next has work; None: never."""
        at = int(self.lib.ws_next_event(self.pointer))
        return None if at == _NEVER else at

    def take_output(self, until_ps: int | None = None) -> list[Output]:
        """Return the finished outputs with `at_ps` <= `until_ps` (None: all), in (at, id) order."""
        until = _NEVER if until_ps is None else until_ps
        result: list[Output] = []
        while True:
            n = self.lib.ws_take_output(self.pointer, self._outputs, _OUTPUT_BATCH, until)
            result += (self._output(self._outputs[i]) for i in range(n))
            if n < _OUTPUT_BATCH:
                return result

    def _output(self, out: Any) -> Output:
        data = bytes(self.ffi.buffer(out.data, out.length)) if out.length else b""
        tail = (out.tail_length, out.tail_seed)
        return Output(OutputKind(out.kind), out.port, data, out.at, out.id, out.program, *tail)

    def payload(self, seed: int, length: int, offset: int = 0) -> bytes:
        """Return the bytes of the tail that a seed stands for."""
        buffer = self.ffi.new("uint8_t[]", max(1, length))
        self.lib.ws_payload(seed, offset, buffer, length)
        return bytes(self.ffi.buffer(buffer, length))

    # --- ports ---------------------------------------------------------------------------------

    def set_port(
        self, port: int, state: PortState, *, pause_mask: int = 0, now_ps: int = 0
    ) -> None:
        """Set a port up, down (drops both ways), or blocked (queues hold).

        Bit c of `pause_mask` holds queue c.
        """
        status = self.lib.ws_set_port(self.pointer, port, int(state), pause_mask, now_ps)
        self._check(status, f"port {port}")

    def report_ports(self, port: int, packet: bytes) -> None:
        """Let `packet` come in by `port` whenever another port goes down or up again."""
        data = self.ffi.from_buffer("uint8_t[]", packet)
        status = self.lib.ws_report_ports(self.pointer, port, data, len(packet))
        self._check(status, f"reports of ports by port {port}")

    def report_down_ports(self) -> None:
        """Report every port that is down to a program that was loaded after the port went down."""
        self.lib.ws_report_down_ports(self.pointer)

    def grant_port(self, port: int, packets: int | None, *, now_ps: int = 0) -> None:
        """Let `packets` more leave by a port that is up.

        Then it is blocked until the next grant.
        """
        granted = self.lib.WS_UNLIMITED if packets is None else packets
        self._check(self.lib.ws_grant_port(self.pointer, port, granted, now_ps), f"port {port}")

    def port_state(self, port: int) -> tuple[PortState, int]:
        """Return the state and pause mask in force."""
        state = self.ffi.new("enum ws_port_state *")
        mask = self.ffi.new("uint32_t *")
        self._check(self.lib.ws_port_state_get(self.pointer, port, state, mask), f"port {port}")
        return PortState(state[0]), int(mask[0])

    def configure_port(self, port: int, config: PortConfig) -> None:
        """Set rate, delays and queue sizes from now on."""
        c = self.ffi.new("struct ws_port_config *", config.as_dict())
        self._check(self.lib.ws_configure_port(self.pointer, port, c), f"port {port}")

    def configure_queue(self, port: int, priority: int, config: QueueConfig) -> None:
        """Set BMv2's limits of one queue; `configure_port` sets those of all of them."""
        c = self.ffi.new("struct ws_queue_config *", config.as_dict())
        status = self.lib.ws_configure_queue(self.pointer, port, priority, c)
        self._check(status, f"port {port}, queue {priority}")

    def queue_config(self, port: int, priority: int) -> QueueConfig:
        """Return the limits in force of one queue."""
        c = self.ffi.new("struct ws_queue_config *")
        status = self.lib.ws_queue_config_get(self.pointer, port, priority, c)
        self._check(status, f"port {port}, queue {priority}")
        return QueueConfig.read(c)

    def port_config(self, port: int) -> PortConfig:
        """Return the configuration in force (the default for a port never used)."""
        c = self.ffi.new("struct ws_port_config *")
        self._check(self.lib.ws_port_config_get(self.pointer, port, c), f"port {port}")
        return PortConfig.read(c)

    def schedule_port(self, port: int, scheduler: Scheduler) -> None:
        """Set how the port chooses among its queues from now on."""
        c = self.ffi.new("struct ws_scheduler *", {"quantum": list(scheduler.quanta)})
        self._check(self.lib.ws_schedule_port(self.pointer, port, c), f"port {port}: scheduler")

    def port_scheduler(self, port: int) -> Scheduler:
        """Return the scheduler in force."""
        c = self.ffi.new("struct ws_scheduler *")
        self._check(self.lib.ws_port_scheduler_get(self.pointer, port, c), f"port {port}")
        return Scheduler(tuple(int(quantum) for quantum in c.quantum))

    def impair_port(self, port: int, direction: Direction, impair: PortImpair) -> None:
        """Set the impairments of the port's wire, from now on."""
        c = self.ffi.new("struct ws_port_impair *", impair.as_dict())
        status = self.lib.ws_impair_port(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}: impairment")

    def port_impair(self, port: int, direction: Direction) -> PortImpair:
        """Return the impairments of the port's wire."""
        c = self.ffi.new("struct ws_port_impair *")
        status = self.lib.ws_port_impair_get(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}")
        return PortImpair.read(c)

    def port_impair_stats(self, port: int, direction: Direction) -> ImpairStats:
        """Return the counts of impaired frames on the port's wire so far."""
        c = self.ffi.new("struct ws_impair_stats *")
        status = self.lib.ws_port_impair_stats_get(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}")
        return ImpairStats.read(c)

    def port_stats(self, port: int) -> PortStats:
        """Return the counts of the port itself, not of the program."""
        s = self.ffi.new("struct ws_port_stats *")
        self._check(self.lib.ws_port_stats_get(self.pointer, port, s), f"port {port}")
        return PortStats.read(s)

    def watch_queue(self, port: int, priority: int, above_bytes: int) -> None:
        """Start to watch a queue's peak, and when it holds more than `above_bytes` first."""
        status = self.lib.ws_queue_watch(self.pointer, port, priority, above_bytes)
        self._check(status, f"queue {priority} of port {port}")

    def queue_peak(self, port: int, priority: int) -> QueuePeak:
        """Return the highest depth of a queue since it is watched (without: since the start)."""
        peak = self.ffi.new("struct ws_queue_peak *")
        status = self.lib.ws_queue_peak_get(self.pointer, port, priority, peak)
        self._check(status, f"queue {priority} of port {port}")
        return QueuePeak.read(peak)

    # --- shared buffer and PFC ------------------------------------------------------------------

    def configure_buffer(self, config: BufferConfig) -> None:
        """Set the shared buffer (0 bytes: none). CoreError (WS_EBUSY) while packets wait."""
        wanted = self.ffi.new("struct ws_buffer_config *", asdict(config))
        self._check(self.lib.ws_configure_buffer(self.pointer, wanted), "shared buffer")

    def set_headroom(self, port: int, headroom_bytes: Sequence[int]) -> None:
        """Set the bytes that may still arrive in each class after XOFF, eight values."""
        wanted = self.ffi.new("uint64_t[8]", list(headroom_bytes))
        self._check(self.lib.ws_port_headroom_set(self.pointer, port, wanted), f"port {port}")

    def pfc_stats(self, port: int) -> PfcStats:
        """Return the pauses of a port, and what was dropped for the buffer, by class."""
        s = self.ffi.new("struct ws_pfc_stats *")
        self._check(self.lib.ws_pfc_stats_get(self.pointer, port, s), f"port {port}")
        return PfcStats(*(tuple(getattr(s, name)) for name in PfcStats.__dataclass_fields__))

    def buffer_stats(self) -> BufferStats | None:
        """Use of the shared buffer; None: there is none."""
        s = self.ffi.new("struct ws_buffer_stats *")
        if self.lib.ws_buffer_stats_get(self.pointer, s) != 0:
            return None
        return BufferStats.read(s)

    def waiting(self) -> list[Waiting]:
        """Return which queues wait for which now."""
        n = self.lib.ws_waiting(self.pointer, self.ffi.NULL, 0)
        # Rows that do not fit are not distinguished, so the first answer is an upper bound.
        rows = self.ffi.new("struct ws_waiting[]", max(1, n))
        n = self.lib.ws_waiting(self.pointer, rows, n)
        names = Waiting.__dataclass_fields__
        return [Waiting(*(int(getattr(rows[i], name)) for name in names)) for i in range(n)]

    def stats(self) -> CoreStats:
        """Return the counts of the whole switch."""
        s = self.ffi.new("struct ws_stats *")
        self.lib.ws_stats_get(self.pointer, s)
        return CoreStats.read(s)
