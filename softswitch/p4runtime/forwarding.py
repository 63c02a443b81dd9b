"""The forwarding state of one loaded pipeline: every entity that Write and Read know.

Made afresh with each pipeline; dispatches entities to the stores that own them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from softswitch.codegen.model import Bmv2Program
from softswitch.p4runtime import initial
from softswitch.p4runtime.arrays import CounterStore, MeterStore, RegisterStore
from softswitch.p4runtime.digests import DigestManager
from softswitch.p4runtime.profiles import ProfileStore
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.replication import ReplicationEngine
from softswitch.p4runtime.schema import Schema
from softswitch.p4runtime.status import Code, EntityError
from softswitch.p4runtime.tables import TableStore
from softswitch.p4runtime.value_sets import ValueSetStore

if TYPE_CHECKING:
    from softswitch.core import SwitchCore

T = TypeVar("T")


class Forwarding:
    """All entities of a pipeline that `core` has just loaded. Times are the switch's, in ps."""

    def __init__(self, core: SwitchCore, program: Bmv2Program, schema: Schema) -> None:
        self.schema = schema
        self.profiles = {
            number: ProfileStore(core, profile) for number, profile in schema.profiles.items()
        }
        self.tables = {
            number: TableStore(core, table, self.profiles)
            for number, table in schema.tables.items()
        }
        self.counters = CounterStore(core)
        self.meters = MeterStore(core)
        self.registers = RegisterStore(core)
        self.replication = ReplicationEngine(core)
        self.digests = DigestManager(schema.digests)
        self.value_sets = ValueSetStore(core)
        initial.install(core, program, {s.table.name: s for s in self.tables.values()})

    def move_to(self, core: SwitchCore) -> None:
        """Use `core` from now on, which has adopted the state of the switch that this was made
        on.
        """
        for profile in self.profiles.values():
            profile.move_to(core)
        for table in self.tables.values():
            table.move_to(core)
        self.counters.move_to(core)
        self.meters.move_to(core)
        self.registers.move_to(core)
        self.replication.move_to(core)
        self.value_sets.move_to(core)

    # --- writes -------------------------------------------------------------------------------

    def write(self, update: p4r.Update, now_ps: int) -> None:
        """Apply one update or raise EntityError, in which case nothing has changed."""
        if self.schema.strings:
            with self.schema.strings.unless_refused():
                self._write(update, now_ps)
        else:
            self._write(update, now_ps)

    def _write(self, update: p4r.Update, now_ps: int) -> None:
        kind = update.type
        if kind not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
            raise EntityError(Code.INVALID_ARGUMENT, "the update's type is not set")
        entity = update.entity
        match entity.WhichOneof("entity"):
            case "table_entry":
                self._table(entity.table_entry.table_id).write(kind, entity.table_entry, now_ps)
            case "action_profile_member":
                member = entity.action_profile_member
                self._profile(member.action_profile_id).write_member(kind, member)
            case "action_profile_group":
                group = entity.action_profile_group
                self._profile(group.action_profile_id).write_group(kind, group)
            case "counter_entry":
                counter = entity.counter_entry
                array = self._find(self.schema.counters, counter.counter_id, "counter")
                self.counters.write(array, kind, counter)
            case "direct_counter_entry":
                self._direct(kind, entity.direct_counter_entry).write_counter(
                    entity.direct_counter_entry
                )
            case "meter_entry":
                meter = entity.meter_entry
                array = self._find(self.schema.meters, meter.meter_id, "meter")
                self.meters.write(array, kind, meter)
            case "direct_meter_entry":
                self._direct(kind, entity.direct_meter_entry).write_meter(entity.direct_meter_entry)
            case "register_entry":
                cell = entity.register_entry
                register = self._find(self.schema.registers, cell.register_id, "register")
                self.registers.write(register, kind, cell)
            case "packet_replication_engine_entry":
                self.replication.write(kind, entity.packet_replication_engine_entry)
            case "digest_entry":
                digest_id = entity.digest_entry.digest_id
                self._find(self.schema.digests, digest_id, "digest")
                self.digests.write(kind, entity.digest_entry)
            case "value_set_entry":
                members = entity.value_set_entry
                value_set = self._find(self.schema.value_sets, members.value_set_id, "value set")
                self.value_sets.write(value_set, kind, members)
            case other:
                raise _unsupported(other)

    def _direct(
        self, kind: int, message: p4r.DirectCounterEntry | p4r.DirectMeterEntry
    ) -> TableStore:
        if kind != p4r.Update.MODIFY:
            raise EntityError(
                Code.INVALID_ARGUMENT, "direct counters and meters can only be changed by MODIFY"
            )
        if not message.HasField("table_entry"):
            raise EntityError(Code.INVALID_ARGUMENT, "table_entry is not set")
        return self._table(message.table_entry.table_id)

    # --- reads --------------------------------------------------------------------------------

    def read(self, entity: p4r.Entity, now_ps: int) -> Iterator[p4r.Entity]:
        """Yield the entities that `entity` selects; id 0 and unset keys are wildcards.

        Raises EntityError.
        """
        strings = self.schema.strings
        if not strings:
            yield from self._read(entity, now_ps)
            return
        found: list[p4r.Entity] = []
        refusal = None
        mark = strings.mark()
        try:
            for each in self._read(entity, now_ps):
                found.append(each)
        except EntityError as error:
            refusal = error
        strings.back_to(mark)  # before anyone can write
        yield from found
        if refusal is not None:
            raise refusal

    def _read(self, entity: p4r.Entity, now_ps: int) -> Iterator[p4r.Entity]:
        match entity.WhichOneof("entity"):
            case "table_entry":
                query = entity.table_entry
                for table in self._read_tables(query):
                    for entry in table.read(query, now_ps):
                        yield p4r.Entity(table_entry=entry)
            case "action_profile_member":
                member = entity.action_profile_member
                for profile in self._read_profiles(member.action_profile_id):
                    for found in profile.read_members(member.member_id):
                        yield p4r.Entity(action_profile_member=found)
            case "action_profile_group":
                group = entity.action_profile_group
                for profile in self._read_profiles(group.action_profile_id):
                    for found_group in profile.read_groups(group.group_id):
                        yield p4r.Entity(action_profile_group=found_group)
            case "counter_entry":
                counter = entity.counter_entry
                for array in self._some(self.schema.counters, counter.counter_id, "counter"):
                    for value in self.counters.read(array, counter):
                        yield p4r.Entity(counter_entry=value)
            case "direct_counter_entry":
                query = entity.direct_counter_entry.table_entry
                for table in self._direct_tables(query, "counter"):
                    for direct in table.read_counters(query):
                        yield p4r.Entity(direct_counter_entry=direct)
            case "meter_entry":
                meter = entity.meter_entry
                for array in self._some(self.schema.meters, meter.meter_id, "meter"):
                    for config in self.meters.read(array, meter):
                        yield p4r.Entity(meter_entry=config)
            case "direct_meter_entry":
                query = entity.direct_meter_entry.table_entry
                if entity.direct_meter_entry.HasField("counter_data"):
                    raise EntityError(
                        Code.UNIMPLEMENTED, "counters per meter colour are not supported"
                    )
                for table in self._direct_tables(query, "meter"):
                    for direct_meter in table.read_meters(query):
                        yield p4r.Entity(direct_meter_entry=direct_meter)
            case "register_entry":
                cell = entity.register_entry
                for register in self._some(self.schema.registers, cell.register_id, "register"):
                    for content in self.registers.read(register, cell):
                        yield p4r.Entity(register_entry=content)
            case "packet_replication_engine_entry":
                for pre in self.replication.read(entity.packet_replication_engine_entry):
                    yield p4r.Entity(packet_replication_engine_entry=pre)
            case "digest_entry":
                for digest in self.digests.read(entity.digest_entry.digest_id):
                    yield p4r.Entity(digest_entry=digest)
            case "value_set_entry":
                number = entity.value_set_entry.value_set_id
                for value_set in self._some(self.schema.value_sets, number, "value set"):
                    yield p4r.Entity(value_set_entry=self.value_sets.read(value_set))
            case other:
                raise _unsupported(other)

    def _read_tables(self, query: p4r.TableEntry) -> list[TableStore]:
        if query.table_id:
            return [self._table(query.table_id)]
        return list(self.tables.values())

    def _direct_tables(self, query: p4r.TableEntry, what: str) -> list[TableStore]:
        if query.table_id:
            return [self._table(query.table_id)]
        return [s for s in self.tables.values() if getattr(s.table, what) is not None]

    def _read_profiles(self, profile_id: int) -> list[ProfileStore]:
        return [self._profile(profile_id)] if profile_id else list(self.profiles.values())

    def _some(self, objects: Mapping[int, T], number: int, what: str) -> list[T]:
        return [self._find(objects, number, what)] if number else list(objects.values())

    # --- ageing -------------------------------------------------------------------------------

    def next_idle(self) -> int | None:
        """Return when (ps) `idle_entries` next has something to look at."""
        times = [t for t in (store.next_idle() for store in self.tables.values()) if t is not None]
        return min(times, default=None)

    def idle_entries(self, now_ps: int) -> list[p4r.TableEntry]:
        """Return the entries of all tables that were not hit for their time-out."""
        return [entry for store in self.tables.values() for entry in store.idle_entries(now_ps)]

    # --- look-ups -----------------------------------------------------------------------------

    def _table(self, table_id: int) -> TableStore:
        return self._find(self.tables, table_id, "table")

    def _profile(self, profile_id: int) -> ProfileStore:
        return self._find(self.profiles, profile_id, "action profile")

    def _find(self, objects: Mapping[int, T], number: int, what: str) -> T:
        found = objects.get(number)
        if found is not None:
            return found
        name = self.schema.missing.get(number)
        if name is not None:
            raise EntityError(
                Code.UNIMPLEMENTED, f"{what} {name!r} is in P4Info, but not in the device config"
            )
        raise EntityError(Code.NOT_FOUND, f"P4Info has no {what} with id {number}")


def _unsupported(kind: str | None) -> EntityError:
    if kind is None:
        return EntityError(Code.INVALID_ARGUMENT, "the entity is not set")
    return EntityError(Code.UNIMPLEMENTED, f"{kind} is not supported")
