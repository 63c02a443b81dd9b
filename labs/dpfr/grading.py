"""What there are marks for in local repair, and how a program is tried: flows and dead ways.

     +-- way 0 --
---> |   ...          the ways to each of two leaves are drawn, and so is what is dead
     +-- way 7 --
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from softswitch import Switch
from softswitch.p4runtime.pipeline import prepare
from softswitch.p4runtime.protos import p4i

WAYS, BUCKETS = 8, 64
FLOWS = 400
MANY = 4000  # flows, where shares are judged
STEP_NS = 1_000_000
OFF = 0.4
"""A way's share of the flows that move may be off by so much of what is fair: six sigma of chance
at 4,000 flows. A neighbour that gets what the dead way had, too, is off by 1 or more."""

MACS = bytes.fromhex("020000000100020000000001")  # the router's, the host's before it
TTL = 64
TTL_AT = 22  # in a frame
SPREAD = "TODO 4: count the usable ways; the draw, times their number, by 65536 is which one it is"


@dataclass(frozen=True)
class Leaf:
    """A leaf behind the ways: its number, its network's address, and which ways lead there."""

    number: int
    network: int
    ways: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """What a hash is formed of."""

    source: int
    target: int
    source_port: int
    target_port: int

    def frame(self) -> bytes:
        """Return one of its packets."""
        said = b"sixteen bytes..."
        udp = struct.pack("!HHHH", self.source_port, self.target_port, 8 + len(said), 0) + said
        words = [0x4500, 20 + len(udp), 0, 0x4000, TTL << 8 | 17, 0]
        words += [self.source >> 16, self.source & 0xFFFF, self.target >> 16, self.target & 0xFFFF]
        total = sum(words)
        words[5] = ~(total + (total >> 16)) & 0xFFFF
        return MACS + b"\x08\x00" + struct.pack("!10H", *words) + udp


@dataclass
class Bench:
    """The learner's program on a switch, with two leaves behind it."""

    switch: Switch
    random: Random
    leaves: tuple[Leaf, Leaf]
    ports: tuple[int, ...]
    way_of: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Set the number of each way by its port."""
        self.way_of = {port: way for way, port in enumerate(self.ports)}

    def dead(
        self, ways: Iterable[int] = (), masked: Mapping[int, Iterable[int]] | None = None
    ) -> None:
        """Say which ways are dead, and by leaf which can't reach it; all others are good."""
        self.switch.register_write("down", 0, _bits(ways))
        for leaf in self.leaves:
            unable = (masked or {}).get(leaf.number, ())
            self.switch.register_write("masks", leaf.number, _bits(unable))

    def flows(self, leaf: Leaf, count: int = FLOWS) -> list[Flow]:
        """Draw flows to hosts behind a leaf."""
        draw = self.random.randrange
        return [
            Flow(
                draw(1 << 24, 223 << 24),
                leaf.network + draw(1, 255),
                draw(1024, 1 << 16),
                draw(1, 1 << 16),
            )
            for _ in range(count)
        ]

    def send(self, flows: Sequence[Flow]) -> list[int | None]:
        """Send a packet of each; return the ways by which they left, None where none did."""
        found: list[int | None] = []
        for flow in flows:
            self.switch.inject(100, flow.frame())
            came = self.switch.run_until(self.switch.now_ns + STEP_NS)
            found.append(self.way_of.get(came[0].port) if len(came) == 1 else None)
        return found

    def without_way(self, leaf: Leaf) -> int:
        """Return how many packets to a leaf were counted as without a way."""
        return self.switch.counter_read("no_way", leaf.number)[0]


