"""The items on the header alone: what must hold of any design.

A header comes to rest on a path of which others take half (path.py). Then something happens that
says nothing of load: counters wrap, a record comes twice or late, the path changes, nobody sends
for a while. Mostly the same is done twice with other counters, and the header has to say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from labs.grade import Detail, Finding, Item
from labs.own_header import found

from . import headers
from .bench import Bench
from .path import SENT_BYTES, STEPS, WRAPS, Path, Record, Shape, telemetry

Rows = list[Detail]
Judge = Callable[[Bench, Random], Rows]

WARM = 150
"""Round trips until a header is at rest, or near it."""
WRAP_TRIPS = 80
"""So many more, in which counters wrap."""
HALF_TAKEN, TENTH, MORE_FREE = 0.8, 0.1, 1.2
"""Of the line, at most, where others take half, and how much more where they take a tenth: a header
that sends otherwise does not hear its path."""
JUMP = 1.6
"""By so much a rate may change at what says nothing of load."""
SLOW = 10_000
SAME, ALIKE = 0.03, 0.01
"""How near rates have to be in slow motion, where rounding differs, and else."""
BACK_TRIPS = 1000
BACK = 0.5
IDLE_MS = (20, 3000)
YEAR_NS = 365 * 86_400 * 10**9
EVENTS = 400


def alone(name: str, title: str, expected: str, hint: str, judge: Judge) -> Item:
    """Return an item on the header by itself, of one mark."""

    def finding(bench: Bench) -> Finding:
        return found(judge(bench, bench.random(name)), hint)

    return Item(name, title, 1, expected, finding)


def path_of(bench: Bench, shape: Shape, **given: int) -> Path:
    """Put the header on a path."""
    return Path(bench.alone, shape, headers.asks(bench.built, bench.alone.name).hears, **given)


def adapts(bench: Bench, path: Path) -> Detail:
    """Look whether it hears how full the path is: else what follows would say nothing."""
    rate, shape = path.rate(), path.shape
    free = path_of(bench, replace(shape, taken=TENTH)).run(WARM).rate()
    what = f"others take half, or a tenth; {WARM} round trips later: parts of the line"
    expected = f"at most {HALF_TAKEN}, and {MORE_FREE} times as much at least"
    right = rate <= HALF_TAKEN and free >= MORE_FREE * rate
    return Detail(what, expected, f"{rate:.3f} and {free:.3f}", right)


def same(what: str, one: float, other: float, within: float = ALIKE) -> Detail:
    """Compare rates that have to be the same, as parts of the line."""
    right = abs(one - other) <= within * max(one, other)
    return Detail(f"{what}: part of the line", f"{one:.6f}", f"{other:.6f}", right)


def no_jump(what: str, before: float, after: float) -> Detail:
    """Look whether a rate stays near what it was."""
    right = before / JUMP <= after <= before * JUMP
    expected = f"between {before / JUMP:.4f} and {before * JUMP:.4f}"
    return Detail(f"{what}: part of the line", expected, f"{after:.4f}", right)


def restless(bench: Bench, random: Random, **given: int) -> tuple[Path, Detail]:
    """Bring a header to rest. Return it, and whether it has heard anything."""
    path = path_of(bench, Shape.drawn(random), **given).run(WARM)
    return path, adapts(bench, path)


# ---------------------------------------------------------------- any header


def parameters(bench: Bench, random: Random) -> Rows:
    """Check that invalid parameters are refused, and those that senders have accepted."""
    rows: Rows = []
    for gbps in (1, 25, 100, 400, 1600):
        scale = random.choice((1, 10, 1000))
        fields = Shape(gbps * 10**9, random.randrange(2000, 10**6), 0, 1, 0, scale).fields()
        said = bench.alone.refusal(fields)
        what = f"a line of {gbps} Gb/s in slow motion by {scale}"
        rows.append(Detail(what, "taken", f"refused: {said}" if said else "taken", said is None))
    good = dict(Shape.drawn(random).fields())
    bad = (
        ("line_rate", 0), ("min_rate", 0), ("min_rate", good["line_rate"] + 1),
        ("base_rtt_ns", 0), ("time_scale", 0),
    )  # fmt: skip
    for key, value in bad:
        came = "refused" if bench.alone.refusal({**good, key: value}) else "taken"
        rows.append(Detail.of(f"{key} {value}", "refused", came))
    return rows


def bounds(bench: Bench, random: Random) -> Rows:
    """Whatever comes: anything at all in records, times and rates."""
    for number in range(6):
        shape = Shape.drawn(random, scale=random.choice((1, 1000)))
        fields = shape.fields()
        low, high = fields["min_rate"], fields["line_rate"]
        now = random.randrange(1 << 40)
        slot = bench.alone.slot(fields, now)
        for event in range(EVENTS):
            now += random.choice((0, 1, 500, shape.trip, 10**7, 10**10)) * shape.scale
            size = random.choice((0, 12, 36, 60, 64))
            said = {
                "bytes": size, "format": random.choice((0, 1, 1, 1, 2, 3)), "hops": size // 12,
                "cut": 0, "data": list(random.randbytes(64)),
            }  # fmt: skip
            if random.random() < 0.5:
                said = telemetry([
                    Record(random.randrange(4), shape.line, random.randrange(WRAPS),
                           random.randrange(1 << 30), random.randrange(1 << 25))
                    for _ in range(random.randrange(1, 6))
                ])  # fmt: skip
            slot.event(now, random.choice((said, said, None)), kind=random.randrange(4),
                       bytes=random.choice((0, 1, 4096, 1 << 40)),
                       rtt_ns=random.choice((0, 1, shape.trip * shape.scale, 10**11)),
                       rate=random.choice((0, 1, 1 << 20, (1 << 27) - 1)),
                       number=random.randrange(1 << 32), validity=random.randrange(16),
                       severity=random.randrange(16))  # fmt: skip
            for after in (0, random.choice((1, 10**6, YEAR_NS))):
                rate = slot.rate(now + after)
                if not low <= rate <= high:
                    where = f"path {number + 1}, event {event + 1}, {after} ns later: bits/s"
                    return [Detail(where, f"from {low} to {high}", str(rate), False)]
    for taken in (0.0, 3.0, 0.0):
        path = path_of(bench, Shape.drawn(random, taken=taken))
        fields = path.shape.fields()
        for step in range(40 * STEPS):
            path.step()
            rate = path.slot.rate(path.clock)
            if not fields["min_rate"] <= rate <= fields["line_rate"]:
                where = f"others take {taken:g} of the line, acknowledgement {step + 1}: bits/s"
                return [Detail(where, f"from {fields['min_rate']} to {fields['line_rate']}",
                               str(rate), False)]  # fmt: skip
    what = f"6 paths, {EVENTS} events of anything each; 3 that are empty or overfull"
    return [Detail(what, "min_rate to line_rate", "min_rate to line_rate", True)]


def looked_at(bench: Bench, random: Random) -> Rows:
    """Check that the effect of time does not depend on how often it is queried.

    Windows only widen.
    """
    shape = Shape.drawn(random)
    often, seldom = (path_of(bench, shape).run(WARM) for _ in range(2))
    rows: Rows = []
    window = often.slot.window(often.clock)
    for _ in range(12):
        for path in (often, seldom):
            path.now += shape.trip // 3
        often.slot.elapse(often.clock)
        wider = often.slot.window(often.clock)
        if wider < window:
            rows.append(Detail("time passes: the window, bytes", f"at least {window}", str(wider),
                               False))  # fmt: skip
        window = wider
    rows.append(same("brought up to date 12 times, or never", seldom.rate(), often.rate()))
    rate = often.rate()
    often.slot.elapse(often.clock)
    rows.append(same("asked before it is brought up to date, or after", rate, often.rate()))
    return rows


def back(bench: Bench, random: Random) -> Rows:
    """Check that the header takes capacity that becomes free."""
    path = path_of(bench, Shape.drawn(random, taken=0.9)).run(WARM)
    path.taken = 0.0
    rate = path.run(BACK_TRIPS).rate()
    what = f"others took 0.9 of the line and end; {BACK_TRIPS} round trips later: part of the line"
    return [Detail(what, f"at least {BACK}", f"{rate:.3f}", rate >= BACK)]


# ---------------------------------------------------------------- one that hears its path


def wraps(bench: Bench, random: Random) -> Rows:
    """Counters begin elsewhere, and wrap on the way."""
    shape = Shape.drawn(random)
    plain = path_of(bench, shape).run(WARM)
    rows = [adapts(bench, plain)]
    at = -(plain.now + WRAP_TRIPS * shape.trip // 2) % WRAPS
    sent = (WRAPS - int(plain.sent) // SENT_BYTES - 1000) * SENT_BYTES
    usual = _rates(plain)
    for what, clock, counter in (
        ("clocks wrap", at, 0),
        ("counters of bytes wrap", 0, sent),
        ("both begin elsewhere", random.randrange(WRAPS), random.randrange(WRAPS) * SENT_BYTES),
    ):
        other = path_of(bench, shape, at_from=clock, sent_from=counter).run(WARM)
        found = zip(usual, _rates(other), strict=True)
        apart = max(found, key=lambda pair: abs(pair[0] - pair[1]) / max(pair))
        rows.append(same(f"{what}, or not", *apart))
    return rows


def _rates(path: Path) -> list[float]:
    rates = []
    for _ in range(WRAP_TRIPS * STEPS):
        path.step()
        rates.append(path.rate())
    return rates


def again(bench: Bench, random: Random) -> Rows:
    """Check records of one nanosecond, and records that come late."""
    path, heard = restless(bench, random)
    before = path.rate()
    rows = [heard]
    for step in range(4 * STEPS):
        path.step()
        back = path.latest()
        assert back is not None
        records, trip, size = back
        for number in range(1, 6):
            more = [replace(each, sent=each.sent + SENT_BYTES * number) for each in records]
            path.acknowledge(more, trip, size)
        what = f"6 acknowledgements of one nanosecond, time {step + 1}"
        rows.append(no_jump(what, before, path.rate()))
        if not rows[-1].right:
            break
    path, _ = restless(bench, random)
    for _ in range(20):
        before = path.rate()
        path.pass_time()
        back = path.latest()
        assert back is not None
        records, trip, size = back
        path.acknowledge(records, trip, size)
        earlier = path.step_ns // 3
        late = [
            replace(each, at=each.at - earlier, sent=each.sent - SENT_BYTES) for each in records
        ]
        path.acknowledge(late, trip + earlier, size)
        rows.append(no_jump("an acknowledgement overtakes another", before, path.rate()))
        if not rows[-1].right:
            break
    return rows


def another_path(bench: Bench, random: Random) -> Rows:
    """Other ports, whose clocks and counters have nothing to do with the old ones."""
    shape = Shape.drawn(random)
    said: list[float] = []
    rows: Rows = []
    at, number = random.randrange(WRAPS), random.randrange(100, 60_000)
    for sent in (0, WRAPS << 5, random.randrange(WRAPS) * SENT_BYTES):
        path = path_of(bench, shape).run(WARM)
        if not said:
            rows.append(adapts(bench, path))
        before = path.rate()
        path.first_number, path.at_from, path.sent_from = number, at, sent
        path.step()
        rows.append(no_jump("the first word of another path", before, path.rate()))
        said.append(path.run(3).rate())
    rows += [same("3 round trips later, whatever it had sent before", said[0], each)
             for each in said[1:]]  # fmt: skip
    path, _ = restless(bench, random)
    before = path.rate()
    for turn in range(5 * STEPS):
        path.first_number = 7 if turn % 2 else number
        path.sent_from = 0 if turn % 2 else random.randrange(WRAPS) * SENT_BYTES
        path.step()
    rows.append(no_jump("two paths take turns for 5 round trips", before, path.rate()))
    return rows


def idle(bench: Bench, random: Random) -> Rows:
    """Nobody sends for so long that clocks have wrapped: nothing follows from what they say."""
    shape = Shape.drawn(random)
    rows: Rows = []
    for ms in IDLE_MS:
        said = []
        for others in (0.0, random.random()):
            path = path_of(bench, shape).run(WARM)
            if not rows:
                rows.append(adapts(bench, path))
            path.pause(ms * 10**6, others)
            before = path.rate()
            for _ in range(STEPS):
                path.step()
                if len(path.flight) == STEPS // 2:
                    rows.append(no_jump(f"the first word after {ms} ms", before, path.rate()))
            said.append(path.rate())
        rows.append(same(f"{ms} ms later, whatever others sent meanwhile", *said))
    return rows


def slow_motion(bench: Bench, random: Random) -> Rows:
    """Rates divided and times multiplied, records in the fabric's: it is the same."""
    shape = Shape.drawn(random)
    usual, slow = path_of(bench, shape), path_of(bench, replace(shape, scale=SLOW))
    rows: Rows = []
    for trips in (5, 20, WARM - 25):
        usual.run(trips)
        slow.run(trips)
        what = f"{trips} round trips later, in slow motion by {SLOW}"
        rows.append(same(what, usual.rate(), slow.rate(), SAME))
    window = usual.slot.window(usual.clock), slow.slot.window(slow.clock)
    right = abs(window[0] - window[1]) <= SAME * max(window) + 1
    rows.append(Detail("its window in bytes", str(window[0]), str(window[1]), right))
    return [adapts(bench, usual), *rows]


