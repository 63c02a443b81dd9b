"""What has to come out: how far spreading by packets is ahead of the hash, and who comes close."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs import Check, Estimate, Figure, Runtime, Table, real_flows
from labs.drawing import bars, drawing, where

from .adversarial import adversarial_checks
from .runs import measure

Lookup = Callable[[], Estimate]
POLICIES = (
    "ecmp-qp",
    "round-robin",
    "spray",
    "flowlet",
    "flowlet-dlb",
    "packet-dlb",
    "flowlet-glb",
    "packet-glb",
)
FEW = ("ecmp", "spray", "packet-dlb", "packet-glb")
"""Of loads that not all policies run."""

WEIGHTED = "weighted-spray"

LOADS = (
    ("permutation", "slowest flow"),
    ("slow-links", "slowest flow"),
    ("ring", "job"),
    ("all-to-all", "job"),
)


measure_simulator = measure
measure_beside = real_flows.measure_beside
measure_live = real_flows.measure_live


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    if table.runtime is not Runtime.SIMULATOR:
        yield from _live_checks(table)
        return
    hurt = _metric(table, "ecmp", "permutation", "flows of 1.5 x")
    yield Check.at_least("permutation, ECMP: flows of 1.5 times and more", hurt, 10, "%")
    worst = _ratio(table, "permutation", "slowest flow", "ecmp", "packet-dlb")
    yield Check.at_least("permutation: slowest flow, ECMP over packet DLB", worst, 2.5)
    for load, metric in LOADS:
        for policy in _of_flows(load):
            row = f"{load}: {metric}, {policy} over ECMP"
            yield Check.reported(row, _ratio(table, load, metric, policy, "ecmp"))
    for load, metric in (LOADS[0], *LOADS[2:]):
        row = f"{load}: {metric}, packet DLB over spray"
        yield Check.at_most(row, _ratio(table, load, metric, "packet-dlb", "spray"), 1.02)
        row = f"{load}: {metric}, packet GLB over packet DLB"
        yield Check.at_most(row, _ratio(table, load, metric, "packet-glb", "packet-dlb"), 1.02)
    row = "slow-links: slowest flow, packet GLB over packet DLB"
    beside = _ratio(table, "slow-links", "slowest flow", "packet-glb", "packet-dlb")
    yield Check.at_most(row, beside, 0.6)
    for policy in ("flowlet", "flowlet-dlb"):
        row = f"permutation: out of order, {policy}"
        yield Check.at_most(row, _metric(table, policy, "permutation", "out of order"), 0, "%")
    yield from _web_search(table)
    yield from _unequal_spines(table)
    yield from _dead_links(table)
    yield from _harder(table)
    yield from adversarial_checks(table)
    yield from _badly_placed_job(table)
    yield from _all_hosts(table)


def _web_search(table: Table) -> Iterator[Check]:
    """Many flows, most of them short, at random times."""
    for load in ("websearch-50", "websearch-80"):
        for policy in POLICIES:
            row = f"{load}: mean slowdown, {policy} over ECMP"
            ratio = _ratio(table, load, "mean slowdown", policy, "ecmp")
            if policy in ("flowlet-dlb", "flowlet-glb"):
                yield Check.at_most(row, ratio, 1)
            else:
                yield Check.reported(row, ratio)
    row = "websearch-50: p99 slowdown, packet DLB over ECMP"
    yield Check.reported(row, _ratio(table, "websearch-50", "p99 slowdown", "packet-dlb", "ecmp"))


def _of_flows(load: str) -> tuple[str, ...]:
    """Hosts that send without a pause have no flowlets to tell apart."""
    paused = load not in ("permutation", "slow-links")
    return tuple(policy for policy in POLICIES if paused or policy != "flowlet-glb")


def _unequal_spines(table: Table) -> Iterator[Check]:
    """Two spines of 400 and two of 200 Gb/s: how near the slowest flow comes to the bound."""
    bound = "bound over slowest"
    for policy in ("ecmp", *POLICIES, WEIGHTED):
        share = _metric(table, policy, "unequal-spines", bound)
        yield Check.reported(f"unequal-spines: bound over slowest flow, {policy}", share)
    for policy in (WEIGHTED, "packet-dlb", "packet-glb"):
        row = f"unequal-spines: slowest flow, one spine of all rates over {policy}"
        yield Check.at_least(row, _over_one_spine(table, policy), 0.95)
    for policy in (*FEW, WEIGHTED):
        row = f"unequal-paced: bound over slowest flow, {policy}"
        share = _metric(table, policy, "unequal-paced", bound)
        if policy == "packet-glb":
            yield Check.at_least(row, share, 0.95)
        else:
            yield Check.reported(row, share)


def _over_one_spine(table: Table, policy: str) -> Lookup:
    return lambda: table.paired(
        "one-spine", table.variant(policy=policy, load="unequal-spines"), "slowest flow"
    )


def _dead_links(table: Table) -> Iterator[Check]:
    """Two of a leaf's eight links die on the way; DPFR is on."""
    for policy in FEW[1:]:
        row = f"dead-links: slowest flow, {policy} over ECMP"
        yield Check.reported(row, _ratio(table, "dead-links", "slowest flow", policy, "ecmp"))
    row = "dead-links: slowest flow, packet GLB over packet DLB"
    beside = _ratio(table, "dead-links", "slowest flow", "packet-glb", "packet-dlb")
    yield Check.at_most(row, beside, 1)


