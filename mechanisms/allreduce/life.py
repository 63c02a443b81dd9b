"""Jobs while a fabric runs: started, ended, and rerouted round links that are down.

A job has eight tree bits, the low bits of its epochs. Each selects one of its trees; where a link
of that tree goes down, the controller gives the bits to a tree that is whole. Workers need not
know: what they repeat takes the new way. It may happen in an epoch in which rounds are partly
summed on the old tree, and writes reach switches one by one. Sums stay right because of one rule:

    A tree may take over bits only if every switch that it shares with any tree that had them since
    the job's start has the same workers beneath the same children's indexes in both.

So whatever a bitmap and its sum hold in such a switch, a bit stands for the same workers in the new
tree, and what they contribute to a round is the same integers. A repeat is then a duplicate, what
is missing is added once, and a complete sum is that of the same workers, whoever is the parent.
Switches that only the new tree has know no round of the epoch. A packet that meets a switch before
it is written to comes from a stranger there, and is dropped; hosts' timers repair that. In a Clos
fabric all trees whose roots are of one level keep to the rule.

What the rule does not give is progress: where some switches are done with a round that the new root
never saw, they send it no more in this epoch, and workers move to the next one, as they do whenever
nothing comes. Where no tree keeps to the rule, the bits stay with the dead one. Bits do not go back
when the link does: that would gain nothing and could cost a move.

A start has no rounds to be careful of: its epochs are new, and any whole tree will do. It prefers
one that agrees with the planned tree all the same: a controller that is started again in mid-job
knows nothing of before, and takes every job for one that starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controller.digests import DigestMessage
from controller.entries import TableEntry
from controller.leaf_routes import Routes
from controller.parts import Learned
from controller.target_facts import TargetFacts
from mechanisms.allreduce.entries import tree_entries
from mechanisms.allreduce.settings import TREES
from mechanisms.allreduce.trees import (
    JobPlan,
    Plan,
    Tree,
    alive,
    in_free_slots,
)
from topologies.model import Link

Entries = Mapping[str, tuple[TableEntry, ...]]


@dataclass
class Running:
    """A job that has slots. `trees`: by tree bits; `covers`: by tree bits and switch, ever since.

    `rerouted`: how often bits went to another tree.
    """

    job: JobPlan
    trees: list[Tree]
    covers: list[dict[str, tuple[int, ...]]] = field(default_factory=list)
    rerouted: int = 0

    def __post_init__(self) -> None:
        self.covers = [{} for _ in self.trees]
        for bits, tree in enumerate(self.trees):
            self.use(bits, tree)

    def use(self, bits: int, tree: Tree) -> None:
        """Give tree bits to a tree."""
        self.trees[bits] = tree
        for name, node in tree.nodes.items():
            self.covers[bits][name] = node.covers

    def may_use(self, bits: int, tree: Tree) -> bool:
        """Say whether a tree keeps to the rule for these bits."""
        known = self.covers[bits]
        if self.job.server is not None:
            return True  # partials say whose they are
        return all(known.get(name, node.covers) == node.covers for name, node in tree.nodes.items())


def agree(one: Tree, other: Tree) -> bool:
    """Say whether two trees have the same workers beneath the same children wherever both are."""
    shared = one.nodes.keys() & other.nodes.keys()
    return all(one.nodes[name].covers == other.nodes[name].covers for name in shared)


def _best(choice: Sequence[Tree], trees: Sequence[Tree], bits: int) -> Tree:
    """Return the tree to give to tree bits: not that of the bits before or after, and a rare one.

    A move goes from one to the next, and would change nothing between two that are the same.
    """
    beside = (trees[bits - 1], trees[(bits + 1) % TREES])

    def order(tree: Tree) -> tuple[bool, int]:
        return any(tree is each for each in beside), sum(tree is each for each in trees)

    return min(choice, key=order)


class Jobs:
    """The jobs of one fabric; a learner of the controller."""

    def __init__(self, plan: Plan, facts: TargetFacts, on: bool = True) -> None:
        """Start the jobs that start with the fabric. `on`: the mechanism is not switched off."""
        self.plan = plan
        self.on = on
        self.running: dict[str, Running] = {}
        self._facts = facts
        self._down: frozenset[Link] = frozenset()
        self._held: dict[tuple[str, int], Entries] = {}
        self._fresh = True

    # ------------------------------------------------------------ what the controller says

    def routed(self, routes: Routes, now: int) -> Learned | None:
        """Reroute jobs round the links that are down."""
        self._down = routes.down
        if self._fresh:
            self._fresh = False
            for job in self.plan.jobs.values():
                if job.base is not None:
                    self.running[job.name] = self._started(job)
            return self._written(self._all())
        changed = [
            (name, bits)
            for name, running in self.running.items()
            for bits in range(TREES)
            if self._reroute(running, bits)
        ]
        return self._written(changed)

    def switched(self, on: bool, now: int) -> Learned | None:
        """Take all entries away, or put them back."""
        self.on = on
        return self._written(self._all())

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Do nothing: switches report nothing."""
        return None

    def elapsed(self, now: int) -> Learned | None:
        """Do nothing: nothing is ever due."""
        return None

    def due(self) -> int | None:
        """Return None: nothing is ever due."""
        return None

    def totals(self) -> dict[str, int]:
        """Return how often tree bits went to another tree."""
        return {"allreduce_rerouted": sum(each.rerouted for each in self.running.values())}

    # ------------------------------------------------------------ what operators say

    def start(self, name: str) -> Learned | None:
        """Start a job: it gets slots and trees. Raises PlanError if there are no slots for it."""
        others = [each.job for each in self.running.values() if each.job.name != name]
        placed = in_free_slots(self.plan.setting, self.plan.jobs[name], others)
        self.running[name] = self._started(placed)
        return self._written([(name, bits) for bits in range(TREES)])

    def end(self, name: str) -> Learned | None:
        """End a job: switches refuse its packets, and its slots are free."""
        self.running.pop(name, None)
        return self._written([(name, bits) for bits in range(TREES)])

    def dead(self, name: str) -> list[int]:
        """Return the tree bits of a running job that a tree with a link down has."""
        trees = self.running[name].trees
        return [bits for bits, tree in enumerate(trees) if not alive(tree, self._down)]

    # ------------------------------------------------------------ trees

    def _started(self, job: JobPlan) -> Running:
        """Return a job that starts: where a planned tree is not whole, its bits have another."""
        trees = [job.tree_of(bits) for bits in range(TREES)]
        for bits, planned in enumerate(trees):
            if not alive(planned, self._down):
                whole = [tree for tree in job.all_trees if alive(tree, self._down)]
                like = [tree for tree in whole if agree(planned, tree)]
                trees[bits] = _best(like or whole or [planned], trees, bits)
        return Running(job, trees)

    def _reroute(self, running: Running, bits: int) -> bool:
        """Give tree bits to another tree if theirs is not whole; say whether they have another."""
        if alive(running.trees[bits], self._down):
            return False
        whole = [
            tree
            for tree in running.job.all_trees
            if alive(tree, self._down) and running.may_use(bits, tree)
        ]
        if not whole:
            return False
        running.use(bits, _best(whole, running.trees, bits))
        running.rerouted += 1
        return True

    # ------------------------------------------------------------ entries

    def _all(self) -> list[tuple[str, int]]:
        return [(name, bits) for name in self.plan.jobs for bits in range(TREES)]

    def wanted(self, name: str, bits: int) -> Entries:
        """Return what switches are to hold for tree bits of a job, by switch."""
        running = self.running.get(name)
        if running is None or not self.on:
            return {}
        return tree_entries(self.plan, running.job, bits, running.trees[bits], self._facts)

    def _written(self, changed: Iterable[tuple[str, int]]) -> Learned | None:
        put: dict[str, list[TableEntry]] = {}
        gone: dict[str, list[TableEntry]] = {}
        for key in changed:
            before, after = self._held.get(key, {}), self.wanted(*key)
            for name in dict.fromkeys((*before, *after)):
                old = {entry.key: entry for entry in before.get(name, ())}
                new = {entry.key: entry for entry in after.get(name, ())}
                put.setdefault(name, []).extend(e for k, e in new.items() if old.get(k) != e)
                gone.setdefault(name, []).extend(e for k, e in old.items() if k not in new)
            self._held[key] = after
        learned = Learned(dict(_some(put)), dict(_some(gone)))
        return learned if learned.put or learned.gone else None


def _some(
    entries: Mapping[str, list[TableEntry]],
) -> Iterator[tuple[str, tuple[TableEntry, ...]]]:
    return ((name, tuple(found)) for name, found in entries.items() if found)
