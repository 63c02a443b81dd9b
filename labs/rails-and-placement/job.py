"""A training job on a rail fabric: its ranks, who sends how much to whom, and what that crosses.

A rank is a GPU with a NIC of its own, written (server, rail). Rank = data rank x tp + tensor rank.
Servers of a group share a leaf for each rail: NICs of one rail and group meet there. NVLink carries
what stays in a server; all else crosses the spines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Nic = tuple[int, int]
Relay = Callable[[Nic, Nic], Nic]
Messages = dict[tuple[Nic, Nic], int]
"""Bytes from one NIC to another."""


@dataclass(frozen=True)
class Bytes:
    """What each rank sends in a step: to its tensor group, its data group and its expert group."""

    tp: int = 4_000_000
    dp: int = 1_000_000
    ep: int = 250_000


@dataclass(frozen=True)
class Tiers:
    """Bytes by what they cross."""

    server: int = 0
    leaf: int = 0
    spine: int = 0


@dataclass(frozen=True)
class Job:
    """Groups of servers with a NIC for each rail, and how the ranks on them are grouped."""

    groups: int
    servers: int  # of each group
    rails: int
    tp: int
    ep: int

    @property
    def ranks(self) -> int:
        """How many ranks there are: one a NIC."""
        return self.groups * self.servers * self.rails

    @property
    def dp(self) -> int:
        """How many data ranks there are."""
        return self.ranks // self.tp

    def nics(self) -> list[Nic]:
        """Return all NICs, server by server."""
        return [(s, r) for s in range(self.groups * self.servers) for r in range(self.rails)]

    def tensor_messages(self, places: Sequence[Nic], size: int) -> Messages:
        """Return the ring AllReduces of all tensor groups."""
        found: Messages = {}
        for data in range(self.dp):
            _ring(found, places[data * self.tp : (data + 1) * self.tp], size)
        return found

    def data_messages(self, places: Sequence[Nic], size: int) -> Messages:
        """Return the ring AllReduces of all data groups, each in the order of its data ranks."""
        found: Messages = {}
        for tensor in range(self.tp):
            _ring(found, places[tensor :: self.tp], size)
        return found

    def expert_messages(self, places: Sequence[Nic], size: int) -> Messages:
        """Return the all-to-alls of expert groups: `ep` consecutive data ranks of a tensor rank."""
        found: Messages = {}
        for tensor in range(self.tp):
            group = places[tensor :: self.tp]
            for first in range(0, self.dp, self.ep):
                members = group[first : first + self.ep]
                for a in members:
                    for b in members:
                        if a != b:
                            _add(found, a, b, size // self.ep)
        return found

    def step(self, places: Sequence[Nic], size: Bytes) -> Messages:
        """Return all that a step sends."""
        return joined(
            self.tensor_messages(places, size.tp),
            self.data_messages(places, size.dp),
            self.expert_messages(places, size.ep),
        )

    def tokens(self, size: int, relay: Relay) -> Messages:
        """Return an all-to-all of all NICs, each sending `size` to each by the NIC `relay` says.

        What goes to the relay stays in the server: it is a message of its own.
        """
        found: Messages = {}
        for source in self.nics():
            for target in self.nics():
                if source[0] == target[0]:
                    continue  # in the server, whatever relays it
                by = relay(source, target)
                if by != source:
                    _add(found, source, by, size)
                _add(found, by, target, size)
        return found

    def tiers(self, messages: Messages) -> Tiers:
        """Return the bytes by what they cross."""
        server = leaf = spine = 0
        for (a, b), size in messages.items():
            if a[0] == b[0]:
                server += size
            elif a[1] == b[1] and a[0] // self.servers == b[0] // self.servers:
                leaf += size
            else:
                spine += size
        return Tiers(server, leaf, spine)

    def least_spine_bytes(self, size: int) -> int:
        """Return what data rings must send over the spines: each enters and leaves each group."""
        crossings = self.groups if self.groups > 1 else 0
        return crossings * self.tp * _hop(self.dp, size)


def joined(*parts: Messages) -> Messages:
    """Return the sum of messages."""
    found: Messages = {}
    for part in parts:
        for (a, b), size in part.items():
            _add(found, a, b, size)
    return found


def busiest(messages: Messages) -> int:
    """Return the most bytes that a NIC sends or receives: no placement is faster than its line."""
    out: dict[Nic, int] = {}
    into: dict[Nic, int] = {}
    for (a, b), size in messages.items():
        if a[0] != b[0]:
            out[a] = out.get(a, 0) + size
            into[b] = into.get(b, 0) + size
    return max((*out.values(), *into.values()), default=0)


def linear(job: Job) -> list[Nic]:
    """Return ranks on NICs in order: what a scheduler does that knows servers only."""
    return job.nics()


def strided(job: Job) -> list[Nic]:
    """Return each next rank on the next server: what spreads load where servers have one NIC."""
    total = job.groups * job.servers
    return [(rank % total, rank // total) for rank in range(job.ranks)]


def best(job: Job) -> list[Nic]:
    """Return data ranks along the rails, group by group, turning round inside a server.

    A tensor group takes `tp` neighbouring rails of a server. Along the servers of a group on the
    first such rails, back on the next ones, so that each change of rails stays in a server.
    """
    found: list[Nic] = []
    for group in range(job.groups):
        mine = range(group * job.servers, (group + 1) * job.servers)
        for slot in range(job.rails // job.tp):
            for server in mine if slot % 2 == 0 else reversed(mine):
                found += [(server, slot * job.tp + tensor) for tensor in range(job.tp)]
    return found


def wrong_place(job: Job, places: object) -> str:
    """Say what is wrong with an answer as such: not every rank has a NIC of its own."""
    if not isinstance(places, list | tuple) or len(places) != job.ranks:
        many = len(places) if isinstance(places, list | tuple) else 0
        return f"{many} places for {job.ranks} ranks"
    known, taken = set(job.nics()), dict[Nic, int]()
    for rank, nic in enumerate(places):
        if not is_nic(nic) or nic not in known:
            return f"rank {rank}: {nic!r} is no (server, rail)"
        if nic in taken:
            return f"ranks {taken[nic]} and {rank} are both at {nic}"
        taken[nic] = rank
    return ""


def is_nic(value: object) -> bool:
    """Say whether an answer has the form (server, rail)."""
    return isinstance(value, tuple) and [type(part) for part in value] == [int, int]


def _ring(messages: Messages, members: Sequence[Nic], size: int) -> None:
    for a, b in _pairs(members):
        _add(messages, a, b, _hop(len(members), size))


def _hop(count: int, size: int) -> int:
    """Return what a ring AllReduce sends from a member to the next: 2 (n - 1) / n of the buffer."""
    return 2 * (count - 1) * size // count


def _pairs(members: Sequence[Nic]) -> Iterator[tuple[Nic, Nic]]:
    if len(members) > 1:
        yield from zip(members, [*members[1:], members[0]], strict=True)


def _add(messages: Messages, a: Nic, b: Nic, size: int) -> None:
    messages[a, b] = messages.get((a, b), 0) + size
