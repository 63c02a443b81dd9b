"""Fast CNP as a mechanism of the house: what it has of what `mechanisms.contract` names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from controller.entries import Entry
from controller.leaf_routes import Ways
from controller.parts import FabricView, Learner, View
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.contract import Measured, Mechanism
from mechanisms.fast_cnp.counters import FAST_CNPS
from mechanisms.fast_cnp.entries import (
    KEY,
    MODE_TABLE,
    NAME,
    fixed_entries,
    queue_entries,
    source_entries,
    summary_of,
)
from mechanisms.fast_cnp.parameters import VALIDITY_UNIT_NS
from mechanisms.fast_cnp.settings import FAST_CNP, SENDER
from mechanisms.fast_cnp.stock_queue_pairs import (
    PORT_TABLE,
    STOCK_TABLE,
    StockQueuePairs,
    watches,
)
from mechanisms.fast_cnp.words import WORDS
from protocols.notification_types import NotificationType
from topologies.model import PS_PER_NS, Switch, Topology
from workloads.senders import titles


@dataclass(frozen=True)
class FastCnpMechanism(Mechanism):
    """Switches that tell sources of long queues themselves."""

    def validity_unit_ps(self, topology: Topology, kind: int) -> int:
        """Return 256 ns, for notifications of congestion."""
        return VALIDITY_UNIT_NS * PS_PER_NS if kind == NotificationType.CONGESTION else 0

    def sizes(self, topology: Topology) -> Mapping[str, int]:
        """Return room for all sources in each switch, a power of two; the module has 4096."""
        sources = sum(1 for _ in topology.interfaces())
        room = 1 << (sources - 1).bit_length() if sources else 0
        return {"FAST_CNP_SOURCES": room} if room > SOURCES else {}

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield that switches tell sources, how much, and what is sampled."""
        return fixed_entries(view)

    def entries_towards(
        self, view: FabricView, leaf: Switch, round_trip_ps: int
    ) -> Iterator[Entry]:
        """Yield the sources at a leaf, and the lengths of their control loops."""
        return source_entries(view, leaf, round_trip_ps)

    def summary(self, view: View, ways: Ways) -> Mapping[Hashable, Hashable]:
        """Return the longest control loops behind each port."""
        return summary_of(view, ways)

    def entries_of(self, view: View, key: Hashable, value: Hashable) -> Iterator[Entry]:
        """Yield how queues are watched."""
        return queue_entries(view, key, value)

    def cautions(self, measured: Measured) -> Iterator[str]:
        """Yield warnings that notifications have no receiver, or that switches send none."""
        each, name = measured.data_class, measured.topology.name
        told = each is not None and each.setting(KEY) is not None
        asked = measured.control == SENDER.name
        if told and measured.hears and not asked:
            yield (
                f"switches of {name} tell sources by fast CNPs and mark less for it, which "
                f"{titles(measured.control)} alone does not hear: --congestion fast-cnp, or "
                "stock_nics: in the topology"
            )
        if asked and not told:
            yield (
                f"no class of {name} has its switches send fast CNPs of RoCE data "
                "(fast_cnp: true), so none come"
            )

    def learner(
        self, topology: Topology, facts: TargetFacts, policy: FabricPolicy
    ) -> Learner | None:
        """Return what finds out the queue pairs of stock NICs; None where there are none."""
        return StockQueuePairs(topology, facts, policy) if watches(policy) else None


SOURCES = 4096  # as p4src/modules/fast_cnp/claim.p4 has it


MECHANISM = FastCnpMechanism(
    NAME,
    "fast CNP",
    settings=(FAST_CNP,),
    sender=SENDER,
    tables=frozenset({MODE_TABLE, PORT_TABLE, STOCK_TABLE}),
    learned_tables=frozenset({STOCK_TABLE}),
    counters=(FAST_CNPS,),
    words=WORDS,
)
