"""Where nodes, ports and links of a topology stand in a drawing: tiers from top to bottom.

    cores and borders, spines, leaves, hosts; what belongs together (pods, planes) side by side

Pure geometry, in pixels of a drawing that is scaled as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from topologies import Endpoint, Link, Role, Topology
from topologies.planes import planes_of

MARGIN = 28
LEAST_TIER_GAP = 140
MOST_TIER_GAP = 230  # or this share of a wide drawing:
GAP_OF_WIDTH = 0.11
HEIGHT_SHARE = 0.58  # of the width, which is about a screen's shape
SWITCH_HEIGHT = 40
HOST_HEIGHT = 26
SLOT_WIDTH = 9  # a port, drawn at the edge of its node; its queue fills it
SLOT_HEIGHT = 16
SLOT_PITCH = 15
MANY_PORTS = 160  # more are drawn narrower
NARROW = 0.6
GROUP_GAP = 36
LEAST_WIDTH = 720
LABEL_HEIGHT = 20  # of a band
ARC_RISE = 100  # how far links over nodes of the same tier are pulled up
MANY_HOSTS = 40  # more are drawn small, without names

_TIERS = {Role.CORE: 0, Role.BORDER: 0, Role.SPINE: 1, Role.LEAF: 2}
_HOST_TIER = 3


class Side(Enum):
    """Which edge of a node a port is at."""

    TOP = "top"
    BOTTOM = "bottom"
    LEFT = "left"
    RIGHT = "right"


Point = tuple[float, float]


@dataclass(frozen=True)
class Node:
    """A switch or host: its middle, its size and its tier (0 is the top one)."""

    name: str
    kind: str
    group: str
    tier: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Slot:
    """A port at its node's edge; links end at `tip`."""

    side: Side
    x: float
    y: float
    tip: Point


@dataclass(frozen=True)
class Curve:
    """A link as a cubic Bézier curve from its end `a` to its end `b`."""

    points: tuple[Point, Point, Point, Point]

    def halves(self) -> tuple[Curve, Curve]:
        """Return the half at `a` and the half at `b`, each from its end to the middle."""
        p0, p1, p2, p3 = self.points
        p01, p12, p23 = _between(p0, p1), _between(p1, p2), _between(p2, p3)
        left, right = _between(p01, p12), _between(p12, p23)
        middle = _between(left, right)
        return Curve((p0, p01, left, middle)), Curve((p3, p23, right, middle))

    def path(self) -> str:
        """Return it as SVG path data."""
        (x0, y0), *rest = self.points
        curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in rest)
        return f"M{x0:.1f},{y0:.1f} C{curve}"


@dataclass(frozen=True)
class Band:
    """The area of what belongs together: a pod, a plane, a data centre."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass
class Layout:
    """A whole drawing."""

    width: float
    height: float
    slot_width: float
    nodes: dict[str, Node] = field(default_factory=dict)
    slots: dict[Endpoint, Slot] = field(default_factory=dict)
    links: list[tuple[Link, Curve]] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)


@dataclass(frozen=True)
class _Box:
    """A node before it has a place."""

    name: str
    kind: str
    group: str
    tier: int
    width: float

    @property
    def room(self) -> float:
        """The width that it needs with the space around it."""
        return self.width + (14 if self.tier == _HOST_TIER else 34)


def layout(topology: Topology) -> Layout:
    """Return the drawing of a topology. Same topology, same drawing."""
    tiers = _tiers(topology)
    spans, width = _spans([box for tier in tiers for box in tier])
    gap = HEIGHT_SHARE * width / max(1, len(tiers) - 1)
    gap = min(max(gap, LEAST_TIER_GAP), max(MOST_TIER_GAP, GAP_OF_WIDTH * width))
    below = LABEL_HEIGHT if spans else 0
    drawing = Layout(
        width,
        2 * MARGIN + (len(tiers) - 1) * gap + SWITCH_HEIGHT + below,
        _slot_scale(topology) * SLOT_WIDTH,
    )
    for number, tier in enumerate(tiers):
        y = MARGIN + SWITCH_HEIGHT / 2 + number * gap
        for box, x in _places(tier, spans, width):
            height = SWITCH_HEIGHT if box.tier != _HOST_TIER else min(HOST_HEIGHT, box.width)
            drawing.nodes[box.name] = Node(
                box.name, box.kind, box.group, number, x, y, box.width, height
            )
    _add_slots(drawing, topology)
    if any(node.tier == 0 and _has_arcs(drawing, node) for node in drawing.nodes.values()):
        _lower(drawing, ARC_RISE * 0.75)
    drawing.links = [(link, _curve(drawing, link)) for link in topology.links]
    drawing.bands = _bands(drawing, spans)
    return drawing


def _slot_scale(topology: Topology) -> float:
    ports = sum(len(topology.ports_of(switch.name)) for switch in topology.switches)
    return NARROW if ports > MANY_PORTS else 1.0


def _ports_width(topology: Topology, name: str) -> float:
    """Return the width of a node's fuller edge: its ports are at the top and at the bottom."""
    tier = {switch.name: _TIERS[switch.role] for switch in topology.switches}
    own = tier.get(name, _HOST_TIER)
    ports = topology.ports_of(name)
    up = sum(tier.get(port.peer.node, _HOST_TIER) <= own for port in ports)
    return max(up, len(ports) - up) * SLOT_PITCH * _slot_scale(topology)