def bench(submission: Submission) -> Bench:
    """Load the program, and write what the control plane knows. Raises UnknownName, WriteError."""
    random = Random(submission.seed)
    info = text_format.Parse(submission.p4info_text, p4i.P4Info())
    switch = Switch()
    switch.load(prepare(info, submission.json_text.encode()))
    ports = tuple(random.sample(range(1, 90), WAYS))
    numbers = random.sample(range(1, 256), 2)
    first, second = (
        Leaf(number, 10 << 24 | number << 8, tuple(sorted(random.sample(range(WAYS), count))))
        for number, count in zip(numbers, (WAYS - 1, WAYS - 2), strict=True)
    )
    for way, port in enumerate(ports):
        macs = {"src_mac": 0x020000000100, "dst_mac": 0x020000000200 + way}
        switch.table_add("way_port", {"way": way}, "forward", {"port": port, **macs})
    for leaf in (first, second):
        known = {"number": leaf.number, "candidates": _bits(leaf.ways)}
        switch.table_add("route", {"dst": (leaf.network, 24)}, "set_leaf", known)
        for bucket in range(BUCKETS):
            own = {"way": leaf.ways[bucket % len(leaf.ways)]}
            key = {"leaf": leaf.number, "bucket": bucket}
            switch.table_add("own_way", key, "set_way", own)
    return Bench(switch, random, (first, second), ports)


def _bits(ways: Iterable[int]) -> int:
    return sum(1 << way for way in set(ways))


# ---------------------------------------------------------------- what there are marks for


def routes(bench: Bench) -> Finding:
    """Nothing is dead: packets leave by all ways that lead to their leaf, and are whole."""
    bench.dead()
    details = []
    for leaf in bench.leaves:
        came = bench.send(bench.flows(leaf))
        used = sorted({way for way in came if way is not None})
        details.append(Detail.of(f"ways to leaf {leaf.number}", list(leaf.ways), used))
        details.append(Detail.of(f"packets lost to leaf {leaf.number}", 0, came.count(None)))
    flow = bench.flows(bench.leaves[0], 1)[0]
    bench.switch.inject(100, flow.frame())
    out = bench.switch.run_until(bench.switch.now_ns + STEP_NS)
    ttl = [each.packet[TTL_AT] for each in out]
    details.append(Detail.of("TTL of what leaves", [TTL - 1], ttl))
    return Finding.of(details, "the starter does this: what has changed?")


def dead_ways(bench: Bench) -> Finding:
    """Ways are dead: nothing leaves by them, and everything by another that leads there."""
    details = []
    leaf = bench.leaves[0]
    for count in (1, 2, len(leaf.ways) - 1):
        dead = bench.random.sample(leaf.ways, count)
        bench.dead(dead)
        details.append(_arrive(bench, leaf, dead, f"{count} dead"))
    return Finding.of(details, "TODO 1: candidates & ~down, read from the register")


def masked_ways(bench: Bench) -> Finding:
    """Ways can't reach one leaf: what goes there avoids them, and what goes elsewhere does not."""
    one, other = bench.leaves
    common = [way for way in one.ways if way in other.ways]
    masked = bench.random.sample(common, 2)
    bench.dead(masked=({one.number: masked}))
    first = _arrive(bench, one, masked, "two masked")
    came = {way for way in bench.send(bench.flows(other)) if way is not None}
    free = Detail.of("ways to the other leaf", list(other.ways), sorted(came))
    dead = bench.random.choice([way for way in one.ways if way not in masked])
    bench.dead([dead], {one.number: masked})
    second = _arrive(bench, one, [dead, *masked], "two masked and one dead")
    hint = "TODO 1: & ~mask, of the packet's own leaf"
    if not first.right and not second.right:
        return Finding.nothing("packets leave by masked ways, or are lost", hint, [first, second])
    return Finding.of([first, free, second], hint)


def _arrive(bench: Bench, leaf: Leaf, gone: Sequence[int], what: str) -> Detail:
    """Say whether all packets leave by ways that are left."""
    came = bench.send(bench.flows(leaf))
    right = sum(way in leaf.ways and way not in gone for way in came)
    said = f"{what}: of {FLOWS} packets, left by a way that is left"
    return Detail.of(said, FLOWS, right)


