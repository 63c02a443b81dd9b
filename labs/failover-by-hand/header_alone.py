"""The items on the header alone: answers of probes come at times that are drawn.

Each time it says whether the plane may be used, and how fast. What is right follows from the lab's
text, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from labs.grade import Detail, Finding, Item
from labs.own_header import found

from .bench import Bench
from .model import Model
from .plane import MS, OPEN_WORD, SHUT_WORD, US, WRAP, Plane, drawn

SEQUENCES, EVENTS = 40, 150

FIRST = "TODO 1: down is 1 from the news of a loss on, and path_at says CC_SHUT while it is"
RAMPS = "TODO 4: 1/16 of the line from up_at on, 1/4 from up_at + ramp_ns, all from + 2 ramp_ns"

Rows = list[Detail]
Make = Callable[..., Plane]
Judge = Callable[[Make, Random], Rows]


def by_itself(name: str, hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item of the header alone; `judge` gets what makes planes."""

    def finding(bench: Bench) -> Finding:
        random = bench.random(name)

        def plane(**given: int) -> Plane:
            return Plane(bench.alone, drawn(random, **given), random)

        return found(judge(plane, random), hint)

    return finding


def shut(plane: Plane, what: str) -> Detail:
    """Look whether it is shut."""
    return Detail.of(what, SHUT_WORD, plane.word)


def open_(plane: Plane, what: str) -> Detail:
    """Look whether it is open."""
    return Detail.of(what, OPEN_WORD, plane.word)


def rate(plane: Plane, what: str, right: int, after: int = 0) -> Detail:
    """Look what it may carry."""
    return Detail.of(f"{what}: bits/s", right, plane.rate(after))


# ---------------------------------------------------------------- TODO 1: lost is not used


def healthy(make: Make, random: Random) -> Rows:
    """Never lost."""
    plane = make()
    line = plane.fields["line_rate"]
    rows = [open_(plane, "at the start"), rate(plane, "at the start", line)]
    plane.answers(3 * plane.fields["answers"])
    return [
        *rows,
        open_(plane, "after answers that tell of no loss"),
        rate(plane, "after them", line),
        rate(plane, "a day later", line, 86_400 * 1000 * MS),
    ]


def is_shut(make: Make, random: Random) -> Rows:
    """From the news of a loss on, whatever time passes."""
    plane = make()
    plane.lose(random.randrange(MS, 1000 * MS))
    rows = [open_(plane, "lost, but nothing was heard yet")]
    plane.answer(plane.now + 10 * US)
    rows.append(shut(plane, "an answer tells of the loss"))
    carried = plane.rate()
    least, line = plane.fields["min_rate"], plane.fields["line_rate"]
    bounds = f"{least} to {line}"
    rows.append(Detail("its rate meanwhile", bounds, str(carried), least <= carried <= line))
    plane.now += 10 * plane.fields["hold_most_ns"]
    plane.slot.elapse(plane.now)
    rows.append(shut(plane, "no more answers, however long"))
    return rows


def apart(make: Make, random: Random) -> Rows:
    """Each state is a plane of its own."""
    lost, other = make(answers=4, hold_ns=0, hold_most_ns=0), make(answers=4)
    lost.lose(MS)
    lost.answer(lost.now + US)
    other.answers(8)
    rows = [
        shut(lost, "one plane is lost: that one"),
        open_(other, "the other one"),
        rate(other, "the other one", other.fields["line_rate"]),
    ]
    third = make(answers=4, hold_ns=0, hold_most_ns=0)
    third.lose(MS)
    for _ in range(2):
        lost.answers(1)
        third.answers(1)
    rows.append(shut(lost, "two planes are lost, 3 of 4 answers by this one and 2 by that"))
    lost.answers(1)
    third.answers(1)
    return [*rows, open_(lost, "4 by this one"), shut(third, "3 by that one")]


# ---------------------------------------------------------------- TODO 2: answers in a row


def row(make: Make, random: Random) -> Rows:
    """So many answers, no fewer and no more."""
    rows: Rows = []
    for answers in (1, 2, random.randrange(3, 9)):
        plane = make(answers=answers, hold_ns=0, hold_most_ns=0)
        plane.lose(MS)
        plane.answers(answers - 1)
        if answers > 1:
            rows.append(shut(plane, f"{answers - 1} of {answers} answers in a row"))
        plane.answers(1)
        rows.append(open_(plane, f"{answers} of {answers} answers in a row"))
    return rows


