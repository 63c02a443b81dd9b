"""Draws P4Runtime updates of the program writes.p4: good ones, and good ones with a part changed.

The idea is Google's p4-fuzzer's: what is refused must leave no trace, what is taken must be there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from softswitch.p4runtime.names import MatchValue, Names
from softswitch.p4runtime.protos import p4r

KINDS = (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE)
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 15, 16, 31, 32, 33, 255, 511, 512, 0x7FFFFFFF)


class WriteDraw:
    """Updates by one seed. Keys and members are few, so that updates meet each other."""

    def __init__(self, seed: int, names: Names) -> None:
        self.random, self.names = random.Random(seed), names

    def update(self) -> tuple[p4r.Update, bool]:
        """Draw an update, and whether something was changed in it after it was well formed."""
        kind = self.random.choices(KINDS, (6, 2, 3))[0]
        entity = self.random.choices(
            (self._entry, self._spread, self._member, self._group, self._array, self._multicast),
            (12, 3, 4, 3, 3, 2),
        )[0]()
        update = p4r.Update(type=kind, entity=entity)
        changed = self.random.randrange(100) < 45
        if changed:
            for _ in range(self.random.randint(1, 2)):
                self._change(update)
        return update, changed

    # --- good ones ------------------------------------------------------------------------------

    def _few(self, bits: int) -> int:
        return self.random.choice((0, 1, 2, (1 << bits) - 1))

    def _action(self, *more: str) -> tuple[str, dict[str, Any]]:
        name = self.random.choice(("forward", *more))
        match name:
            case "forward":
                return "In.forward", {"port": self._few(9)}
            case "rewrite":
                return "In.rewrite", {"d": self._few(12), "c": self._few(32)}
        return "In.nothing", {}

    def _entry(self) -> p4r.Entity:
        pick: Callable[[], p4r.TableEntry] = self.random.choice(
            (self._exact, self._prefix, self._ranked, self._fixed, self._default)
        )
        return p4r.Entity(table_entry=pick())

    def _exact(self) -> p4r.TableEntry:
        match: dict[str, MatchValue] = {"hdr.h.a": self._few(8), "hdr.h.d": self._few(12)}
        return self.names.entry("In.exact_one", match, *self._action("rewrite", "nothing"))

    def _prefix(self) -> p4r.TableEntry:
        length = self.random.choice((0, 1, 8, 31, 32))
        value = self._few(32) >> (32 - length) << (32 - length)
        return self.names.entry("In.prefix", {"hdr.h.c": (value, length)}, *self._action("nothing"))

    def _ranked(self) -> p4r.TableEntry:
        mask, low = self._few(16), self._few(11)
        match: dict[str, MatchValue] = {"hdr.h.b": (self._few(16) & mask, mask)}
        if self.random.randrange(2):
            match["hdr.h.e"] = self._few(4)
        if self.random.randrange(2):
            match["hdr.h.d"] = (low, self.random.randint(low, 4095))
        priority = self.random.choice((1, 2, 10))
        return self.names.entry("In.ranked", match, *self._action("rewrite"), priority=priority)

    def _fixed(self) -> p4r.TableEntry:
        return self.names.entry("In.fixed", {"hdr.h.e": self._few(4)}, *self._action("nothing"))

    def _default(self) -> p4r.TableEntry:
        table = self.random.choice(("In.exact_one", "In.prefix", "In.ranked", "In.fixed"))
        return self.names.entry(table, None, *self._action("nothing"))

    def _spread(self) -> p4r.Entity:
        which = self.random.choice(("member", "group"))
        match: dict[str, MatchValue] = {"hdr.h.a": self._few(8)}
        number = self.random.randint(1, 3)
        entry = self.names.entry(
            "In.spread", match,
            member=number if which == "member" else None,
            group=number if which == "group" else None,
        )  # fmt: skip
        return p4r.Entity(table_entry=entry)

    def _member(self) -> p4r.Entity:
        member = p4r.ActionProfileMember(
            action_profile_id=self.names.profile_id("In.ways"), member_id=self.random.randint(1, 4)
        )
        member.action.CopyFrom(self.names.action(*self._action("nothing")))
        return p4r.Entity(action_profile_member=member)

    def _group(self) -> p4r.Entity:
        group = p4r.ActionProfileGroup(
            action_profile_id=self.names.profile_id("In.ways"), group_id=self.random.randint(1, 3)
        )
        for number in self.random.sample(range(1, 5), self.random.randrange(4)):
            group.members.add(member_id=number, weight=1)
        return p4r.Entity(action_profile_group=group)

    def _array(self) -> p4r.Entity:
        index = p4r.Index(index=self.random.randrange(4))
        if self.random.randrange(2):
            counter = p4r.CounterEntry(counter_id=self.names.counter_id("In.seen"), index=index)
            counter.data.packet_count = self._few(32)
            counter.data.byte_count = self._few(32)
            return p4r.Entity(counter_entry=counter)
        meter = p4r.MeterEntry(meter_id=self.names.meter_id("In.rate"), index=index)
        if self.random.randrange(2):
            meter.config.cir = meter.config.cburst = meter.config.pir = meter.config.pburst = 10
        return p4r.Entity(meter_entry=meter)

    def _multicast(self) -> p4r.Entity:
        entity = p4r.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = self.random.randint(1, 3)
        for instance in range(self.random.randrange(3)):
            group.replicas.add(egress_port=self.random.randrange(1, 8), instance=instance)
        return entity

    # --- a part changed -------------------------------------------------------------------------

    def _change(self, message: Any) -> None:
        """Change one field somewhere in the message, by its Protobuf description."""
        while True:
            fields = message.ListFields()
            if not fields:
                return
            field, value = self.random.choice(fields)
            repeated = hasattr(value, "add") or hasattr(value, "append")
            if field.message_type is not None and self.random.randrange(8):
                message = self.random.choice(list(value)) if repeated else value
                continue
            break
        if repeated:
            self._change_list(value)
        elif field.message_type is not None:
            message.ClearField(field.name)
        elif isinstance(value, bytes):
            setattr(message, field.name, self._bytes(value))
        elif isinstance(value, bool):
            setattr(message, field.name, not value)
        elif isinstance(value, int):
            self._change_number(message, field, value)

    def _change_number(self, message: Any, field: Any, value: int) -> None:
        if field.enum_type is not None:
            setattr(message, field.name, self.random.choice((0, 1, 2, 3)))
            return
        number = self.random.choice((*_NUMBERS, value + 1, value - 1, -1))
        try:
            setattr(message, field.name, number)
        except ValueError:  # not in the field's range
            setattr(message, field.name, 0)

    def _change_list(self, values: Any) -> None:
        if self.random.randrange(2):
            del values[self.random.randrange(len(values))]
        else:
            values.append(self.random.choice(list(values)))

    def _bytes(self, value: bytes) -> bytes:
        return self.random.choice(
            (b"", b"\0", b"\0" + value, value + b"\0", value + value, b"\xff" * 5, value[1:])
        )
