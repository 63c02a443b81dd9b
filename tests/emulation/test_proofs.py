"""What proofs compute from a topology, before they touch the network."""

from __future__ import annotations

import pytest

from emulation.proofs import round_trip_s
from topologies.loader import load
from topologies.model import Endpoint


@pytest.mark.parametrize(
    ("name", "target", "fabric_us"),
    [
        ("leafspine", "h2", 2 * 2 * 0.5),  # under one leaf
        ("leafspine", "h3", 2 * 4 * 0.5),
        ("two-dc", "h5", 2 * (6 * 0.5 + 50)),
    ],
)
def test_a_round_trip_is_all_the_links_there_and_back(
    name: str, target: str, fabric_us: float
) -> None:
    topology = load(name)
    source, destination = (topology.interface(Endpoint(host, 0)) for host in ("h1", target))
    found = round_trip_s(topology, source, destination)
    assert found == pytest.approx(fabric_us * 1e-6 * topology.time_scale)
    assert found == round_trip_s(topology, destination, source)
