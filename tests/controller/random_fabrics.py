"""Random fabrics for property tests: every generator at small sizes, and graphs of no pattern."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

import topologies
from topologies import Topology

LINK = {"rate": "100Gbps", "delay": "1us", "queue": "1MB"}
DELAYS = ("200ns", "1us", "30us")
RATES = ("25Gbps", "100Gbps", "400Gbps")
SMALL = st.integers(1, 3)


def _generated(generator: str, **parameters: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"generator": st.just(generator), **parameters})


GENERATED = st.one_of(
    _generated("single", hosts=SMALL),
    _generated(
        "leaf_spine", spines=SMALL, leaves=SMALL, hosts_per_leaf=SMALL, links_per_spine=SMALL
    ),
    _generated(
        "rail",
        groups=SMALL,
        rails=st.integers(2, 3),
        hosts_per_group=SMALL,
        spines=st.integers(0, 2),
    ),
    _generated("fat_tree", k=st.sampled_from([2, 4]), hosts_per_leaf=st.integers(1, 2)),
    _generated(
        "dual_plane",
        planes=st.integers(2, 3),
        spines=SMALL,
        leaves=SMALL,
        hosts_per_leaf=SMALL,
    ),
    _generated(
        "hpn",
        rails=st.integers(1, 2),
        pods=st.just(2),
        servers_per_segment=SMALL,
        spines=st.just(2),
        cores=st.just(2),
    ),
    _generated(
        "two_dc",
        spines=SMALL,
        leaves=SMALL,
        hosts_per_leaf=SMALL,
        borders=st.integers(1, 2),
        long_link=st.fixed_dictionaries({"length": st.sampled_from(["10km", "100km"])}),
    ),
    _generated(
        "data_centres",
        centres=st.integers(2, 4),
        shape=st.sampled_from(["line", "ring", "full"]),
        spines=SMALL,
        leaves=SMALL,
        hosts_per_leaf=SMALL,
        borders=st.integers(1, 2),
        long_link=st.fixed_dictionaries({"length": st.sampled_from(["10km", "100km"])}),
    ),
)


@st.composite
def _graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Switches, some with hosts, joined at random: islands, rings and parallel links included."""
    count = draw(st.integers(2, 7))
    number = st.integers(1, count)
    pairs = st.tuples(number, number).filter(lambda ends: ends[0] != ends[1])
    edges = draw(st.lists(pairs, max_size=14))
    homes = draw(st.lists(number, min_size=1, max_size=6))
    ports = dict.fromkeys(range(1, count + 1), 0)

    def end(switch: int) -> str:
        ports[switch] += 1
        return f"s{switch}:{ports[switch]}"

    links = [
        {
            "a": end(a),
            "b": end(b),
            "delay": draw(st.sampled_from(DELAYS)),
            "rate": draw(st.sampled_from(RATES)),
        }
        for a, b in edges
    ]
    hosts = [f"h{place}" for place in range(1, len(homes) + 1)]
    links += [{"a": host, "b": end(home)} for host, home in zip(hosts, homes, strict=True)]
    return {"switches": [f"s{n}" for n in ports], "hosts": hosts, "links": links}


def fabrics(**said: Any) -> st.SearchStrategy[Topology]:
    """Fabrics of any kind; `said`: what all their files say beside."""
    return st.one_of(GENERATED, _graphs()).map(
        lambda file: topologies.loads(
            yaml.safe_dump({"time_scale": 1, "link": LINK, **file, **said}, sort_keys=False)
        )
    )
