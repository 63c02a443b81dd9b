"""Switches with the AllReduce module, in a tree and alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from google.protobuf import text_format

from mechanisms.allreduce.counters import OUTCOMES
from softswitch import Switch
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.protos import p4i, p4r
from softswitch.program_cache import Compiled, Job, compile_program
from tests.mechanisms.allreduce import wire

ROOT = Path(__file__).parents[3]
PARTS = ("PROFILE", "WITH_DROP_COUNTERS", "WITH_ALLREDUCE")
REFUSED = 13  # of DropReason
STEP_NS = 1_000

Sent = tuple[int, bytes]  # port, frame


@cache
def program(lanes: int = 2, slots: int = 64, *more: str) -> Pipeline:
    """Return a program that has little beside the module."""
    made = compiled((*PARTS, f"ALLREDUCE_LANES={lanes}", f"ALLREDUCE_SLOTS={slots}", *more))
    info = text_format.Parse(made.p4info_text, p4i.P4Info())
    with Switch() as switch:
        return switch.device.prepare(info, made.json_text.encode())


def compiled(defines: tuple[str, ...]) -> Compiled:
    """Return fabric.p4 compiled."""
    return compile_program(Job(ROOT / "p4src/fabric.p4", defines=defines))


@dataclass(frozen=True)
class Pool:
    """A best-effort job's share of the pool; `cells`: 0 for none of it."""

    cells: int
    stride: int = 1
    offset: int = 0
    patience: int = (1 << 16) - 1


@dataclass(frozen=True)
class Membership:
    """A switch's part in one tree of one job. `children`: their ports, in the order of bits.

    `pool`: of a best-effort job; `covers`: the workers beneath each of its children.
    """

    job: int
    tree: int
    children: tuple[int, ...]
    parent: int | None
    base: int
    slots: int
    pool: Pool | None = None
    covers: tuple[int, ...] = ()

    @property
    def group(self) -> int:
        """The multicast group of the children; the next one has the parent, too."""
        return 2 * (8 * self.job + self.tree) + 1


class AllReduceSwitch:
    """One switch with its entries; `hosts`: host number by port, other ports lead to switches."""

    def __init__(
        self,
        made: Pipeline,
        members: Sequence[Membership],
        hosts: Mapping[int, int],
        ports: Sequence[int],
    ) -> None:
        self._made, self._members, self._hosts, self._ports = made, members, hosts, ports
        self._start()

    def _start(self) -> None:
        self.switch = Switch()
        self.switch.load(self._made)
        for each in self._members:
            self._join(each)
        for port in self._ports:
            self._address(port)

    def _join(self, member: Membership) -> None:
        place = {"job": member.job, "tree": member.tree}
        for index, port in enumerate(member.children):
            key = {"port": port, **place}
            if member.pool is None:
                join, call = "join_from_child", {"index": index}
            else:
                join, call = "join_pool_from_child", {"workers": member.covers[index]}
            self.switch.table_add("allreduce_edge", key, join, call)
        flood = member.children
        if member.parent is not None:
            self.switch.table_add(
                "allreduce_edge", {"port": member.parent, **place}, "join_from_parent"
            )
            flood = (*flood, member.parent)
        values = {
            "slots": member.slots,
            "parent": member.parent or 0,
            "children_group": member.group,
            "flood_group": member.group + 1,
            "class_of_service": 0,
        }
        if member.pool is None:
            children = (1 << len(member.children)) - 1
            root = int(member.parent is None)
            values |= {"base": member.base, "children": children, "root": root}
            self.switch.table_add("allreduce_tree", place, "set_allreduce_tree", values)
        else:
            values |= {**vars(member.pool), "workers": sum(member.covers)}
            self.switch.table_add("allreduce_tree", place, "set_allreduce_pool", values)
        for group, members in ((member.group, member.children), (member.group + 1, flood)):
            entry = p4r.MulticastGroupEntry(multicast_group_id=group)
            for port in members:
                entry.replicas.add(egress_port=port, instance=1)
            self.switch.insert(
                packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                    multicast_group_entry=entry
                )
            )

    def _address(self, port: int) -> None:
        host = self._hosts.get(port)
        if host is None:
            action, values = "address_allreduce_to_neighbour", {"src_mac": 0x020100000000}
        else:
            action = "address_allreduce_to_host"
            values = {
                "src_mac": int.from_bytes(wire.gateway_mac(host), "big"),
                "dst_mac": int.from_bytes(wire.mac(host), "big"),
                "address": 10 << 24 | host,
            }
        self.switch.table_add("allreduce_port", {"port": port}, action, values)

    def restart(self) -> None:
        """Lose all rounds; the controller gives the switch its entries again."""
        self.switch.close()
        self._start()

    def send(self, port: int, frame: bytes) -> list[Sent]:
        """Let a frame come by a port; return what leaves because of it."""
        self.switch.inject(port, frame)
        return [
            (each.port, each.packet) for each in self.switch.run_until(self.switch.now_ns + STEP_NS)
        ]

    def counts(self, port: int) -> dict[str, int]:
        """Return what a port's packets were counted as, without zeros."""
        found = {
            name: self.switch.counter_read("allreduce", port << 4 | number)[0]
            for number, name in enumerate(OUTCOMES)
        }
        return {name: n for name, n in found.items() if n}

    def refused(self) -> int:
        """Return how many packets were dropped as refused."""
        return self.switch.counter_read("dropped", REFUSED)[0]


def star(
    workers: int, *, slots: int = 2, lanes: int = 2, made: Pipeline | None = None
) -> AllReduceSwitch:
    """Return a root whose children are workers 1, 2, ... at ports of these numbers; job 1."""
    ports = tuple(range(1, workers + 1))
    member = Membership(1, 0, ports, None, 0, slots)
    return AllReduceSwitch(made or program(lanes), [member], {port: port for port in ports}, ports)
