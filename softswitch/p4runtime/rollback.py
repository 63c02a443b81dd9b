"""Undoing updates, for batches that are applied as a whole or not at all.

`undo_of` is asked before an update is applied and remembers what it takes to undo it. What a rolled
back batch leaves behind: the token buckets of meters that it touched are full again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from softswitch.p4runtime.forwarding import Forwarding
from softswitch.p4runtime.profiles import OneShot, Order
from softswitch.p4runtime.protos import p4r

Undo = Callable[[], None]

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

VOLATILE = ("counter_entry", "meter_entry", "register_entry")
"""Cells of arrays: an update without an index changes all of them."""


@dataclass(slots=True)
class Orders:
    """In which order groups select their members, before a batch."""

    forwarding: Forwarding
    orders: dict[int, Order]

    @classmethod
    def of(cls, forwarding: Forwarding, updates: Iterable[p4r.Update]) -> Orders:
        """Record the orders of the profiles that `updates` may touch."""
        touched = {_profile_of(forwarding, update.entity) for update in updates}
        orders = {
            number: forwarding.profiles[number].order(_one_shots(forwarding, number))
            for number in touched
            if number in forwarding.profiles
        }
        return cls(forwarding, orders)

    def restore(self) -> None:
        """Restore the orders, once the same members are there again."""
        for number, order in self.orders.items():
            profile = self.forwarding.profiles[number]
            profile.restore_order(order, _one_shots(self.forwarding, number))


def undo_of(forwarding: Forwarding, update: p4r.Update, now_ps: int) -> Undo:
    """Return what undoes `update` if it succeeds. Raises EntityError if it can't succeed."""
    entity = update.entity
    kind = entity.WhichOneof("entity")
    match kind:
        case "table_entry":
            return _table(forwarding, update, now_ps)
        case "digest_entry":
            return forwarding.digests.undo(entity.digest_entry.digest_id)
        case "direct_counter_entry" | "direct_meter_entry":
            before = _direct(forwarding, entity, now_ps)
        case _ if kind in VOLATILE:
            before = list(forwarding.read(entity, now_ps))
        case _ if update.type == INSERT:
            return lambda: forwarding.write(p4r.Update(type=DELETE, entity=entity), now_ps)
        case _:
            before = list(forwarding.read(entity, now_ps))
    again = INSERT if update.type == DELETE else MODIFY

    def undo() -> None:
        for found in before:
            forwarding.write(p4r.Update(type=again, entity=found), now_ps)

    return undo


def _table(forwarding: Forwarding, update: p4r.Update, now_ps: int) -> Undo:
    message = update.entity.table_entry
    store = forwarding.tables.get(message.table_id)
    if store is None:
        return _nothing  # it will be refused
    if message.is_default_action:
        default = store.full_default()
        entity = p4r.Entity(table_entry=default)
        return lambda: forwarding.write(p4r.Update(type=MODIFY, entity=entity), now_ps)
    if update.type == INSERT:
        return lambda: forwarding.write(p4r.Update(type=DELETE, entity=update.entity), now_ps)
    snapshot = store.snapshot(message)
    if snapshot is None:
        return _nothing
    found, kind = snapshot, INSERT if update.type == DELETE else MODIFY
    return lambda: store.restore(kind, found, now_ps)


def _direct(forwarding: Forwarding, entity: p4r.Entity, now_ps: int) -> list[p4r.Entity]:
    kind = entity.WhichOneof("entity")
    assert kind is not None
    if not getattr(entity, kind).table_entry.table_id:
        return []  # it will be refused
    return list(forwarding.read(entity, now_ps))


def _nothing() -> None:
    pass


def _profile_of(forwarding: Forwarding, entity: p4r.Entity) -> int:
    match entity.WhichOneof("entity"):
        case "action_profile_member":
            return entity.action_profile_member.action_profile_id
        case "action_profile_group":
            return entity.action_profile_group.action_profile_id
        case "table_entry":
            store = forwarding.tables.get(entity.table_entry.table_id)
            return store.table.profile_id if store is not None else 0
        case _:
            return 0


def _one_shots(forwarding: Forwarding, profile: int) -> dict[object, OneShot]:
    """Return the action sets of a profile's entries, by table and key."""
    return {
        (number, key): entry.one_shot
        for number, store in forwarding.tables.items()
        if store.table.profile_id == profile
        for key, entry in store.in_order()
        if entry.one_shot is not None
    }
