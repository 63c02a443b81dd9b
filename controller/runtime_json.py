"""Entries as p4lang's tutorials write them, in sX-runtime.json.

{"table_entries": [
   {"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]},
    "action_name": "MyIngress.ipv4_forward", "action_params": {"port": 1, ...}},
   {"table": ..., "default_action": true, "action_name": "MyIngress.drop"}],
 "multicast_group_entries": [
   {"multicast_group_id": 1, "replicas": [{"egress_port": 2, "instance": 1}]}],
 "clone_session_entries": [
   {"clone_session_id": 5, "replicas": [{"egress_port": 3, "instance": 1}]}]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from controller.rehearsal import Rehearsal
from softswitch.p4runtime.names import MatchValue, UnknownName
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code
from topologies.document import parse_document
from topologies.errors import FieldPath, TopologyError, did_you_mean

# What else stands in such files: which program they are for, which a topology says here.
_LEFT_OUT = frozenset({"target", "p4info", "bmv2_json"})
_TABLE_KEYS = {"table", "match", "action_name", "action_params", "priority", "default_action"}
_GROUP_KEYS = {"multicast_group_id", "replicas"}
_SESSION_KEYS = {"clone_session_id", "replicas", "packet_length_bytes", "class_of_service"}
_REPLICA_KEYS = {"egress_port", "instance"}
_MAX_ID = (1 << 32) - 1

Json = Mapping[str, Any]


class _Wrong(Exception):
    """What is wrong with a part of the file, and at which of its keys."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path: FieldPath = path


