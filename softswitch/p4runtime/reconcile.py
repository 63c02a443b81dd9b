"""A changed pipeline that keeps what controllers wrote (RECONCILE_AND_COMMIT).

The new pipeline runs on a core aside. Everything that controllers have written to the old one is
written there again, under the new ids; what is refused is a problem, and with a single problem
nothing is changed. Else the switch adopts the core aside, with the contents of arrays, counters and
meters, between two packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from softswitch.core import Keep, KeepKind, SwitchCore
from softswitch.p4runtime.forwarding import Forwarding
from softswitch.p4runtime.profiles import OneShot
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import Array
from softswitch.p4runtime.status import Code, EntityError, UpdateStatus
from softswitch.p4runtime.table_entry import Entry
from softswitch.p4runtime.tables import TableStore
from softswitch.p4runtime.translation import Translation

SHOWN = 10
"""Problems in the message of a ReconcileError; `statuses` has all."""

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


class ReconcileError(EntityError):
    """What the new pipeline can't keep; one status per entity or object."""

    def __init__(self, statuses: list[UpdateStatus]) -> None:
        lines = [status.message for status in statuses[:SHOWN]]
        if len(statuses) > SHOWN:
            lines.append(f"and {len(statuses) - SHOWN} more")
        what = "1 thing" if len(statuses) == 1 else f"{len(statuses)} things"
        super().__init__(
            Code.INVALID_ARGUMENT,
            f"the new pipeline can't keep {what}, so the old one stays: " + "; ".join(lines),
        )
        self.statuses = tuple(statuses)


def carry_over(old: Forwarding, new: Forwarding, core: SwitchCore, now_ps: int) -> list[Keep]:
    """Write everything of `old`, which runs on `core`, to `new`, on its core aside.

    Returns what the core has to keep when it adopts the other. Raises ReconcileError.
    """
    work = _Carrier(old, new, core, now_ps)
    work.run()
    if work.problems:
        raise ReconcileError(work.problems)
    return work.keeps


