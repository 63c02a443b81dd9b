"""What there are marks for in the flowlet stage, and how a program is tried.

Each item starts the switch anew, draws addresses, ports and the idle gap, sends packets at given
ticks, and looks at which uplink each leaves by. What has to come follows from what was sent. Chance
is judged by bounds that a fair choice hardly ever misses: 4.6 standard deviations and more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from random import Random

from google.protobuf import text_format

from labs.grade import Finding, Item, Submission
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i

from . import routing
from .bed import CLOCK, SLOW, SPRAY, WAYS, Bed, Route, started
from .flows import MAIN, Flow
from .verdicts import Claim, Ways, counted, found, plural

FLOWS = 48
MOST_MOVE = FLOWS // 3
"""Of 48 flows 36 change their way if each may take any of four: 16 or fewer is 6 sigma off."""
SOME_MOVE = FLOWS // 8
"""The same of two ways: 24 change, 6 or fewer is 5 sigma off."""
NEW_FLOWS = 2000
FLOWLETS = 600
EVEN = 0.2
"""By so much of the mean may counts of NEW_FLOWS differ: 5 sigma."""
NEARLY = 0.35
"""And of FLOWLETS."""

NEVER = "no flow ever changes its way, however long it has paused: nothing to judge"
ALWAYS = "packets that follow each other at once take different ways: nothing to judge"
FIRST = "TODOs 1 to 4 make a first flowlet: remember time and way, and draw after a pause"


@dataclass
class Bench:
    """The learner's program; every item starts a switch of its own and draws its own values."""

    pipeline: Pipeline
    seed: int

    def random(self, item: str) -> Random:
        """Return random values that are the same whatever the program does."""
        return Random(f"{self.seed} {item}")

    @cached_property
    def nothing(self) -> Finding | None:
        """Why what is about flowlets can't be judged: ECMP keeps all, a spray keeps nothing."""
        with started(self.pipeline, self.random("flowlets")) as bed:
            kept = after_pause(bed, 1)
        with started(self.pipeline, self.random("flowlets")) as bed:
            moved = after_pause(bed, 10 * bed.gap)
        if kept.moved >= MOST_MOVE:
            return Finding.nothing(ALWAYS, FIRST)
        return None if moved.moved > 0 else Finding.nothing(NEVER, FIRST)


def bench(submission: Submission) -> Bench:
    """Make the program ready. Raises PipelineError if the switch does not take it."""
    info = text_format.Parse(submission.p4info_text, p4i.P4Info())
    return Bench(prepare(info, submission.json_text.encode()), submission.seed)


Judge = Callable[[Bed], Sequence[Claim]]


def judged(name: str, hint: str, judge: Judge, *, tries: int = 1) -> Callable[[Bench], Finding]:
    """Return what judges an item of flowlets: on a new switch, by what the claims say.

    `tries`: again with other flows if it failed, where two may share a cell by chance.
    """

    def finding(bench: Bench) -> Finding:
        if bench.nothing is not None:
            return bench.nothing
        claims: Sequence[Claim] = ()
        for number in range(tries):
            with started(bench.pipeline, bench.random(f"{name} {number}")) as bed:
                claims = judge(bed)
            if all(claim.right for claim in claims):
                break
        return found(claims, hint)

    return finding


# ---------------------------------------------------------------- pairs of packets


def begin(bed: Bed) -> int:
    """Return a tick long after the start, and after what was sent so far."""
    return bed.now + 1_000_000 + bed.random.randrange(1_000_000)


def after_pause(bed: Bed, *pauses: int, group: int = MAIN, count: int = FLOWS) -> Ways:
    """Let flows, one after the other, send a packet and after each of the pauses one more."""
    sent: list[tuple[int, Flow]] = []
    at = begin(bed)
    for flow in bed.flows(count, group):
        for pause in (0, *pauses):
            at += pause
            sent.append((at, flow))
        at += 20 * bed.gap
    routes = bed.routes(sent, group)
    size = len(pauses) + 1
    return Ways([routes[n : n + size] for n in range(0, len(routes), size)])


def keep(bed: Bed, what: str, *pauses: int, group: int = MAIN) -> Claim:
    """Claim that packets after these pauses take the way of the first."""
    ways = after_pause(bed, *pauses, group=group)
    return Claim(f"{FLOWS} flows, {what}", "none changes its way", ways.words, ways.kept)


def move(bed: Bed, what: str, pause: int, *, group: int = MAIN, least: int = MOST_MOVE) -> Claim:
    """Claim that after this pause flows take any way."""
    ways = after_pause(bed, pause, group=group)
    number = len(bed.leaf.group(group).ways)
    right = f"about {FLOWS * (number - 1) // number} change their way"
    return Claim(f"{FLOWS} flows, {what}", right, ways.words, ways.whole and ways.moved > least)


