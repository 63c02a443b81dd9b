"""The items in a network, in virtual time: what the header at all senders makes of shared queues.

Thresholds are wide: ENCC's rule and fast CNP's pass as well as the reference does, DCQCN's and a
rate that never changes do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from labs.grade import Detail, Finding, Item
from labs.own_header import found

from .bench import Bench
from .cases import INCAST, JOIN, LEAVE, LOSSY, MICE, NEAR_FAR, TWO_LINKS, Case, Seen, jain

FULL, FULL_LOSSY, FULL_BESIDE = 80.0, 75.0, 35.0
"""Gb/s of payload that a link of 100 Gb/s carries at least; 98 are all that there is."""
FAIR = 0.85
QUEUE_KB = {TWO_LINKS.name: 120.0}
MOST_QUEUE_KB = 250.0
"""What waits in the fullest port in 99 % of the time; 125 kB are 10 us of the line."""
THROUGH_BOTH = 1.5
"""Gb/s that who passes two full links has at least; a sixth of the first would be 16."""
MESSAGE_US = 60.0
"""A short message's 99th percentile: 5 us are all that it needs."""
SMALL = 100_000

Rows = list[Detail]
Judge = Callable[[Seen], Rows]


def least(what: str, right: float, came: float, unit: str = "Gb/s") -> Detail:
    """Compare with the least that is right."""
    words = f"at least {right:.4g} {unit}".rstrip(), f"{came:.4g} {unit}".rstrip()
    return Detail(what, *words, came >= right)


def most(what: str, right: float, came: float, unit: str) -> Detail:
    """Compare with the most that is right; what never happened is not."""
    shown = "some are not done" if np.isnan(came) else f"{came:.4g} {unit}"
    return Detail(what, f"at most {right:.4g} {unit}", shown, came <= right)


def most_kb(case: Case) -> float:
    """Return the most that may wait in a case, in kB."""
    return QUEUE_KB.get(case.name, MOST_QUEUE_KB)


def waits(case: Case, seen: Seen) -> Detail:
    """Look at the queue."""
    when = f"from {case.first:g} to {case.last:g} ms"
    came = seen.queue(case.first, case.last)
    return most(f"the fullest queue, 99 % of the time {when}", most_kb(case), came, "kB")


def together(case: Case, seen: Seen, right: float = FULL) -> Detail:
    """Look whether the link is full."""
    when = f"from {case.first:g} to {case.last:g} ms"
    return least(f"all together, {when}", right, float(seen.gbps(case.first, case.last).sum()))


def fair(case: Case, seen: Seen) -> Detail:
    """Look whether all have the same."""
    index = jain(seen.gbps(case.first, case.last))
    return least("Jain's index of fairness", FAIR, index, "")


def shared(case: Case) -> Judge:
    """Return what looks whether all have the same, fill the link, and leave no queue."""
    return lambda seen: [waits(case, seen), together(case, seen), fair(case, seen)]


def leave(seen: Seen) -> Rows:
    """Who is left gets what has become free."""
    alone = float(seen.gbps(LEAVE.first, LEAVE.last)[0])
    done = int((~np.isnan(seen.took[seen.sizes > SMALL])).sum())
    return [
        least("messages that are done, of 3", 3, done, ""),
        least(f"the one that is left, from {LEAVE.first:g} to {LEAVE.last:g} ms", FULL, alone),
        waits(LEAVE, seen),
    ]


def two_links(seen: Seen) -> Rows:
    """Both links are full, and who passes both is not starved."""
    both, last, *first = seen.gbps(TWO_LINKS.first, TWO_LINKS.last).tolist()
    return [
        waits(TWO_LINKS, seen),
        least("through the first link", FULL, both + sum(first)),
        least("through the last link", FULL, both + last),
        least("h1, through both", THROUGH_BOTH, both),
    ]


def lossy(seen: Seen) -> Rows:
    """Fewer acknowledgements are no reason to stop, nor to overflow."""
    return [waits(LOSSY, seen), together(LOSSY, seen, FULL_LOSSY), fair(LOSSY, seen)]


def slowest(seen: Seen) -> float:
    """Return the 99th percentile of short messages in us; NaN if more than that are not done."""
    took = np.where(np.isnan(seen.took), np.inf, seen.took)[seen.sizes < SMALL]
    value = float(np.quantile(took, 0.99, method="higher"))
    return value if np.isfinite(value) else float("nan")


def mice(seen: Seen) -> Rows:
    """Short messages do not wait behind long ones, which have the rest."""
    long = float(seen.gbps(MICE.first, MICE.last)[:2].sum())
    return [
        most("99 % of the short messages take", MESSAGE_US, slowest(seen), "us"),
        least("the two long ones together", FULL_BESIDE, long),
    ]


def items() -> Sequence[Item]:
    """Return them in the order of the README."""

    def run(case: Case, marks: int, title: str, expected: str, hint: str, judge: Judge) -> Item:
        def finding(bench: Bench) -> Finding:
            return found(judge(bench.run(case)), hint)

        return Item(case.name, f"in a network: {title}", marks, expected, finding)

    return (
        run(INCAST, 2, "16 to one", "a full link, no queue, the same for all",
            "TODO 2 to 4: less than a packet per round trip each; what does a queue count?",
            shared(INCAST)),
        run(JOIN, 2, "a fifth comes", "2 ms later all have the same",
            "TODO 3: multiplying alone leaves all shares unchanged; the added part moves them",
            shared(JOIN)),
        run(LEAVE, 1, "three of four end", "the remaining sender gets all of it",
            "TODO 3: U far below eta is the quickest way up", leave),
        run(NEAR_FAR, 1, "two near, two at 2 km", "a full link, no queue, no sender starves",
            "TODO 3: base_rtt_ns is the longest, and the same for all", shared(NEAR_FAR)),
        run(TWO_LINKS, 2, "two full links", "both are full, and neither has a queue",
            "TODO 1: all records count, not the last switch's alone", two_links),
        run(LOSSY, 1, "acknowledgements are lost", "the remaining ones are enough",
            "TODO 1: records show what was sent since the last one that arrived", lossy),
        run(MICE, 2, "short messages next to long ones", "they do not wait",
            "TODO 2 to 4: what waits in a queue that is full on average?", mice),
    )  # fmt: skip
