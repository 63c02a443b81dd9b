"""What a loaded program has: tables, action profiles, arrays, value sets, and replication.

Objects are named by their index in the pipeline's descriptor, entries and members by handles above
0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from softswitch.core.native import NativeSwitch
from softswitch.core.records import CoreError, Counter, MeterConfig, Replica, Session, Spec, Target


class ProgramObjects(NativeSwitch):
    """Reads and writes the objects of the program that a switch runs."""

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
                # Long ones in words: Python writes no number of 4300 digits.
                length = value.bit_length()
                told = value if length <= 128 else f"a value of {length} bits"
                raise CoreError(
                    self.lib.WS_EINVAL, f"action {wanted.name}: {told} does not fit {bits} bits"
                )
            if 0 < bits <= 64:
                limbs.append(value)
            else:
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
        """Add an entry and return its handle. `key` and `mask` have the table's key_bytes.

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
        """Give an entry another action; its counters stay."""
        c, _keep = self._spec(spec)
        status = self.lib.ws_table_modify(self.pointer, table, handle, c)
        self._check(status, f"table {self._table_name(table)}: entry {handle}")

    def table_delete(self, table: int, handle: int) -> None:
        """Remove an entry."""
        status = self.lib.ws_table_delete(self.pointer, table, handle)
        self._check(status, f"table {self._table_name(table)}: entry {handle}")

    def table_clear(self, table: int) -> None:
        """Remove all entries; the default entry stays."""
        self._check(self.lib.ws_table_clear(self.pointer, table), f"table {table}")

    def table_set_default(self, table: int, spec: Spec | None) -> None:
        """Set what a miss does; None: nothing."""
        if spec is None:
            status = self.lib.ws_table_set_default(self.pointer, table, self.ffi.NULL)
        else:
            c, _keep = self._spec(spec)
            status = self.lib.ws_table_set_default(self.pointer, table, c)
        self._check(status, f"table {self._table_name(table)}: default entry")

    def table_count(self, table: int) -> int:
        """Return the entries in the table, without the default."""
        return int(self.lib.ws_table_count(self.pointer, table))

    def table_counter(self, table: int, handle: int) -> Counter:
        """Return the direct counter of an entry (handle 0: of the default entry)."""
        c = self.ffi.new("struct wp_counter *")
        status = self.lib.ws_table_counter(self.pointer, table, handle, c)
        self._check(status, f"table {table}: entry {handle}")
        return Counter(c.packets, c.bytes)

    def table_counter_set(self, table: int, handle: int, value: Counter) -> None:
        """Write the direct counter of an entry."""
        c = self.ffi.new("struct wp_counter *", value.as_dict())
        status = self.lib.ws_table_counter_set(self.pointer, table, handle, c)
        self._check(status, f"table {table}: entry {handle}")

    def table_last_hit(self, table: int, handle: int) -> int:
        """Return when the entry was last hit (or made), ps, in whole ticks.

        Needs support_timeout.
        """
        at = self.ffi.new("ws_time *")
        status = self.lib.ws_table_last_hit(self.pointer, table, handle, at)
        self._check(status, f"table {table}: entry {handle}")
        return int(at[0])

    # --- action profiles -----------------------------------------------------------------------

    def member_add(self, profile: int, action: int, args: Iterable[int]) -> int:
        """Add a member and return its handle.

        The low 32 bits are numbered as BMv2's handles are: the lowest free one first.
        """
        limbs = self._pack(action, args)
        handle = self.ffi.new("uint64_t *")
        status = self.lib.ws_member_add(
            self.pointer, profile, action, limbs or [0], len(limbs), handle
        )
        self._check(status, f"profile {profile}")
        return int(handle[0])

    def member_modify(self, profile: int, handle: int, action: int, args: Iterable[int]) -> None:
        """Give a member another action; entries and groups that use it follow."""
        limbs = self._pack(action, args)
        status = self.lib.ws_member_modify(
            self.pointer, profile, handle, action, limbs or [0], len(limbs)
        )
        self._check(status, f"profile {profile}: member {handle}")

    def member_delete(self, profile: int, handle: int) -> None:
        """Remove a member. Raises CoreError WS_EBUSY while a group or entry uses it."""
        status = self.lib.ws_member_delete(self.pointer, profile, handle)
        self._check(status, f"profile {profile}: member {handle}")

    def group_add(
        self, profile: int, members: Sequence[int], watch: Sequence[int | None] = ()
    ) -> int:
        """Add a group and return its handle.

        `members`: handles in selection order, repeated by weight. `watch`: nothing, or for each
        member
        the port that must be up for it to be selected (None: none).
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
        """Replace the members of a group (see group_add)."""
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
        """Remove a group. Raises CoreError WS_EBUSY while an entry uses it."""
        status = self.lib.ws_group_delete(self.pointer, profile, handle)
        self._check(status, f"profile {profile}: group {handle}")

    # --- replication ---------------------------------------------------------------------------

    def multicast_set(self, group: int, replicas: Sequence[Replica]) -> None:
        """Set a multicast group; no replicas: delete it (WS_ENOENT if it is not there)."""
        rows = [(r.port, r.rid, r.backup) for r in replicas]
        array = self.ffi.new("struct ws_replica[]", rows or 1)
        status = self.lib.ws_multicast_set(self.pointer, group, array, len(replicas))
        self._check(status, f"multicast group {group}")

    def clone_session_set(self, session: int, value: Session | None) -> None:
        """Set a clone session; None deletes it."""
        c = self.ffi.NULL if value is None else self.ffi.new("struct ws_session *", value.as_dict())
        status = self.lib.ws_clone_session_set(self.pointer, session, c)
        self._check(status, f"clone session {session}")

    # --- arrays --------------------------------------------------------------------------------

    def counter_get(self, counter: int, index: int) -> Counter:
        """Return one cell of an indirect counter."""
        c = self.ffi.new("struct wp_counter *")
        status = self.lib.ws_counter_get(self.pointer, counter, index, c)
        self._check(status, f"counter {counter}[{index}]")
        return Counter(c.packets, c.bytes)

    def counter_set(self, counter: int, index: int, value: Counter) -> None:
        """Write one cell of an indirect counter."""
        c = self.ffi.new("struct wp_counter *", value.as_dict())
        status = self.lib.ws_counter_set(self.pointer, counter, index, c)
        self._check(status, f"counter {counter}[{index}]")

    def _register_limbs(self, register: int) -> int:
        registers = self.descriptor.registers
        if not 0 <= register < len(registers):
            raise CoreError(self.lib.WS_ENOENT, f"no register {register}")
        return (registers[register].bitwidth + 63) // 64

    def register_get(self, register: int, index: int) -> int:
        """Return one cell of a register array."""
        n = self._register_limbs(register)
        limbs = self.ffi.new("uint64_t[]", n)
        status = self.lib.ws_register_get(self.pointer, register, index, limbs)
        self._check(status, f"register {register}[{index}]")
        return sum(int(limbs[i]) << 64 * i for i in range(n))

    def register_set(self, register: int, index: int, value: int) -> None:
        """Write one cell; `value` must fit the register's width."""
        n = self._register_limbs(register)
        if not 0 <= value < 1 << self.descriptor.registers[register].bitwidth:
            raise CoreError(
                self.lib.WS_EINVAL, f"register {register}[{index}]: {value} is too wide"
            )
        limbs = [(value >> 64 * i) & ((1 << 64) - 1) for i in range(n)]
        status = self.lib.ws_register_set(self.pointer, register, index, limbs)
        self._check(status, f"register {register}[{index}]")

    def meter_set(self, meter: int, index: int, config: MeterConfig | None) -> None:
        """Configure one cell of an indirect meter; None: always green."""
        c = self.ffi.new("struct ws_meter_config *", MeterConfig.as_c(config))
        self._check(self.lib.ws_meter_set(self.pointer, meter, index, c), f"meter {meter}[{index}]")

    def meter_get(self, meter: int, index: int) -> MeterConfig | None:
        """Return the configuration of one cell, None when it has none."""
        c = self.ffi.new("struct ws_meter_config *")
        self._check(self.lib.ws_meter_get(self.pointer, meter, index, c), f"meter {meter}[{index}]")
        return MeterConfig(c.cir, c.cburst, c.pir, c.pburst) if c.configured else None

    def direct_meter_set(self, table: int, handle: int, config: MeterConfig | None) -> None:
        """Configure the direct meter of an entry; None: always green."""
        c = self.ffi.new("struct ws_meter_config *", MeterConfig.as_c(config))
        status = self.lib.ws_direct_meter_set(self.pointer, table, handle, c)
        self._check(status, f"table {table}: meter of entry {handle}")

    def value_set_set(
        self, value_set: int, members: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> None:
        """Replace a parser value set's members: (values, masks) of the select expression's parts.

        Raises CoreError (WS_EFULL) when there are more than its size.
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
