"""The items on the header alone: queues tell a source rates at times that are drawn.

At each time it says how fast it sends. What is right follows from the lab's text, to the bit/s and
the nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from labs.grade import Detail, Item

from .looks import Judge, Make, Rows, by_itself, comes_back, ends, ladder, part, queues, sends
from .model import Model
from .source import AT_SCALE_1, LONG, MS, US, Source, Word

PLACES = 8
SEQUENCES, EVENTS = 40, 100
YEAR = 365 * 86_400 * 1000 * MS


# ---------------------------------------------------------------- TODO 1: a word


def untold(make: Make, random: Random) -> Rows:
    """Nobody said anything."""
    source = make()
    rows = [
        sends(source, "at the start", source.line),
        sends(source, "a year later", source.line, source.now + YEAR),
    ]
    source.says_nothing(queues(random, 1)[0])
    return [*rows, sends(source, "a notification without a rate", source.line)]


def obeyed(make: Make, random: Random) -> Rows:
    """One queue, one word."""
    rows: Rows = []
    for _ in range(4):
        source = make()
        (queue,) = queues(random, 1)
        at = source.now + random.randrange(MS)
        word = source.told(queue, part(source, random), random.randrange(5, 10), at=at)
        half = source.now + word.stands // 2
        rows += [
            sends(source, "told a rate", word.rate),
            sends(source, "half of its time later", word.rate, half),
        ]
        source.says_nothing(queue)
        rows.append(sends(source, "then told no rate by the same queue", word.rate))
    return rows


def bounds(make: Make, random: Random) -> Rows:
    """Less than min_rate, more than the line."""
    low, high = make(), make()
    low.told(queues(random, 1)[0], low.least // 2, 8)
    high.told(queues(random, 1)[0], high.line + high.line // random.randrange(2, 9), 8)
    line = random.randrange(10**9, 10**11)
    narrow = make(line_rate=line, min_rate=line - line // 8, **AT_SCALE_1)
    narrow.told(queues(random, 1)[0], line // 2, 8)
    return [
        sends(low, "told half of min_rate", low.least),
        sends(high, "told more than the line's rate", high.line),
        sends(narrow, "told less, where min_rate is 7/8 of the line", narrow.least),
    ]


def stands(make: Make, random: Random) -> Rows:
    """For its validity and two packets' time, to the ns: a faster one stands behind it."""
    rows: Rows = []
    for name, share, validity in (
        ("short, fast", 3, random.randrange(3)),
        ("long, fast", 4, random.randrange(9, 13)),
        ("short, slow: two packets take longer", 500, random.randrange(3)),
        ("told half of min_rate", 8192, random.randrange(3)),
    ):
        source = make(line_rate=400 * 10**9, min_rate=10**8, **AT_SCALE_1)
        slow, fast = queues(random, 2)
        behind = source.told(fast, source.line // 2, LONG)
        word = source.told(slow, source.line // share, validity)
        what = f"a word that stands for {word.stands} ns ({name})"
        rows += [
            sends(source, f"{what}, 1 ns before its end", word.rate, word.until - 1),
            sends(source, f"{what}, at its end: another word stands", behind.rate, word.until),
        ]
    return rows


# ---------------------------------------------------------------- TODO 2: whose word


def replaces(make: Make, random: Random) -> Rows:
    """Check that a queue's new report replaces its last one."""
    source = make()
    queue, other = queues(random, 2)
    rows: Rows = []
    for share, what in ((4, "at first"), (9, "less"), (3, "more"), (7, "less again")):
        word = source.told(queue, source.line // share, 9, at=source.now + US)
        rows.append(sends(source, f"one queue says 1/{share} of the line, {what}", word.rate))
    source = make()
    behind = source.told(other, source.line // 2, LONG)
    source.told(queue, source.line // 9, LONG)
    short = source.told(queue, source.line // 5, 2, at=source.now + US)
    return [
        *rows,
        sends(source, "a queue's long word, then its short, faster one", short.rate),
        sends(source, "at the end of the short one: another queue's", behind.rate, short.until),
    ]


def per_queue(make: Make, random: Random) -> Rows:
    """Ports of a switch are queues of their own, and so are the same ports of two switches."""
    rows: Rows = []
    switch, port = random.randrange(1, 500), random.randrange(64)
    for what, one, other in (
        ("two ports of a switch", switch << 16 | port, switch << 16 | port + 1),
        ("the same port of two switches", switch << 16 | port, switch + 1 << 16 | port),
        ("queue 0, and another", 0, switch << 16),
        ("the highest number, and another", (1 << 32) - 1, (1 << 31) - 1),
    ):
        source = make()
        slow = source.told(one, source.line // 9, 9)
        more = source.told(other, source.line // 3, 9, at=source.now + 1)
        rows.append(sends(source, f"{what}: the one says little, the other more", slow.rate))
        source.told(one, source.line // 2, 9, at=source.now + 1)
        rows.append(sends(source, f"{what}: then the one says most", more.rate))
    return rows


def eight(make: Make, random: Random) -> Rows:
    """As many as there are places."""
    source = make()
    rates, numbers = ladder(source, random, PLACES), queues(random, PLACES)
    told: dict[int, Word] = {}
    rows: Rows = []
    for place in random.sample(range(PLACES), PLACES):
        at = source.now + 1
        told[place] = source.told(numbers[place], rates[place], 7 + place, at=at)
        least = min(word.rate for word in told.values())
        rows.append(sends(source, f"{len(told)} queues have said something", least))
    rows += ends(source, told.values(), "8 queues")
    for place in random.sample(range(PLACES), PLACES):
        told[place] = source.told(numbers[place], source.line - rates[place], 12, at=source.now + 1)
    least = min(word.rate for word in told.values())
    return [*rows, sends(source, "all 8 have said something else", least)]


def nine(make: Make, random: Random) -> Rows:
    """More than there are places: the least are kept; and who is over gives place first."""
    rows: Rows = []
    count = random.randrange(PLACES + 4, 2 * PLACES)
    slow = random.sample(range(PLACES), PLACES)
    fast = random.sample(range(PLACES, count), count - PLACES)
    for order in (random.sample(range(count), count), slow + fast, fast + slow):
        source = make()
        rates, numbers = ladder(source, random, count), queues(random, count)
        told: dict[int, Word] = {}
        for i in order:
            at = source.now + 1
            told[i] = source.told(numbers[i], rates[i], min(7 + i, LONG), at=at)
            least = min(word.rate for word in told.values())
            rows.append(sends(source, f"{len(told)} queues say something, and all stand", least))
        rows += ends(source, [told[i] for i in range(PLACES)], f"the 8 least of {count}")
    return rows + places_that_are_over(make(), random)


def places_that_are_over(source: Source, random: Random) -> Rows:
    """Let 4 of 8 words be over, and 4 more queues say something."""
    half = PLACES // 2
    rates, numbers = ladder(source, random, 3 * half), queues(random, 3 * half)
    short = [source.told(numbers[i], rates[i], 1) for i in range(half)]
    long = [source.told(numbers[i], rates[i], 8 + i) for i in range(half, PLACES)]
    source.now = max(word.until for word in short)
    more = [source.told(numbers[i], rates[i], 4 + i) for i in range(PLACES, 3 * half)]
    what = "4 of 8 words are over, and 4 more queues say something"
    least = min(word.rate for word in (*long, *more))
    return [sends(source, what, least), *ends(source, [*long, *more], f"{what}: these 8")]


# ---------------------------------------------------------------- TODO 3: the least that stands


def least(make: Make, random: Random) -> Rows:
    """Whoever said it first."""
    rows: Rows = []
    for shares in ((8, 3), (3, 8), (5, 9, 3), (9, 3, 5)):
        source = make()
        words = [
            source.told(queue, source.line // share, 9, at=source.now + 1)
            for queue, share in zip(queues(random, len(shares)), shares, strict=True)
        ]
        said = ", ".join(f"1/{share}" for share in shares)
        slowest = min(word.rate for word in words)
        rows.append(sends(source, f"queues say {said} of the line", slowest))
    return rows


def over(make: Make, random: Random) -> Rows:
    """In whichever order they end."""
    source = make()
    rates, numbers = ladder(source, random, 3), queues(random, 3)
    words = [source.told(numbers[i], rates[i], 7 + 2 * i) for i in random.sample(range(3), 3)]
    rows = ends(source, words, "the slowest ends first")
    source = make()
    rates = ladder(source, random, 3)
    order = random.sample(range(3), 3)
    told = {i: source.told(numbers[i], rates[i], 11 - 2 * i) for i in order}
    for ended in (2, 1):
        rows.append(sends(source, "the slowest ends last: it stands, a faster one is over",
                          told[0].rate, told[ended].until))  # fmt: skip
    source = make()
    slow = source.told(numbers[0], source.line // 9, 3)
    fast = source.told(numbers[1], source.line // 2, 9, at=slow.until)
    return [*rows, sends(source, "one is over as a faster one of another queue comes", fast.rate)]


# ---------------------------------------------------------------- TODO 4: back to the line


def back(make: Make, random: Random) -> Rows:
    """Twice as fast each time that it could have stood again."""
    rows: Rows = []
    for _ in range(3):
        source = make()
        word = source.told(queues(random, 1)[0], part(source, random, 90), random.randrange(9))
        rows += comes_back(source, word, "one word")
    return rows


def back_from(make: Make, random: Random) -> Rows:
    """From the word that stood longest."""
    one, other = queues(random, 2)
    source = make()
    source.told(one, source.line // 60, 2)
    long = source.told(other, source.line // 20, 9)
    rows = comes_back(source, long, "a slower word ended before")
    source = make()
    long = source.told(one, source.line // 60, 9)
    source.told(other, source.line // 20, 2)
    rows += comes_back(source, long, "a faster word ended before")
    source = make()
    slow = source.told(one, source.line // 60, 9)
    alike = source.stands(source.told(other, source.line // 20, 0).rate, 9)
    source.told(other, source.line // 20, 9, at=slow.until - alike)
    rows += comes_back(source, slow, "two end at once, this is the slower one")
    source = make()
    source.told(one, source.line // 60, 12)
    again = source.told(one, source.line // 20, 3, at=source.now + US)
    return [*rows, *comes_back(source, again, "its queue has said it in the place of a longer one")]


def told_again(make: Make, random: Random) -> Rows:
    """Check a report on the way back up, and after a long silence."""
    source = make()
    one, other = queues(random, 2)
    rows: Rows = []
    word = source.told(one, source.line // 64, 6)
    for queue, share in ((one, 100), (other, 50), (one, 3), (other, 70)):
        at = word.until + 2 * word.stands
        rows.append(sends(source, "two doublings after the last word's end",
                          min(4 * word.rate, source.line), at))  # fmt: skip
        word = source.told(queue, source.line // share, 6, at=at)
        rows.append(sends(source, f"told 1/{share} of the line on its way back", word.rate))
    for times in (40, 42, 62, 64, 65, 130, 1 << 20):
        at = word.until + times * word.stands
        rows.append(sends(source, f"{times} times as long after its end", source.line, at))
    return [*rows, sends(source, "a year after its end", source.line, word.until + YEAR)]


def asked(make: Make, random: Random) -> Rows:
    """Check that the effect of time does not depend on how often the rate is queried."""
    source = make()
    one, other = queues(random, 2)
    slow = source.told(one, source.line // 80, 5)
    fast = source.told(other, source.line // 40, 8)
    model = Model(source.line, {one: slow, other: fast})
    rows: Rows = []
    for number in range(60):
        source.now += fast.stands // 7
        what = f"brought up to date, time {number + 1} of 60: bits/s"
        rows.append(Detail.of(what, model.rate(source.now), source.slot.elapse(source.now)))
        rows.append(sends(source, f"asked, time {number + 1} of 60", model.rate(source.now)))
    return rows


# ---------------------------------------------------------------- at random


def schedule(make: Make, random: Random) -> Rows:
    """Words and pauses as they come, of no more queues than there are places."""
    for number in range(SEQUENCES):
        source = make()
        model = Model(source.line)
        numbers = queues(random, random.randrange(1, PLACES + 1))
        unit = source.fields["validity_unit_ns"]
        for event in range(EVENTS):
            at = source.now + random.choice((0, 1, unit, unit << random.randrange(9)))
            queue = random.choice(numbers)
            rate = source.line >> random.randrange(13)
            wish = random.randrange(rate // 2 + 1, rate + 2)
            model.words[queue] = source.told(queue, wish, random.randrange(9), at=at)
            where = f"sequence {number + 1}, word {event + 1}"
            after = source.now + random.choice((0, unit << random.randrange(12)))
            row = sends(source, f"{where}, {after - source.now} ns later", model.rate(after), after)
            if not row.right:
                return [row]
    what = f"{SEQUENCES} sequences of {EVENTS} words"
    return [Detail(what, "all as the text says", "all", True)]


KEEP = "TODO 1: rate, stands_ns, until = now + stands_ns and queue of s->words[...] are written"
LEAST = "TODO 3: over all places with a word whose until is later than now, the least rate"
PLACE = "TODO 2: the queue's own place, a free one, one that is over, the fastest: in this order"
DOUBLE = "TODO 4: (now - until) / stands_ns doublings, from the rate of the latest until"


def items() -> Sequence[Item]:
    """Return them in the order of the README."""

    def alone(name: str, title: str, expected: str, hint: str, judge: Judge) -> Item:
        return Item(name, title, 1, expected, by_itself(name, hint, judge))

    return (
        alone("untold", "a source without any word", "it sends at line rate",
              "a notification without a rate changes nothing", untold),
        alone("obeyed", "TODO 1: a word is obeyed", "at once, and for as long as it is valid",
              KEEP, obeyed),
        alone("bounds", "TODO 1: within bounds", "from min_rate to line_rate",
              "TODO 1: min_rate and line_rate bound the stored rate", bounds),
        alone("stands", "TODO 1: how long", "its validity and two packets' time, to the ns",
              "TODO 1: validity_unit_ns << validity, and 2^16 bits at its own (bounded) rate",
              stands),
        alone("replaces", "TODO 2: a queue's word replaces its last one", "up as well as down",
              PLACE, replaces),
        alone("queues", "TODO 2: but no other queue's", "switch and port identify the queue",
              "TODO 2: compare all of event->number; 0 is a valid queue, rate 0 means free",
              per_queue),
        alone("eight", "TODO 2: eight queues", "all of their words are kept", PLACE, eight),
        alone("nine", "TODO 2: more than eight", "the eight lowest valid words are kept",
              "TODO 2: replace an expired word first; the fastest only by a slower one", nine),
        alone("least", "TODO 3: the lowest of them", "from any queue, and in any order",
              LEAST, least),
        alone("over", "TODO 3: of the valid ones", "an expired word does not limit",
              LEAST, over),
        alone("back", "TODO 4: back by doublings", "once per further validity period",
              DOUBLE, back),
        alone("back-from", "TODO 4: from the right word", "the one that was valid longest",
              "TODO 4: the latest until; of two that end at once the slower one", back_from),
        alone("told-again", "TODO 4: until the next word", "a word counts at once, up and down",
              "TODO 4: a new word is valid, so it applies; 64 doublings do not fit 64 bits",
              told_again),
        alone("asked", "TODO 4: however often it is asked", "elapse alone changes no later rate",
              "TODO 4: count from until and stands_ns, not from s->rate", asked),
        alone("schedule", "all TODOs: random sequences", "as the text says, word by word",
              "the items above show which rule it is", schedule),
    )  # fmt: skip
