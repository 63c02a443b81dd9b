"""What there are marks for in ECN by hand, and how a program is tried.

Bursts of known size make queues of known depth: of n packets that arrive at one instant the first
leaves at once, and packet i after it leaves n - 1 - i behind. What has to be marked follows from
that. Probabilities are judged by counting, against bounds of five standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from labs.p4_switch import (
    ETHERTYPE_ARP,
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

from .control_plane import ONE, Marking, Router, rows

NOT_ECT, ECT_1, ECT_0, CE = range(4)
RATE_BPS = 10_000_000_000
IN_PORT = 0
BURST = 60
REPEATS = 100
SIGMAS = 5

NEVER = "no packet is ever marked, however long the queue: nothing to judge"
FIRST = "TODOs 1 and 3 make a first mark: depth > meta.kmax, and hdr.ipv4.ecn becomes CE"
STARTER = "the starter does this: what has changed?"


@dataclass(frozen=True)
class Sent:
    """A packet of a burst: what it was, what it left behind and met in the queue, what came."""

    frame: bytes
    deq: int
    enq: int
    came: Output | None

    @property
    def marked(self) -> bool:
        """Say whether it came with CE, and did not have it before."""
        return self.came is not None and self.came.frame[15] & 3 == CE != self.frame[15] & 3


class Bed:
    """A router with the learner's program that has just started: ports with slow links."""

    def __init__(self, pipeline: Pipeline, router: Router, random: Random) -> None:
        self.router, self.random = router, random
        self._switch = VirtualSwitch(pipeline, rows(router), random.randrange(1, 1 << 31))
        for hop in router.hosts.values():
            self._switch.switch.configure_port(hop.port, rate_bps=RATE_BPS, queue_packets=1 << 16)

    def mark(self, *marking: Marking) -> None:
        """Give the first ports these thresholds, and no others to any."""
        hops = self.router.hosts.values()
        ports = {hop.port: each for hop, each in zip(hops, marking, strict=False)}
        self.router = replace(self.router, marking=ports)
        self._switch.program(rows(self.router))

    def port(self, host: int = 0) -> int:
        """Return a host's port."""
        return list(self.router.hosts.values())[host].port

    def frame(self, *, host: int = 0, ecn: int = ECT_0, number: int = 0, ttl: int = 0) -> bytes:
        """Draw a packet to a host."""
        random = self.random
        ip = IPv4(
            src=11 << 24 | random.getrandbits(24), dst=list(self.router.hosts)[host], protocol=UDP,
            ttl=ttl or random.randrange(2, 256), tos=random.getrandbits(6) << 2 | ecn, id=number,
        )  # fmt: skip
        return ip.frame(self.router.mac, random.getrandbits(40), random.randbytes(80))

    def burst(
        self, count: int = BURST, *, host: int = 0, ecn: Sequence[int] = (ECT_0,)
    ) -> list[Sent]:
        """Send packets at one instant; their ECN fields repeat `ecn`, from a drawn place on."""
        first = self.random.randrange(len(ecn))
        frames = [
            self.frame(host=host, ecn=ecn[(first + n) % len(ecn)], number=n) for n in range(count)
        ]
        outputs = self._switch.burst([(IN_PORT, frame) for frame in frames])
        by_number = {each.frame[18:20]: each for each in outputs}
        return [
            Sent(frame, count - 1 - n if n else 0, max(0, n - 1), by_number.get(frame[18:20]))
            for n, frame in enumerate(frames)
        ]

    def one(self, frame: bytes) -> list[Output]:
        """Send one packet."""
        return self._switch.burst([(IN_PORT, frame)])

    def counted(self, host: int = 0) -> int:
        """Return what the program has counted for a host's port."""
        return self._switch.switch.counter_read("marked", self.port(host))[0]

    def close(self) -> None:
        """Free the switch."""
        self._switch.close()


