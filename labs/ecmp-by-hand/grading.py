"""What there are marks for in ECMP by hand, and how a program is tried.

Each item starts a switch (for polarisation two, one behind the other), draws addresses, ports,
seeds and members, sends packets, and looks at which member each leaves by. What must come follows
from what was sent. Evenness is judged by chi-square against bounds that a fair hash exceeds once in
a million.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from labs.p4_switch import (
    ETHERTYPE_ARP,
    ICMP,
    MORE_FRAGMENTS,
    ROCE_PORT,
    TCP,
    UDP,
    Hop,
    IPv4,
    Output,
    VirtualSwitch,
    difference,
    routed,
)
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i

from .control_plane import Group, Router, rows

SIZES = {1: 4, 2: 3, 3: 2, 4: 8}
"""Members of each group, by the group's number."""
MAIN = 1
BOUND = {1: 23.9, 2: 27.6, 3: 30.7, 5: 35.9, 6: 38.3, 7: 40.5}
"""Chi-square that is exceeded with probability 1e-6, by degrees of freedom."""
FLOWS = 800
SOME = 300
FEW = 24

ONE = "every packet of a group takes one member: nothing to judge"
TORN = "packets of one flow take different members: nothing to judge"
FIRST = "TODO 1: hash the five fields into meta.hash, and make a member below meta.count of it"
STARTER = "the starter does this: what has changed?"


@dataclass(frozen=True)
class Flow:
    """What the packets of a flow have in common. `queue_pair`: of RoCEv2, else None."""

    src: int
    dst: int
    protocol: int
    src_port: int
    dst_port: int
    queue_pair: int | None = None


class Bed:
    """A router with the learner's program that has just started."""

    def __init__(self, pipeline: Pipeline, router: Router, random: Random) -> None:
        self.router, self.random = router, random
        self._switch = VirtualSwitch(pipeline, rows(router), random.randrange(1, 1 << 31))

    def program(self, router: Router) -> None:
        """Write the entries of another state of the router."""
        self.router = router
        self._switch.program(rows(router))

    def group(self, number: int = MAIN) -> Group:
        """Return one of the router's groups."""
        return next(each for each in self.router.groups if each.number == number)

    def flow(self, group: int = MAIN, *, roce: bool = False) -> Flow:
        """Draw a flow to a host behind a group."""
        random = self.random
        prefix, _ = self.group(group).prefixes[0]
        src, dst = 10 << 24 | random.getrandbits(24), prefix | random.randrange(1, 1 << 16)
        ports = random.sample(range(1024, 1 << 16), 2)
        if roce:
            return Flow(src, dst, UDP, ports[0], ROCE_PORT, random.getrandbits(24))
        return Flow(src, dst, random.choice((TCP, UDP)), *ports)

    def flows(self, count: int, group: int = MAIN) -> list[Flow]:
        """Draw several."""
        return [self.flow(group) for _ in range(count)]

    def frame(self, flow: Flow, *, ttl: int | None = None, fragment: int = 0) -> bytes:
        """Draw a packet of a flow: what is not the flow's differs from packet to packet."""
        random = self.random
        data = struct.pack(">HH", flow.src_port, flow.dst_port) + random.randbytes(4)
        if flow.queue_pair is not None:
            data += random.randbytes(5) + flow.queue_pair.to_bytes(3) + random.randbytes(4)
        data += random.randbytes(random.randrange(20, 80))
        ip = IPv4(
            flow.src, flow.dst, flow.protocol, random.randrange(2, 256) if ttl is None else ttl,
            random.randrange(256), random.getrandbits(16), fragment,
        )  # fmt: skip
        return ip.frame(self.router.mac, random.getrandbits(40), data)

    def send(self, frames: Sequence[bytes]) -> list[list[Output]]:
        """Send frames; return what left because of each."""
        return self._switch.send([(0, frame) for frame in frames])

    def members(self, frames: Sequence[bytes], group: int = MAIN) -> list[int]:
        """Send frames; return the member that each took, -1 for whatever else became of it."""
        ports = [hop.port for hop in self.group(group).members]
        return [
            ports.index(left[0].port) if len(left) == 1 and left[0].port in ports else -1
            for left in self.send(frames)
        ]

    def choices(self, flows: Sequence[Flow], group: int = MAIN) -> list[int]:
        """Send a packet of each flow."""
        return self.members([self.frame(flow) for flow in flows], group)

    def close(self) -> None:
        """Free the switch."""
        self._switch.close()