def _tiers(topology: Topology) -> list[list[_Box]]:
    planes = planes_of(topology).by_switch
    boxes = [
        _Box(
            switch.name,
            switch.role.value,
            switch.group or (f"plane {planes[switch.name].name}" if switch.name in planes else ""),
            _TIERS[switch.role],
            max(64.0, _ports_width(topology, switch.name) + 12),
        )
        for switch in topology.switches
    ]
    small = len(topology.hosts) > MANY_HOSTS
    leaves = {switch.name: number for number, switch in enumerate(topology.switches)}
    hosts = sorted(topology.hosts, key=lambda host: leaves[host.switch])
    boxes += [
        _Box(
            host.name,
            "host",
            host.group,
            _HOST_TIER,
            max(
                14.0 if small else 20.0 + 8 * len(host.name),
                _ports_width(topology, host.name) + 4,
            ),
        )
        for host in hosts
    ]
    used = sorted({box.tier for box in boxes})
    return [[box for box in boxes if box.tier == tier] for tier in used]


def _rooms(boxes: Iterable[_Box]) -> dict[int, float]:
    rooms: dict[int, float] = {}
    for box in boxes:
        rooms[box.tier] = rooms.get(box.tier, 0.0) + box.room
    return rooms


def _spans(boxes: Sequence[_Box]) -> tuple[dict[str, tuple[float, float]], float]:
    """Return from where to where each group goes, and the width of all."""
    groups = list(dict.fromkeys(box.group for box in boxes if box.group))
    widths = {
        group: max(_rooms(box for box in boxes if box.group == group).values()) for group in groups
    }
    inner = sum(widths.values()) + GROUP_GAP * max(0, len(groups) - 1)
    free = max(_rooms(box for box in boxes if not box.group).values(), default=0.0)
    wanted = max(inner, free, LEAST_WIDTH - 2 * MARGIN)
    stretch = (wanted - inner) / len(groups) if groups else 0.0
    spans, x = {}, float(MARGIN)
    for group in groups:
        spans[group] = (x, x + widths[group] + stretch)
        x += widths[group] + stretch + GROUP_GAP
    return spans, wanted + 2 * MARGIN


def _places(
    tier: Sequence[_Box], spans: Mapping[str, tuple[float, float]], width: float
) -> Iterable[tuple[_Box, float]]:
    """Spread each group's nodes over its span, and those of no group over everything."""
    everything = (float(MARGIN), width - MARGIN)
    for group in dict.fromkeys(box.group for box in tier):
        boxes = [box for box in tier if box.group == group]
        start, end = spans.get(group, everything)
        spare = (end - start - sum(box.room for box in boxes)) / len(boxes)
        x = start
        for box in boxes:
            yield box, x + (box.room + spare) / 2
            x += box.room + spare