def items() -> Sequence[Item]:
    """Return them in the order of the README."""
    return (
        alone("parameters", "parameters", "what can't be is refused, by name",
              "invalid() gets a 0 for each field, and a min_rate above the line", parameters),
        alone("bounds", "within bounds, whatever comes", "from min_rate to line_rate",
              "TODO 3: bound the rate where it is set; mind products beyond 64 bits and divisions "
              "by 0", bounds),
        alone("looked-at", "however often it is asked", "time alone changes no later answer",
              "rate_at says what elapse would make of it; windows only widen", looked_at),
        alone("back", "back to the line", "what is free again is used",
              "TODO 3: the part of the line that is added, or U below eta, brings it back", back),
        alone("wraps", "TODO 1: counters wrap", "the same as without",
              "TODO 1: path_since, for bytes and for times", wraps),
        alone("again", "TODO 1: twice, and late", "says nothing of load",
              "TODO 1: no time between two records, or 2^24 less a bit: leave them alone", again),
        alone("another-path", "TODO 1: another path", "its counters say nothing of the old one's",
              "TODO 1: compare the hop's number with the one that is remembered", another_path),
        alone("idle", "TODO 4: a pause", "nothing follows from what was before it",
              "TODO 4: after OWN_CC_SILENT_NS what is remembered of hops counts no more", idle),
        alone("slow-motion", "TODO 1 to 4: in slow motion", "the same, by the time scale slower",
              "records count in ns of the fabric, now and base_rtt_ns are time_scale times as long",
              slow_motion),
    )  # fmt: skip
