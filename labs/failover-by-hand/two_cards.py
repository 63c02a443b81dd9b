"""The items in two cards on two planes, in virtual time, with the header in the sender's card."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labs.grade import Detail, Finding, Item
from labs.own_header import found

from . import runs
from .bench import Bench
from .header_alone import RAMPS
from .network import MS as MS_PS
from .network import Story

MOST_SWITCHES = 12
"""Of a plane that flaps twenty times: the hold-down is longer than a flap after the fourth."""
LEAST_AFTER, LEAST_BACK = 0.48, 0.98
"""Shares of both planes' goodput: with one plane, and when the other one is back."""
OVER = 1.1
"""Above its share of the line a plane may be by so much: packets are whole."""

Rows = list[Detail]
Judge = Callable[[Story, runs.Tale], Rows]


def in_cards(tale: runs.Tale, hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item by a story of two cards."""

    def finding(bench: Bench) -> Finding:
        own = tale.drawn(bench.seed)
        return found(judge(bench.story(own), own), hint)

    return finding


def full(story: Story, tale: runs.Tale) -> float:
    """Return both planes' goodput before anything befalls one of them."""
    return story.gbps(runs.FULL_FROM, tale.first)


def share(what: str, least: float, came: float) -> Detail:
    """Compare a share with the least that is right."""
    return Detail(what, f"at least {least:.0%}", f"{came:.1%}", came >= least)


def whole(story: Story) -> Detail:
    """Look whether all work went well."""
    return Detail.of("work requests that failed", 0, story.failed)


def cut(story: Story, tale: runs.Tale) -> Rows:
    """0.5 to 1 ms after the cut, and 20 ms after it was mended."""
    after, until = runs.AFTER_CUT
    end = tale.last + runs.BACK_MS * MS_PS
    before = full(story, tale)
    alone = story.gbps(tale.first + after, tale.first + until) / before
    what = f"goodput in the last of {runs.BACK_MS} ms after the plane is mended"
    return [
        share("goodput from 0.5 to 1 ms after the cut", LEAST_AFTER, alone),
        share(what, LEAST_BACK, story.gbps(end - MS_PS, end) / before),
        whole(story),
    ]


def no_overshoot(story: Story, tale: runs.Tale) -> Rows:
    """In each of the ramp's steps."""
    begun = story.returned(tale.first)
    if begun is None:
        return [Detail("the plane is used again", "yes", "no", False)]
    step = runs.fields_of(tale.rate_bps)["ramp_ns"] * 1000
    rows: Rows = []
    for n, allowed in enumerate((1 / 16, 1 / 4)):
        bits = 8 * story.sent(begun + n * step, begun + (n + 1) * step)
        came = bits * 1e12 / step / tale.rate_bps
        what = f"of its line it carries in millisecond {n + 1} after its return"
        right = f"at most {allowed * OVER:.1%}"
        rows.append(Detail(what, right, f"{came:.1%}", came <= allowed * OVER))
    return rows


def flapping(story: Story, tale: runs.Tale) -> Rows:
    """How often the card changes between two planes and one."""
    came = len(story.changes)
    what = "times that the plane is taken into use or given up, of 40 that its link changes"
    steady = story.gbps(tale.first, tale.last) / full(story, tale)
    return [
        Detail(what, f"at most {MOST_SWITCHES}", str(came), came <= MOST_SWITCHES),
        share("goodput meanwhile", LEAST_AFTER, steady),
        whole(story),
    ]


def one_way(story: Story, tale: runs.Tale) -> Rows:
    """Check a fault in one direction: data could pass, and nothing comes back."""
    came = story.gbps(tale.first + MS_PS, tale.last) / full(story, tale)
    what = "bytes that leave by it in its first 10 ms after the loss is found"
    found_at = story.changes[0][0] if story.changes else tale.last
    return [
        share("goodput while it lasts", LEAST_AFTER, came),
        Detail.of(what, 0, story.sent(found_at + MS_PS // 10, found_at + 10 * MS_PS)),
        whole(story),
    ]


def lossy(story: Story, tale: runs.Tale) -> Rows:
    """Check a plane that answers only now and then."""
    came = story.sent(tale.first + MS_PS, tale.last)
    share_of = story.gbps(tale.first + 2 * MS_PS, tale.last) / full(story, tale)
    return [
        Detail.of("bytes that leave by a plane that loses half of its packets", 0, came),
        share("goodput meanwhile", LEAST_AFTER, share_of),
        whole(story),
    ]


def items() -> Sequence[Item]:
    """Return them in the order of the README."""

    def cards(
        name: str, title: str, expected: str, hint: str, tale: runs.Tale, judge: Judge
    ) -> Item:
        return Item(name, title, 1, expected, in_cards(tale, hint, judge))

    return (
        cards("cut", "in the card: cut, and back", "half of the goodput at once, all within 20 ms",
              "held for hold_ns (10 ms) from the loss on, then answers each ms, then 2 ms of ramp",
              runs.CUT, cut),
        cards("overshoot", "in the card: without a burst", "1/16 of the line, then 1/4", RAMPS,
              runs.CUT, no_overshoot),
        cards("flapping", "in the card: flapping at 10 Hz", "it is soon left alone",
              "TODO 3: a hold-down that doubles is soon longer than the plane stands",
              runs.FLAPPING, flapping),
        cards("one-way", "in the card: one direction is dead", "half of the goodput, nothing fails",
              "TODO 3: it is held down from when the silence was noticed", runs.ONE_WAY, one_way),
        cards("lossy", "in the card: half of its packets get lost", "it stays shut",
              "TODO 2: answers now and then are not answers in a row", runs.LOSSY, lossy),
    )  # fmt: skip
