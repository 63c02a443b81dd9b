"""Every failure of a fat tree with k = 4: links, their directions, switches, pairs of links."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.mechanisms.dpfr.rig import Rig
from tests.mechanisms.dpfr.survey import (
    Failure,
    Survey,
    pairs_of_links,
    shuffled,
    single_directions,
    single_links,
    switches,
)

DOUBLE_CUTS, WITHOUT_UP_DOWN = 496, 56


@pytest.fixture(scope="module")
def rig() -> Rig:
    return Rig()


def surveyed(rig: Rig, failures: Sequence[Failure]) -> Survey:
    found = Survey.of(rig)
    found.take(failures)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.failures == len(failures)
    return found


def test_single_links_and_switches(rig: Rig) -> None:
    """All that can be reached is, after the bound; nothing is held at the end."""
    failures = [*single_links(rig), *switches(rig), *single_directions(rig)[::7]]
    assert not surveyed(rig, shuffled(failures)).without_way


def test_some_pairs_of_links(rig: Rig) -> None:
    some = shuffled(pairs_of_links(rig))[::16]
    together = [f for f in pairs_of_links(rig) if str(f) == "s4-s12 and s16-s20"]
    assert len(together) == 1, "each alone cuts off nobody behind s16, which hears of neither"
    surveyed(rig, some + together)


@pytest.mark.long
def test_every_failure() -> None:
    """All 32 links, 64 directions, 20 switches and 496 pairs of links."""
    rig = Rig()
    single = [*single_links(rig), *single_directions(rig), *switches(rig)]
    assert len(single) == 32 + 64 + 20
    assert not surveyed(rig, shuffled(single)).without_way
    double = pairs_of_links(rig)
    assert len(double) == DOUBLE_CUTS
    without = surveyed(rig, shuffled(double)).without_way
    assert len(without) == WITHOUT_UP_DOWN


def test_the_graph_alone_finds_the_pairs_without_an_up_down_path(rig: Rig) -> None:
    """One leaf is cut from the one plane of cores, another one from the other: 8 x 7 pairs."""
    graph = Survey.of(rig).graph
    found = [f for f in pairs_of_links(rig) if graph.joined(f.links) - graph.up_down(f.links)]
    assert len(found) == WITHOUT_UP_DOWN
    for failure in found:
        low = {link.a.node for link in failure.links}
        assert low <= set(graph.leaves) and len(low) == 2
        assert graph.joined(failure.links) - graph.up_down(failure.links) == {
            (one, other) for one in low for other in low if one != other
        }
    assert not any(graph.joined(f.links) - graph.up_down(f.links) for f in single_links(rig))
