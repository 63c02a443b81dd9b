"""The C core as typed Python: one method a function of `weft_switch.h`, nothing added.

Times are integer picoseconds since the switch's start. Objects are named by their index in the
pipeline's descriptor, entries and members by handles above 0. One thread at a time; while a
`DaemonLoop` runs, inside `loop.locked()`.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from softswitch.core import build
from softswitch.core.descriptor import PipelineDescriptor, read_descriptor
from softswitch.core.records import (
    BufferConfig,
    BufferStats,
    CoreConfig,
    CoreError,
    CoreStats,
    Counter,
    Direction,
    ImpairStats,
    Keep,
    MeterConfig,
    Output,
    OutputKind,
    PfcStats,
    PortConfig,
    PortImpair,
    PortState,
    PortStats,
    Replica,
    Scheduler,
    Session,
    Spec,
    Target,
    Waiting,
)

LogCallback = Callable[[int, str], None]
_OUTPUT_BATCH = 256
_NEVER = (1 << 63) - 1
_loaded: dict[bool, Any] = {}


def native(*, sanitize: bool = False) -> Any:
    """The extension module (`.ffi`, `.lib`), compiled first when its sources changed.

    Raises build.CoreBuildError.
    """
    if sanitize not in _loaded:
        build.ensure(sanitize=sanitize)
        module = importlib.import_module(f"softswitch.core.{build.module_name(sanitize)}")
        attach_log(module)
        _loaded[sanitize] = module
    return _loaded[sanitize]


def attach_log(module: Any) -> None:
    """Lets the core in an extension module reach the callbacks of `SwitchCore.set_log`."""

    @module.ffi.def_extern(name="weft_log")  # type: ignore[untyped-decorator]
    def weft_log(opaque: Any, level: int, line: Any) -> None:
        target: _LogTarget = module.ffi.from_handle(opaque)
        if target.callback is not None:
            target.callback(level, module.ffi.string(line).decode(errors="replace"))


class _LogTarget:
    def __init__(self) -> None:
        self.callback: LogCallback | None = None


class SwitchCore:
    """One switch: tables, passes, queues; no clock, no socket, no thread."""

    def __init__(
        self, config: CoreConfig | None = None, *, sanitize: bool = False, module: Any = None
    ) -> None:
        """Raises CoreError (WS_EINVAL) for a configuration that can't be, build.CoreBuildError.

        `module`: an extension module that has a copy of the core (attach_log was called for it);
        None: the core's own.
        """
        if module is None:
            module = native(sanitize=sanitize)
        self.module: Any = module
        self.ffi: Any = module.ffi
        self.lib: Any = module.lib
        self.config = config or CoreConfig()
        wanted = self.ffi.new("struct ws_config *", self.config.as_dict())
        pointer = self.lib.ws_create(wanted)
        if pointer == self.ffi.NULL:
            raise CoreError(
                self.lib.WS_EINVAL,
                "switch configuration: 1 to 8 priorities, tick and recirculation above 0",
            )
        self.pointer: Any = pointer
        self._finalizer = weakref.finalize(self, self.lib.ws_destroy, pointer)
        self._descriptor: PipelineDescriptor | None = None
        self._log_target = _LogTarget()
        self._log_handle = self.ffi.new_handle(self._log_target)
        self._outputs = self.ffi.new("struct ws_output[]", _OUTPUT_BATCH)

    def close(self) -> None:
        """Frees the switch; it must not be used afterwards."""
        self._finalizer()

    def __enter__(self) -> SwitchCore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise CoreError(status, what)

    # --- pipeline ------------------------------------------------------------------------------

    def load(self, so_path: Path | str) -> PipelineDescriptor:
        """Loads a compiled pipeline; tables, arrays, groups and sessions start empty.

        Raises CoreError (WS_ELOAD) and then leaves everything as it was.
        """
        status = self.lib.ws_load(self.pointer, str(so_path).encode())
        if status != 0:
            raise CoreError(status, self.last_error())
        self._descriptor = read_descriptor(self.ffi, self.lib.ws_pipeline(self.pointer))
        return self._descriptor

    def adopt(self, donor: SwitchCore, keep: Sequence[Keep]) -> None:
        """Runs `donor`'s program, with its entries and their handles, from now on.

        `donor` (of the same configuration) is left without a program. Ports, queues and time go on;
        `keep` says which state moves over. Raises CoreError and then nothing has changed.
        """
        items = self.ffi.new("struct ws_keep[]", max(1, len(keep)))
        for item, wanted in zip(items, keep, strict=False):
            item.kind = int(wanted.kind)
            item.old_index, item.new_index = wanted.old, wanted.new
            item.old_handle, item.new_handle = wanted.old_handle, wanted.new_handle
        status = self.lib.ws_adopt(self.pointer, donor.pointer, items, len(keep))
        if status != 0:
            raise CoreError(status, self.last_error())
        self._descriptor, donor._descriptor = donor._descriptor, None

    @property
    def program_number(self) -> int:
        """Grows with each pipeline that this switch runs; 0 before the first."""
        return int(self.lib.ws_program_number(self.pointer))

    @property
    def descriptor(self) -> PipelineDescriptor:
        """Of the loaded pipeline; CoreError (WS_ENOENT) when there is none."""
        if self._descriptor is None:
            raise CoreError(self.lib.WS_ENOENT, "no pipeline is loaded")
        return self._descriptor

    @property
    def loaded(self) -> bool:
        """Whether a pipeline is loaded."""
        return self._descriptor is not None

    def last_error(self) -> str:
        """What the last failed load or port said."""
        return str(self.ffi.string(self.lib.ws_last_error(self.pointer)).decode(errors="replace"))

    def set_log(self, callback: LogCallback | None) -> None:
        """`callback(level, line)` gets log_msg (0) and assert (1) lines; None = nobody."""
        self._log_target.callback = callback
        function = self.lib.weft_log if callback is not None else self.ffi.NULL
        self.lib.ws_set_log(self.pointer, function, self._log_handle)

    # --- packets and time ----------------------------------------------------------------------

    def inject(
        self, port: int, data: bytes, at_ps: int = 0, *, tail_length: int = 0, tail_seed: int = 0
    ) -> None:
        """A packet arrives at `port` at `at_ps` (0 or past: now), after everything due before.

        With a tail it is `data` and `payload(tail_seed, tail_length)`, whose bytes are not kept.
        """
        packet = self.ffi.new("struct ws_packet_in *")
        buffer = self.ffi.from_buffer("uint8_t[]", data)
        packet.port, packet.length, packet.data, packet.at = port, len(data), buffer, at_ps
        packet.tail_length, packet.tail_seed = tail_length, tail_seed
        self.lib.ws_inject(self.pointer, packet, 1, at_ps)

    def inject_batch(self, packets: Sequence[tuple[int, bytes, int]], now_ps: int) -> None:
        """(port, data, at_ps) each, in order of arrival; `at_ps` above `now_ps` arrives later."""
        array = self.ffi.new("struct ws_packet_in[]", len(packets))
        keep = []
        for i, (port, data, at_ps) in enumerate(packets):
            keep.append(self.ffi.from_buffer("uint8_t[]", data))
            array[i].port, array[i].length = port, len(data)
            array[i].data, array[i].at = keep[-1], at_ps
        self.lib.ws_inject(self.pointer, array, len(packets), now_ps)

    def advance(self, now_ps: int) -> None:
        """Runs everything due up to and at `now_ps`, each event at its scheduled time."""
        self.lib.ws_advance(self.pointer, now_ps)

    def next_event(self) -> int | None:
        """When `advance` or `take_output` next has work; None: never."""
        at = int(self.lib.ws_next_event(self.pointer))
        return None if at == _NEVER else at

    def take_output(self, until_ps: int | None = None) -> list[Output]:
        """Finished outputs with `at_ps` <= `until_ps` (None: all), in (at, id) order."""
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
        """Bytes of the tail that a seed stands for."""
        buffer = self.ffi.new("uint8_t[]", max(1, length))
        self.lib.ws_payload(seed, offset, buffer, length)
        return bytes(self.ffi.buffer(buffer, length))

    # --- ports ---------------------------------------------------------------------------------

    def set_port(
        self, port: int, state: PortState, *, pause_mask: int = 0, now_ps: int = 0
    ) -> None:
        """Up, down (drops both ways), blocked (queues hold); `pause_mask` bit c holds queue c."""
        status = self.lib.ws_set_port(self.pointer, port, int(state), pause_mask, now_ps)
        self._check(status, f"port {port}")

    def port_state(self, port: int) -> tuple[PortState, int]:
        """The state and pause mask in force."""
        state = self.ffi.new("enum ws_port_state *")
        mask = self.ffi.new("uint32_t *")
        self._check(self.lib.ws_port_state_get(self.pointer, port, state, mask), f"port {port}")
        return PortState(state[0]), int(mask[0])

    def configure_port(self, port: int, config: PortConfig) -> None:
        """Rate, delays and queue sizes from now on."""
        c = self.ffi.new("struct ws_port_config *", config.as_dict())
        self._check(self.lib.ws_configure_port(self.pointer, port, c), f"port {port}")

    def port_config(self, port: int) -> PortConfig:
        """The configuration in force (the default for a port never used)."""
        c = self.ffi.new("struct ws_port_config *")
        self._check(self.lib.ws_port_config_get(self.pointer, port, c), f"port {port}")
        return PortConfig.read(c)

    def schedule_port(self, port: int, scheduler: Scheduler) -> None:
        """How the port chooses among its queues from now on."""
        c = self.ffi.new("struct ws_scheduler *", {"quantum": list(scheduler.quanta)})
        self._check(self.lib.ws_schedule_port(self.pointer, port, c), f"port {port}: scheduler")

    def port_scheduler(self, port: int) -> Scheduler:
        """The scheduler in force."""
        c = self.ffi.new("struct ws_scheduler *")
        self._check(self.lib.ws_port_scheduler_get(self.pointer, port, c), f"port {port}")
        return Scheduler(tuple(int(quantum) for quantum in c.quantum))

    def impair_port(self, port: int, direction: Direction, impair: PortImpair) -> None:
        """What goes wrong on the port's wire from now on."""
        c = self.ffi.new("struct ws_port_impair *", impair.as_dict())
        status = self.lib.ws_impair_port(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}: impairment")

    def port_impair(self, port: int, direction: Direction) -> PortImpair:
        """What goes wrong on the port's wire."""
        c = self.ffi.new("struct ws_port_impair *")
        status = self.lib.ws_port_impair_get(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}")
        return PortImpair.read(c)

    def port_impair_stats(self, port: int, direction: Direction) -> ImpairStats:
        """What went wrong on the port's wire so far."""
        c = self.ffi.new("struct ws_impair_stats *")
        status = self.lib.ws_port_impair_stats_get(self.pointer, port, int(direction), c)
        self._check(status, f"port {port}")
        return ImpairStats.read(c)

    def port_stats(self, port: int) -> PortStats:
        """Counts of the port itself, not of the program."""
        s = self.ffi.new("struct ws_port_stats *")
        self._check(self.lib.ws_port_stats_get(self.pointer, port, s), f"port {port}")
        return PortStats.read(s)

    # --- shared buffer and PFC ------------------------------------------------------------------

    def configure_buffer(self, config: BufferConfig) -> None:
        """Set the shared buffer (0 bytes: none). CoreError (WS_EBUSY) while packets wait."""
        wanted = self.ffi.new("struct ws_buffer_config *", asdict(config))
        self._check(self.lib.ws_configure_buffer(self.pointer, wanted), "shared buffer")

    def set_headroom(self, port: int, headroom_bytes: Sequence[int]) -> None:
        """What may still come in each class after XOFF, eight values."""
        wanted = self.ffi.new("uint64_t[8]", list(headroom_bytes))
        self._check(self.lib.ws_port_headroom_set(self.pointer, port, wanted), f"port {port}")

    def pfc_stats(self, port: int) -> PfcStats:
        """Pauses of a port, and what was dropped for the buffer, by class."""
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
        """Who waits behind whom in the queues now."""
        n = self.lib.ws_waiting(self.pointer, self.ffi.NULL, 0)
        # Rows that do not fit are not told apart, so the first answer is an upper bound.
        rows = self.ffi.new("struct ws_waiting[]", max(1, n))
        n = self.lib.ws_waiting(self.pointer, rows, n)
        names = Waiting.__dataclass_fields__
        return [Waiting(*(int(getattr(rows[i], name)) for name in names)) for i in range(n)]

    def stats(self) -> CoreStats:
        """Counts of the whole switch."""
        s = self.ffi.new("struct ws_stats *")
        self.lib.ws_stats_get(self.pointer, s)
        return CoreStats.read(s)

    # --- tables --------------------------------------------------------------------------------

    def _pack(self, action: int, args: Iterable[int]) -> list[int]:
        descriptor = self.descriptor
        if not 0 <= action < len(descriptor.actions):
            raise CoreError(self.lib.WS_EINVAL, f"no action {action}")
        wanted = descriptor.actions[action]
        values = list(args)
        if len(values) != len(wanted.param_bits):
            raise CoreError(
                self.lib.WS_EINVAL,
                f"action {wanted.name} takes {len(wanted.param_bits)} values, got {len(values)}",
            )
        limbs: list[int] = []
        for value, bits in zip(values, wanted.param_bits, strict=True):
            if not 0 <= value < 1 << bits:
                raise CoreError(
                    self.lib.WS_EINVAL, f"action {wanted.name}: {value} does not fit {bits} bits"
                )
            limbs += ((value >> 64 * i) & ((1 << 64) - 1) for i in range((bits + 63) // 64))
        return limbs

    def _spec(self, spec: Spec) -> tuple[Any, Any]:
        limbs = self._pack(spec.action, spec.args) if spec.target is Target.ACTION else []
        words = self.ffi.new("uint64_t[]", limbs or 1)
        fields = {
            "target": int(spec.target),
            "action": spec.action,
            "args": words,
            "limbs": len(limbs),
            "ref": spec.ref,
        }
        return self.ffi.new("struct ws_spec *", fields), words

    def table_insert(
        self, table: int, key: bytes, mask: bytes | None, priority: int, spec: Spec
    ) -> int:
        """Adds an entry, returns its handle. `key` and `mask` have the table's key_bytes.

        Per field: exact and valid ignore the mask; LPM, ternary and optional take value and
        mask; range takes low in `key` and high in `mask`. Raises CoreError: WS_EEXIST, WS_EFULL,
        WS_EINVAL, WS_ENOENT.
        """
        self._check_key(table, key, mask)
        handle = self.ffi.new("uint64_t *")
        c, _keep = self._spec(spec)
        status = self.lib.ws_table_insert(
            self.pointer, table, key, self.ffi.NULL if mask is None else mask, priority, c, handle
        )
        self._check(status, f"table {self._table_name(table)}")
        return int(handle[0])

    def _table_name(self, table: int) -> str:
        tables = self.descriptor.tables
        return tables[table].name if 0 <= table < len(tables) else str(table)

    def _check_key(self, table: int, key: bytes, mask: bytes | None) -> None:
        tables = self.descriptor.tables
        if not 0 <= table < len(tables):
            raise CoreError(self.lib.WS_ENOENT, f"no table {table}")
        wanted = tables[table].key_bytes
        if len(key) != wanted or (mask is not None and len(mask) != wanted):
            raise CoreError(
                self.lib.WS_EINVAL, f"table {tables[table].name}: key and mask have {wanted} bytes"
            )

    def table_modify(self, table: int, handle: int, spec: Spec) -> None:
        """Gives an entry another action; its counters stay."""
        c, _keep = self._spec(spec)
        status = self.lib.ws_table_modify(self.pointer, table, handle, c)
        self._check(status, f"table {self._table_name(table)}: entry {handle}")

    def table_delete(self, table: int, handle: int) -> None:
        """Removes an entry."""
        status = self.lib.ws_table_delete(self.pointer, table, handle)
        self._check(status, f"table {self._table_name(table)}: entry {handle}")

    def table_clear(self, table: int) -> None:
        """Removes all entries; the default entry stays."""
        self._check(self.lib.ws_table_clear(self.pointer, table), f"table {table}")

    def table_set_default(self, table: int, spec: Spec | None) -> None:
        """What a miss does; None: nothing."""
        if spec is None:
            status = self.lib.ws_table_set_default(self.pointer, table, self.ffi.NULL)
        else:
            c, _keep = self._spec(spec)
            status = self.lib.ws_table_set_default(self.pointer, table, c)
        self._check(status, f"table {self._table_name(table)}: default entry")

    def table_count(self, table: int) -> int:
        """Entries in the table, without the default."""
        return int(self.lib.ws_table_count(self.pointer, table))

    def table_counter(self, table: int, handle: int) -> Counter:
        """The direct counter of an entry (handle 0: of the default entry)."""
        c = self.ffi.new("struct wp_counter *")
        status = self.lib.ws_table_counter(self.pointer, table, handle, c)
        self._check(status, f"table {table}: entry {handle}")
        return Counter(c.packets, c.bytes)

    def table_counter_set(self, table: int, handle: int, value: Counter) -> None:
        """Writes the direct counter of an entry."""
        c = self.ffi.new("struct wp_counter *", value.as_dict())
        status = self.lib.ws_table_counter_set(self.pointer, table, handle, c)
        self._check(status, f"table {table}: entry {handle}")

    def table_last_hit(self, table: int, handle: int) -> int:
        """When the entry was last hit (or made), ps, in whole ticks. Needs support_timeout."""
        at = self.ffi.new("ws_time *")
        status = self.lib.ws_table_last_hit(self.pointer, table, handle, at)
        self._check(status, f"table {table}: entry {handle}")
        return int(at[0])

    # --- action profiles -----------------------------------------------------------------------

    def member_add(self, profile: int, action: int, args: Iterable[int]) -> int:
        """Adds a member, returns its handle.

        Its low 32 bits are given out as BMv2's handles are: the lowest free one first.
        """
        limbs = self._pack(action, args)
        handle = self.ffi.new("uint64_t *")
        status = self.lib.ws_member_add(
            self.pointer, profile, action, limbs or [0], len(limbs), handle
        )
        self._check(status, f"profile {profile}")
        return int(handle[0])

    def member_modify(self, profile: int, handle: int, action: int, args: Iterable[int]) -> None:
        """Gives a member another action; entries and groups that use it follow."""
        limbs = self._pack(action, args)
        status = self.lib.ws_member_modify(
            self.pointer, profile, handle, action, limbs or [0], len(limbs)
        )
        self._check(status, f"profile {profile}: member {handle}")

    def member_delete(self, profile: int, handle: int) -> None:
        """Removes a member; CoreError WS_EBUSY while a group or entry uses it."""
        status = self.lib.ws_member_delete(self.pointer, profile, handle)
        self._check(status, f"profile {profile}: member {handle}")

    def group_add(
        self, profile: int, members: Sequence[int], watch: Sequence[int | None] = ()
    ) -> int:
        """Adds a group, returns its handle.

        `members`: handles in selection order, repeated by weight. `watch`: nothing, or for each the
        port that must not be down for it to be selected (None: none).
        """
        handle = self.ffi.new("uint64_t *")
        status = self.lib.ws_group_add(
            self.pointer, profile, *self._members(members, watch), len(members), handle
        )
        self._check(status, f"profile {profile}: group of {list(members)}")
        return int(handle[0])

    def group_set(
        self,
        profile: int,
        handle: int,
        members: Sequence[int],
        watch: Sequence[int | None] = (),
    ) -> None:
        """Replaces the members of a group (see group_add)."""
        status = self.lib.ws_group_set(
            self.pointer, profile, handle, *self._members(members, watch), len(members)
        )
        self._check(status, f"profile {profile}: group {handle} of {list(members)}")

    def _members(self, members: Sequence[int], watch: Sequence[int | None]) -> tuple[Any, Any]:
        if watch and len(watch) != len(members):
            raise CoreError(self.lib.WS_EINVAL, f"{len(members)} members, {len(watch)} ports")
        ports = [self.lib.WS_NO_PORT if port is None else port for port in watch]
        return (
            self.ffi.new("uint64_t[]", list(members) or 1),
            self.ffi.new("uint32_t[]", ports) if watch else self.ffi.NULL,
        )

    def group_delete(self, profile: int, handle: int) -> None:
        """Removes a group; CoreError WS_EBUSY while an entry uses it."""
        status = self.lib.ws_group_delete(self.pointer, profile, handle)
        self._check(status, f"profile {profile}: group {handle}")

    # --- replication ---------------------------------------------------------------------------

    def multicast_set(self, group: int, replicas: Sequence[Replica]) -> None:
        """Sets a multicast group; no replicas: deletes it (WS_ENOENT if it is not there)."""
        rows = [(r.port, r.rid, r.backup) for r in replicas]
        array = self.ffi.new("struct ws_replica[]", rows or 1)
        status = self.lib.ws_multicast_set(self.pointer, group, array, len(replicas))
        self._check(status, f"multicast group {group}")

    def clone_session_set(self, session: int, value: Session | None) -> None:
        """Sets a clone session; None deletes it."""
        c = self.ffi.NULL if value is None else self.ffi.new("struct ws_session *", value.as_dict())
        status = self.lib.ws_clone_session_set(self.pointer, session, c)
        self._check(status, f"clone session {session}")

    # --- arrays --------------------------------------------------------------------------------

    def counter_get(self, counter: int, index: int) -> Counter:
        """One cell of an indirect counter."""
        c = self.ffi.new("struct wp_counter *")
        status = self.lib.ws_counter_get(self.pointer, counter, index, c)
        self._check(status, f"counter {counter}[{index}]")
        return Counter(c.packets, c.bytes)

    def counter_set(self, counter: int, index: int, value: Counter) -> None:
        """Writes one cell of an indirect counter."""
        c = self.ffi.new("struct wp_counter *", value.as_dict())
        status = self.lib.ws_counter_set(self.pointer, counter, index, c)
        self._check(status, f"counter {counter}[{index}]")

    def _register_limbs(self, register: int) -> int:
        registers = self.descriptor.registers
        if not 0 <= register < len(registers):
            raise CoreError(self.lib.WS_ENOENT, f"no register {register}")
        return (registers[register].bitwidth + 63) // 64

    def register_get(self, register: int, index: int) -> int:
        """One cell of a register array."""
        n = self._register_limbs(register)
        limbs = self.ffi.new("uint64_t[]", n)
        status = self.lib.ws_register_get(self.pointer, register, index, limbs)
        self._check(status, f"register {register}[{index}]")
        return sum(int(limbs[i]) << 64 * i for i in range(n))

    def register_set(self, register: int, index: int, value: int) -> None:
        """Writes one cell; `value` must fit the register's width."""
        n = self._register_limbs(register)
        if not 0 <= value < 1 << self.descriptor.registers[register].bitwidth:
            raise CoreError(
                self.lib.WS_EINVAL, f"register {register}[{index}]: {value} is too wide"
            )
        limbs = [(value >> 64 * i) & ((1 << 64) - 1) for i in range(n)]
        status = self.lib.ws_register_set(self.pointer, register, index, limbs)
        self._check(status, f"register {register}[{index}]")

    def meter_set(self, meter: int, index: int, config: MeterConfig | None) -> None:
        """Configures one cell of an indirect meter; None: always green."""
        c = self.ffi.new("struct ws_meter_config *", MeterConfig.as_c(config))
        self._check(self.lib.ws_meter_set(self.pointer, meter, index, c), f"meter {meter}[{index}]")

    def meter_get(self, meter: int, index: int) -> MeterConfig | None:
        """The configuration of one cell, None when it has none."""
        c = self.ffi.new("struct ws_meter_config *")
        self._check(self.lib.ws_meter_get(self.pointer, meter, index, c), f"meter {meter}[{index}]")
        return MeterConfig(c.cir, c.cburst, c.pir, c.pburst) if c.configured else None

    def direct_meter_set(self, table: int, handle: int, config: MeterConfig | None) -> None:
        """Configures the direct meter of an entry; None: always green."""
        c = self.ffi.new("struct ws_meter_config *", MeterConfig.as_c(config))
        status = self.lib.ws_direct_meter_set(self.pointer, table, handle, c)
        self._check(status, f"table {table}: meter of entry {handle}")

    def value_set_set(
        self, value_set: int, members: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> None:
        """Replaces a parser value set's members: (values, masks) of the select expression's parts.

        Raises CoreError (WS_EFULL) when they are more than its size.
        """
        descriptors = self.descriptor.value_sets
        if not 0 <= value_set < len(descriptors):
            raise CoreError(self.lib.WS_ENOENT, f"no value set {value_set}")
        bits = descriptors[value_set].part_bits
        words: list[int] = []
        for pair in members:
            for parts in pair:
                for part, width in zip(parts, bits, strict=True):
                    limbs = reversed(range((width + 63) // 64))
                    words += [part >> 64 * i & ((1 << 64) - 1) for i in limbs]
        status = self.lib.ws_value_set_set(self.pointer, value_set, words or [0], len(members))
        self._check(status, f"value set {descriptors[value_set].name}")
