"""The entries that a switch with the learner's program gets: hosts, groups, members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from labs.p4_switch import Hop, Prefix, Row, forward


@dataclass(frozen=True)
class Group:
    """Equally short paths to the hosts of some prefixes. `down`: members that can't be used."""

    number: int
    members: tuple[Hop, ...]
    prefixes: tuple[Prefix, ...]
    down: frozenset[int] = frozenset()

    @property
    def live(self) -> list[int]:
        """The members that are up."""
        return [member for member in range(len(self.members)) if member not in self.down]


@dataclass(frozen=True)
class Router:
    """A switch: its MAC address, its seed, the hosts that it reaches by one hop, its groups."""

    mac: int
    seed: int
    hosts: tuple[tuple[int, Hop], ...]
    groups: tuple[Group, ...] = ()
    use_queue_pair: bool = True

    def without(self, number: int, *members: int) -> Router:
        """Return the same router while just these members of a group are down."""
        groups = tuple(
            replace(each, down=frozenset(members)) if each.number == number else each
            for each in self.groups
        )
        return replace(self, groups=groups)


def rows(router: Router) -> list[Row]:
    """Return all entries of a switch."""
    return list(_rows(router))


def _rows(router: Router) -> Iterator[Row]:
    for address, hop in router.hosts:
        yield Row("route", (("dst", (address, 32)),), "forward", forward(router.mac, hop))
    for group in router.groups:
        key = ("group", group.number)
        for prefix in group.prefixes:
            yield Row("route", (("dst", prefix),), "to_group", (key,))
        live = group.live
        params = (
            ("count", len(group.members)),
            ("live", sum(1 << member for member in live)),
            ("live_count", len(live)),
            ("seed", router.seed),
            ("use_queue_pair", int(router.use_queue_pair)),
        )
        yield Row("members", (key,), "set_members", params)
        for number, member in enumerate(live):
            yield Row("live_member", (key, ("number", number)), "take", (("member", member),))
            to = forward(router.mac, group.members[member])
            yield Row("next_hop", (key, ("member", member)), "forward", to)
