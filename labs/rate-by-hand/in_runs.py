"""The items in a network, in virtual time: what the header in each card makes of shared queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labs.grade import Detail, Finding, Item
from labs.own_header import found

from .bench import Bench
from .cases import LEAVE, MANY, ROUNDS, SHARE, TWO_QUEUES, Case, Seen, jain

PAYLOAD = 392.2
"""Gb/s of payload that 400 Gb/s carry, in packets of 4 KB."""
FAIR, FULL, OF_SHARE = 0.95, 0.925, 0.9
MOST_SHARE, MOST_MANY, MOST_LEAVE, MOST_ROUNDS = 4.0, 1.0, 4.0, 16.0
"""MB that may wait: targets are a fraction of these, and a rule that works stays near them."""

Rows = list[Detail]
Judge = Callable[[Seen], Rows]


def in_network(case: Case, hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item by a run."""

    def finding(bench: Bench) -> Finding:
        return found(judge(bench.run(case)), hint)

    return finding


def least(what: str, right: float, came: float, unit: str = "Gb/s") -> Detail:
    """Compare with the least that is right."""
    words = f"at least {right:.4g} {unit}".rstrip(), f"{came:.4g} {unit}".rstrip()
    return Detail(what, *words, came >= right)


def most(what: str, right: float, came: float) -> Detail:
    """Compare what waits in a queue with the most that is right."""
    return Detail(f"the longest queue{what}", f"at most {right:g} MB", f"{came:.2f} MB",
                  came <= right)  # fmt: skip


def shares(case: Case, seen: Seen, line: float, most_waits: float) -> Rows:
    """Look whether all have the same, fill the link, and leave no queue."""
    rates = seen.gbps(case.first, case.last)
    when = f", from {case.first:g} to {case.last:g} ms"
    return [
        least(f"Jain's index of fairness{when}", FAIR, jain(rates), ""),
        least(f"all together{when}", FULL * line, float(rates.sum())),
        most(when, most_waits, seen.longest(case.first, case.last)),
    ]


def share(seen: Seen) -> Rows:
    """Near and far."""
    return shares(SHARE, seen, 400, MOST_SHARE)


def many(seen: Seen) -> Rows:
    """64 of them."""
    return shares(MANY, seen, 100, MOST_MANY)


def max_min(seen: Seen) -> Rows:
    """Whoever meets two queues gets the share of the fuller one, and leaves the rest."""
    both, first, *_ = seen.gbps(TWO_QUEUES.first, TWO_QUEUES.last)
    quarter = PAYLOAD / 4
    return [
        least("a0, through two queues, the second shared by four", OF_SHARE * quarter, both),
        least("a1, which shares the first queue with a0", OF_SHARE * (PAYLOAD - quarter), first),
        most("", MOST_SHARE, seen.longest(TWO_QUEUES.first, TWO_QUEUES.last)),
    ]


def left_alone(seen: Seen) -> float:
    """Return what the one that is back gets, in Gb/s."""
    return float(seen.gbps(LEAVE.first, LEAVE.last)[0])


def leave(seen: Seen) -> Rows:
    """Check that capacity that becomes free is used."""
    what = f"the one that is back, from {LEAVE.first:g} to {LEAVE.last:g} ms"
    return [
        least(what, FULL * 400, left_alone(seen)),
        most("", MOST_LEAVE, seen.longest(0, LEAVE.last)),
    ]


def rounds(seen: Seen) -> Rows:
    """Who comes back after a pause knows what it was told before."""
    rows = [most(" from the second round on", MOST_ROUNDS,
                 seen.longest(ROUNDS.first, ROUNDS.last))]  # fmt: skip
    done = sum(at is not None for at in seen.done)
    return [*rows, least("messages that are done, of 40", 32, done, "")]


def items() -> Sequence[Item]:
    """Return them in the order of the README."""

    def run(name: str, title: str, expected: str, hint: str, case: Case, judge: Judge) -> Item:
        return Item(name, title, 1, expected, in_network(case, hint, judge))

    return (
        run("share", "in a network: two near, two at 100 km", "the same for all, and no queue",
            "TODO 1 and 3: far senders get the same words as near ones, but valid for longer",
            SHARE, share),
        run("max-min", "in a network: two queues", "the lower of both queues' rates",
            "TODO 3: a0 gets words from both; the last and the highest are the wrong ones",
            TWO_QUEUES, max_min),
        run("many", "in a network: 64 senders", "the same for all, and no queue",
            "TODO 1: two packets at 1.5 Gb/s take longer than the validity; what applies then?",
            MANY, many),
        run("leave", "in a network: the others end", "the remaining sender gets all of it",
            "TODO 3 and 4: an expired word does not limit forever", LEAVE, leave),
        run("rounds", "in a network: pauses", "a returning sender does not flood the queue",
            "TODO 4: after a short pause it starts near its last word, not at line rate",
            ROUNDS, rounds),
    )  # fmt: skip
