"""P4Runtime updates written by name in JSON: the form of recorded vectors and of entry files.

    {"type": "INSERT", "table_entry": {"table": "I.route", "match": {"h.ip.dst": {"lpm":
        ["0x0a000000", 8]}}, "action": {"name": "I.fwd", "params": {"port": "0x2"}}}}

One object an update: `type`, and one entity. tests/golden/README.md describes the form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from softswitch.p4runtime.names import MatchValue, Names
from softswitch.p4runtime.protos import p4r

Json = Mapping[str, Any]


class MalformedUpdate(Exception):
    """An update that is not of the form; the message says what is wrong with it."""


class NamedUpdates:
    """Turns updates by name into P4Runtime's, for one pipeline; remembers entries' labels."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._labels: dict[bytes, str] = {}

    def update(self, update: Json) -> p4r.Update:
        """Build one update. Raises MalformedUpdate, UnknownName for what P4Info does not have."""
        bodies = [(key, value) for key, value in update.items() if key != "type"]
        kind = update.get("type")
        if kind not in ("INSERT", "MODIFY", "DELETE") or len(bodies) != 1:
            raise MalformedUpdate(f"{dict(update)!r:.200}: an update has a type and one entity")
        ((name, body),) = bodies
        build = _ENTITIES.get(name)
        if build is None:
            raise MalformedUpdate(f"no entity {name!r}; available: {', '.join(_ENTITIES)}")
        try:
            entity = build(self, body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{name} lacks {error}" if isinstance(error, KeyError) else f"{name}: {error}"
            raise MalformedUpdate(f"{what}, in {dict(body)!r:.200}") from error
        return p4r.Update(type=p4r.Update.Type.Value(kind), entity=entity)

    def label_of(self, entry: p4r.TableEntry) -> str:
        """Return the label given to an entry."""
        return self._labels.get(identity(entry), "(no label)")

    def _table_entry(self, body: Json) -> p4r.Entity:
        match = None if body.get("default") else _match(body.get("match", {}))
        action = body.get("action", {})
        entry = self.names.entry(
            body["table"],
            match,
            action.get("name"),
            action.get("params"),
            priority=body.get("priority", 0),
            member=body.get("member"),
            group=body.get("group"),
        )
        entry.idle_timeout_ns = body.get("idle_timeout_ns", 0)
        for item in body.get("one_shot", ()):
            chosen = entry.action.action_profile_action_set.action_profile_actions.add()
            chosen.weight = item["weight"]
            call = item["action"]
            chosen.action.CopyFrom(self.names.action(call["name"], call.get("params")))
        if "meter_config" in body:
            entry.meter_config.CopyFrom(p4r.MeterConfig(**body["meter_config"]))
        if "label" in body:
            self._labels[identity(entry)] = body["label"]
        return p4r.Entity(table_entry=entry)

    def _action_profile_member(self, body: Json) -> p4r.Entity:
        member = p4r.ActionProfileMember(
            action_profile_id=self.names.profile_id(body["profile"]), member_id=body["id"]
        )
        if "action" in body:
            action = body["action"]
            member.action.CopyFrom(self.names.action(action["name"], action.get("params")))
        return p4r.Entity(action_profile_member=member)

    def _action_profile_group(self, body: Json) -> p4r.Entity:
        group = p4r.ActionProfileGroup(
            action_profile_id=self.names.profile_id(body["profile"]),
            group_id=body["id"],
            max_size=body["max_size"],
        )
        for member in body.get("members", ()):
            group.members.add(member_id=member["id"], weight=member["weight"])
        return p4r.Entity(action_profile_group=group)

    def _multicast_group(self, body: Json) -> p4r.Entity:
        group = p4r.MulticastGroupEntry(
            multicast_group_id=body["id"], replicas=_replicas(body["replicas"])
        )
        pre = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
        return p4r.Entity(packet_replication_engine_entry=pre)

    def _clone_session(self, body: Json) -> p4r.Entity:
        session = p4r.CloneSessionEntry(
            session_id=body["id"],
            replicas=_replicas(body["replicas"]),
            packet_length_bytes=body["packet_length_bytes"],
        )
        pre = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
        return p4r.Entity(packet_replication_engine_entry=pre)

    def _digest(self, body: Json) -> p4r.Entity:
        return p4r.Entity(
            digest_entry=p4r.DigestEntry(
                digest_id=self.names.digest_id(body["name"]),
                config=p4r.DigestEntry.Config(**body["config"]),
            )
        )

    def _meter(self, body: Json) -> p4r.Entity:
        return p4r.Entity(
            meter_entry=p4r.MeterEntry(
                meter_id=self.names.meter_id(body["name"]),
                index=p4r.Index(index=body["index"]),
                config=p4r.MeterConfig(**body["config"]),
            )
        )


_ENTITIES = {
    "table_entry": NamedUpdates._table_entry,
    "action_profile_member": NamedUpdates._action_profile_member,
    "action_profile_group": NamedUpdates._action_profile_group,
    "multicast_group": NamedUpdates._multicast_group,
    "clone_session": NamedUpdates._clone_session,
    "digest": NamedUpdates._digest,
    "meter": NamedUpdates._meter,
}


def identity(entry: p4r.TableEntry) -> bytes:
    """Return what identifies an entry: table, match and priority, or that it is the default."""
    key = p4r.TableEntry(
        table_id=entry.table_id,
        match=entry.match,
        priority=entry.priority,
        is_default_action=entry.is_default_action,
    )
    found: bytes = key.SerializeToString(deterministic=True)
    return found


def _match(fields: Json) -> dict[str, MatchValue]:
    result: dict[str, MatchValue] = {}
    for name, form in fields.items():
        ((kind, value),) = form.items()
        result[name] = tuple(value) if kind in ("lpm", "ternary", "range") else value
    return result


def _replicas(replicas: Iterable[Json]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=r["port"], instance=r["instance"]) for r in replicas]