def router_of(random: Random, seed: int) -> Router:
    """Draw a router with two hosts and the groups of SIZES."""
    count = 2 + sum(SIZES.values())
    ports = random.sample(range(1, 200), count)
    macs = [0x0200 << 32 | each for each in random.sample(range(1, 1 << 32), count + 1)]
    hops = [Hop(port, mac) for port, mac in zip(ports, macs, strict=False)]
    nets = random.sample(range(256), len(SIZES) + 1)
    hosts = tuple((172 << 24 | nets[0] << 8 | n, hops.pop()) for n in (1, 2))
    groups = []
    for (number, size), net in zip(SIZES.items(), nets[1:], strict=True):
        members = tuple(hops.pop() for _ in range(size))
        groups.append(Group(number, members, ((192 << 24 | net << 16, 16),)))
    return Router(macs[-1], seed, hosts, tuple(groups))


@dataclass
class Bench:
    """The learner's program; every item starts switches of its own and draws its own values."""

    pipeline: Pipeline
    seed: int

    @contextmanager
    def bed(self, name: str, *, use_queue_pair: bool = True) -> Iterator[Bed]:
        """Start a router, drawn by the item's name."""
        random = Random(f"{self.seed} {name}")
        router = replace(router_of(random, random.getrandbits(32)), use_queue_pair=use_queue_pair)
        bed = Bed(self.pipeline, router, random)
        try:
            yield bed
        finally:
            bed.close()

    @cached_property
    def nothing(self) -> Finding | None:
        """Why ECMP can't be judged: one member takes everything, or flows are torn."""
        with self.bed("ECMP") as bed:
            flows = bed.flows(FEW)
            first, second = bed.choices(flows), bed.choices(flows)
        if len(set(first)) == 1:
            return Finding.nothing(ONE, FIRST)
        moved = sum(a != b for a, b in zip(first, second, strict=True))
        return Finding.nothing(TORN, FIRST) if moved > FEW // 4 else None


def bench(submission: Submission) -> Bench:
    """Make the program ready. Raises PipelineError if the switch does not take it."""
    info = text_format.Parse(submission.p4info_text, p4i.P4Info())
    return Bench(prepare(info, submission.json_text.encode()), submission.seed)


# ---------------------------------------------------------------- claims about choices


def counted(choices: Sequence[int]) -> str:
    """Say how many packets took which member."""
    names = Counter("lost or elsewhere" if n < 0 else f"member {n}" for n in choices)
    return ", ".join(f"{many} x {name}" for name, many in sorted(names.items())) or "none"


def even(what: str, choices: Sequence[int], members: Sequence[int]) -> Detail:
    """Claim that these members, and no others, were chosen alike."""
    mean = len(choices) / len(members)
    square = sum((choices.count(each) - mean) ** 2 / mean for each in members)
    right = square <= BOUND[len(members) - 1] and set(choices) <= set(members)
    names = ", ".join(map(str, members))
    expected = f"about {mean:.0f} by each of members {names}"
    return Detail(what, expected, counted(choices), right)


def same(what: str, before: Sequence[int], after: Sequence[int]) -> Detail:
    """Claim that each flow keeps its member."""
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    lost = sum(each < 0 for each in (*before, *after))
    came = f"{moved or 'none'} of {len(before)} changed" + (
        f", {lost} packets lost" if lost else ""
    )
    return Detail(what, "no flow changes its member", came, not moved and not lost)


def differ(what: str, before: Sequence[int], after: Sequence[int]) -> Detail:
    """Claim that many flows that differ in one field differ in their member."""
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    lost = sum(each < 0 for each in (*before, *after))
    came = f"{moved or 'none'} of {len(before)} take another member"
    right = moved >= len(before) // 3 and not lost
    return Detail(what, f"about {3 * len(before) // 4} take another member", came, right)


Judge = Callable[[Bench], Sequence[Detail]]