@dataclass(slots=True)
class _Carrier:
    old: Forwarding
    new: Forwarding
    core: SwitchCore
    now_ps: int
    problems: list[UpdateStatus] = field(default_factory=list)
    keeps: list[Keep] = field(default_factory=list)
    translation: Translation = field(init=False)

    def __post_init__(self) -> None:
        self.translation = Translation(self.old.schema, self.new.schema)

    def run(self) -> None:
        self._profiles()
        one_shots: dict[int, list[tuple[OneShot, OneShot]]] = {}
        for store in self.old.tables.values():
            self._table(store, one_shots)
        self._member_order(one_shots)
        self.new.replication.set_session_zero(self.old.replication.session_zero)
        for message in self.old.replication.everything():
            self._put(INSERT, p4r.Entity(packet_replication_engine_entry=message))
        self._digests()
        self._value_sets()
        self._arrays()

    # --- writing ------------------------------------------------------------------------------

    def _put(self, kind: p4r.Update.Type.ValueType, entity: p4r.Entity) -> bool:
        """Write to the new pipeline; record a refusal as a problem, and return False."""
        try:
            self.new.write(p4r.Update(type=kind, entity=entity), self.now_ps)
        except EntityError as error:
            self._problem(error)
            return False
        return True

    def _problem(self, error: EntityError) -> None:
        self.problems.append(error.status)

    # --- profiles -----------------------------------------------------------------------------

    def _profiles(self) -> None:
        for store in self.old.profiles.values():
            members, groups = list(store.read_members(0)), list(store.read_groups(0))
            if not (members or groups):
                continue
            try:
                self.translation.profile_id(store.profile.id)
            except EntityError as error:
                self._whole(error, f"{len(members)} members and {len(groups)} groups")
                continue
            for member in members:
                self._translated(
                    lambda m=member: p4r.Entity(  # type: ignore[misc]
                        action_profile_member=self.translation.member(m)
                    ),
                    f"action profile {store.profile.name!r}, member {member.member_id}",
                )
            for group in groups:
                self._translated(
                    lambda g=group: p4r.Entity(  # type: ignore[misc]
                        action_profile_group=self.translation.group(g)
                    ),
                    f"action profile {store.profile.name!r}, group {group.group_id}",
                )

    def _translated(self, make: Callable[[], p4r.Entity], what: str) -> None:
        try:
            entity = make()
        except EntityError as error:
            self._problem(EntityError(error.code, f"{what}: {error.message}"))
        else:
            self._put(INSERT, entity)

    def _member_order(self, one_shots: dict[int, list[tuple[OneShot, OneShot]]]) -> None:
        """Keep flows on their members: the same hash selects the same one."""
        if self.problems:
            return
        for store in self.old.profiles.values():
            twin = self.translation.profiles.get(store.profile.id)
            if twin is not None:
                pairs = one_shots.get(store.profile.id, [])
                order = store.order({i: theirs for i, (theirs, _) in enumerate(pairs)})
                ours: dict[object, OneShot] = {i: mine for i, (_, mine) in enumerate(pairs)}
                self.new.profiles[twin.id].restore_order(order, ours)

    # --- tables -------------------------------------------------------------------------------

    def _table(
        self, store: TableStore, one_shots: dict[int, list[tuple[OneShot, OneShot]]]
    ) -> None:
        written = [(k, e) for k, e in store.in_order() if not store.is_programs(k, e)]
        untouched = [e for k, e in store.in_order() if store.is_programs(k, e)]
        removed, default = store.removed(), store.default_entry
        try:
            table = self.translation.table_of(store.table)
        except EntityError as error:
            if written or default is not None:
                extra = " and its default action" if default is not None else ""
                self._whole(error, f"{len(written)} entries{extra}")
            return
        new = self.new.tables[table.id]
        for message in removed:
            self._remove(new, message)
        for _, entry in written:
            self._entry(store, new, entry, one_shots)
        for entry in untouched:
            self._same(store, new, entry)
        if default is not None:
            self._default(new, default)
        self.keeps.append(Keep(KeepKind.ENTRY, store.table.index, table.index))

    def _entry(
        self,
        store: TableStore,
        new: TableStore,
        entry: Entry,
        one_shots: dict[int, list[tuple[OneShot, OneShot]]],
    ) -> None:
        try:
            message = self.translation.table_entry(entry.message)
            there = new.find(message)
        except EntityError as error:
            self._problem(EntityError(error.code, f"{store.describe(entry)}: {error.message}"))
            return
        message.is_const = False
        if not self._put(INSERT if there is None else MODIFY, p4r.Entity(table_entry=message)):
            return
        self._keep_entry(store, new, entry, message)
        twin = new.find(message)
        if entry.one_shot is not None and twin is not None and twin.one_shot is not None:
            pairs = one_shots.setdefault(store.table.profile_id, [])
            pairs.append((entry.one_shot, twin.one_shot))

    def _same(self, store: TableStore, new: TableStore, entry: Entry) -> None:
        """Keep a program's own entry where the new program has it as well."""
        try:
            message = self.translation.table_entry(entry.message)
            there = new.find(message) is not None
        except EntityError:
            return
        if not there:
            return
        if entry.message.is_const and not store.is_untouched(entry):
            message.ClearField("action")
            message.is_const = False
            self._put(MODIFY, p4r.Entity(table_entry=message))
        self._keep_entry(store, new, entry, message)

    def _remove(self, new: TableStore, initial: p4r.TableEntry) -> None:
        """Delete a program's entry that a controller had deleted, so that it does not come back."""
        try:
            message = self.translation.table_entry(initial)
            there = new.find(message)
        except EntityError:
            return
        if there is not None and not there.message.is_const:
            message.is_const = False
            self._put(DELETE, p4r.Entity(table_entry=message))

    def _keep_entry(
        self, store: TableStore, new: TableStore, entry: Entry, message: p4r.TableEntry
    ) -> None:
        twin = new.find(message)
        assert twin is not None
        new.take_age(message, entry)
        indices = store.table.index, new.table.index
        self.keeps.append(Keep(KeepKind.ENTRY, *indices, entry.handle, twin.handle))

    def _default(self, new: TableStore, default: p4r.TableEntry) -> None:
        try:
            message = self.translation.table_entry(default)
        except EntityError as error:
            self._whole(error, "its default action")
            return
        now = new.initial_default
        if new.table.const_default and now is not None and message.action.action == now.message:
            return
        self._put(MODIFY, p4r.Entity(table_entry=message))

    # --- digests and arrays -------------------------------------------------------------------

    def _digests(self) -> None:
        for message in self.old.digests.read(0):
            name = self.old.schema.digests[message.digest_id].name
            self._translated(
                lambda m=message: p4r.Entity(  # type: ignore[misc]
                    digest_entry=self.translation.digest(m)
                ),
                f"digest {name!r}",
            )
        if not self.problems:
            pairs = {old: new.id for old, new in self.translation.digests.items()}
            self.new.digests.take_over(self.old.digests, pairs)

    def _value_sets(self) -> None:
        for message in self.old.value_sets.everything():
            name = self.old.schema.value_sets[message.value_set_id].name
            try:
                translated = self.translation.value_set(message)
            except EntityError as error:
                self._whole(error, f"{len(message.members)} members of {name!r}")
            else:
                self._put(MODIFY, p4r.Entity(value_set_entry=translated))

    def _arrays(self) -> None:
        schema = self.old.schema
        for number, register in schema.registers.items():
            new_register = self.translation.registers.get(number)
            if new_register is not None and new_register.bitwidth == register.bitwidth:
                self.keeps.append(Keep(KeepKind.REGISTER, register.index, new_register.index))
        for number, counter in schema.counters.items():
            new_counter = self.translation.counters.get(number)
            if new_counter is not None:
                self.keeps.append(Keep(KeepKind.COUNTER, counter.index, new_counter.index))
        for number, meter in schema.meters.items():
            self._meter(meter, self.translation.meters.get(number))

    def _meter(self, old: Array, new: Array | None) -> None:
        """Carry over a meter's rates, which a controller set and which must not be lost."""
        same_unit = new is not None and (new.packets, new.bytes) == (old.packets, old.bytes)
        lost = range(new.size, old.size) if new is not None and same_unit else range(old.size)
        configured = [i for i in lost if self.core.meter_get(old.index, i) is not None]
        if configured:
            if new is None:
                why = "is not in the new program"
            elif not same_unit:
                why = "counts another unit in the new program"
            else:
                why = f"has only {new.size} cells in the new program"
            indices = ", ".join(map(str, _first(configured)))
            self._problem(
                EntityError(
                    Code.INVALID_ARGUMENT,
                    f"meter {old.name!r} {why}, and {len(configured)} of its cells have rates "
                    f"({indices})",
                )
            )
        elif new is not None and same_unit:
            self.keeps.append(Keep(KeepKind.METER, old.index, new.index))

    def _whole(self, error: EntityError, what: str) -> None:
        self._problem(EntityError(error.code, f"{error.message} ({what} would be lost)"))


def _first(indices: Iterable[int]) -> Iterator[int | str]:
    for position, index in enumerate(indices):
        if position == SHOWN:
            yield "..."
            return
        yield index