def gaps(make: Make, random: Random) -> Rows:
    """Check an unanswered probe, a repeated answer, and a late one."""
    rows: Rows = []
    for what, skipped in (
        ("one is missing", 1),
        ("the last one comes twice", -1),
        ("a late one", -3),
    ):
        plane = make(hold_ns=0, hold_most_ns=0, answers=random.randrange(4, 9))
        answers = plane.fields["answers"]
        plane.lose(MS)
        plane.answers(answers - 1)
        plane.answer(plane.now + MS, skipped=skipped)
        rows.append(shut(plane, f"{answers - 1} of {answers} answers, then {what}"))
        plane.answers(answers - 2)
        rows.append(shut(plane, f"and {answers - 2} behind that"))
        plane.answers(1)
        rows.append(open_(plane, f"and {answers - 1} behind that: {answers} in a row"))
    plane = make(hold_ns=0, hold_most_ns=0, answers=4)
    plane.lose(MS)
    plane.number = WRAP - 3
    plane.answers(4)
    return [*rows, open_(plane, "4 in a row, the numbers wrap at 2^32 among them")]


def row_and_loss(make: Make, random: Random) -> Rows:
    """Check that a loss restarts the count of answers in a row."""
    plane = make(hold_ns=0, hold_most_ns=0)
    answers = plane.fields["answers"]
    plane.lose(MS)
    plane.answers(answers - 1)
    plane.lose(MS)
    plane.answers(1)
    rows = [shut(plane, f"{answers - 1} of {answers} answers, then one that tells of a new loss")]
    plane.answers(answers - 2)
    rows.append(shut(plane, f"{answers - 1} in a row since the new loss"))
    plane.answers(1)
    rows.append(open_(plane, f"{answers} in a row since the new loss"))
    plane.lose(MS)
    plane.answers(answers - 1)
    return [*rows, shut(plane, f"used again, lost again, {answers - 1} answers since")]


# ---------------------------------------------------------------- TODO 3: the hold-down


