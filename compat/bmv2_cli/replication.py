"""`weft cli`'s commands on multicast and mirroring."""

from __future__ import annotations

from compat.bmv2_cli.connection import RefusedError
from compat.bmv2_cli.nodes import Node, Nodes, Replicas
from compat.bmv2_cli.profiles import ProfileCommands
from compat.bmv2_cli.shell import command
from compat.bmv2_cli.values import CommandError, OperationError, whole
from softswitch.p4runtime.protos import p4r

_HIGHEST = 511
"""The highest port or LAG."""


class ReplicationCommands(ProfileCommands):
    """Multicast groups, their nodes, and mirroring sessions."""

    # --- multicast ----------------------------------------------------------------------------

    @command(1, kind="PRE")
    def do_mc_mgrp_create(self, words: list[str]) -> None:
        """Create a multicast group: mc_mgrp_create <group id>"""
        group = whole(words[0], "multicast group id")
        self.say("Creating multicast group", group)
        nodes = self._nodes
        if group in nodes.groups:  # BMv2 takes it as done
            return
        self.switch.insert(packet_replication_engine_entry=_group_entry(group, []))
        nodes.add_group(group)
        nodes.keep()

    @command(1, kind="PRE")
    def do_mc_mgrp_destroy(self, words: list[str]) -> None:
        """Remove a multicast group: mc_mgrp_destroy <group id>"""
        group = whole(words[0], "multicast group id")
        self.say("Destroying multicast group", group)
        nodes = self._nodes
        if group not in nodes.groups:
            return
        self.switch.delete(packet_replication_engine_entry=_group_entry(group, []))
        nodes.drop_group(group)
        nodes.keep()

    @command(least=1, kind="PRE")
    def do_mc_node_create(self, words: list[str]) -> None:
        """Create a node:

        mc_node_create <rid> <space-separated port list> [ | <space-separated lag list> ]
        """
        rid = _unsigned(whole(words[0], "rid"), "rid")
        ports, lags = _ports_and_lags(words[1:])
        shown = _map(ports), "and lag map", _map(lags)
        self.say("Creating node with rid", rid, ", port map", *shown)
        nodes = self._nodes
        handle = nodes.free_handle()
        nodes.nodes[handle] = Node(rid, ports, lags)
        nodes.keep()
        self.say("node was created with handle", handle)

    @command(least=2, kind="PRE")
    def do_mc_node_update(self, words: list[str]) -> None:
        """Change a node's ports and LAGs:

        mc_node_update <node handle> <space-separated port list> [ | <space-separated lag list> ]
        """
        handle = whole(words[0], "node handle")
        ports, lags = _ports_and_lags(words[1:])
        self.say("Updating node", handle, "with port map", _map(ports), "and lag map", _map(lags))
        nodes = self._nodes
        node = _node(nodes, handle)
        before = node.ports, node.lags
        node.ports, node.lags = ports, lags
        try:
            self._put(nodes, node.group)
        except RefusedError:
            node.ports, node.lags = before
            raise
        nodes.keep()

    @command(2, kind="PRE")
    def do_mc_node_associate(self, words: list[str]) -> None:
        """Put a node into a group: mc_node_associate <group id> <node handle>"""
        group, handle = whole(words[0], "multicast group id"), whole(words[1], "node handle")
        self.say("Associating node", handle, "to multicast group", group)
        nodes = self._nodes
        node = _node(nodes, handle)
        _check_group(nodes, group)
        if node.group is not None:
            why = f"node {handle} is in multicast group {node.group} already"
            raise OperationError("PRE", "ERROR", why)
        nodes.associate(node, group)
        try:
            self._put(nodes, group)
        except RefusedError:
            node.group = None
            raise
        nodes.keep()

    @command(2, kind="PRE")
    def do_mc_node_dissociate(self, words: list[str]) -> None:
        """Take a node out of a group: mc_node_dissociate <group id> <node handle>"""
        group, handle = whole(words[0], "multicast group id"), whole(words[1], "node handle")
        self.say("Dissociating node", handle, "from multicast group", group)
        nodes = self._nodes
        node = _node(nodes, handle)
        _check_group(nodes, group)
        if node.group != group:
            why = f"node {handle} is not in multicast group {group}"
            raise OperationError("PRE", "ERROR", why)
        node.group = None
        self._put(nodes, group)
        nodes.keep()

    @command(1, kind="PRE")
    def do_mc_node_destroy(self, words: list[str]) -> None:
        """Remove a node: mc_node_destroy <node handle>"""
        handle = whole(words[0], "node handle")
        self.say("Destroying node", handle)
        nodes = self._nodes
        node = _node(nodes, handle)
        del nodes.nodes[handle]
        self._put(nodes, node.group)
        nodes.keep()

    @command(least=2, kind="PRE")
    def do_mc_set_lag_membership(self, words: list[str]) -> None:
        """Set a LAG's ports: mc_set_lag_membership <lag index> <space-separated port list>"""
        lag, ports = whole(words[0], "lag index"), _numbers(words[1:], "lag")
        self.say("Setting lag membership:", lag, "<-", _map(ports))
        nodes = self._nodes
        nodes.lags[lag] = ports
        for group in {node.group for node in nodes.nodes.values() if lag in node.lags}:
            self._put(nodes, group)
        nodes.keep()

    @command(kind="PRE")
    def do_mc_dump(self, _words: list[str]) -> None:
        """Show multicast groups, their nodes, and LAGs: mc_dump"""
        nodes = self._nodes
        handles = {id(node): handle for handle, node in nodes.nodes.items()}
        shown: list[int] | None = None
        self.say("==========")
        self.say("MC ENTRIES")
        for group in nodes.newest_groups():
            self.say("**********")
            self.say(f"mgrp({group})")
            for node in nodes.of_group(group):
                shown = node.ports
                where = f"(ports=[{_list(node.ports)}], lags=[{_list(node.lags)}])"
                self.say(f"  -> (L1h={handles[id(node)]}, rid={node.rid}) -> {where}")
        self.say("==========")
        self.say("LAGS")
        for number, ports in reversed(nodes.lags.items()):
            # BMv2's CLI shows the ports of the node above, and its own tests want them.
            self.say(f"lag({number}) -> ports=[{_list(ports if shown is None else shown)}]")
            self.note(f"  lag({number}) has ports {_list(ports)}")
        self.say("==========")

    @property
    def _nodes(self) -> Nodes:
        """The nodes as they are now."""
        nodes: Nodes | None = self.__dict__.get("nodes")
        if nodes is None:
            nodes = self.__dict__["nodes"] = Nodes(self.diagnostics)
        nodes.meet(self._groups_there())
        return nodes

    def forget_nodes(self) -> None:
        """Forget all nodes: the switch has started afresh."""
        self.__dict__.pop("nodes", None)

    def _groups_there(self) -> dict[int, Replicas]:
        query = p4r.PacketReplicationEngineEntry()
        query.multicast_group_entry.SetInParent()
        found = self.switch.read(packet_replication_engine_entry=query)
        entries = (each.packet_replication_engine_entry.multicast_group_entry for each in found)
        return {
            entry.multicast_group_id: [(_port_of(each), each.instance) for each in entry.replicas]
            for entry in entries
        }

    def _put(self, nodes: Nodes, group: int | None) -> None:
        if group is None:
            return
        replicas = nodes.replicas(group)
        self.switch.modify(packet_replication_engine_entry=_group_entry(group, replicas))
        for session, mirrored in nodes.mirrored.items():
            if mirrored == group:
                self._mirror(session, replicas)

    # --- mirroring ----------------------------------------------------------------------------

    @command(2, kind="mirroring")
    def do_mirroring_add(self, words: list[str]) -> None:
        """Mirror to a port: mirroring_add <mirror id> <egress port>"""
        session, port = (
            whole(words[0], "mirror_id, expected integer"),
            whole(words[1], "egress_port, expected integer"),
        )
        nodes = self._nodes
        if session == 0:  # P4Runtime has none of that number
            self.diagnostics.session_zero(port=_unsigned(port, "egress_port"))
            return
        self._mirror(session, [(port, 0)])
        nodes.mirrored.pop(session, None)
        nodes.keep()

    @command(2, kind="mirroring")
    def do_mirroring_add_mc(self, words: list[str]) -> None:
        """Mirror to a multicast group: mirroring_add_mc <mirror id> <group id>"""
        session, group = (
            whole(words[0], "mirror_id, expected integer"),
            whole(words[1], "mgrp, expected integer"),
        )
        nodes = self._nodes
        if session == 0:
            self.diagnostics.session_zero(group=_unsigned(group, "mgrp"))
            return
        self._mirror(session, nodes.replicas(group))
        nodes.mirrored[session] = group
        nodes.keep()

    @command(1, kind="mirroring")
    def do_mirroring_delete(self, words: list[str]) -> None:
        """Remove a mirroring session: mirroring_delete <mirror id>"""
        session = whole(words[0], "mirror_id, expected integer")
        nodes = self._nodes
        if session == 0:
            if not self.diagnostics.session_zero():
                raise OperationError("mirroring", "SESSION_NOT_FOUND")
            self.diagnostics.session_zero(delete=True)
            return
        self.switch.delete(packet_replication_engine_entry=_session_entry(session, []))
        nodes.mirrored.pop(session, None)
        nodes.keep()

    @command(1, kind="mirroring")
    def do_mirroring_get(self, words: list[str]) -> None:
        """Show a mirroring session: mirroring_get <mirror id>"""
        session = whole(words[0], "mirror_id, expected integer")
        if session == 0 and (zero := self.diagnostics.session_zero()):
            port, group = zero.get("port"), zero.get("group")
            self.say(f"MirroringSessionConfig(port={port}, mgid={group})")
            return
        query = _session_entry(session, [])
        for found in self.switch.read(packet_replication_engine_entry=query):
            entry = found.packet_replication_engine_entry.clone_session_entry
            if entry.session_id != session:
                continue
            ports = [_port_of(replica) for replica in entry.replicas]
            group = self._nodes.mirrored.get(session)
            if group is not None:
                self.say(f"MirroringSessionConfig(port=None, mgid={group})")
            elif len(ports) == 1:
                self.say(f"MirroringSessionConfig(port={ports[0]}, mgid=None)")
            else:
                self.say(f"MirroringSessionConfig(port={ports}, mgid=None)")
            return
        raise OperationError("mirroring", "SESSION_NOT_FOUND")

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


