"""`load_balancing:` of a class: what may be said, and what is refused with a clear error."""

from __future__ import annotations

import pytest

import topologies
from mechanisms.dlb.settings import GAP_PS, KEY, WORDS, Balancing, Policy
from topologies import TopologyError

TEXT = """\
time_scale: 1
generator: leaf_spine
leaves: 2
spines: 2
hosts_per_leaf: 1
link: {{rate: 100Gbps, delay: 1us, queue: 1MB}}
classes: {{roce: {{dscp: 26, queue: 3, load_balancing: {said}}}}}
"""


def setting(said: str) -> Balancing | None:
    found = topologies.loads(TEXT.format(said=said)).classes[0].setting(KEY)
    assert found is None or isinstance(found, Balancing)
    return found


@pytest.mark.parametrize("word", WORDS)
def test_every_policy_by_its_word(word: str) -> None:
    found = setting(word)
    assert (found is None) == (word == "ecmp")
    assert found is None or (found.policy.word, found.gap_ps) == (word, GAP_PS)


def test_a_gap_of_flowlets() -> None:
    assert setting("{policy: flowlet-dlb, gap: 50us}") == Balancing(Policy.FLOWLET_DLB, 50_000_000)


def test_weights_of_ports_that_are_drawn() -> None:
    assert setting("{policy: spray, weights: auto}") == Balancing(Policy.SPRAY, by_rate=True)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{policy: packet-dlb, weights: auto}", "drawn: with policy ecmp-qp, spray, flowlet$"),
        ("{policy: spray, weights: 3}", "weights"),
        ("best", "'best' is not a policy: known are ecmp, ecmp-qp, round-robin, spray"),
        ("{policy: spray, gap: 5us}", "gap is for flowlets"),
        ("{policy: flowlet, gap: 0us}", "makes every packet a flowlet"),
        ("{gap: 5us}", "policy"),
        ("{policy: flowlet, idle: 5us}", "idle"),
        ("3", "must be a mapping, not 3"),
    ],
)
def test_what_means_nothing_is_refused(said: str, why: str) -> None:
    with pytest.raises(TopologyError, match=why):
        setting(said)