def start(bed: Bed) -> Sequence[Claim]:
    """Check flows at the start, when the registers are 0 and the clock is close to 0."""
    ticks = sorted(bed.random.sample(range(1, bed.gap), FLOWS))
    routes = bed.routes(zip(ticks, bed.flows(FLOWS), strict=True))
    what = f"{FLOWS} flows begin in the switch's first {bed.gap} ticks (the gap)"
    used = {route for route in routes if isinstance(route, int)}
    right = len(used) == WAYS and all(isinstance(route, int) for route in routes)
    return [Claim(what, f"all {WAYS} ways are taken", counted(routes), right)]


def within(bed: Bed) -> Sequence[Claim]:
    """Shorter pauses than the gap, in a flow's first flowlet and in its second."""
    pauses = [bed.random.randrange(1, bed.gap // 3) for _ in range(3)]
    named = f"pauses of {', '.join(map(str, pauses))} ticks, gap {bed.gap}"
    ways = after_pause(bed, 2 * bed.gap, *pauses)
    second = Ways([row[1:] for row in ways.rows])
    what = f"{FLOWS} flows, {named}, behind one of {2 * bed.gap}"
    return [
        keep(bed, named, *pauses),
        Claim(what, "none changes its way", second.words, second.kept),
    ]


def below(bed: Bed) -> Sequence[Claim]:
    """One tick less than the gap."""
    return [keep(bed, f"a pause of {bed.gap - 1} ticks, gap {bed.gap}", bed.gap - 1)]


def exactly(bed: Bed) -> Sequence[Claim]:
    """Check a pause of exactly the gap."""
    return [move(bed, f"a pause of {bed.gap} ticks, the gap", bed.gap)]


def over(bed: Bed) -> Sequence[Claim]:
    """Check pauses of a tick more than the gap, and much more."""
    return [
        move(bed, f"a pause of {pause} ticks, gap {bed.gap}", pause)
        for pause in (bed.gap + 1, 2 * bed.gap, 100 * bed.gap)
    ]


def ages(bed: Bed) -> Sequence[Claim]:
    """Pauses that fewer bits take for short ones."""
    return [
        move(bed, f"a pause of 2^{bits} ticks, gap {bed.gap}", 1 << bits)
        for bits in (16, 24, 32, 40)
    ]


def same_tick(bed: Bed) -> Sequence[Claim]:
    """Several packets while the clock shows the same."""
    return [keep(bed, "four packets each in one tick", 0, 0, 0)]


def refresh(bed: Bed) -> Sequence[Claim]:
    """Check flows that for many gaps never pause for long."""
    pauses = [bed.random.randrange(bed.gap // 2, bed.gap) for _ in range(40)]
    long = sum(pauses) // bed.gap
    ways = after_pause(bed, *pauses, count=12)
    what = f"12 flows of 41 packets, each pause below the gap, {long} gaps in all"
    still = Claim(what, "none changes its way", ways.words, ways.kept)
    return [still, move(bed, f"then a pause of {2 * bed.gap} ticks, gap {bed.gap}", 2 * bed.gap)]


def wrap(bed: Bed) -> Sequence[Claim]:
    """Check flows while the clock wraps between two packets."""
    gap = bed.gap
    flows = bed.flows(FLOWS)
    ticks = [bed.random.randrange(CLOCK - gap // 2, CLOCK - gap // 3) for _ in flows]
    sent = [(tick + late, flow) for late in (0, gap // 4, 3 * gap // 4)
            for tick, flow in zip(ticks, flows, strict=True)]  # fmt: skip
    routes = bed.routes(sent)
    ways = Ways([routes[n::FLOWS] for n in range(FLOWS)])
    what = f"{FLOWS} flows of three packets, the third after the clock's end, pauses below the gap"
    still = Claim(what, "none changes its way", ways.words, ways.kept)
    end = 2 * CLOCK
    others = bed.flows(FLOWS)
    routes = bed.routes([(end - gap, flow) for flow in others] + [(end + gap, f) for f in others])
    ways = Ways([routes[n::FLOWS] for n in range(FLOWS)])
    what = f"{FLOWS} flows, a packet before the clock's end and one after, two gaps apart"
    right = f"about {FLOWS * 3 // 4} change their way"
    return [still, Claim(what, right, ways.words, ways.whole and ways.moved > MOST_MOVE)]


def groups(bed: Bed) -> Sequence[Claim]:
    """Check that the gap is the group's: 8 times as long, or 0."""
    long = bed.leaf.group(SLOW).gap
    return [
        keep(bed, f"to a group with a gap of {long}, pauses of {2 * bed.gap} ticks", 2 * bed.gap,
             group=SLOW),
        move(bed, f"to that group, pauses of {long} ticks", long, group=SLOW, least=SOME_MOVE),
        move(bed, "to a group with a gap of 0, pauses of 1 tick", 1, group=SPRAY, least=SOME_MOVE),
        move(bed, "to that group, two packets in one tick", 0, group=SPRAY, least=SOME_MOVE),
    ]  # fmt: skip


# ---------------------------------------------------------------- by chance, evenly


def even(routes: Sequence[Route], ways: Sequence[int], share: float) -> tuple[str, bool]:
    """Say between which counts each way is fair, and whether all are and nothing else came."""
    mean = len(routes) / len(ways)
    least, most = round(mean * (1 - share)), round(mean * (1 + share))
    fair = all(least <= routes.count(way) <= most for way in ways)
    names = ", ".join(str(way) for way in ways)
    right = f"{least} to {most} by each of ways {names}, and nothing else"
    return right, fair and set(routes) <= set(ways)


def spread(bed: Bed) -> Sequence[Claim]:
    """Many flows' first packets."""
    at = begin(bed)
    flows = bed.flows(NEW_FLOWS)
    routes = bed.routes((at + 2 * n * bed.gap, flow) for n, flow in enumerate(flows))
    right, fair = even(routes, range(WAYS), EVEN)
    return [Claim(f"{NEW_FLOWS} new flows, one after the other", right, counted(routes), fair)]


def again(bed: Bed) -> Sequence[Claim]:
    """One flow's flowlets."""
    at, flow = begin(bed), bed.flow()
    routes = bed.routes((at + 2 * n * bed.gap, flow) for n in range(FLOWLETS))
    right, fair = even(routes, range(WAYS), NEARLY)
    return [Claim(f"{FLOWLETS} flowlets of one flow", right, counted(routes), fair)]


def apart(bed: Bed) -> Sequence[Claim]:
    """Check a flow that pauses, beside one that does not and differs in one field."""
    nearly = routing.nearly(bed, bed.paused)
    return [_beside(bed, [other], f"one with another {what} goes") for what, other in nearly]


def busy(bed: Bed) -> Sequence[Claim]:
    """Check a flow that pauses, beside many that do not."""
    return [_beside(bed, bed.flows(64), "64 others go")]


def _beside(bed: Bed, others: Sequence[Flow], named: str) -> Claim:
    """Let a flow pause for longer than the gap 20 times, while others never do."""
    start = begin(bed)
    step, pause = bed.gap // 3, 3 * bed.gap // 2
    sent = [(start + n * pause, bed.paused) for n in range(20)]
    end = start + 20 * pause
    sent += [(at, other) for at in range(start, end, step) for other in others]
    routes = bed.routes(sent)[:20]
    moved = sum(a != b for a, b in pairwise(routes))
    what = f"20 flowlets of a flow, while {named} on without a pause"
    right = "about 14 of 19 times another way"
    return Claim(what, right, f"{moved} times", moved >= 5 and _all_ways(routes))


def _all_ways(routes: Sequence[Route]) -> bool:
    return all(isinstance(route, int) for route in routes)


# ---------------------------------------------------------------- ways that go and come


def three(bed: Bed) -> Sequence[Claim]:
    """Check that three of four ways are used after one failed, and four when it is back."""
    down = bed.random.randrange(WAYS)
    left = [way for way in range(WAYS) if way != down]
    claims = []
    at = begin(bed)
    for what, gone, ways in ((f"way {down} down", (down,), left), ("up again", (), range(WAYS))):
        bed.take_down(*gone)
        flows = bed.flows(FLOWLETS)
        routes = bed.routes((at + 2 * n * bed.gap, flow) for n, flow in enumerate(flows))
        right, fair = even(routes, ways, NEARLY)
        claims.append(Claim(f"{FLOWLETS} new flows, {what}", right, counted(routes), fair))
        at += (2 * FLOWLETS + 20) * bed.gap
    return claims


def old(bed: Bed) -> Sequence[Claim]:
    """Check flowlets on a failed way: they move at once, and stay; the others do not move."""
    down = bed.random.randrange(WAYS)
    at, flows = begin(bed), bed.flows(2 * FLOWS)
    step = bed.gap // 4
    before = bed.routes((at, flow) for flow in flows)
    bed.take_down(down)
    sent = [(at + step * n, flow) for n in (1, 2, 3) for flow in flows]
    routes = bed.routes(sent)
    after = Ways([routes[n :: len(flows)] for n in range(len(flows))])
    on_it = [n for n, way in enumerate(before) if way == down]
    others = [n for n, way in enumerate(before) if way != down]
    strays = Ways([after.rows[n] for n in on_it])
    stayed = Ways([[before[n], *after.rows[n]] for n in others])
    lost = [route for row in strays.rows for route in row if route == down or route == "nothing"]
    came = counted([route for row in strays.rows for route in row])
    return [
        Claim(
            f"{plural(len(on_it), 'flowlet')} on way {down}, three packets each after it went down",
            f"none lost, none by way {down}", came,
            bool(on_it) and not lost and strays.whole,
        ),
        Claim("these three packets", "all by one way", strays.words, strays.kept),
        Claim(f"{plural(len(others), 'flowlet')} on the other ways", "none changes its way",
              stayed.words, stayed.kept),
    ]  # fmt: skip


def schedule(bed: Bed) -> Sequence[Claim]:
    """Sixteen flows at random times while ways go and come, beside a model of what may happen."""
    return [routing.schedule(bed, begin(bed))]


# ---------------------------------------------------------------- what there are marks for


def items() -> Sequence[Item]:
    """Return what there are marks for, a mark each, in the order of the README."""
    short = "TODO 2: idle = now - last, in the clock's own 48 bits, and kept while it is < meta.gap"
    rows: list[tuple[str, str, str, Callable[[Bench], Finding]]] = [
        ("up", "a flow's first packet", "it leaves once, by an uplink that is up", routing.up),
        ("down", "return traffic", "it leaves by its host's port", routing.down),
        ("others", "ARP, ICMP, fragments", "as before: dropped, or a fixed way", routing.others),
    ]
    hints: list[tuple[str, str, str, str, Judge, int]] = [
        ("start", "TODO 2: cells that were never written", "a new flow takes any way",
         "TODO 2: what is 0 was never written: keep the way's number and 1, say", start, 1),
        ("within", "TODO 2: pauses below the gap", "the way stays",
         "TODOs 2 and 4: both registers are written on every packet, behind way_of_slot",
         within, 1),
        ("below", "TODO 2: one tick below the gap", "the way stays", short, below, 1),
        ("at", "TODO 2: exactly the gap", "a new flowlet", short, exactly, 1),
        ("over", "TODO 2: more than the gap", "a new flowlet", short, over, 1),
        ("ages", "TODO 2: very long pauses", "a new flowlet",
         "TODO 2: all 48 bits of times count: in 32 a pause of 2^32 ticks is none", ages, 1),
        ("same-tick", "TODO 2: packets in one tick", "the way stays",
         "TODO 2: a pause of 0 is one, and shorter than the gap", same_tick, 1),
        ("wrap", "TODO 2: the clock's end", "pauses are what they are",
         "TODO 2: `now - last` wraps as the clock does, `last + gap` compared with now does not",
         wrap, 1),
        ("groups", "TODO 2: each group's gap", "8 times as long, or 0",
         "TODO 2: the gap is meta.gap, which the control plane says", groups, 1),
        ("refresh", "TODO 4: long flows without pauses", "they never move",
         "TODO 4: every packet writes its time, not only a flowlet's first", refresh, 1),
        ("spread", "TODO 3: new flows", "all ways alike",
         "TODO 3: random(meta.slot, 0, SLOTS - 1): both bounds are included", spread, 1),
        ("again", "TODO 3: flowlets of one flow", "all ways alike",
         "TODO 3: a hash of the flow is the same each time", again, 1),
        ("apart", "TODO 1: flows that are nearly alike", "one pauses by itself",
         "TODO 1: both addresses, the protocol and both ports", apart, 3),
        ("busy", "TODO 1: many flows", "one pauses by itself",
         "TODO 1: a hash over all CELLS, not over SLOTS", busy, 3),
        ("three", "TODO 3: a way down, and up again", "new flowlets take what is up",
         "TODO 3: the slot's way, as the control plane says it now", three, 1),
        ("old", "TODO 3: flowlets on a way that goes down", "they move, the others stay",
         "TODO 3: keep the way only if meta.live has its bit", old, 1),
        ("schedule", "random flows and failures", "each packet goes where it may",
         "one of the items above names it", schedule, 3),
    ]  # fmt: skip
    for name, title, expected, hint, judge, tries in hints:
        rows.append((name, title, expected, judged(name, hint, judge, tries=tries)))
    return [Item(name, title, 1, expected, judge) for name, title, expected, judge in rows]
