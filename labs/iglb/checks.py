"""What has to come out: how near planned paths come to the bound, how far others stay behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Estimate, Figure, Runtime, Table, real_flows
from labs.drawing import bars, drawing, where

from .runs import BEST, measure

Lookup = Callable[[], Estimate]

IGLB, PORTS = "iglb", "iglb-ports"
BLIND = ("ecmp", "spray", "packet-dlb", "packet-glb")
JOBS = ("ring-near", "ring-far", "ring-fragmented", "all-to-all", "rails")
NOT_ALL = ("ring-near", "ring-fragmented", "rails")
"""Loads without packet DLB and chosen ports."""

QUEUE_PAIRS = (1, 2, 4, 8, 16)
REACHED = "bound over time"
NO_WORSE = 0.99
"""Others over planned paths: where any path will do, all take as long, give or take a packet."""


measure_simulator = measure
measure_beside = real_flows.measure_beside
measure_live = real_flows.measure_live


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    if table.runtime is not Runtime.SIMULATOR:
        yield from _live_checks(table)
        return
    for policy in (IGLB, PORTS):
        reached = _metric(table, policy, "permutation", REACHED)
        yield Check.at_least(f"permutation: bound over slowest flow, {policy}", reached, BEST)
    yield from _beside(table, "permutation", "slowest flow", BLIND)
    for load in JOBS:
        for policy in (IGLB,) if load in NOT_ALL else (IGLB, PORTS):
            reached = _metric(table, policy, load, REACHED)
            yield Check.at_least(f"{load}: bound over job, {policy}", reached, BEST)
        yield from _beside(table, load, "job", _without_dlb(load))
    yield Check.reported(
        "three-jobs: bound over slowest flow, iglb", _metric(table, IGLB, "three-jobs", REACHED)
    )
    yield from _beside(table, "three-jobs", "slowest flow", BLIND)
    reached = _metric(table, IGLB, "link-fails", REACHED)
    yield Check.reported("link-fails: healthy bound over job, iglb", reached)
    yield from _beside(table, "link-fails", "job", BLIND)
    yield from _queue_pairs(table)
    yield from _all_hosts(table)


def _beside(table: Table, load: str, metric: str, policies: tuple[str, ...]) -> Iterator[Check]:
    """How long others take, over planned paths."""
    for policy in policies:
        row = f"{load}: {metric}, {policy} over iglb"
        yield Check.at_least(row, _ratio(table, load, metric, policy, IGLB), NO_WORSE)


def _without_dlb(load: str) -> tuple[str, ...]:
    return tuple(each for each in BLIND if load not in NOT_ALL or each != "packet-dlb")


def _queue_pairs(table: Table) -> Iterator[Check]:
    """Eight servers of eight NICs: what more queue pairs give to ECMP, and planned paths anyway."""
    for count in QUEUE_PAIRS:
        row = f"8 x 8, {count} queue pairs: bound over job"
        for policy in ("ecmp", IGLB):
            reached = _metric(table, policy, f"servers-{count}", REACHED)
            if policy == IGLB and count <= 2:  # with more they wait for each other's last pieces
                yield Check.at_least(f"{row}, {policy}", reached, BEST)
            else:
                yield Check.reported(f"{row}, {policy}", reached)
        yield Check.reported(
            f"8 x 8, {count} queue pairs: throughput, iglb over ecmp",
            _ratio(table, f"servers-{count}", "job", "ecmp", IGLB),
        )


def _all_hosts(table: Table) -> Iterator[Check]:
    """With --full: 1,024 hosts on three tiers, and 2,048 on two of which links are down."""
    for job in ("ring", "all-to-all"):
        row = f"1,024 hosts, {job}"
        reached = _of(table, f"all-{job}-{IGLB}", REACHED)
        yield Check.at_least(f"{row}: bound over job, iglb", reached, BEST)
        for policy in ("ecmp", "packet-glb"):
            yield Check.at_least(
                f"{row}: job, {policy} over iglb",
                _over(table, f"all-{job}-{policy}", f"all-{job}-{IGLB}", "job"),
                1,
            )
    for down in (0, 1, 4):
        row = f"2,048 hosts, permutation, links down: {down}"
        reached = _of(table, f"large-{down}-{IGLB}", REACHED)
        yield Check.at_least(f"{row}: bound over slowest flow, iglb", reached, BEST)
        late = _of(table, f"large-{down}-{IGLB}", "flows below 0.95")
        yield Check.reported(f"{row}: flows below 0.95 of the bound, iglb", late)
        yield Check.at_least(
            f"{row}: slowest flow, ecmp over iglb",
            _over(table, f"large-{down}-ecmp", f"large-{down}-{IGLB}", "slowest flow"),
            1,
        )


def _live_checks(table: Table) -> Iterator[Check]:
    row = "real time: slowest flow, ecmp over iglb"
    yield Check.at_least(row, _ratio(table, "rdma", "slowest flow", "ecmp", IGLB), 1.8)
    for policy in ("ecmp", IGLB):
        never = _metric(table, policy, "rdma", "not done")
        yield Check.at_most(f"real time, {policy}: flows that did not end", never, 0)
        yield Check.reported(
            f"real time, {policy}: slowest flow, real over simulated",
            _over_simulated(table, policy),
        )


def _over_simulated(table: Table, policy: str) -> Lookup:
    def ratio() -> Estimate:
        variant = table.variant(policy=policy, load="rdma")
        return table.paired(variant, variant, "slowest flow", below_beside=True)

    return ratio


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the slowest flow of a permutation by policy, and of four RDMA flows in real time."""
    live = table.runtime is not Runtime.SIMULATOR
    load = "rdma" if live else "permutation"
    with drawing(out / f"{load}.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(load=load), "slowest flow")
    told = (
        "The slowest of four RDMA flows of 3 MB over four spines."
        if live
        else "The slowest of 128 flows of 2 MB, each from another host to another one."
    )
    yield Figure(out / f"{load}.png", f"{told} Median and 95 % interval.")


def _of(table: Table, variant: str, metric: str) -> Lookup:
    return lambda: table.estimate(variant, metric)


def _over(table: Table, above: str, below: str, metric: str) -> Lookup:
    return lambda: table.paired(above, below, metric)


def _metric(table: Table, policy: str, load: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(policy=policy, load=load), metric)


def _ratio(table: Table, load: str, metric: str, above: str, below: str) -> Lookup:
    return lambda: table.paired(
        table.variant(policy=above, load=load), table.variant(policy=below, load=load), metric
    )
