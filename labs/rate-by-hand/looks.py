"""How the items on the header alone look at it: queues and rates are drawn, and ends looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from labs.grade import Detail, Finding
from labs.own_header import found

from .bench import Bench
from .source import Source, Word, drawn

Rows = list[Detail]
Make = Callable[..., Source]
Judge = Callable[[Make, Random], Rows]


def by_itself(name: str, hint: str, judge: Judge) -> Callable[[Bench], Finding]:
    """Return what judges an item of the header alone; `judge` gets what makes sources."""

    def finding(bench: Bench) -> Finding:
        random = bench.random(name)

        def source(**given: int) -> Source:
            return Source(bench.alone, drawn(random, **given), random)

        return found(judge(source, random), hint)

    return finding


def sends(source: Source, what: str, right: int, at: int | None = None) -> Detail:
    """Look how fast it sends, now or later."""
    return Detail.of(f"{what}: bits/s", right, source.rate(at))


def queues(random: Random, count: int) -> list[int]:
    """Draw so many queues, of as many switches and ports."""
    switches, ports = random.sample(range(1, 500), count), random.sample(range(64), count)
    return [switch << 16 | port for switch, port in zip(switches, ports, strict=True)]


def part(source: Source, random: Random, least: int = 100, most: int = 2) -> int:
    """Draw a rate between 1/least and 1/most of the line."""
    return random.randrange(source.line // least, source.line // most)


def ladder(source: Source, random: Random, count: int) -> list[int]:
    """Draw so many rates that differ, the slowest first."""
    steps = sorted(random.sample(range(2 * count), count))
    return [source.line * (step + 2) // (2 * count + 4) for step in steps]


def ends(source: Source, words: Iterable[Word], what: str) -> Rows:
    """Look at all words' ends: 1 ns before one it still counts, at it those behind it do."""
    left = sorted(words, key=lambda word: word.until)
    rows = []
    for number in range(len(left) - 1):
        end = left[number].until
        rows += [
            sends(source, f"{what}: 1 ns before the end of word {number + 1}",
                  min(word.rate for word in left[number:]), end - 1),
            sends(source, f"{what}: at the end of word {number + 1}",
                  min(word.rate for word in left[number + 1 :]), end),
        ]  # fmt: skip
    return rows


def comes_back(source: Source, word: Word, what: str, most: int = 9) -> Rows:
    """Look at the doublings from a word on that was the last to stand."""
    rows = [sends(source, f"{what}: as the word ends", word.rate, word.until)]
    for doublings in range(1, most):
        at = word.until + doublings * word.stands
        after = f"{what}, {doublings} x {word.stands} ns after its end"
        rows += [
            sends(source, f"{after}, 1 ns before", min(word.rate << doublings - 1, source.line),
                  at - 1),
            sends(source, after, min(word.rate << doublings, source.line), at),
        ]  # fmt: skip
    return rows
