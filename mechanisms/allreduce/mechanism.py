"""AllReduce as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from mechanisms.allreduce.counters import ALLREDUCE
from mechanisms.contract import Mechanism

NAME = "allreduce"
TABLES = frozenset({"allreduce_edge", "allreduce_tree", "allreduce_port"})

MECHANISM = Mechanism(NAME, "AllReduce", tables=TABLES, counters=(ALLREDUCE,))
