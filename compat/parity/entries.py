"""Entries of a round: for every table that takes some, keys that the round's packets can meet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from compat.parity.cases import PORTS, Json
from compat.parity.values import Key, RoundValues
from softswitch.codegen import model as bmv2
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.schema import (
    Action,
    ActionRef,
    Field,
    MatchKind,
    Profile,
    Scope,
    Table,
)

GROUPS = (1, 2, 3)
MOST_ENTRIES = 8
MOST_MEMBERS = 4
MOST_PRIORITY = 1000


class EntryMaker:
    """Makes the updates of one round, in the order in which they are to be applied."""

    def __init__(self, pipeline: Pipeline, values: RoundValues, rng: random.Random) -> None:
        self.schema = pipeline.schema
        self.program = pipeline.program
        self.values = values
        self.rng = rng
        self._tables = {table.name: table for table in self.schema.tables.values()}
        self._profiles = {profile.name: profile for profile in self.schema.profiles.values()}
        self._members: dict[int, list[int]] = {}
        self._groups: dict[int, list[int]] = {}

    def setup(self) -> tuple[Json, ...]:
        """Make all updates."""
        updates: list[Json] = [*self._replication(), *self._digests()]
        for profile in self.schema.profiles.values():
            updates += self._profile(profile)
        for table in self.schema.tables.values():
            updates += self._table(table)
        return tuple(updates)

    # --- replication and digests ----------------------------------------------------------------

    def _replication(self) -> Iterator[Json]:
        for group in GROUPS:
            pairs = {(self.rng.choice(PORTS), self.rng.randrange(3)) for _ in range(3)}
            replicas = [{"port": port, "instance": rid} for port, rid in sorted(pairs)]
            yield {"type": "INSERT", "multicast_group": {"id": group, "replicas": replicas}}
        sessions = self.values.known.clone_sessions | {1, 2}
        for session in sorted(s for s in sessions if 0 < s < 1 << 15):
            replica = {"port": self.rng.choice(PORTS), "instance": self.rng.randrange(3)}
            # BMv2's P4Runtime server refuses sessions that cut packets short.
            body = {"id": session, "replicas": [replica], "packet_length_bytes": 0}
            yield {"type": "INSERT", "clone_session": body}

    def _digests(self) -> Iterator[Json]:
        config = {"max_timeout_ns": 0, "max_list_size": 1, "ack_timeout_ns": 0}
        for digest in self.schema.digests.values():
            yield {"type": "INSERT", "digest": {"name": digest.name, "config": config}}

    # --- action profiles ------------------------------------------------------------------------

    def _profile(self, profile: Profile) -> Iterator[Json]:
        actions = _usable(profile.actions)
        self._members[profile.id] = []
        self._groups[profile.id] = []
        if not actions:
            return
        count = min(self.rng.randrange(1, MOST_MEMBERS + 1), profile.size or MOST_MEMBERS)
        for member in range(1, count + 1):
            body = {"profile": profile.name, "id": member, "action": self._call(actions)}
            yield {"type": "INSERT", "action_profile_member": body}
            self._members[profile.id].append(member)
        if not profile.with_selector:
            return
        for group in (1, 2):
            chosen = self.rng.sample(range(1, count + 1), self.rng.randrange(1, count + 1))
            body = {
                "profile": profile.name,
                "id": group,
                "max_size": profile.max_group_size or len(chosen),
                "members": [{"id": member, "weight": 1} for member in chosen],
            }
            yield {"type": "INSERT", "action_profile_group": body}
            self._groups[profile.id].append(group)

    # --- tables ---------------------------------------------------------------------------------

    def _table(self, table: Table) -> Iterator[Json]:
        rng = self.rng
        if table.const_entries or not table.fields:
            yield from self._default(table)
            return
        keys: set[str] = set()
        count = min(rng.choice([1, 2, 4, MOST_ENTRIES]), table.size or MOST_ENTRIES)
        for priority in rng.sample(range(1, MOST_PRIORITY), count):
            update = self.entry(table, priority)
            if update is not None and str(update["table_entry"]["match"]) not in keys:
                keys.add(str(update["table_entry"]["match"]))
                yield update
        yield from self._default(table)

    def entry(self, table: Table, priority: int, key: tuple[int, ...] | None = None) -> Json | None:
        """Make one entry, for a `key` that a packet has if one is given.

        None where a table takes none: of constant entries, without a key, without members.
        """
        if table.const_entries or not table.fields:
            return None
        match, what = self._match(table, self.program.tables[table.index], key), self._what(table)
        if what is None:
            return None
        body: dict[str, Any] = {"table": table.name, "match": match, **what}
        if table.needs_priority:
            body["priority"] = priority
        return {"type": "INSERT", "table_entry": body}

    def otherwise(self, update: Json) -> Json:
        """Return the same update with another action or member, where it has any."""
        table = self._tables.get(update.get("table_entry", {}).get("table"))
        profile = self._profiles.get(update.get("action_profile_member", {}).get("profile"))
        if table is not None:
            body = update["table_entry"]
            if body.get("default"):
                actions = _usable(table.actions, Scope.TABLE_ONLY)
                return {**update, "table_entry": {**body, "action": self._call(actions)}}
            kept = {name: body[name] for name in ("table", "match", "priority") if name in body}
            return {**update, "table_entry": {**kept, **(self._what(table) or {})}}
        if profile is not None:
            action = self._call(_usable(profile.actions))
            member = {**update["action_profile_member"], "action": action}
            return {**update, "action_profile_member": member}
        return update

    def _default(self, table: Table) -> Iterator[Json]:
        actions = _usable(table.actions, Scope.TABLE_ONLY)
        if table.const_default or table.profile_id or not actions:
            return
        if not table.fields or self.rng.random() < 0.3:
            body = {"table": table.name, "default": True, "action": self._call(actions)}
            yield {"type": "MODIFY", "table_entry": body}

    def _what(self, table: Table) -> dict[str, Any] | None:
        """Choose what an entry does: an action, a member or a group."""
        if not table.profile_id:
            actions = _usable(table.actions)
            return {"action": self._call(actions)} if actions else None
        groups, members = self._groups[table.profile_id], self._members[table.profile_id]
        if groups and self.rng.random() < 0.6:
            return {"group": self.rng.choice(groups)}
        return {"member": self.rng.choice(members)} if members else None

    def _call(self, refs: list[ActionRef]) -> dict[str, Any]:
        # Actions with data do more than those that drop or do nothing.
        weights = [3 if ref.action.params else 1 for ref in refs]
        (ref,) = self.rng.choices(refs, weights)
        return {"name": ref.action.name, "params": self._params(ref.action, ref.index)}

    def _params(self, action: Action, index: int) -> Mapping[str, str]:
        own = self.program.actions[index]
        return {
            param.name: hex(self.values.param(own.id, n, min(param.bitwidth, own.params[n].bits)))
            for n, param in enumerate(action.params)
        }

    def _match(self, table: Table, own: bmv2.Table, seen: tuple[int, ...] | None) -> dict[str, Any]:
        keys: dict[int, bmv2.TableKey] = {}
        offset = 0
        for key in own.key:
            keys[offset] = key
            offset += key.bytes
        match: dict[str, Any] = {}
        values = dict(zip(keys, seen, strict=True)) if seen is not None else {}
        for field in table.fields:
            form = self._field(field, keys[field.offset], values.get(field.offset))
            if form is not None:
                match[field.name] = form
        return match

    def _value(self, key: Key, bits: int) -> int:
        if self.rng.random() < 0.9:
            return self.values.favourite(key, bits)
        return self.values.pick(key, bits)

    def _field(self, field: Field, key: bmv2.TableKey, value: int | None) -> dict[str, Any] | None:
        """Make a match; `value` is one that a packet has there, None: any."""
        rng, bits = self.rng, field.bitwidth
        full = (1 << bits) - 1
        if value is not None:
            pass
        elif key.field is None:
            value = rng.randrange(2)
        else:
            of = self.program.headers[key.header].type
            value = self._value((of.name, key.field), bits)
        match field.kind:
            case MatchKind.EXACT:
                return {"exact": hex(value)}
            case MatchKind.OPTIONAL:
                return {"optional": hex(value)} if rng.random() < 0.8 else None
            case MatchKind.LPM:
                length = rng.choice([bits, bits, rng.randrange(bits + 1)])
                if length == 0:
                    return None
                # BMv2's server counts the bits that must be 0 from whole bytes of the value.
                zeros = -(-bits // 8) * 8 - length
                return {"lpm": [hex(value >> zeros << zeros), length]}
            case MatchKind.TERNARY:
                mask = rng.choice([full, full, rng.getrandbits(bits), full ^ (full >> bits // 2)])
                return {"ternary": [hex(value & mask), hex(mask)]} if mask else None
            case MatchKind.RANGE:
                low = max(0, value - rng.choice([0, 0, 1, rng.getrandbits(bits)]))
                high = min(full, value + rng.choice([0, 0, 1, rng.getrandbits(bits)]))
                return None if (low, high) == (0, full) else {"range": [hex(low), hex(high)]}


def _usable(refs: Mapping[int, ActionRef], but: Scope = Scope.DEFAULT_ONLY) -> list[ActionRef]:
    return [ref for ref in refs.values() if ref.scope is not but]