def _node(nodes: Nodes, handle: int) -> Node:
    node = nodes.nodes.get(handle)
    if node is None:
        raise OperationError("PRE", "INVALID_L1_HANDLE", f"there is no node {handle}")
    return node


def _check_group(nodes: Nodes, group: int) -> None:
    if group not in nodes.groups:
        raise OperationError("PRE", "INVALID_MGRP_HANDLE", f"there is no multicast group {group}")


def _ports_and_lags(words: list[str]) -> tuple[list[int], list[int]]:
    """Parse a node's ports, and its LAGs after a `|`. Raises CommandError."""
    at = words.index("|") if "|" in words else len(words)
    return _numbers(words[:at], "port"), _numbers(words[at + 1 :], "lag")


def _numbers(words: list[str], what: str) -> list[int]:
    """Parse numbers and sort them. Raises CommandError."""
    numbers = []
    for word in words:
        if not word.isdecimal() or int(word) > _HIGHEST:
            raise CommandError(f"'{word}' is not a valid {what} number")
        numbers.append(int(word))
    for number in numbers:
        if numbers.count(number) > 1:
            raise CommandError(f"Found duplicate {what} number '{number}'")
    return sorted(numbers)


def _map(numbers: list[int]) -> str:
    """Return a bit map, one digit a number, the highest first."""
    return f"{sum(1 << number for number in numbers):b}" if numbers else ""


def _list(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)
