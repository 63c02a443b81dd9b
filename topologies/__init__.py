"""What a network looks like: the YAML files, their schema, the typed model and the generators.

Everything here is in fabric time and is pure data: no sockets, no namespaces, no tables.
What the switches should do about it belongs to `controller`; making it run, to `emulation`.
"""

from __future__ import annotations

from topologies.errors import Problem, TopologyError
from topologies.loader import available, load, loads
from topologies.model import (
    Endpoint,
    Host,
    Interface,
    Link,
    Port,
    Role,
    Switch,
    Topology,
    TrafficClass,
)

__all__ = [
    "Endpoint",
    "Host",
    "Interface",
    "Link",
    "Port",
    "Problem",
    "Role",
    "Switch",
    "Topology",
    "TopologyError",
    "TrafficClass",
    "available",
    "load",
    "loads",
]