def stays(bench: Bench) -> Finding:
    """Other flows' ways are dead: a flow whose own is alive stays there, and so does each other."""
    leaf = bench.leaves[0]
    flows = bench.flows(leaf)
    bench.dead()
    before = bench.send(flows)
    dead = bench.random.sample(leaf.ways, 2)
    bench.dead(dead)
    during = bench.send(flows)
    again = bench.send(flows)
    bench.dead()
    after = bench.send(flows)
    hint = "TODO 3: if the flow's own way is usable, keep it; else take another one"
    if not any(a != b for a, b in zip(before, during, strict=True) if a in dead):
        return Finding.nothing("no flow leaves a dead way: nothing to judge", hint)
    moved = sum(a != b for a, b in zip(before, during, strict=True) if a not in dead)
    changed = sum(a != b for a, b in zip(during, again, strict=True))
    return Finding.of(
        [
            Detail.of("flows that moved though their own way was alive", 0, moved),
            Detail.of("flows of which two packets took two ways", 0, changed),
            Detail.of("flows that did not come back", 0, _differ(before, after)),
            Detail.of("packets lost", 0, during.count(None)),
        ],
        hint,
    )


def _differ(one: Sequence[int | None], other: Sequence[int | None]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def evenly(bench: Bench) -> Finding:
    """Check that the flows of dead ways are spread evenly over the remaining ways."""
    leaf = bench.leaves[0]
    details = []
    for count in (1, 3):
        start = bench.random.randrange(len(leaf.ways))  # neighbours: the worst case of a rotation
        dead = [leaf.ways[(start + n) % len(leaf.ways)] for n in range(count)]
        flows = bench.flows(leaf, MANY)
        bench.dead()
        own = bench.send(flows)
        bench.dead(dead)
        moving = [flow for flow, way in zip(flows, own, strict=True) if way in dead]
        came = Counter(bench.send(moving))
        left = [way for way in leaf.ways if way not in dead]
        fair = len(moving) / len(left)
        for way in left:
            share = came[way] / fair
            what = f"{count} dead: share of way {way} in what moved, of what is fair"
            said = f"{1 - OFF:g} to {1 + OFF:g}"
            details.append(Detail(what, said, f"{share:.2f}", 1 - OFF <= share <= 1 + OFF))
    return Finding.of(details, SPREAD)


def nothing_left(bench: Bench) -> Finding:
    """No way is left to one leaf: packets are dropped and counted, and others pass."""
    one, other = bench.leaves
    bench.dead(masked={one.number: one.ways})
    before = bench.without_way(one), bench.without_way(other)
    lost, passed = bench.send(bench.flows(one)), bench.send(bench.flows(other))
    counted = bench.without_way(one) - before[0], bench.without_way(other) - before[1]
    bench.dead(range(WAYS))
    all_dead = bench.send(bench.flows(other))
    hint = "TODO 2: if usable is 0, count it and leave it dropped, as it is from the start"
    if None not in lost:
        return Finding.nothing("packets leave though no way is usable", hint)
    return Finding.of(
        [
            Detail.of("packets that left though no way was usable", 0, FLOWS - lost.count(None)),
            Detail.of("of these counted in no_way", FLOWS, counted[0]),
            Detail.of("counted for the other leaf", 0, counted[1]),
            Detail.of("packets lost to the other leaf", 0, passed.count(None)),
            Detail.of("all dead: packets that left", 0, FLOWS - all_dead.count(None)),
        ],
        hint,
    )


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    return [
        Item("routes", "nothing is dead", 2, "all ways are used, nothing is lost", routes),
        Item("dead", "TODO 1: dead ways", 4, "nothing leaves by a dead way, nothing is lost",
             dead_ways),
        Item("masks", "TODO 1: ways that can't reach a leaf", 4, "avoided by what goes there alone",
             masked_ways),
        Item("nothing-left", "TODO 2: no way is left", 3, "dropped and counted by leaf",
             nothing_left),
        Item("stays", "TODO 3: flows that need not move", 3, "they stay, and come back", stays),
        Item("evenly", "TODO 4: each way its share", 4, "what moves is spread evenly", evenly),
    ]  # fmt: skip