@dataclass
class Bench:
    """The learner's program; every item starts a switch of its own and draws its own values."""

    pipeline: Pipeline
    seed: int

    @contextmanager
    def bed(self, name: str) -> Iterator[Bed]:
        """Start a router with three hosts, drawn by the item's name."""
        random = Random(f"{self.seed} {name}")
        ports = random.sample(range(1, 200), 3)
        hosts = {10 << 24 | n: Hop(port, random.getrandbits(40)) for n, port in
                 zip(random.sample(range(1, 1 << 24), 3), ports, strict=True)}  # fmt: skip
        bed = Bed(self.pipeline, Router(random.getrandbits(40), hosts), random)
        try:
            yield bed
        finally:
            bed.close()

    @cached_property
    def first(self) -> list[Sent]:
        """A burst whose first half has to be marked."""
        with self.bed("first") as bed:
            bed.mark(Marking(BURST // 2, BURST // 2))
            return bed.burst()

    @cached_property
    def at_arrival(self) -> bool:
        """Say whether the program looks at the queue that a packet met, not at what it left."""
        return sum(each.marked == (each.enq > BURST // 2) for each in self.first) > BURST - 4

    def depth(self, each: Sent) -> int:
        """Return the depth that the program looks at."""
        return each.enq if self.at_arrival else each.deq

    @property
    def nothing(self) -> Finding | None:
        """Why marking can't be judged."""
        if any(each.marked for each in self.first):
            return None
        return Finding.nothing(NEVER, FIRST)


def bench(submission: Submission) -> Bench:
    """Make the program ready. Raises PipelineError if the switch does not take it."""
    info = text_format.Parse(submission.p4info_text, p4i.P4Info())
    return Bench(prepare(info, submission.json_text.encode()), submission.seed)


Judge = Callable[[Bench], Sequence[Detail]]


def judged(hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item of marking: all its claims hold, or none of its marks."""

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


def every(what: str, sent: Sequence[Sent], *, marked: bool) -> Detail:
    """Claim that all of these are marked, or none."""
    count = sum(each.marked for each in sent)
    lost = sum(each.came is None for each in sent)
    came = f"{count} of {len(sent)} marked" + (f", {lost} lost" if lost else "")
    expected = "all marked" if marked else "none marked"
    return Detail(what, expected, came, count == (len(sent) if marked else 0) and not lost)


def share(what: str, sent: Sequence[Sent], chances: Sequence[float]) -> Detail:
    """Claim that about as many are marked as their probabilities say."""
    mean = sum(chances)
    wide = SIGMAS * sqrt(sum(p * (1 - p) for p in chances)) + 1
    count = sum(each.marked for each in sent)
    expected = f"{max(0, mean - wide):.0f} to {mean + wide:.0f} of {len(sent)} marked"
    return Detail(what, expected, f"{count}", abs(count - mean) <= wide)


# ---------------------------------------------------------------- what the starter does


def routes(bench: Bench) -> Finding:
    """Packets that meet an empty queue, with any DSCP and ECN."""
    wrong = ""
    with bench.bed("routes") as bed:
        bed.mark(Marking(20, 40, ONE // 100))
        hops = list(bed.router.hosts.values())
        for n in range(24):
            frame = bed.frame(host=n % 3, ecn=n % 4)
            wrong = wrong or _wrong(bed, frame, hops[n % 3], bed.one(frame))
    right = "each leaves once, with the next hop's MAC address, TTL - 1 and its checksum, unmarked"
    return found([Detail("24 packets, one by one", right, wrong or right, not wrong)], STARTER)


def untouched(bench: Bench) -> Finding:
    """ARP, a TTL of 1, unknown destinations: dropped."""
    with bench.bed("untouched") as bed:
        frame = bed.frame()
        sent = {
            "an ARP request": frame[:12] + ETHERTYPE_ARP.to_bytes(2) + frame[14:],
            "a packet with TTL 1": bed.frame(ttl=1),
            "a packet to nowhere": IPv4(1, 203 << 24, UDP).frame(1, 2, bytes(80)),
        }
        details = [
            Detail.of(what, "dropped", "sent" if bed.one(each) else "dropped")
            for what, each in sent.items()
        ]
    return found(details, STARTER)


def _wrong(bed: Bed, frame: bytes, hop: Hop, left: Sequence[Output], tos: int | None = None) -> str:
    if len(left) != 1:
        return f"one leaves {len(left)} times" if left else "one is lost"
    if left[0].port != hop.port:
        return f"one leaves by port {left[0].port} instead of {hop.port}"
    return difference(routed(frame, bed.router.mac, hop, tos), left[0].frame)


# ---------------------------------------------------------------- TODO 1: thresholds


def above(bench: Bench) -> Sequence[Detail]:
    """Deeper than kmax."""
    return _by_threshold(bench, "above", marked=True)


def below(bench: Bench) -> Sequence[Detail]:
    """At most kmin."""
    return _by_threshold(bench, "below", marked=False)


def _by_threshold(bench: Bench, name: str, *, marked: bool) -> Sequence[Detail]:
    details = []
    with bench.bed(name) as bed:
        for kmin, kmax in ((5, 20), (10, 30), (1, 45)):
            bed.mark(Marking(kmin, kmax, ONE // 200))
            sent = [
                each for each in bed.burst()
                if (bench.depth(each) > kmax if marked else bench.depth(each) <= kmin)
            ]  # fmt: skip
            limit = f"more than kmax, {kmax}," if marked else f"at most kmin, {kmin},"
            details.append(every(f"packets at a depth of {limit} in a burst of {BURST}", sent,
                                 marked=marked))  # fmt: skip
    return details


def border(bench: Bench) -> Sequence[Detail]:
    """Exactly kmax, and one more; kmin and kmax alike: a threshold."""
    details = []
    with bench.bed("border") as bed:
        for limit in bed.random.sample(range(3, BURST - 5), 4):
            bed.mark(Marking(limit, limit))
            burst = bed.burst()
            for depth, marked in ((limit, False), (limit + 1, True)):
                sent = [each for each in burst if bench.depth(each) == depth]
                what = f"kmin and kmax {limit}, a packet at depth {depth}"
                details.append(every(what, sent, marked=marked))
    return details


def leaving(bench: Bench) -> Sequence[Detail]:
    """Check that the depth is what waits when a packet leaves, not when it arrives."""
    with bench.bed("leaving") as bed:
        bed.mark(Marking(BURST // 2, BURST // 2))
        burst = bed.burst()
    early = [each for each in burst[1:] if each.deq > BURST // 2]
    late = [each for each in burst if each.deq < BURST // 2]
    what = f"of a burst of {BURST}, those that leave"
    return [
        every(f"{what} more than {BURST // 2} behind", early, marked=True),
        every(f"{what} fewer behind", late, marked=False),
    ]


def ports(bench: Bench) -> Sequence[Detail]:
    """Each port has its own thresholds, or none."""
    details = []
    with bench.bed("ports") as bed:
        bed.mark(Marking(10, 10), Marking(40, 40))
        for host, limit in ((0, 10), (1, 40), (2, BURST)):
            burst = bed.burst(host=host)
            deep = [each for each in burst if bench.depth(each) > limit]
            rest = [each for each in burst if bench.depth(each) < limit]
            if deep:
                details.append(every(f"a port's queue above its kmax, {limit}", deep, marked=True))
            what = f"below its kmin, {limit}," if deep else "of a port without an entry"
            details.append(every(f"packets {what}", rest, marked=False))
    return details


# ---------------------------------------------------------------- TODO 2: probabilities


def _slope(bench: Bench, name: str, marking: Marking) -> Sequence[Detail]:
    """Count marks in four bands between kmin and kmax."""
    sent: list[Sent] = []
    with bench.bed(name) as bed:
        bed.mark(marking)
        for _ in range(REPEATS):
            sent += bed.burst()
    wide = (marking.kmax - marking.kmin) // 4
    details = []
    for band in range(4):
        low = marking.kmin + band * wide + 1
        high = low + wide - 1
        inside = [each for each in sent if low <= bench.depth(each) <= min(high, marking.kmax - 1)]
        what = (
            f"kmin {marking.kmin}, kmax {marking.kmax}, step {marking.step}, depth {low} to {high}"
        )
        chances = [marking.probability(bench.depth(each)) for each in inside]
        details.append(share(what, inside, chances))
    return details


def slope(bench: Bench) -> Sequence[Detail]:
    """Check that the probability grows from kmin to kmax."""
    return _slope(bench, "slope", Marking.red(8, 48, 0.8))


def gentle(bench: Bench) -> Sequence[Detail]:
    """Another slope, as the control plane says."""
    return _slope(bench, "gentle", Marking.red(20, 52, 0.2))


def bounds(bench: Bench) -> Sequence[Detail]:
    """Check a step of 0 and one by which the probability is soon more than 1."""
    with bench.bed("bounds") as bed:
        bed.mark(Marking(5, 50, 0))
        flat = [each for each in bed.burst() if 5 < bench.depth(each) < 50]
        bed.mark(Marking(5, 50, ONE // 2))
        steep = [each for each in bed.burst() if 7 <= bench.depth(each) < 50]
    return [
        every("kmin 5, kmax 50, step 0, packets between them", flat, marked=False),
        every(f"kmin 5, kmax 50, step {ONE // 2} (a certain mark from depth 7 on)", steep,
              marked=True),
    ]  # fmt: skip


# ---------------------------------------------------------------- TODOs 3 and 4: which packets


def _mixed(bench: Bench, name: str) -> tuple[Bed, list[Sent]]:
    """Send a burst of all four ECN fields, of which two thirds are above the threshold."""
    with bench.bed(name) as bed:
        bed.mark(Marking(20, 20))
        burst = bed.burst(ecn=(NOT_ECT, ECT_1, ECT_0, CE))
        return bed, burst


def _fields(bench: Bench, field: int, expected: int) -> Sequence[Detail]:
    _, burst = _mixed(bench, f"field {field}")
    deep = [each for each in burst if bench.depth(each) > 20 and each.frame[15] & 3 == field]
    came = {each.came.frame[15] & 3 if each.came else -1 for each in deep}
    names = {-1: "lost", NOT_ECT: "00", ECT_1: "01", ECT_0: "10", CE: "11"}
    shown = ", ".join(names[each] for each in sorted(came))
    what = f"{len(deep)} packets with ECN {names[field]} above kmax"
    return [Detail(what, f"ECN {names[expected]}", f"ECN {shown}", came == {expected})]


def not_ect(bench: Bench) -> Sequence[Detail]:
    """Check a sender that does not know ECN."""
    return _fields(bench, NOT_ECT, NOT_ECT)


def both(bench: Bench) -> Sequence[Detail]:
    """ECT(0) and ECT(1)."""
    return [*_fields(bench, ECT_0, CE), *_fields(bench, ECT_1, CE)]


def kept(bench: Bench) -> Sequence[Detail]:
    """Check a mark of a switch before this one, whatever this queue is."""
    with bench.bed("kept") as bed:
        bed.mark(Marking(20, 20))
        burst = bed.burst(ecn=(CE,))
    count = sum(each.came is not None and each.came.frame[15] & 3 == CE for each in burst)
    what = f"{BURST} packets that come with CE"
    return [Detail(what, f"{BURST} with CE", f"{count} with CE", count == BURST)]


def whole(bench: Bench) -> Sequence[Detail]:
    """All of the frame: DSCP, checksum, payload."""
    bed, burst = _mixed(bench, "whole")
    hop = next(iter(bed.router.hosts.values()))
    wrong = ""
    for each in burst:
        if each.marked:
            tos = each.frame[15] | CE
            left = [each.came] if each.came else []
            wrong = wrong or _wrong(bed, each.frame, hop, left, tos)
    right = "DSCP as it was, CE, the checksum for it, the rest as it was"
    return [Detail("marked packets", right, wrong or right, not wrong)]


def counter(bench: Bench) -> Sequence[Detail]:
    """Check that the port's counter has just the marks of this switch."""
    with bench.bed("counter") as bed:
        bed.mark(Marking(20, 20))
        burst = bed.burst(ecn=(NOT_ECT, ECT_1, ECT_0, CE))
        count = bed.counted()
    marks = sum(each.marked for each in burst)
    what = f"the counter `marked` after a burst in which {marks} packets got a mark"
    return [Detail.of(what, marks, count)]


def items() -> Sequence[Item]:
    """Return what there are marks for, in the order of the README."""
    drawn = (
        "TODO 2: random(drawn, 0, 0xffffff), and a mark if it is less than (depth - kmin) * step"
    )
    listed: list[tuple[str, str, int, str, str, Judge]] = [
        ("above", "TODO 1: above kmax", 1, "all marked", "TODO 1: depth > meta.kmax", above),
        ("below", "TODO 1: up to kmin", 1, "none marked", "TODO 1: no mark up to meta.kmin", below),
        ("border", "TODO 1: at kmax, and one more", 2, "not marked, marked",
         "TODO 1: > and >= differ at just one depth", border),
        ("leaving", "TODO 1: which depth", 1, "what waits when the packet leaves",
         "TODO 1: std.deq_qdepth; what a packet met on arrival is old news by then", leaving),
        ("ports", "TODO 1: several ports", 2, "each has its own thresholds, or none",
         "TODO 1: only where marking hits, and with its values", ports),
        ("slope", "TODO 2: from kmin to kmax", 3, "the probability grows", drawn, slope),
        ("gentle", "TODO 2: another step", 1, "the probability grows by it", drawn, gentle),
        ("bounds", "TODO 2: a step of 0, and a large one", 2, "none, or all",
         "TODO 2: the product of 19 and 24 bits needs 43", bounds),
        ("not-ect", "TODO 3: 00, not ECN-capable", 1, "it stays 00",
         "TODO 3: who marks such a packet has it taken for one that knows ECN", not_ect),
        ("both", "TODO 3: 01 and 10, ECN-capable", 1, "both become 11",
         "TODO 3: there are two of them", both),
        ("kept", "TODO 3: 11, marked before", 1, "it stays 11, in a short queue too",
         "TODO 3: a mark is never taken back", kept),
        ("whole", "TODO 3: all of a marked packet", 1, "only ECN and the checksum change",
         "TODO 3: hdr.ipv4.ecn alone; LabComputeChecksum does the rest", whole),
        ("counter", "TODO 4: the counter", 1, "as many as this switch has marked",
         "TODO 4: only packets whose field changes, at their port's place", counter),
    ]  # fmt: skip
    known = [
        Item("routes", "packets that meet no queue", 1, "as the starter has them", routes),
        Item("untouched", "ARP, TTL 1, unknown destinations", 1, "dropped", untouched),
    ]
    return known + [
        Item(name, title, marks, expected, judged(hint, judge))
        for name, title, marks, expected, hint, judge in listed
    ]
