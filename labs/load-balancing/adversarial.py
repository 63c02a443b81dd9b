"""With --full: an incast beside, ports used again, slow links with pauses, unequal hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labs import Check, Estimate, Table

from .beside import ELSEWHERE, LEAF, PAIR, POD

Lookup = Callable[[], Estimate]
SLOWEST = "slowest flow"


def adversarial_checks(table: Table) -> Iterator[Check]:
    """Yield the checks of loads that are meant to break policies."""
    yield from _incast(table)
    yield from _reused_ports(table)
    yield from _pauses(table)
    yield from _mixed_hosts(table)


def _incast(table: Table) -> Iterator[Check]:
    """31 hosts send to one; 96 others, none of them to that one, are in a permutation."""
    for policy in ("ecmp", "spray", "packet-dlb", "packet-glb"):
        for metric in (LEAF, POD, ELSEWHERE):
            row = f"incast-beside: {metric}, {policy}, with the incast over without"
            ratio = _between(table, metric, (policy, "incast-beside"), (policy, "without-incast"))
            if metric == ELSEWHERE and policy != "ecmp":
                yield Check.at_most(row, ratio, 1.05)
            else:
                yield Check.reported(row, ratio)


def _reused_ports(table: Table) -> Iterator[Check]:
    """Eight messages of each pair, from one port or from eight."""
    for policy in ("ecmp", "flowlet", "flowlet-dlb", "flowlet-glb"):
        row = f"reused-ports: {PAIR}, {policy}, one port over eight"
        ratio = _between(table, PAIR, (policy, "reused-ports"), (policy, "fresh-ports"))
        if policy in ("flowlet-dlb", "flowlet-glb"):
            yield Check.at_most(row, ratio, 1.1)
        else:
            yield Check.reported(row, ratio)
    for load in ("reused-ports", "reused-soon"):
        for policy in ("flowlet", "flowlet-dlb", "flowlet-glb"):
            row = f"{load}: {PAIR}, {policy} over ecmp"
            yield Check.at_most(row, _between(table, PAIR, (policy, load), ("ecmp", load)), 1)
            row = f"{load}: out of order, {policy}"
            yield Check.at_most(row, _of(table, policy, load, "out of order"), 0, "%")


def _pauses(table: Table) -> Iterator[Check]:
    """Slow links behind the next hop, and messages with pauses: flowlets have where to turn."""
    pairs = (("flowlet-glb", "flowlet-dlb"), ("flowlet-glb", "ecmp"), ("packet-glb", "packet-dlb"))
    for above, below in pairs:
        row = f"slow-pauses: {PAIR}, {above} over {below}"
        ratio = _between(table, PAIR, (above, "slow-pauses"), (below, "slow-pauses"))
        yield Check.at_most(row, ratio, 1)


def _mixed_hosts(table: Table) -> Iterator[Check]:
    """Every second host has a slower link."""
    for policy in ("ecmp", "spray", "packet-dlb", "packet-glb"):
        row = f"mixed-nics: bound over slowest flow, {policy}"
        yield Check.reported(row, _of(table, policy, "mixed-nics", "bound over slowest"))
    row = f"mixed-nics: {SLOWEST}, packet-glb over packet-dlb"
    ratio = _between(table, SLOWEST, ("packet-glb", "mixed-nics"), ("packet-dlb", "mixed-nics"))
    yield Check.at_most(row, ratio, 1.02)


def _of(table: Table, policy: str, load: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(policy=policy, load=load), metric)


def _between(table: Table, metric: str, above: tuple[str, str], below: tuple[str, str]) -> Lookup:
    """Return the ratio of two variants, each a policy and a load."""

    def ratio() -> Estimate:
        names = [table.variant(policy=policy, load=load) for policy, load in (above, below)]
        return table.paired(names[0], names[1], metric)

    return ratio
