"""What dies in a run, drawn by its seed, and when who notices: events of a run file.

A fault is silent: frames vanish on the links, and both ends go on as if nothing were. That is what
DPFR has to find by itself. For who learns of it in another way the links go down as well, then:

    nothing, dpfr    never
    watch ports      at once, where the carrier is lost: then the port is left out of ECMP groups
    controller       at once, where the carrier is lost; it has written new routes after its delay
    bfd              after three intervals without an answer, carrier or not; then the controller
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from topologies.model import Endpoint, Link, Role, Topology

NOTHING, CONTROLLER, BFD, WATCH = "nothing", "controller", "bfd", "watch-ports"
LOCAL, DPFR = "dpfr-local", "dpfr"
NONE, LEAF_LINK, CORE_LINK, ONE_WAY = "none", "leaf-link", "core-link", "one-way"
SPINE, CORE = "spine", "core"
FAULTS = (LEAF_LINK, CORE_LINK, ONE_WAY, SPINE, CORE)
REPAIRS = (NOTHING, CONTROLLER, BFD, WATCH, LOCAL, DPFR)

T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """Links on which everything vanishes; `towards` a switch: only what goes there."""

    says: str
    links: tuple[Link, ...]
    towards: str = ""

    @property
    def loses_carrier(self) -> bool:
        """Whether both ends can see it: a cut fibre does, one blind receiver does not."""
        return bool(self.links) and not self.towards


def fault(topology: Topology, kind: str, seed: int, among: Collection[Link] | None = None) -> Fault:
    """Draw a fault of a kind, of a link only one of `among`; None: any link.

    Raises ValueError where there is nothing of the kind.
    """
    if kind == NONE:
        return Fault("nothing dies", ())
    random = Random(f"{kind} {seed}")
    if kind in (LEAF_LINK, CORE_LINK, ONE_WAY):
        tiers = {Role.LEAF, Role.SPINE} if kind == LEAF_LINK else {Role.SPINE, Role.CORE}
        found = [
            link
            for link in topology.links
            if _roles(topology, link) == tiers and (among is None or link in among)
        ]
        link = random.choice(_some(found, kind, topology))
        says = link_name(link)
        if kind != ONE_WAY:
            return Fault(says, (link,))
        towards = random.choice((link.a.node, link.b.node))
        return Fault(f"{says} towards {towards}", (link,), towards)
    role = {SPINE: Role.SPINE, CORE: Role.CORE}[kind]
    switches = [switch.name for switch in topology.switches if switch.role is role]
    name = random.choice(_some(switches, kind, topology))
    return Fault(name, tuple(port.link for port in topology.ports_of(name)))


def _some(found: list[T], kind: str, topology: Topology) -> list[T]:
    if not found:
        raise ValueError(f"{topology.name} has nothing that could die as {kind!r} says")
    return found


def _roles(topology: Topology, link: Link) -> set[Role | None]:
    ends = [end.node for end in (link.a, link.b)]
    if not all(topology.is_switch(node) for node in ends):
        return set()
    return {topology.switch(node).role for node in ends}


def link_name(link: Link) -> str:
    """Return a link as events name it."""
    return f"{_end(link.a)}-{_end(link.b)}"


def _end(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"


def events(found: Fault, repair: str, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a run: the fault, and when who is left to notice it does."""
    cut_us = settings["cut_us"]
    after_us = noticed_us(found, repair, settings)
    for link in found.links:
        name = link_name(link)
        if after_us == 0:
            yield {"at": f"{cut_us}us", "link": name, "do": "down"}
            continue
        loss: dict[str, Any] = {"at": f"{cut_us}us", "link": name, "loss": "100%"}
        yield {**loss, "towards": found.towards} if found.towards else loss
        if after_us is not None:
            yield {"at": f"{cut_us + after_us}us", "link": name, "do": "down"}


def noticed_us(found: Fault, repair: str, settings: Mapping[str, Any]) -> int | None:
    """Return how long after the fault the links go down; None: nobody notices."""
    after: Mapping[str, Callable[[], int | None]] = {
        WATCH: lambda: 0 if found.loses_carrier else None,
        CONTROLLER: lambda: settings["controller_us"] if found.loses_carrier else None,
        BFD: lambda: settings["bfd_us"],
    }
    return after.get(repair, lambda: None)()
