"""Import of Chakra execution traces: a file per rank, each a graph of computing and communicating.

    traces/step.0.et  traces/step.1.et ...      one file per rank, ranks counted from 0
    groups.json       {"tp0": [0, 1], ...}      the ranks of each process group that nodes name

A file is protobuf messages, each behind its length as a varint: a GlobalMetadata, then Nodes
(MLCommons' schema/protobuf/et_def.proto, of which only the fields that matter here are read).
`comm_size` is what a rank holds when a collective begins, as in ASTRA-sim. Sends and receives
are paired by ranks and tag, collectives by their group, both in the order of the files. Refused
with the node's name: REDUCE, GATHER and SCATTER, collectives over dimensions of a topology
(`involved_dim`), storage nodes, and nodes that wait for each other in a circle.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from rustworkx import PyDiGraph, digraph_find_cycle

from topologies.errors import Problem, TopologyError
from topologies.fields import MAX_MOMENT_PS, MAX_VOLUME

COLLECTIVES = {0: "allreduce", 2: "allgather", 5: "broadcast", 6: "alltoall",
               7: "reducescatter", 8: "reducescatter", 9: "barrier"}  # fmt: skip
"""CollectiveCommType, by number, and what it is here."""
_REFUSED = {1: "REDUCE", 3: "GATHER", 4: "SCATTER"}
_COMPUTE, _SEND, _RECV, _COLLECTIVE = 4, 5, 6, 7
_KINDS = {1: "compute", 2: "compute", 3: "compute", _COMPUTE: "compute", _SEND: "send",
          _RECV: "recv", _COLLECTIVE: "collective"}  # fmt: skip
_PS_PER_US = 10**6
_MOST_PROBLEMS = 10
_MAX_RANKS = 1 << 16

_NUMBERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
            "sfixed32", "sfixed64")  # fmt: skip

Node = dict[str, Any]
"""A node as a run file keeps it; `after` are places in the list of all nodes."""


@cache
def _message_classes() -> Mapping[str, type[Message]]:
    """Return the classes of Node and GlobalMetadata, with the fields that are read."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="weft/chakra.proto", package="weft.chakra", syntax="proto3"
    )

    def add(
        message: Any, name: str, number: int, kind: int, of: str = "", many: bool = False
    ) -> Any:
        label = field_type.LABEL_REPEATED if many else field_type.LABEL_OPTIONAL
        return message.field.add(
            name=name,
            number=number,
            type=kind,
            label=label,
            type_name=f".weft.chakra.{of}" if of else None,
        )

    booleans = file.message_type.add(name="BoolList")
    add(booleans, "values", 1, field_type.TYPE_BOOL, many=True)
    attribute = file.message_type.add(name="AttributeProto")
    add(attribute, "name", 1, field_type.TYPE_STRING)
    attribute.oneof_decl.add(name="value")
    values = [(f"{name}_val", 7 + 2 * i, getattr(field_type, f"TYPE_{name.upper()}"), "")
              for i, name in enumerate(_NUMBERS)]  # fmt: skip
    values += [("double_val", 3, field_type.TYPE_DOUBLE, ""),
               ("float_val", 5, field_type.TYPE_FLOAT, ""),
               ("bool_val", 27, field_type.TYPE_BOOL, ""),
               ("bool_list", 28, field_type.TYPE_MESSAGE, "BoolList"),
               ("string_val", 29, field_type.TYPE_STRING, "")]  # fmt: skip
    for name, number, kind, of in values:
        add(attribute, name, number, kind, of).oneof_index = 0
    metadata = file.message_type.add(name="GlobalMetadata")
    add(metadata, "version", 1, field_type.TYPE_STRING)
    node = file.message_type.add(name="Node")
    add(node, "id", 1, field_type.TYPE_UINT64)
    add(node, "name", 2, field_type.TYPE_STRING)
    add(node, "type", 3, field_type.TYPE_INT32)
    add(node, "ctrl_deps", 4, field_type.TYPE_UINT64, many=True)
    add(node, "data_deps", 5, field_type.TYPE_UINT64, many=True)
    add(node, "duration_micros", 7, field_type.TYPE_UINT64)
    add(node, "attr", 10, field_type.TYPE_MESSAGE, "AttributeProto", many=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"weft.chakra.{name}"))
        for name in ("Node", "GlobalMetadata")
    }


def trace_name(prefix: str, groups: str | None, teraflops: float | None) -> str:
    """Return how a trace is called that was read so."""
    return " ".join(str(each) for each in (prefix, groups, teraflops) if each is not None)


