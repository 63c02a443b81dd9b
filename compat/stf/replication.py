"""Multicast groups and mirroring sessions by BMv2's commands, as P4Runtime has them.

BMv2 makes nodes (a replication id and ports), numbers them from 0, and puts them into groups; a
session mirrors to a port or to a group. P4Runtime has groups and sessions only, each with its own
replicas: they are written again whenever something that they are made of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compat.stf.statements import StfError, number
from softswitch.core import Session
from softswitch.p4runtime.protos import p4r

LAG_MARK = "|"
"""What comes after it in a node's ports are link aggregation groups."""

Write = Callable[[p4r.Update.Type.ValueType, p4r.Entity], None]


@dataclass
class _Node:
    rid: int
    ports: list[int]


@dataclass
class _Group:
    nodes: list[int] = field(default_factory=list)


@dataclass
class _Session:
    port: int | None = None
    group: int | None = None


def _in_core(content: _Session) -> Session:
    if content.port is not None:
        return Session.to_port(content.port)
    return Session.to_group(content.group or 0)


class Replication:
    """What the commands have made so far; `write` raises StfError for what is refused."""

    def __init__(self, write: Write, session_zero: Callable[[Session | None], None]) -> None:
        """`session_zero` sets BMv2's session 0, which P4Runtime has not."""
        self._write = write
        self._session_zero = session_zero
        self._nodes: dict[int, _Node] = {}
        self._next_node = 0
        self._groups: dict[int, _Group] = {}
        self._sessions: dict[int, _Session] = {}

    def command(self, name: str, words: Sequence[str]) -> str:
        """Do a `mirroring_*` or `mc_*` command; what it says. Raises StfError."""
        if name in ("mc_node_create", "mc_node_update"):
            if LAG_MARK in words:
                raise StfError(f"{name}: link aggregation groups are not supported")
            first, *ports = (number(word, bits=32) for word in words)
            if name == "mc_node_create":
                self._nodes[self._next_node] = _Node(first, ports)
                self._next_node += 1
                return f"node {self._next_node - 1}"
            self._node(first).ports = ports
            self._renew_groups_with(first)
            return ""
        numbers = [number(word, bits=32) for word in words]
        if name.startswith("mirroring"):
            return self._mirroring(name, numbers)
        return self._multicast(name, numbers)

    def _multicast(self, name: str, numbers: list[int]) -> str:
        match name, numbers:
            case "mc_mgrp_create", [group]:
                self._write(p4r.Update.INSERT, _group_entity(group, []))
                self._groups[group] = _Group()
                self._renew_sessions_to(group)
            case "mc_mgrp_destroy", [group]:
                self._group(group)
                self._write(p4r.Update.DELETE, _group_entity(group, []))
                del self._groups[group]
                self._renew_sessions_to(group)
            case "mc_node_associate", [group, node]:
                self._node(node)
                if any(node in other.nodes for other in self._groups.values()):
                    raise StfError(f"node {node} is in a group already")
                self._group(group).nodes.append(node)
                self._renew(group)
            case "mc_node_dissociate", [group, node]:
                if node not in self._group(group).nodes:
                    raise StfError(f"node {node} is not in group {group}")
                self._groups[group].nodes.remove(node)
                self._renew(group)
            case "mc_node_destroy", [node]:
                self._node(node)
                of = [number for number, group in self._groups.items() if node in group.nodes]
                for group in of:
                    self._groups[group].nodes.remove(node)
                    self._renew(group)
                del self._nodes[node]
        return ""

    def _mirroring(self, name: str, numbers: list[int]) -> str:
        session = numbers[0]
        before = self._sessions.get(session)
        match name, numbers:
            case "mirroring_add", [_, port]:
                self._sessions[session] = _Session(port=port)
            case "mirroring_add_mc", [_, group]:
                self._sessions[session] = _Session(group=group)
            case _ if before is None:
                raise StfError(f"there is no mirroring session {session}")
            case "mirroring_get", _:
                return f"session {session}: " + (
                    f"port {before.port}" if before.group is None else f"group {before.group}"
                )
            case _:
                del self._sessions[session]
                if session == 0:
                    self._session_zero(None)
                else:
                    self._write(p4r.Update.DELETE, self._session_entity(session, before))
                return ""
        if session == 0:
            self._session_zero(_in_core(self._sessions[session]))
            return ""
        kind = p4r.Update.INSERT if before is None else p4r.Update.MODIFY
        self._write(kind, self._session_entity(session, self._sessions[session]))
        return ""

    def _renew(self, group: int) -> None:
        self._write(p4r.Update.MODIFY, _group_entity(group, self._replicas(group)))
        self._renew_sessions_to(group)

    def _renew_groups_with(self, node: int) -> None:
        for group, content in self._groups.items():
            if node in content.nodes:
                self._renew(group)

    def _renew_sessions_to(self, group: int) -> None:
        for session, content in self._sessions.items():
            if content.group == group and session != 0:  # that names the group itself
                self._write(p4r.Update.MODIFY, self._session_entity(session, content))

    def _replicas(self, group: int) -> list[p4r.Replica]:
        nodes = self._groups[group].nodes if group in self._groups else []
        return [
            p4r.Replica(egress_port=port, instance=self._nodes[node].rid)
            for node in nodes
            for port in self._nodes[node].ports
        ]

    def _session_entity(self, session: int, content: _Session) -> p4r.Entity:
        replicas: list[p4r.Replica] = []
        if content.group is not None:
            replicas = self._replicas(content.group)
        elif content.port is not None:
            replicas = [p4r.Replica(egress_port=content.port, instance=0)]
        entry = p4r.CloneSessionEntry(session_id=session, replicas=replicas)
        pre = p4r.PacketReplicationEngineEntry(clone_session_entry=entry)
        return p4r.Entity(packet_replication_engine_entry=pre)

    def _group(self, group: int) -> _Group:
        if group not in self._groups:
            raise StfError(f"there is no multicast group {group}: use mc_mgrp_create")
        return self._groups[group]

    def _node(self, node: int) -> _Node:
        if node not in self._nodes:
            raise StfError(f"there is no multicast node {node}: use mc_node_create")
        return self._nodes[node]


def _group_entity(group: int, replicas: list[p4r.Replica]) -> p4r.Entity:
    entry = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=replicas)
    pre = p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
    return p4r.Entity(packet_replication_engine_entry=pre)
