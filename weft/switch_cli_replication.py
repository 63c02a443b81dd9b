"""`weft cli`'s commands on multicast and mirroring.

P4Runtime's groups hold replicas (port, instance), BMv2's hold nodes (rid, ports). Nodes live in the
session: what a switch has already is taken as a node for each group and instance.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.p4runtime.protos import p4r
from weft.switch_cli_connection import RefusedError
from weft.switch_cli_profiles import ProfileCommands
from weft.switch_cli_shell import command
from weft.switch_cli_values import CommandError, whole


@dataclass(slots=True)
class _Node:
    rid: int
    ports: list[int]
    group: int | None = None


class ReplicationCommands(ProfileCommands):
    """Multicast groups, their nodes, and mirroring sessions."""

    # --- multicast ----------------------------------------------------------------------------

    @command(1, kind="PRE")
    def do_mc_mgrp_create(self, words: list[str]) -> None:
        """Create a multicast group: mc_mgrp_create <group id>"""
        group = whole(words[0], "multicast group id")
        self.say("Creating multicast group", group)
        self.switch.insert(packet_replication_engine_entry=_group_entry(group, []))

    @command(1, kind="PRE")
    def do_mc_mgrp_destroy(self, words: list[str]) -> None:
        """Remove a multicast group: mc_mgrp_destroy <group id>"""
        group = whole(words[0], "multicast group id")
        self.say("Destroying multicast group", group)
        nodes = self._nodes
        self.switch.delete(packet_replication_engine_entry=_group_entry(group, []))
        for node in nodes.values():
            if node.group == group:
                node.group = None

    @command(least=1, kind="PRE")
    def do_mc_node_create(self, words: list[str]) -> None:
        """Create a node: mc_node_create <rid> <space-separated port list>"""
        rid, ports = whole(words[0], "rid"), _ports(words[1:])
        self.say("Creating node with rid", rid, ", port map", _map(ports), "and lag map ")
        nodes = self._nodes
        handle = next(number for number in range(len(nodes) + 1) if number not in nodes)
        nodes[handle] = _Node(rid, ports)
        self.say("node was created with handle", handle)

    @command(least=2, kind="PRE")
    def do_mc_node_update(self, words: list[str]) -> None:
        """Change a node's ports: mc_node_update <node handle> <space-separated port list>"""
        handle, ports = whole(words[0], "node handle"), _ports(words[1:])
        node = self._node(handle)
        self.say("Updating node", handle, "with port map", _map(ports), "and lag map ")
        before, node.ports = node.ports, ports
        try:
            self._put(node.group)
        except RefusedError:
            node.ports = before
            raise

    @command(2, kind="PRE")
    def do_mc_node_associate(self, words: list[str]) -> None:
        """Put a node into a group: mc_node_associate <group id> <node handle>"""
        group, handle = whole(words[0], "multicast group id"), whole(words[1], "node handle")
        node = self._node(handle)
        self.say("Associating node", handle, "to multicast group", group)
        if node.group is not None:
            raise CommandError(f"node {handle} is in multicast group {node.group} already")
        node.group = group
        try:
            self._put(group)
        except RefusedError:
            node.group = None
            raise

    @command(2, kind="PRE")
    def do_mc_node_dissociate(self, words: list[str]) -> None:
        """Take a node out of a group: mc_node_dissociate <group id> <node handle>"""
        group, handle = whole(words[0], "multicast group id"), whole(words[1], "node handle")
        node = self._node(handle)
        self.say("Dissociating node", handle, "from multicast group", group)
        if node.group != group:
            raise CommandError(f"node {handle} is not in multicast group {group}")
        node.group = None
        self._put(group)

    @command(1, kind="PRE")
    def do_mc_node_destroy(self, words: list[str]) -> None:
        """Remove a node: mc_node_destroy <node handle>"""
        handle = whole(words[0], "node handle")
        node = self._node(handle)
        self.say("Destroying node", handle)
        del self._nodes[handle]
        self._put(node.group)

    @command(kind="PRE")
    def do_mc_set_lag_membership(self, _words: list[str]) -> None:
        """Not there: P4Runtime has no LAGs in multicast groups."""
        raise CommandError("P4Runtime has no LAGs in multicast groups: give nodes their ports")

    @command(0, kind="PRE")
    def do_mc_dump(self, _words: list[str]) -> None:
        """Show multicast groups: mc_dump"""
        nodes = self._nodes
        self.say("==========")
        self.say("MC ENTRIES")
        for group in self._groups_there():
            self.say("**********")
            self.say(f"mgrp({group.multicast_group_id})")
            for handle, node in nodes.items():
                if node.group == group.multicast_group_id:
                    ports = ", ".join(str(port) for port in node.ports)
                    node_text = f"  -> (L1h={handle}, rid={node.rid})"
                    self.say(f"{node_text} -> (ports=[{ports}], lags=[])")
        self.say("==========")
        self.say("LAGS")
        self.say("==========")

    @property
    def _nodes(self) -> dict[int, _Node]:
        """All nodes; at first those that the switch's groups are made of."""
        known: dict[int, _Node] | None = self.__dict__.get("nodes")
        if known is None:
            known = {}
            for group in self._groups_there():
                by_rid: dict[int, list[int]] = {}
                for replica in group.replicas:
                    by_rid.setdefault(replica.instance, []).append(_port_of(replica))
                for rid, ports in by_rid.items():
                    known[len(known)] = _Node(rid, sorted(ports), group.multicast_group_id)
            self.__dict__["nodes"] = known
        return known

    def _node(self, handle: int) -> _Node:
        node = self._nodes.get(handle)
        if node is None:
            raise CommandError(f"Invalid PRE operation (INVALID_L1_HANDLE): no node {handle}")
        return node

    def _groups_there(self) -> list[p4r.MulticastGroupEntry]:
        query = p4r.PacketReplicationEngineEntry()
        query.multicast_group_entry.SetInParent()
        found = self.switch.read(packet_replication_engine_entry=query)
        return [each.packet_replication_engine_entry.multicast_group_entry for each in found]

    def _replicas(self, group: int) -> list[tuple[int, int]]:
        of_group = [node for node in self._nodes.values() if node.group == group]
        return [(port, node.rid) for node in of_group for port in node.ports]

    def _put(self, group: int | None) -> None:
        if group is None:
            return
        replicas = self._replicas(group)
        self.switch.modify(packet_replication_engine_entry=_group_entry(group, replicas))
        for session, mirrored in self._mirrored_groups.items():
            if mirrored == group:
                self._mirror(session, replicas)

    # --- mirroring ----------------------------------------------------------------------------

    @command(2, kind="mirroring")
    def do_mirroring_add(self, words: list[str]) -> None:
        """Mirror to a port: mirroring_add <mirror id> <egress port>"""
        session, port = whole(words[0], "mirror_id"), whole(words[1], "egress_port")
        self._mirror(session, [(port, 0)])
        self._mirrored_groups.pop(session, None)

    @command(2, kind="mirroring")
    def do_mirroring_add_mc(self, words: list[str]) -> None:
        """Mirror to a multicast group: mirroring_add_mc <mirror id> <group id>"""
        session, group = whole(words[0], "mirror_id"), whole(words[1], "mgrp")
        self._mirror(session, self._replicas(group))
        self._mirrored_groups[session] = group

    @command(1, kind="mirroring")
    def do_mirroring_delete(self, words: list[str]) -> None:
        """Remove a mirroring session: mirroring_delete <mirror id>"""
        session = whole(words[0], "mirror_id")
        self.switch.delete(packet_replication_engine_entry=_session_entry(session, []))
        self._mirrored_groups.pop(session, None)

    @command(1, kind="mirroring")
    def do_mirroring_get(self, words: list[str]) -> None:
        """Show a mirroring session: mirroring_get <mirror id>"""
        session = whole(words[0], "mirror_id")
        query = _session_entry(session, [])
        for found in self.switch.read(packet_replication_engine_entry=query):
            entry = found.packet_replication_engine_entry.clone_session_entry
            if entry.session_id != session:
                continue
            ports = [_port_of(replica) for replica in entry.replicas]
            group = self._mirrored_groups.get(session)
            if group is not None:
                self.say(f"MirroringSessionConfig(port=None, mgid={group})")
            elif len(ports) == 1:
                self.say(f"MirroringSessionConfig(port={ports[0]}, mgid=None)")
            else:
                self.say(f"MirroringSessionConfig(port={ports}, mgid=None)")
            return
        raise CommandError("Invalid mirroring operation (SESSION_NOT_FOUND)")

    @property
    def _mirrored_groups(self) -> dict[int, int]:
        """The multicast groups of sessions that mirror to one, by session."""
        groups: dict[int, int] = self.__dict__.setdefault("mirrored_groups", {})
        return groups

    def _mirror(self, session: int, replicas: list[tuple[int, int]]) -> None:
        entry = _session_entry(session, replicas)
        try:
            self.switch.insert(packet_replication_engine_entry=entry)
        except RefusedError as error:
            if error.code != "ALREADY_EXISTS":
                raise
            self.switch.modify(packet_replication_engine_entry=entry)


