"""Finds thresholds while a fabric runs: reports of queues in, entries of switches out. Passive.

    a report -> what came for the queue lately -> formula -> one entry, if it differs enough

Thresholds change by reports alone. A queue for which nothing comes has no reports and keeps what it
has, and so does every queue while no controller is there. An entry has both thresholds, so a switch
marks by the old ones or by the new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest

from controller.digests import DigestMessage
from controller.entries import TableEntry
from controller.leaf_routes import Routes
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.ecn_tuning.entries import DIGEST, NAME, threshold_entry
from mechanisms.ecn_tuning.formula import PS_PER_S, Measured, bytes_in, flows_of, thresholds
from mechanisms.ecn_tuning.queues import TunedQueue, queues_of
from topologies.ecn import EcnThresholds
from topologies.model import PS_PER_NS, Topology

CHANGE = 16
"""A threshold is written that differs from the one in force by more than a part of so many."""

REPEATS = 2
"""A queue has to make room for a rise that was reported this many times within its memory."""

Place = tuple[str, int, int]
"""Switch, port, class of service."""


@dataclass
class Known:
    """What is known of a queue.

    `lately`: reports with their times (ns), the newest last, within the queue's memory. `last_bps`:
    what came in the last interval, in bits/s of the fabric. `found`: its thresholds, None as
    long as it has had no report.
    """

    queue: TunedQueue
    lately: deque[tuple[int, Measured]] = field(default_factory=deque)
    last_bps: int = 0
    found: EcnThresholds | None = None

    def measured(self) -> Measured:
        """Return the most flows that were reported lately, and the most bytes that came twice.

        A burst that came once says little of the next one: two flows that start at line rate fill
        the queue once, and then have slowed down.
        """
        flows = max((each.flows for _, each in self.lately), default=0)
        rises = nlargest(REPEATS, (each.rise_bytes for _, each in self.lately))
        return Measured(flows, rises[-1] if rises else 0)


class EcnTuner:
    """One fabric's thresholds. Satisfies `controller.parts.Learner`."""

    def __init__(self, topology: Topology, facts: TargetFacts, policy: FabricPolicy) -> None:
        self._facts = facts
        self._policy = policy
        self._on = NAME not in policy.off
        self.reports = 0
        self.changes = 0
        self.known: dict[Place, Known] = {
            (switch.name, queue.port, queue.class_of_service): Known(queue)
            for switch in topology.switches
            for queue in queues_of(topology, switch, policy, facts)
        }

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Take reports; return the entries of queues that are to mark otherwise."""
        touched: dict[Place, None] = {}
        for message in messages:
            if message.digest == DIGEST:
                values = message.values
                place = (message.switch, values["port"], values["class_of_service"])
                if place in self.known:
                    self.reports += 1
                    self._take(self.known[place], values, now)
                    touched[place] = None
        changed = [place for place in touched if self._find(self.known[place])]
        self.changes += len(changed)
        return Learned(put=self._entries(changed)) if changed and self._on else None

    def elapsed(self, now: int) -> Learned | None:
        """Do nothing: all follows from reports."""
        del now
        return None

    def due(self) -> int | None:
        """Return None: nothing is due before a report comes."""
        return None

    def routed(self, routes: Routes, now: int) -> Learned | None:
        """Do nothing: other routes bring other reports."""
        del routes, now
        return None

    def switched(self, on: bool, now: int) -> Learned | None:
        """Take all thresholds away, so that those of the file hold, or put them back."""
        del now
        if on == self._on:
            return None
        self._on = on
        entries = self._entries(place for place, each in self.known.items() if each.found)
        return Learned(put=entries) if on else Learned(gone=entries)

    def totals(self) -> Mapping[str, int]:
        """Return how many reports came, and how many thresholds followed from them."""
        return {"ecn_reports": self.reports, "ecn_thresholds": self.changes}

    def _take(self, known: Known, values: Mapping[str, int], now: int) -> None:
        queue, facts = known.queue, self._facts
        rise_bytes = bytes_in(queue.rate_bps, _fabric_ps(values["rise"], facts))
        memory_ns = queue.memory_ps * facts.time_scale // PS_PER_NS
        while known.lately and known.lately[0][0] <= now - memory_ns:
            known.lately.popleft()
        known.lately.append((now, Measured(flows_of(values["cells"]), rise_bytes)))
        took_ps = max(1, _fabric_ps(values["ticks"], facts))
        known.last_bps = values["bytes"] * 8 * PS_PER_S // took_ps

    def _find(self, known: Known) -> bool:
        """Find a queue's thresholds; say whether they are others than before."""
        queue, before = known.queue, known.found
        found = thresholds(
            known.measured(), queue.rate_bps, queue.feedback_ps, queue.wait_ps, queue.room_bytes
        )
        if before is not None:
            differs = abs(found.min_bytes - before.min_bytes) * CHANGE
            if differs <= before.min_bytes:
                return False
        known.found = found
        return True

    def _entries(self, places: Iterable[Place]) -> dict[str, tuple[TableEntry, ...]]:
        found: dict[str, list[TableEntry]] = {}
        for place in places:
            known = self.known[place]
            assert known.found is not None, "only queues that have been reported are written"
            entry = threshold_entry(known.queue, known.found, self._facts, self._policy)
            found.setdefault(place[0], []).append(entry)
        return {switch: tuple(each) for switch, each in found.items()}


def _fabric_ps(ticks: int, facts: TargetFacts) -> int:
    return ticks * facts.tick_ps // facts.time_scale