class RuntimeJson:
    """One file. `play` writes it to a rehearsal (`controller.entry_files`)."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    @staticmethod
    def place(path: Path, at: FieldPath) -> str:
        """Return file and line of a part of a file."""
        try:
            return f"{path}:{_lines(path.read_text(encoding='utf-8')).position(at)[0]}"
        except (OSError, UnicodeDecodeError, TopologyError):
            return str(path)  # changed since it was read

    def play(self, rehearsal: Rehearsal) -> list[str]:
        """Write all entries; return a line for each mistake, with file and line."""
        try:
            data = json.loads(self._text)
        except json.JSONDecodeError as error:
            return [f"{self._path}:{error.lineno}: not valid JSON: {error.msg}"]
        if not isinstance(data, dict):
            return [f"{self._path}:1: must be an object with {', '.join(_KINDS)}"]
        return [
            f"{self._place(path)}: {message}" for path, message in self._problems(data, rehearsal)
        ]

    def _place(self, at: FieldPath) -> str:
        try:
            return f"{self._path}:{_lines(self._text).position(at)[0]}"
        except TopologyError:  # JSON that is no YAML: without a line
            return str(self._path)

    def _problems(self, data: Json, rehearsal: Rehearsal) -> Iterator[tuple[FieldPath, str]]:
        for kind, entries in data.items():
            if kind in _LEFT_OUT:
                continue
            if kind not in _KINDS:
                hint = did_you_mean(kind, _KINDS) or f": known are {', '.join(_KINDS)}"
                yield (kind,), f"unknown key {kind!r}{hint}"
                continue
            if not isinstance(entries, list):
                yield (kind,), f"{kind} must be a list"
                continue
            for i, entry in enumerate(entries):
                path: FieldPath = (kind, i)
                try:
                    update = _KINDS[kind](entry, rehearsal)
                except _Wrong as wrong:
                    yield (*path, *wrong.path), str(wrong)
                    continue
                except UnknownName as wrong_name:
                    yield path, str(wrong_name)
                    continue
                (status,) = rehearsal.write([update], path)
                if status.code is not Code.OK:
                    yield path, str(status)


@lru_cache(maxsize=2)
def _lines(text: str) -> Any:
    # JSON is YAML, but for tabs between its words.
    return parse_document(text.replace("\t", " "), "")


def _object(entry: object, known: set[str], needed: tuple[str, ...]) -> Json:
    if not isinstance(entry, dict):
        raise _Wrong(f"must be an object, not {entry!r}")
    for key in entry:
        if key not in known:
            hint = did_you_mean(key, known) or f": known are {', '.join(sorted(known))}"
            raise _Wrong(f"unknown key {key!r}{hint}", key)
    for key in needed:
        if key not in entry:
            raise _Wrong(f"{key!r} is missing here")
    return entry


def _number(entry: Json, key: str, default: int = 0, least: int = 0) -> int:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_ID:
        raise _Wrong(f"{key} must be a whole number from {least}, not {value!r}", key)
    return value


def _mapping(entry: Json, key: str) -> Json:
    value = entry.get(key, {})
    if not isinstance(value, dict):
        raise _Wrong(f"{key} must be an object, not {value!r}", key)
    return value


def _table_entry(given: object, rehearsal: Rehearsal) -> p4r.Update:
    entry = _object(given, _TABLE_KEYS, ("table", "action_name"))
    table, action = entry["table"], entry["action_name"]
    for key in ("table", "action_name"):
        if not isinstance(entry[key], str):
            raise _Wrong(f"{key} must be a name, not {entry[key]!r}", key)
    params = _mapping(entry, "action_params")
    is_default = bool(entry.get("default_action", False))
    match: dict[str, MatchValue] | None = None
    if not is_default:
        match = {name: _match(name, value) for name, value in _mapping(entry, "match").items()}
    for name, value in params.items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _Wrong(f"{name}: {value!r} is not a value", "action_params", name)
    message = rehearsal.names.entry(
        table, match, action, params, priority=_number(entry, "priority")
    )
    kind = p4r.Update.MODIFY if is_default else p4r.Update.INSERT
    return p4r.Update(type=kind, entity=p4r.Entity(table_entry=message))


def _match(name: str, value: object) -> MatchValue:
    values: list[Any] = value if isinstance(value, list) else [value]
    if any(isinstance(each, bool) or not isinstance(each, int | str) for each in values):
        raise _Wrong(f"{name}: {value!r} is not a value", "match", name)
    match values:
        case [one]:
            found: MatchValue = one
            return found
        case [first, second]:
            return (first, second)
        case _:
            text = "a value, or [value, prefix length], [value, mask] or [low, high]"
            raise _Wrong(f"{name}: {value!r} must be {text}", "match", name)


def _replicas(entry: Json) -> list[p4r.Replica]:
    given = entry["replicas"]
    if not isinstance(given, list):
        raise _Wrong("replicas must be a list", "replicas")
    found = []
    for i, each in enumerate(given):
        try:
            replica = _object(each, _REPLICA_KEYS, ("egress_port",))
            port, instance = _number(replica, "egress_port"), _number(replica, "instance")
        except _Wrong as wrong:
            raise _Wrong(str(wrong), "replicas", i, *wrong.path) from None
        found.append(p4r.Replica(egress_port=port, instance=instance))
    return found


def _multicast_group(given: object, _rehearsal: Rehearsal) -> p4r.Update:
    entry = _object(given, _GROUP_KEYS, ("multicast_group_id", "replicas"))
    number = _number(entry, "multicast_group_id", least=1)
    group = p4r.MulticastGroupEntry(multicast_group_id=number, replicas=_replicas(entry))
    engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
    entity = p4r.Entity(packet_replication_engine_entry=engine)
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


def _clone_session(given: object, _rehearsal: Rehearsal) -> p4r.Update:
    entry = _object(given, _SESSION_KEYS, ("clone_session_id", "replicas"))
    session = p4r.CloneSessionEntry(
        session_id=_number(entry, "clone_session_id", least=1),
        replicas=_replicas(entry),
        class_of_service=_number(entry, "class_of_service"),
        packet_length_bytes=_number(entry, "packet_length_bytes"),
    )
    engine = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
    entity = p4r.Entity(packet_replication_engine_entry=engine)
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


_KINDS: Mapping[str, Callable[[object, Rehearsal], p4r.Update]] = {
    "table_entries": _table_entry,
    "multicast_group_entries": _multicast_group,
    "clone_session_entries": _clone_session,
}
