"""The word `plane`: what it shows, what it drains, and when it says that a plane may go."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

import topologies
from mechanisms.contract import Rows, Running, WordError
from mechanisms.dual_plane import words
from topologies import Endpoint

FABRIC = """\
time_scale: 1
generator: {generator}
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {{rate: 100Gbps, delay: 500ns, queue: 4MB}}
"""
(PLANE,) = words.WORDS


class Cards:
    """Cards that have so many packets on the way each time that they are asked."""

    def __init__(self, outstanding: Collection[int] = ()) -> None:
        self.drained: frozenset[Endpoint] = frozenset()
        self._outstanding = list(outstanding)
        self.asked: list[frozenset[Endpoint]] = []

    def drain(self, ends: Collection[Endpoint], on: bool) -> None:
        self.drained = self.drained | set(ends) if on else self.drained - set(ends)

    def outstanding(self, ends: Collection[Endpoint]) -> int:
        self.asked.append(frozenset(ends))
        return self._outstanding.pop(0) if self._outstanding else 0


def running(cards: Cards, generator: str = "dual_plane", planes: int = 2) -> Running:
    text = FABRIC.format(generator=generator)
    if planes > 2:
        text += f"planes: {planes}\n"
    topology = topologies.loads(text)
    down = {topology.links[0]}
    controller: Any = SimpleNamespace(links_down=frozenset(down))
    return Running(topology, controller, cards)


def said(run: Running, rest: str) -> list[str]:
    return [str(line) for line in PLANE.run(run, rest)]


PLANE_B = {Endpoint(f"h{n}", 1) for n in range(1, 5)}


def test_plane_shows_switches_links_and_what_is_on_the_way() -> None:
    cards = Cards([3, 1])
    (rows,) = PLANE.run(running(cards), "")
    assert isinstance(rows, Rows)
    assert [list(row) for row in rows.rows] == [
        ["A", "4", "7 of 8", "4", "3 packets", "in use"],
        ["B", "4", "8 of 8", "4", "1 packet", "in use"],
    ]
    cards.drain(PLANE_B, True)
    (rows,) = PLANE.run(running(cards), "")
    assert isinstance(rows, Rows)
    assert [row[-1] for row in rows.rows] == ["in use", "drained"]


@pytest.mark.parametrize("name", ["B", "plane B"])
def test_drain_waits_until_nothing_is_on_the_way(name: str) -> None:
    cards = Cards([9, 4, 0])
    first, last = said(running(cards), f"drain {name}")
    assert first == "plane B: 4 interfaces of 4 hosts"
    assert last.startswith("plane B: drained; nothing on the way after 0.")
    assert cards.drained == PLANE_B
    assert cards.asked == [PLANE_B] * 3
    assert said(running(cards), "undrain B") == ["plane B: hosts may send by it again"]
    assert cards.drained == frozenset()


def test_what_never_arrives_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "PATIENCE_S", 0.05)
    cards = Cards([7] * 1000)
    *_, last = said(running(cards), "drain A")
    assert last.startswith("plane A: drained, and 7 packets still on the way after 0.05 s: do not")


def test_the_last_plane_is_not_drained() -> None:
    cards = Cards()
    run = running(cards, planes=3)
    said(run, "drain A")
    said(run, "drain C")
    with pytest.raises(WordError, match=r"^B is the last plane that is not drained") as refused:
        said(run, "drain B")
    assert refused.value.remedy == "plane undrain NAME first, with NAME of A and C"
    assert Endpoint("h1", 1) not in cards.drained
    said(run, "undrain A")
    said(run, "drain B")


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ("drain", r"^plane \[drain\|undrain NAME\], not 'drain'"),
        ("stop B", r"^plane \[drain\|undrain NAME\], not 'stop B'"),
        ("drain C", "^no plane is called 'C'; available: A, B"),
    ],
)
def test_what_can_not_be_done_is_refused(rest: str, error: str) -> None:
    cards = Cards()
    with pytest.raises(WordError, match=error):
        said(running(cards), rest)
    assert not cards.drained


def test_a_fabric_without_planes_says_so() -> None:
    run = running(Cards(), "leaf_spine")
    assert said(run, "") == ["topology has no planes: no host has interfaces that do not meet"]
    with pytest.raises(WordError, match="has no planes"):
        said(run, "drain A")