def judged(hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item of ECMP: all its claims hold, or none of its marks."""

    def finding(bench: Bench) -> Finding:
        return bench.nothing or found(judge(bench), hint)

    return finding


def found(details: Sequence[Detail], hint: str) -> Finding:
    """Return a finding whose reason is the first claim that failed."""
    wrong = next((each for each in details if not each.right), None)
    if wrong is None:
        return Finding(1.0, details=tuple(details))
    reason = f"{wrong.what}: {wrong.came}; right would be: {wrong.expected}"
    return Finding.nothing(reason, hint, details)


# ---------------------------------------------------------------- what the starter does


def routes(bench: Bench) -> Finding:
    """To hosts here, and to groups: MAC addresses, TTL, checksum."""
    details = []
    with bench.bed("routes") as bed:
        here = [
            (bed.frame(replace(bed.flow(roce=roce), dst=address)), (hop,))
            for address, hop in bed.router.hosts
            for roce in (False, True)
        ]
        there = [
            (bed.frame(bed.flow(group.number, roce=roce)), group.members)
            for group in bed.router.groups
            for roce in (False, True)
        ]
        for what, sent in (("packets to hosts here", here), ("packets to groups", there)):
            came = bed.send([frame for frame, _ in sent])
            wrong = [
                _wrong(bed.router, frame, left, hops)
                for (frame, hops), left in zip(sent, came, strict=True)
            ]
            bad = next((each for each in wrong if each), "")
            right = "each leaves once, with the next hop's MAC address, TTL - 1 and its checksum"
            details.append(Detail(what, right, bad or right, not bad))
    return found(details, STARTER)


def untouched(bench: Bench) -> Finding:
    """ARP, a TTL of 1, unknown destinations: dropped."""
    with bench.bed("untouched") as bed:
        arp = bed.frame(bed.flow())
        arp = arp[:12] + ETHERTYPE_ARP.to_bytes(2) + arp[14:]
        sent = {
            "an ARP request": arp,
            "a packet with TTL 1": bed.frame(bed.flow(), ttl=1),
            "a packet to nowhere": bed.frame(replace(bed.flow(), dst=203 << 24)),
        }
        details = [
            Detail.of(what, "dropped", "dropped" if not left else f"sent by port {left[0].port}")
            for what, left in zip(sent, bed.send(list(sent.values())), strict=True)
        ]
    return found(details, STARTER)


def _wrong(router: Router, frame: bytes, left: Sequence[Output], hops: Sequence[Hop]) -> str:
    if len(left) != 1:
        return f"one leaves {len(left)} times" if left else "one is lost"
    hop = next((hop for hop in hops if hop.port == left[0].port), None)
    if hop is None:
        return f"one leaves by port {left[0].port}"
    return difference(routed(frame, router.mac, hop), left[0].frame)


# ---------------------------------------------------------------- TODO 1: flows


def kept(bench: Bench) -> Sequence[Detail]:
    """Packets of a flow differ in everything else."""
    with bench.bed("kept") as bed:
        flows = bed.flows(FEW)
        first = bed.choices(flows)
        later = [bed.choices(flows) for _ in range(4)]
    return [same(f"{FEW} flows, packet {n}", first, each) for n, each in enumerate(later, 2)]


def spread(bench: Bench) -> Sequence[Detail]:
    """Many flows over four members."""
    with bench.bed("spread") as bed:
        choices = bed.choices(bed.flows(FLOWS))
    return [even(f"{FLOWS} flows over 4 members", choices, range(4))]


def sizes(bench: Bench) -> Sequence[Detail]:
    """Check groups of other sizes, one of them no power of two."""
    with bench.bed("sizes") as bed:
        return [
            even(f"{SOME} flows over {size} members", bed.choices(bed.flows(SOME, group), group),
                 range(size))
            for group, size in SIZES.items() if group != MAIN
        ]  # fmt: skip


def fields(bench: Bench) -> Sequence[Detail]:
    """Each of the five fields, in its lowest bit alone and in any value."""
    with bench.bed("fields") as bed:
        flows = bed.flows(60)
        before = bed.choices(flows)
        draw = bed.random.randrange
        changes: list[tuple[str, Callable[[Flow], Flow]]] = [
            ("source address", lambda f: replace(f, src=10 << 24 | bed.random.getrandbits(24))),
            ("destination address", lambda f: replace(f, dst=f.dst ^ draw(1, 1 << 16))),
            ("protocol", lambda f: replace(f, protocol=TCP + UDP - f.protocol)),
            ("source port", lambda f: replace(f, src_port=draw(1024, 1 << 16))),
            ("destination port", lambda f: replace(f, dst_port=draw(5000, 1 << 16))),
        ]  # fmt: skip
        return [
            differ(f"60 flows with another {name}", before, bed.choices(list(map(change, flows))))
            for name, change in changes
        ]


def whole(bench: Bench) -> Sequence[Detail]:
    """Packets without ports: bytes where ports would be are data."""
    details = []
    with bench.bed("whole") as bed:
        for what, protocol, bits in (
            ("ICMP", ICMP, (0,)),
            ("fragments", UDP, (MORE_FRAGMENTS, 185)),
        ):
            flows = [replace(flow, protocol=protocol) for flow in bed.flows(FEW)]

            def choices(bits: tuple[int, ...] = bits, flows: list[Flow] = flows) -> list[int]:
                return bed.members([
                    bed.frame(replace(flow, src_port=bed.random.getrandbits(16)),
                              fragment=bed.random.choice(bits))
                    for flow in flows
                ])  # fmt: skip

            details.append(same(f"{what} of {FEW} pairs of hosts, twice", choices(), choices()))
    return details


# ---------------------------------------------------------------- TODO 2: queue pairs


def pairs(bench: Bench) -> Sequence[Detail]:
    """Queue pairs between two hosts with one UDP port."""
    with bench.bed("pairs") as bed:
        flow = bed.flow(roce=True)
        flows = [replace(flow, queue_pair=n) for n in bed.random.sample(range(1 << 24), FLOWS)]
        return [
            even(f"{FLOWS} queue pairs of two hosts, one UDP port", bed.choices(flows), range(4))
        ]


def pairs_kept(bench: Bench) -> Sequence[Detail]:
    """Check that a queue pair's packets differ in opcode, flags and sequence number."""
    with bench.bed("pairs kept") as bed:
        flows = [bed.flow(roce=True) for _ in range(FEW)]
        first = bed.choices(flows)
        return [
            same(f"{FEW} queue pairs, packet {n}", first, bed.choices(flows)) for n in (2, 3, 4)
        ]


def pairs_off(bench: Bench) -> Sequence[Detail]:
    """Check that the control plane says that queue pairs do not count."""
    with bench.bed("pairs off", use_queue_pair=False) as bed:
        flows = [bed.flow(roce=True) for _ in range(FEW)]
        others = [replace(flow, queue_pair=bed.random.getrandbits(24)) for flow in flows]
        what = f"use_queue_pair 0, {FEW} flows with other queue pairs"
        return [same(what, bed.choices(flows), bed.choices(others))]


# ---------------------------------------------------------------- TODO 3: two tiers


def second(bench: Bench, size: int) -> Sequence[Detail]:
    """Judge what the second switch makes of the flows that one member of the first one got."""
    group = next(number for number, many in SIZES.items() if many == size)
    details = []
    with bench.bed(f"tier 1 of {size}") as one, bench.bed(f"tier 2 of {size}") as two:
        # Far enough apart in each part that a program might use as a shift.
        seeds = (
            one.router.seed,
            (one.router.seed ^ one.random.getrandbits(32) & ~31) + 13 & 0xFFFFFFFF,
        )
        one.program(replace(one.router, seed=seeds[0]))
        two.program(replace(two.router, seed=seeds[1], groups=_at(one.router, two.router)))
        flows = one.flows(SOME * size, group)
        first = one.choices(flows, group)
        for member in range(size):
            together = [flow for flow, took in zip(flows, first, strict=True) if took == member]
            if len(together) < SOME // 2:
                what = f"flows by member {member} of {size} at the first switch"
                details.append(Detail(what, f"about {SOME}", str(len(together)), False))
                continue
            what = f"{len(together)} flows that took member {member} of {size} at the first switch"
            took = two.choices(together, group)
            details.append(even(f"{what}, at the second", took, range(size)))
    return details


def _at(one: Router, two: Router) -> tuple[Group, ...]:
    """Return the second router's groups for the first one's prefixes."""
    return tuple(
        replace(mine, prefixes=theirs.prefixes)
        for mine, theirs in zip(two.groups, one.groups, strict=True)
    )


def reseeded(bench: Bench) -> Sequence[Detail]:
    """One seed: the same choice; another one: another choice."""
    with bench.bed("reseeded") as bed:
        flows = bed.flows(60)
        before = bed.choices(flows)
        again = bed.choices(flows)
        seed = (bed.router.seed ^ bed.random.getrandbits(32) & ~31) + 13 & 0xFFFFFFFF
        bed.program(replace(bed.router, seed=seed))
        after = bed.choices(flows)
    return [
        same("60 flows, the seed kept", before, again),
        differ("60 flows, another seed", before, after),
    ]


# ---------------------------------------------------------------- TODO 4: members that are down


def _fallen(
    bench: Bench, name: str, count: int
) -> Iterator[tuple[Bed, list[int], list[int], set[int]]]:
    """Send flows before and after members of the group of 8 went down."""
    with bench.bed(name) as bed:
        group = next(number for number, many in SIZES.items() if many == 8)
        flows = bed.flows(960, group)
        before = bed.choices(flows, group)
        down = set(bed.random.sample(range(8), count))
        bed.program(bed.router.without(group, *down))
        yield bed, before, bed.choices(flows, group), down


def skipped(bench: Bench, count: int) -> Sequence[Detail]:
    """No packet takes a member that is down, and none is lost."""
    ((_, _, after, down),) = _fallen(bench, f"skipped {count}", count)
    lost = sum(each < 0 or each in down for each in after)
    names = ", ".join(map(str, sorted(down)))
    what = f"960 flows over 8 members, {names} down"
    return [Detail(what, "none lost", f"{lost or 'none'} lost", not lost)]


def stay(bench: Bench) -> Sequence[Detail]:
    """Flows on other members do not move."""
    ((_, before, after, down),) = _fallen(bench, "stay", 1)
    kept = [(a, b) for a, b in zip(before, after, strict=True) if a not in down]
    what = f"{len(kept)} flows on the other members when one of 8 goes down"
    return [same(what, [a for a, _ in kept], [b for _, b in kept])]


def heirs(bench: Bench) -> Sequence[Detail]:
    """Check that the flows of a member that went down spread over those that are up."""
    details = []
    for count in (1, 2):
        ((_, before, after, down),) = _fallen(bench, f"heirs {count}", count)
        moved = [b for a, b in zip(before, after, strict=True) if a in down]
        live = [member for member in range(8) if member not in down]
        names = " and ".join(map(str, sorted(down)))
        details.append(even(f"{len(moved)} flows of member {names}, which is down", moved, live))
    return details


# ---------------------------------------------------------------- the items


def items() -> Sequence[Item]:
    """Return what there are marks for, in the order of the README."""
    seed = "TODO 3: a CRC is linear: a seed that is hashed along flips the same bits for all flows"
    tiers = "the second switch spreads what the first one sends"
    rows: list[tuple[str, str, int, str, str, Judge]] = [
        ("kept", "TODO 1: packets of a flow", 1, "one member for all of them",
         "TODO 1: only the five fields; not length, identification, TOS or TTL", kept),
        ("spread", "TODO 1: four members", 1, "all alike", "TODO 1: 0 to meta.count - 1", spread),
        ("sizes", "TODO 1: 2, 3 and 8 members", 2, "all alike",
         "TODO 1: the group's size is meta.count, and may be no power of two", sizes),
        ("fields", "TODO 1: each of the five fields", 2, "it changes the member",
         "TODO 1: both addresses, the protocol, both ports", fields),
        ("whole", "TODO 1: ICMP and fragments", 1, "a fixed member for two hosts",
         "TODO 1: meta.src_port and meta.dst_port are 0 in packets without ports", whole),
        ("pairs", "TODO 2: queue pairs with one UDP port", 1, "all members alike",
         "TODO 2: hdr.bth.queue_pair belongs into the hash where hdr.bth is valid", pairs),
        ("pairs-kept", "TODO 2: packets of a queue pair", 1, "one member for all of them",
         "TODO 2: the queue pair alone: opcode and sequence number differ", pairs_kept),
        ("pairs-off", "TODO 2: use_queue_pair 0", 1, "queue pairs do not count",
         "TODO 2: only where meta.use_queue_pair is 1", pairs_off),
        ("seeds", "TODO 3: another seed", 1, "another choice, but for ever the same",
         "TODO 3: meta.seed has to count", reseeded),
        ("tiers-4", "TODO 3: two switches, 4 members each", 2, tiers, seed,
         partial(second, size=4)),
        ("tiers-3", "TODO 3: two switches, 3 members each", 1, tiers, seed,
         partial(second, size=3)),
        ("down", "TODO 4: a member down", 1, "nothing takes it",
         "TODO 4: look at the member's bit of meta.live", partial(skipped, count=1)),
        ("down-many", "TODO 4: five of eight down", 1, "nothing takes them",
         "TODO 4: live_member has only those that are up", partial(skipped, count=5)),
        ("stay", "TODO 4: flows on other members", 1, "they keep theirs",
         "TODO 4: only flows whose member is down choose again", stay),
        ("heirs", "TODO 4: flows of a member that is down", 1, "spread over the others",
         "TODO 4: the bits that chose the member are alike in all of these: use others", heirs),
    ]  # fmt: skip
    known = [
        Item("routes", "MAC addresses, TTL, checksum", 1, "as the starter has them", routes),
        Item("untouched", "ARP, TTL 1, unknown destinations", 1, "dropped", untouched),
    ]
    return known + [
        Item(name, title, marks, expected, judged(hint, judge))
        for name, title, marks, expected, hint, judge in rows
    ]