def held(plane: Plane, right: int, what: str) -> Rows:
    """Look whether a plane that was just lost is held for so long, to the nanosecond."""
    lost = plane.now
    plane.answer(lost + right // 2)
    plane.answer(lost + right - 1)
    rows = [shut(plane, f"{what}: answered 1 ns before its hold-down of {right} ns is over")]
    plane.answer(lost + right)
    return [*rows, open_(plane, f"{what}: answered when {right} ns are over")]


def hold(make: Make, random: Random) -> Rows:
    """Check the hold time after the first loss."""
    plane = make(answers=1)
    plane.lose(MS)
    rows = held(plane, plane.fields["hold_ns"], "lost for the first time")
    late = make(answers=1)
    late.lose(MS)
    lost, hold = late.now, late.fields["hold_ns"]
    late.answer(lost + hold - 10 * US)
    rows.append(shut(late, "news of the loss come 10 us before the hold-down is over"))
    late.answer(lost + hold)
    rows.append(open_(late, "and an answer when it is: it began with the loss"))
    many = make(answers=3)
    many.lose(MS)
    lost, hold = many.now, many.fields["hold_ns"]
    many.answers(60, hold // 64)
    rows.append(shut(many, "60 answers in a row within the hold-down"))
    many.answer(lost + hold)
    return [*rows, open_(many, "the 61st, behind it")]


def doubles(make: Make, random: Random) -> Rows:
    """Lost again soon."""
    plane = make(answers=1)
    rows: Rows = []
    for n in range(5):
        plane.lose(random.randrange(MS, 5 * MS))
        rows += held(plane, plane.fields["hold_ns"] << n, f"loss {n + 1}, each soon after the last")
    plane.lose(MS)
    plane.answer(plane.now + MS)
    plane.lose(MS)
    what = "lost twice more, the second time while it was held down"
    rows += held(plane, plane.fields["hold_ns"] << 6, what)
    long = make(answers=1, stable_ns=MS)
    long.lose(MS)
    long.answer(long.now + US)
    long.lose(2 * MS)
    what = "down for longer than stable_ns, and lost again meanwhile"
    return [*rows, *held(long, 2 * long.fields["hold_ns"], what)]


def most(make: Make, random: Random) -> Rows:
    """No hold-down is longer than that."""
    hold = random.randrange(2 * MS, 20 * MS)
    plane = make(answers=1, hold_ns=hold, hold_most_ns=5 * hold + 1)
    rows: Rows = []
    for n in range(6):
        plane.lose(MS)
        rows += held(
            plane, min(hold << n, 5 * hold + 1), f"loss {n + 1}, at most {5 * hold + 1} ns"
        )
    for _ in range(100):
        plane.lose(MS)
        plane.answer(plane.now + US)
    plane.lose(MS)
    rows += held(plane, 5 * hold + 1, "after a hundred losses more")
    long = make(answers=1, hold_ns=1 << 55, hold_most_ns=1 << 56)
    long.lose(MS)
    rows += held(long, 1 << 55, "a hold-down of 2^55 ns")
    long.lose(MS)
    return [*rows, *held(long, 1 << 56, "and its double")]


def forgiven(make: Make, random: Random) -> Rows:
    """Who stood for stable_ns."""
    plane = make(answers=1)
    hold, stable = plane.fields["hold_ns"], plane.fields["stable_ns"]
    plane.lose(MS)
    plane.answer(plane.now + hold)
    plane.lose(stable - 1)
    rows = held(plane, 2 * hold, f"lost {stable - 1} ns after its return, stable_ns is {stable}")
    plane.lose(stable)
    rows += held(plane, hold, f"lost {stable} ns after its return")
    plane.lose(MS)
    rows += held(plane, 2 * hold, "and soon again")
    first = make(answers=1)
    first.lose(MS)
    return [
        *rows,
        *held(first, first.fields["hold_ns"], "lost for the first time, soon after the start"),
    ]


def one_loss(make: Make, random: Random) -> Rows:
    """Check that a repeated report of a loss does not count as a new one."""
    plane = make(answers=3)
    hold = plane.fields["hold_ns"]
    plane.lose(MS)
    lost = plane.now
    plane.answers(50, hold // 60)
    plane.answer(lost + hold)
    rows = [open_(plane, "51 answers tell of one loss, the last behind its hold-down")]
    plane.answers(5)
    rows.append(open_(plane, "back, and answers go on to tell of it"))
    plane.answer(plane.now + MS, lost_at=lost - 1)
    plane.answer(plane.now + MS, lost_at=0)
    rows.append(open_(plane, "and of an older one"))
    single = make(answers=1)
    single.lose(MS)
    before = single.now
    single.answer(before + single.fields["hold_ns"])
    single.answer(single.now + MS, lost_at=before)
    single.lose(MS)
    return [*rows, *held(single, 2 * single.fields["hold_ns"], "then the second loss")]


# ---------------------------------------------------------------- TODO 4: the ramp


def stairs(plane: Plane, what: str) -> Rows:
    """Look at the two steps of a plane that is just back."""
    line, ramp = plane.fields["line_rate"], plane.fields["ramp_ns"]
    steps = ((0, 4), (ramp - 1, 4), (ramp, 2), (2 * ramp - 1, 2), (2 * ramp, 0), (9 * ramp, 0))
    least = plane.fields["min_rate"]
    return [
        rate(plane, f"{what}, {after} ns after its return (ramp_ns {ramp})",
             max(line >> shift, least), after)
        for after, shift in steps
    ]  # fmt: skip


def ramp(make: Make, random: Random) -> Rows:
    """1/16, 1/4, all."""
    plane = make()
    plane.lose(MS)
    plane.returns()
    rows = stairs(plane, "asked")
    begun, step = plane.now, plane.fields["ramp_ns"]
    line = plane.fields["line_rate"]
    for after, shift in ((step // 2, 4), (step + 1, 2), (2 * step + 1, 0)):
        found = plane.slot.elapse(begun + after)
        rows.append(Detail.of(f"brought up to {after} ns after it: bits/s", line >> shift, found))
    return rows


def ramp_again(make: Make, random: Random) -> Rows:
    """Check a loss and answers in the middle of the ramp, and a long time without a query."""
    plane = make()
    step = plane.fields["ramp_ns"]
    plane.lose(MS)
    plane.returns()
    plane.lose(step + step // 2)
    plane.answer(plane.now + US)
    rows = [shut(plane, "lost in the second step of its ramp")]
    plane.returns()
    rows += stairs(plane, "back once more")
    busy = make()
    busy.lose(MS)
    busy.returns()
    begun, step = busy.now, busy.fields["ramp_ns"]
    for part in (4, 12, 20):
        busy.answer(begun + part * step // 10)
    line = busy.fields["line_rate"]
    rows.append(rate(busy, "answers come during the ramp, which is over", line))
    late = make()
    late.lose(MS)
    late.returns()
    late.now += 1000 * late.fields["ramp_ns"]
    late.answer(late.now)
    return [
        *rows,
        rate(late, "nobody asked until the ramp was long over", late.fields["line_rate"]),
    ]


def bounds(make: Make, random: Random) -> Rows:
    """min_rate, and no ramp at all."""
    line = 64 * random.randrange(10**9, 10**10)
    slow = make(line_rate=line, min_rate=line // 8 + 1)
    slow.lose(MS)
    slow.returns()
    rows = stairs(slow, "min_rate is above 1/16 of the line")
    slower = make(line_rate=line, min_rate=line)
    slower.lose(MS)
    slower.returns()
    rows += stairs(slower, "min_rate is the line's")
    none = make(ramp_ns=0)
    none.lose(MS)
    none.returns()
    return [*rows, rate(none, "ramp_ns is 0: at once", none.fields["line_rate"])]


# ---------------------------------------------------------------- at random


def schedule(make: Make, random: Random) -> Rows:
    """Losses, answers, gaps and pauses as they come."""
    for number in range(SEQUENCES):
        plane = make(answers=random.randrange(1, 5), stable_ns=random.randrange(MS, 200 * MS))
        model = Model(plane.fields, plane.now)
        for event in range(EVENTS):
            if random.random() < 0.15:
                plane.lose(random.randrange(1, 20 * MS))
            pause = random.choice((US, plane.fields["ramp_ns"] // 2, MS, 10 * MS, 100 * MS))
            plane.answer(plane.now + pause, skipped=random.choice((0,) * 9 + (1,)))
            model.answer(plane.now, plane.number, plane.lost_at)
            where = f"sequence {number + 1}, answer {event + 1}"
            rows = [Detail.of(f"{where}: the plane is", model.word, plane.word)]
            after = random.choice((0, 0, plane.fields["ramp_ns"]))
            right = model.rate(plane.now + after)
            if right is not None:
                rows.append(rate(plane, where, right, after))
            if not all(each.right for each in rows):
                return rows
    what = f"{SEQUENCES} sequences of {EVENTS} answers"
    return [Detail(what, "all as the text says", "all", True)]


def items() -> Sequence[Item]:
    """Return them in the order of the README."""

    def alone(name: str, title: str, expected: str, hint: str, judge: Judge) -> Item:
        return Item(name, title, 1, expected, by_itself(name, hint, judge))

    return (
        alone("healthy", "a plane that was never lost", "it is open, with its whole line",
              "answers that report no loss change nothing", healthy),
        alone("shut", "TODO 1: a lost plane is shut", "until answers open it; time alone does not",
              FIRST, is_shut),
        alone("apart", "TODO 1: and no other one", "each state belongs to one plane alone",
              FIRST, apart),
        alone("row", "TODO 2: enough answers in a row", "as many as params.answers",
              "TODO 2: the answer that begins a row is its first", row),
        alone("gaps", "TODO 2: in a row", "a number that is not the next one begins a new row",
              "TODO 2: compare event->number with the last one's and 1, in 32 bits", gaps),
        alone("row-and-loss", "TODO 2: since the loss", "a loss begins a new row",
              "TODO 2: a loss sets the count to 0, and so does a return", row_and_loss),
        alone("hold", "TODO 3: the hold-down", "hold_ns from the loss on, whatever is answered",
              "TODO 3: back at now >= lost_at + hold; hold_ns at the first loss", hold),
        alone("doubles", "TODO 3: it doubles", "lost again soon, or while it is down",
              "TODO 3: twice the last one's; is it still down, or when did it come back?", doubles),
        alone("most", "TODO 3: up to a bound", "hold_most_ns, exactly",
              "TODO 3: the smaller of twice and hold_most_ns", most),
        alone("forgiven", "TODO 3: and is reset", "after stable_ns it is hold_ns again",
              "TODO 3: how long was it up? From up_at to the loss; stable_ns is long enough",
              forgiven),
        alone("one-loss", "TODO 3: a loss counts once", "lost_at reports a loss until the next",
              "TODO 3: only a lost_at that is later than the last one is a new loss", one_loss),
        alone("ramp", "TODO 4: the ramp", "1/16 of the line, 1/4, all of it", RAMPS, ramp),
        alone("ramp-again", "TODO 4: each time anew", "a loss ends a ramp, answers do not matter",
              RAMPS, ramp_again),
        alone("bounds", "TODO 4: within bounds", "no rate is below min_rate; ramp_ns may be 0",
              "TODO 4: plane_choice_share does the bound; without a ramp nothing is to wait for",
              bounds),
        alone("schedule", "all TODOs: random sequences", "as the text says, answer by answer",
              "the items above show which rule it is", schedule),
    )  # fmt: skip