def _group_entry(group: int, replicas: list[tuple[int, int]]) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    entry.multicast_group_entry.multicast_group_id = _unsigned(group, "multicast group id")
    for port, instance in replicas:
        entry.multicast_group_entry.replicas.add(egress_port=port, instance=instance)
    return entry


def _session_entry(
    session: int, replicas: list[tuple[int, int]]
) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    entry.clone_session_entry.session_id = _unsigned(session, "mirror_id")
    for port, instance in replicas:
        entry.clone_session_entry.replicas.add(
            egress_port=_unsigned(port, "egress_port"), instance=instance
        )
    return entry


def _unsigned(number: int, what: str) -> int:
    if not 0 <= number < 1 << 32:
        raise CommandError(f"{what} {number} is out of range")
    return number


def _port_of(replica: p4r.Replica) -> int:
    if replica.WhichOneof("port_kind") == "port":
        return int.from_bytes(replica.port, "big")
    return replica.egress_port


def _ports(words: list[str]) -> list[int]:
    """The ports of a node. Raises CommandError."""
    at = words.index("|") if "|" in words else len(words)
    if words[at + 1 :]:
        raise CommandError("P4Runtime has no LAGs in multicast groups: give nodes their ports")
    ports = []
    for word in words[:at]:
        if not word.isdecimal() or int(word) > 511:
            raise CommandError(f"'{word}' is not a valid port number")
        ports.append(int(word))
    for port in ports:
        if ports.count(port) > 1:
            raise CommandError(f"Found duplicate port number '{port}'")
    return sorted(ports)


def _map(ports: list[int]) -> str:
    """A digit a port, the highest first."""
    return f"{sum(1 << port for port in ports):b}" if ports else ""