def _add_slots(drawing: Layout, topology: Topology) -> None:
    pitch = SLOT_PITCH * _slot_scale(topology)
    for node in drawing.nodes.values():
        by_side: dict[Side, list[tuple[float, Endpoint]]] = {}
        for port in topology.ports_of(node.name):
            peer = drawing.nodes[port.peer.node]
            end = Endpoint(node.name, port.number)
            side = Side.TOP if _goes_over(drawing, node, peer) else _side(node, peer)
            along = peer.y if side in (Side.LEFT, Side.RIGHT) else peer.x
            by_side.setdefault(side, []).append((along, end))
        for side, ends in by_side.items():
            ends.sort()
            for index, (_along, end) in enumerate(ends):
                offset = (index - (len(ends) - 1) / 2) * pitch
                drawing.slots[end] = _slot(node, side, offset)


def _side(node: Node, peer: Node) -> Side:
    if peer.tier != node.tier:
        return Side.TOP if peer.tier < node.tier else Side.BOTTOM
    return Side.LEFT if peer.x < node.x else Side.RIGHT


def _slot(node: Node, side: Side, offset: float) -> Slot:
    out = 0 if node.kind == "host" else SLOT_HEIGHT  # hosts' queues are not known
    match side:
        case Side.TOP:
            edge = node.y - node.height / 2
            return Slot(side, node.x + offset, edge, (node.x + offset, edge - out))
        case Side.BOTTOM:
            edge = node.y + node.height / 2
            return Slot(side, node.x + offset, edge, (node.x + offset, edge + out))
        case Side.LEFT:
            edge = node.x - node.width / 2
            return Slot(side, edge, node.y + offset, (edge - out, node.y + offset))
        case Side.RIGHT:
            edge = node.x + node.width / 2
            return Slot(side, edge, node.y + offset, (edge + out, node.y + offset))


def _curve(drawing: Layout, link: Link) -> Curve:
    a, b = drawing.slots[link.a], drawing.slots[link.b]
    start, end = a.tip, b.tip
    one, other = drawing.nodes[link.a.node], drawing.nodes[link.b.node]
    if _goes_over(drawing, one, other):
        over = start[1] - ARC_RISE
        return Curve((start, (start[0], over), (end[0], over), end))
    pull = 0.28
    if one.tier == other.tier:
        bend = (end[0] - start[0]) * pull
        return Curve((start, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end))
    bend = (end[1] - start[1]) * pull
    return Curve((start, (start[0], start[1] + bend), (end[0], end[1] - bend), end))


def _goes_over(drawing: Layout, one: Node, other: Node) -> bool:
    """Say whether a link between two has to go over others that stand between them."""
    low, high = sorted((one.x, other.x))
    return one.tier == other.tier and any(
        node.tier == one.tier and low < node.x < high for node in drawing.nodes.values()
    )


def _has_arcs(drawing: Layout, node: Node) -> bool:
    return any(
        end.node == node.name and slot.side is Side.TOP for end, slot in drawing.slots.items()
    )


def _lower(drawing: Layout, by: float) -> None:
    """Make room at the top."""
    drawing.height += by
    drawing.nodes = {name: replace(node, y=node.y + by) for name, node in drawing.nodes.items()}
    drawing.slots = {
        end: replace(slot, y=slot.y + by, tip=(slot.tip[0], slot.tip[1] + by))
        for end, slot in drawing.slots.items()
    }


def _bands(drawing: Layout, spans: Mapping[str, tuple[float, float]]) -> list[Band]:
    bands = []
    for group, (start, end) in spans.items():
        members = [node for node in drawing.nodes.values() if node.group == group]
        top = min(node.y for node in members) - SWITCH_HEIGHT / 2 - SLOT_HEIGHT - 6
        bottom = max(node.y for node in members) + SWITCH_HEIGHT / 2 + LABEL_HEIGHT
        bands.append(Band(group, start - 12, top, end - start + 24, bottom - top))
    return bands


def _between(one: Point, other: Point) -> Point:
    return ((one[0] + other[0]) / 2, (one[1] + other[1]) / 2)
