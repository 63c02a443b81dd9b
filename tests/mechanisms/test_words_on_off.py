"""Words that switch a mechanism off and on: what they say where there is nothing to be switched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import topologies
from controller.policy import FabricPolicy
from mechanisms import registry
from mechanisms.contract import Running, Word, WordError
from topologies.model import Topology

PLAIN = """\
time_scale: 1
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
link: {rate: 100Gbps, delay: 500ns, queue: 4MB}
"""
ALL = (
    PLAIN
    + """\
dpfr: true
iglb: true
allreduce: {jobs: {training: {workers: all}}}
classes:
  roce:
    {dscp: 26, queue: 3, fast_cnp: true, load_balancing: packet-dlb, ecn: 400kB, ecn_tuning: true}
  rest: {queue: 0}
"""
)
WORDS = [word for each in registry.mechanisms() for word in each.words if "off" in word.complete]


def running(text: str) -> Running:
    """Return a run of switches whose program knows no mechanism."""
    topology: Topology = topologies.loads(text)
    controller: Any = SimpleNamespace(
        policy=FabricPolicy.of(topology), has=lambda switch, table="", counter="": False
    )
    cards: Any = None  # none of these words speaks to hosts
    return Running(topology, controller, cards)


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_word_of_mechanism_that_is_not_used(word: Word) -> None:
    (said,) = word.run(running(PLAIN), "")
    with pytest.raises(WordError) as refused:
        list(word.run(running(PLAIN), "off"))
    assert str(refused.value) == said
    assert refused.value.remedy.startswith("in ")


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_word_with_something_else_behind_it(word: Word) -> None:
    for text in (PLAIN, ALL):
        with pytest.raises(WordError, match=rf"^{word.name} \[on\|off.*\], not 'of'"):
            list(word.run(running(text), "of"))


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_word_where_no_switch_knows_the_mechanism(word: Word) -> None:
    for rest in ("", "on"):
        with pytest.raises(WordError, match=r"^no switch runs a program that knows \w"):
            list(word.run(running(ALL), rest))