def _harder(table: Table) -> Iterator[Check]:
    """Yield the checks of a tornado, and of leaves with a quarter of the uplinks their hosts
    fill.
    """
    for load in ("tornado", "oversubscribed"):
        for policy in ("spray", "packet-dlb", "packet-glb"):
            row = f"{load}: slowest flow, {policy} over ecmp"
            yield Check.at_most(row, _ratio(table, load, "slowest flow", policy, "ecmp"), 1)
        flowlets = _ratio(table, load, "slowest flow", "flowlet-dlb", "ecmp")
        yield Check.reported(f"{load}: slowest flow, flowlet-dlb over ecmp", flowlets)


def _badly_placed_job(table: Table) -> Iterator[Check]:
    """With --full: 256 ranks whose neighbours in the ring are never on one leaf."""
    row = "256 hosts, AllReduce and all-to-all: job"
    yield Check.at_least(
        f"{row}, ECMP over packet DLB",
        lambda: table.paired("job-ecmp", "job-packet-dlb", "job"),
        1.3,
    )
    yield Check.at_most(
        f"{row}, packet DLB over spray",
        lambda: table.paired("job-packet-dlb", "job-spray", "job"),
        1.03,
    )
    yield Check.at_least(
        f"{row}, ECMP over packet GLB",
        lambda: table.paired("job-ecmp", "job-packet-glb", "job"),
        1.3,
    )
    yield Check.at_most(
        f"{row}, packet GLB over spray",
        lambda: table.paired("job-packet-glb", "job-spray", "job"),
        1.03,
    )


def _all_hosts(table: Table) -> Iterator[Check]:
    """With --full: the size that UEC's htsim has published numbers of."""
    row = "1,024 hosts, permutation: slowest flow"
    yield Check.reported(f"{row}, ECMP", lambda: table.estimate("all-ecmp", "slowest flow"), "us")
    yield Check.at_most(
        f"{row}, spray", lambda: table.estimate("all-spray", "slowest flow"), 1.1 * 212.8, "us"
    )
    yield Check.at_most(
        f"{row}, packet DLB", lambda: table.estimate("all-packet-dlb", "slowest flow"), 206, "us"
    )
    yield Check.at_most(
        f"{row}, packet DLB over spray",
        lambda: table.paired("all-packet-dlb", "all-spray", "slowest flow"),
        1,
    )
    yield Check.at_most(
        f"{row}, packet GLB over packet DLB",
        lambda: table.paired("all-packet-glb", "all-packet-dlb", "slowest flow"),
        1.02,
    )
    row = "8,192 hosts, 400 Gb/s, permutation: slowest flow"
    for policy in ("spray", "packet-dlb"):
        yield Check.at_most(
            f"{row}, {policy}", _of(table, f"large-{policy}", "slowest flow"), 1.1 * 56.3, "us"
        )
    for variant in ("all-packet-glb", "large-spray", "large-packet-dlb"):
        row = f"{variant}: bound over slowest flow"
        yield Check.reported(row, _of(table, variant, "bound over slowest"))


ORDER = (
    ("rdma", "flowlet-dlb", "ecmp", 0.95),
    ("rdma-behind", "flowlet-glb", "flowlet-dlb", 1),
    ("rdma-behind", "packet-glb", "packet-dlb", 0.8),
)
"""Load, who has to be faster, than whom, and what part of the other's time it may take."""


def _live_checks(table: Table) -> Iterator[Check]:
    for load, faster, slower, most in ORDER:
        row = f"real time, {load}: slowest flow, {faster} over {slower}"
        yield Check.at_most(row, _ratio(table, load, "slowest flow", faster, slower), most)
    pairs = [(load, each) for load, *both, _ in ORDER for each in both]
    for load, policy in pairs:
        never = _metric(table, policy, load, "not done")
        yield Check.at_most(f"real time, {load}, {policy}: flows that did not end", never, 0)
        row = f"real time, {load}, {policy}: slowest flow, real over simulated"
        yield Check.reported(row, _over_simulated(table, policy, load))


def _over_simulated(table: Table, policy: str, load: str) -> Lookup:
    def ratio() -> Estimate:
        variant = table.variant(policy=policy, load=load)
        return table.paired(variant, variant, "slowest flow", below_beside=True)

    return ratio


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the slowest flow of a permutation by policy; in real time, beside a slow link."""
    if table.runtime is not Runtime.SIMULATOR:
        with drawing(out / "rdma-behind.png", where(table)) as figure:
            bars(figure.subplots(), table, table.variants(load="rdma-behind"), "slowest flow")
        yield Figure(
            out / "rdma-behind.png",
            "The slowest of four flows of 2.4 MB; one of four spines has a quarter of the rate on "
            "the way down. Median and 95 % interval.",
        )
        return
    with drawing(out / "permutation.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(load="permutation"), "slowest flow")
    yield Figure(
        out / "permutation.png",
        "The slowest of 128 flows of 2 MB, each from another host to another one; median and 95 % "
        "interval.",
    )


def _of(table: Table, variant: str, metric: str) -> Lookup:
    return lambda: table.estimate(variant, metric)


def _metric(table: Table, policy: str, load: str, metric: str) -> Lookup:
    return lambda: table.estimate(table.variant(policy=policy, load=load), metric)


def _ratio(table: Table, load: str, metric: str, above: str, below: str) -> Lookup:
    return lambda: table.paired(
        table.variant(policy=above, load=load), table.variant(policy=below, load=load), metric
    )
