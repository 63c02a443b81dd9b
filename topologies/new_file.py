"""A topology file of a generator, as a start for one's own: `weft topo new`.

    print(text("fat_tree", {"k": 8, "link.rate": "100Gbps"}))

Unlike files without it, a new one has switches that take time: real ones need 300 to 800 ns.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import yaml

from topologies.errors import did_you_mean
from topologies.generator_schema import GENERATORS
from topologies.loader import loads

TIME_SCALE = 10_000
LATENCY = "500ns"
LINK = {"rate": "400Gbps", "delay": "500ns", "queue": "1MB"}
CLASSES = {
    "cnp": {"dscp": 48, "queue": 7},
    "roce": {
        "dscp": 26,
        "queue": 3,
        "ecn": {"min": "300kB", "max": "800kB", "probability": "20%"},
    },
    "rest": {"queue": 0},
}
SIZES: Mapping[str, Mapping[str, Any]] = {
    "single": {"hosts": 4},
    "leaf_spine": {"spines": 2, "leaves": 2, "hosts_per_leaf": 2},
    "rail": {"groups": 1, "rails": 8, "hosts_per_group": 4, "spines": 2},
    "fat_tree": {"k": 4},
    "dual_plane": {"spines": 2, "leaves": 2, "hosts_per_leaf": 2},
    "hpn": {"segments": 2, "servers_per_segment": 1, "spines": 2},
    "two_dc": {
        "spines": 2,
        "leaves": 2,
        "hosts_per_leaf": 2,
        "borders": 2,
        "long_link": {"length": "10km", "queue": "5MB"},
    },
    "data_centres": {
        "centres": 3,
        "spines": 2,
        "leaves": 2,
        "hosts_per_leaf": 2,
        "borders": 2,
        "long_link": {"length": "10km", "queue": "5MB"},
    },
}
"""What each generator can't do without, small enough for one machine."""


def text(generator: str, settings: Mapping[str, Any]) -> str:
    """Return the file. `settings`: keys of it, nested ones with dots, and what they are to be.

    Raises ValueError for a generator that there is not and for a key below something that has no
    parts, TopologyError where the file would be wrong.
    """
    if generator not in GENERATORS:
        hint = did_you_mean(generator, GENERATORS) or f"; available: {', '.join(GENERATORS)}"
        raise ValueError(f"there is no generator {generator!r}{hint}")
    file: dict[str, Any] = {"time_scale": TIME_SCALE, "generator": generator, **SIZES[generator]}
    file |= {"link": dict(LINK), "latency": LATENCY, "classes": CLASSES}
    file = copy.deepcopy(file)
    for path, value in settings.items():
        _put(file, path, value)
    about = inspect.getdoc(GENERATORS[generator]) or ""
    head = "".join(f"# {line}\n" for line in about.splitlines() if line)
    body = "".join(_line(key, value) for key, value in file.items())
    loads(head + body, file=f"<new {generator}>")
    return head + body


def _put(file: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    at = file
    for key in above:
        inner = at.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{path}: {key} is {inner!r}, which has no parts")
        at = inner
    at[last] = value


def _line(key: str, value: Any) -> str:
    if key != "classes":
        return f"{key}: {_flow(value)}\n"
    return f"{key}:\n" + "".join(f"  {name}: {_flow(one)}\n" for name, one in value.items())


def _flow(value: Any) -> str:
    """Return a value on one line."""
    dumped = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return dumped.removesuffix("...\n").strip()