def read_chakra(
    prefix: str, directory: Path, groups: str | None = None, teraflops: float | None = None
) -> dict[str, object]:
    """Return `ranks` and `nodes` of the traces PREFIX.0.et, PREFIX.1.et ... in a directory.

    `groups`: a JSON file of process groups. `teraflops`: a rank's speed, for computing with a
    count of operations and no duration. Raises TopologyError with every mistake, its file and node.
    """
    return _Reader(prefix, directory, groups, teraflops).trace()


class _Reader:
    def __init__(
        self, prefix: str, directory: Path, groups: str | None, teraflops: float | None
    ) -> None:
        self.prefix = prefix
        self.directory = directory
        self.groups_file = groups
        self.teraflops = teraflops
        self.problems: list[Problem] = []
        self.nodes: list[Node] = []
        self.groups: dict[str, list[int]] = {}

    def trace(self) -> dict[str, object]:
        files = self._files()
        self._read_groups(len(files))
        for rank, file in enumerate(files):
            self._rank(rank, file, len(files))
        self._stop()
        sends = self._paired_messages()
        meets = self._paired_collectives()
        self._stop()
        self._refuse_circles(sends, meets)
        self._stop()
        kept = [
            {key: node[key] for key in node if key not in ("tag", "group")} for node in self.nodes
        ]
        return {"ranks": len(files), "nodes": kept}

    # --- files -----------------------------------------------------------------------------

    def _tell(self, file: Path | str, message: str) -> None:
        self.problems.append(Problem(str(file), 1, 1, "", message))
        if len(self.problems) >= _MOST_PROBLEMS:
            raise TopologyError(self.problems)

    def _stop(self) -> None:
        if self.problems:
            raise TopologyError(self.problems)

    def _file(self, rank: int) -> Path:
        return self.directory / f"{self.prefix}.{rank}.et"

    def _files(self) -> list[Path]:
        files: list[Path] = []
        while len(files) < _MAX_RANKS and self._file(len(files)).is_file():
            files.append(self._file(len(files)))
        missing = self._file(len(files))
        more = {path.name for path in missing.parent.glob(f"{missing.name.rsplit('.', 2)[0]}.*.et")}
        if len(files) < 2:
            self._tell(missing, "no such file: a trace is one file per rank, PREFIX.0.et, ...")
        elif left := sorted(more - {file.name for file in files}):
            self._tell(missing, f"no such file, though there is {left[0]}: ranks count from 0")
        self._stop()
        return files

    def _read_groups(self, ranks: int) -> None:
        if self.groups_file is None:
            return
        file = self.directory / self.groups_file
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._tell(file, f"can't be read: {reason}")
            return
        if not isinstance(found, dict):
            self._tell(file, 'not an object of groups: write {"tp0": [0, 1], "tp1": [2, 3]}')
            return
        for name, members in found.items():
            whole = isinstance(members, list) and all(type(each) is int for each in members)
            if not whole or len(set(members)) != len(members) or not members:
                self._tell(file, f"group {name!r}: a list of ranks, each once")
            elif not all(0 <= each < ranks for each in members):
                self._tell(file, f"group {name!r}: ranks are 0 to {ranks - 1}")
            else:
                self.groups[str(name)] = members

    def _rank(self, rank: int, file: Path, ranks: int) -> None:
        places: dict[int, int] = {}
        waiting: list[tuple[int, int]] = []
        try:
            for raw in _messages(file.read_bytes()):
                place = len(self.nodes)
                if raw.id in places:
                    self._tell(file, f"node {raw.id} is there twice")
                places[raw.id] = place
                self.nodes.append(self._node(rank, raw, file, ranks))
                waiting += [(place, each) for each in (*raw.ctrl_deps, *raw.data_deps)]
        except (OSError, DecodeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._tell(file, f"not a Chakra trace: {reason}")
            return
        for place, wanted in waiting:
            if wanted not in places:
                node = self.nodes[place]
                self._tell(file, f"{_called(node)} waits for node {wanted}, which is not there")
            elif places[wanted] not in self.nodes[place]["after"]:
                self.nodes[place]["after"].append(places[wanted])

    # --- nodes -----------------------------------------------------------------------------

    def _node(self, rank: int, raw: Any, file: Path, ranks: int) -> Node:
        node: Node = {"rank": rank, "id": raw.id, "name": raw.name, "after": []}
        node["kind"] = _KINDS.get(raw.type, "")
        attributes = {each.name: _value(each) for each in raw.attr}
        where = _called(node)
        if not node["kind"]:
            self._tell(file, f"{where}: type {raw.type} is not supported: computing, sends, "
                       "receives and collectives are")  # fmt: skip
        elif node["kind"] == "compute":
            node["ps"] = self._duration_ps(raw, attributes, where, file)
        elif node["kind"] == "collective":
            self._collective(node, attributes, file, ranks)
        else:
            self._message(node, attributes, file, ranks)
        return node

    def _duration_ps(self, raw: Any, attributes: Mapping[str, Any], where: str, file: Path) -> int:
        operations = attributes.get("num_ops", 0)
        if raw.duration_micros or raw.type != _COMPUTE or not operations:
            time_ps = int(raw.duration_micros) * _PS_PER_US
            if time_ps > MAX_MOMENT_PS:
                self._tell(
                    file,
                    f"{where} takes {raw.duration_micros} us: at most {MAX_MOMENT_PS // 10**12} s",
                )
            return time_ps
        if self.teraflops is None:
            self._tell(file, f"{where} has operations and no duration: say how fast a rank is, "
                       "such as teraflops: 312")  # fmt: skip
            return 0
        return round(float(operations) / self.teraflops)  # ps at 10^12 operations a second each

    def _message(self, node: Node, attributes: Mapping[str, Any], file: Path, ranks: int) -> None:
        own, other = "comm_src", "comm_dst"
        if node["kind"] == "recv":
            own, other = other, own
        peer = attributes.get(other)
        node |= {
            "bytes": self._size(node, attributes, file),
            "tag": attributes.get("comm_tag", 0),
        }
        node["peer"] = peer
        if not isinstance(peer, int) or not 0 <= peer < ranks or peer == node["rank"]:
            self._tell(
                file,
                f"{_called(node)}: {other} is {_or_missing(peer)}: another rank, 0 to {ranks - 1}",
            )
        elif attributes.get(own, node["rank"]) != node["rank"]:
            self._tell(file, f"{_called(node)}: {own} is {attributes[own]}, in the file of rank "
                       f"{node['rank']}")  # fmt: skip

    def _size(self, node: Node, attributes: Mapping[str, Any], file: Path) -> int:
        size = attributes.get("comm_size", 0)
        if not isinstance(size, int) or not 0 <= size <= MAX_VOLUME:
            self._tell(file, f"{_called(node)}: comm_size is {size}: bytes, at most {MAX_VOLUME}")
            return 0
        return size

    def _collective(
        self, node: Node, attributes: Mapping[str, Any], file: Path, ranks: int
    ) -> None:
        kind = attributes.get("comm_type")
        node["collective"] = COLLECTIVES.get(kind, "") if isinstance(kind, int) else ""
        node["bytes"] = self._size(node, attributes, file)
        node["root"] = attributes.get("root_rank", attributes.get("bcast_root", 0))
        if not node["collective"]:
            named = _REFUSED.get(kind, kind) if isinstance(kind, int) else kind
            there = ", ".join(sorted(set(COLLECTIVES.values())))
            self._tell(file, f"{_called(node)}: collective {named} is not supported: {there} are")
        if not all(attributes.get("involved_dim", [True])):
            self._tell(file, f"{_called(node)}: involved_dim leaves out dimensions of a topology, "
                       "and Weft has none: name a process group (pg_name)")  # fmt: skip
        name = str(attributes.get("pg_name", ""))
        node["group"] = name
        if name and name not in self.groups and (self.groups_file is not None or name != "0"):
            hint = "" if self.groups_file else ": give groups: a JSON file of each group's ranks"
            self._tell(file, f"{_called(node)}: no process group {name!r}{hint}")
        members = self._members(node, ranks)
        if node["rank"] not in members:
            self._tell(file, f"{_called(node)}: rank {node['rank']} is not in group {name!r}")
        node["members"] = members

    def _members(self, node: Node, ranks: int) -> list[int]:
        return self.groups.get(node["group"], list(range(ranks)))

    # --- pairs -----------------------------------------------------------------------------

    def _paired_messages(self) -> list[tuple[int, int]]:
        """Pair sends and receives; a receive keeps its send's place. Return (send, receive)."""
        ends: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(
            lambda: ([], [])
        )
        for place, node in enumerate(self.nodes):
            if node["kind"] == "send":
                ends[node["rank"], node["peer"], node["tag"]][0].append(place)
            elif node["kind"] == "recv":
                ends[node["peer"], node["rank"], node["tag"]][1].append(place)
        found = []
        for (source, target, tag), (sends, receives) in ends.items():
            if len(sends) != len(receives):
                sent = f"rank {source} sends {len(sends)} messages with tag {tag} to rank {target}"
                self._tell(self._file(source), f"{sent}, which receives {len(receives)}")
            for send, receive in zip(sends, receives, strict=False):
                if self.nodes[send]["bytes"] != self.nodes[receive]["bytes"]:
                    self._tell(self._file(source), f"{_called(self.nodes[send])} has "
                               f"{self.nodes[send]['bytes']} bytes, its receive in rank {target} "
                               f"{self.nodes[receive]['bytes']}")  # fmt: skip
                self.nodes[receive]["send"] = send
                found.append((send, receive))
        return found

    def _paired_collectives(self) -> list[list[int]]:
        """Give each collective a number; return its nodes' places, in the order of its ranks."""
        of_group: dict[tuple[str, tuple[int, ...]], dict[int, list[int]]] = {}
        for place, node in enumerate(self.nodes):
            if node["kind"] == "collective":
                members = tuple(node.pop("members"))
                by_rank = of_group.setdefault(
                    (node["group"], members), {each: [] for each in members}
                )
                by_rank[node["rank"]].append(place)
        found: list[list[int]] = []
        for (name, members), by_rank in of_group.items():
            counts = {len(places) for places in by_rank.values()}
            if len(counts) > 1:
                few, many = (pick(by_rank, key=lambda rank: len(by_rank[rank]))
                             for pick in (min, max))  # fmt: skip
                counted = f"rank {few} has {len(by_rank[few])} collectives, rank {many} "
                called = name or "of all ranks"
                self._tell(self._file(few), f"group {called}: {counted}{len(by_rank[many])}")
                continue
            for row in zip(*(by_rank[rank] for rank in members), strict=True):
                first = self.nodes[row[0]]
                for turn, each in enumerate(row):
                    node = self.nodes[each]
                    node |= {"meeting": len(found), "turn": turn}
                    if any(node[key] != first[key] for key in ("collective", "bytes", "root")):
                        self._tell(self._file(node["rank"]), f"{_called(node)} is {_said(node)}, "
                                   f"but in rank {first['rank']} {_said(first)}")  # fmt: skip
                if first["root"] not in range(len(members)):
                    self._tell(self._file(first["rank"]), f"{_called(first)}: root {first['root']} "
                               f"is none of {len(members)} ranks")  # fmt: skip
                found.append(list(row))
        return found

    def _refuse_circles(self, sends: list[tuple[int, int]], meets: list[list[int]]) -> None:
        """Refuse nodes that wait for each other: each waits for `after`, a receive for its send,
        and whoever waits for a collective for all of its ranks.
        """
        graph: PyDiGraph[int, None] = PyDiGraph()
        graph.add_nodes_from(list(range(len(self.nodes) + len(meets))))
        ends = {place: len(self.nodes) + i for i, row in enumerate(meets) for place in row}
        edges = [(ends.get(each, each), place) for place, node in enumerate(self.nodes)
                 for each in node["after"]]  # fmt: skip
        edges += sends
        edges += list(ends.items())
        graph.add_edges_from_no_data(edges)
        circle = [a for a, _ in digraph_find_cycle(graph) if a < len(self.nodes)]
        if circle:
            named = [self.nodes[place] for place in circle]
            text = " waits for ".join(f"{_called(n)} of rank {n['rank']}" for n in named[:4][::-1])
            self._tell(self._file(named[0]["rank"]), f"never ends: {text}, in a circle")


def _messages(data: bytes) -> Iterator[Any]:
    """Yield the nodes of a file. Raises ValueError, DecodeError."""
    classes = _message_classes()
    at, first = 0, True
    while at < len(data):
        size, at = _varint(data, at)
        if at + size > len(data):
            raise ValueError(f"it ends within a message of {size} bytes")
        made = classes["GlobalMetadata" if first else "Node"]()
        made.ParseFromString(data[at : at + size])
        at += size
        if not first:
            yield made
        first = False
    if first:
        raise ValueError("it is empty")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in base 128, and where it ends. Raises ValueError."""
    found = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise ValueError("the length of a message can't be read")


def _value(attribute: Any) -> Any:
    name = attribute.WhichOneof("value")
    if name is None:
        return None
    if name == "bool_list":
        return list(attribute.bool_list.values)
    return getattr(attribute, name)


def _or_missing(value: object) -> object:
    return "missing" if value is None else value


def _called(node: Node) -> str:
    return f"node {node['id']} ({node['name']})" if node["name"] else f"node {node['id']}"


def _said(node: Node) -> str:
    return f"{node['collective']} of {node['bytes']} bytes, root {node['root']}"
