"""What the lab measures at the queue, the sources and the receiver, and what has to come out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.leaf_routes import Routes
from controller.policy import FabricPolicy
from labs import (
    Check,
    Context,
    Estimate,
    Figure,
    Measured,
    Runtime,
    Table,
    Variant,
    live,
    live_beside,
)
from labs.drawing import COLOURS, drawing, where
from labs.live_model import LiveRun, LiveSettings
from mechanisms.fast_cnp.entries import BURSTS, watches
from topologies.model import Topology

HERE = Path(__file__).resolve().parent
SWEPT = HERE / "sweep.csv"
ROCE = 3  # the class of service of RoCE data
QUEUE = {"near": ("b1", 2), "far": ("l2", 1), "pfc": ("b1", 2)}
FAST, GATEWAY, NONE = "fast-cnp", "gateway", "none"
SCALED, PAPER, BEST = "hpcc-dcqcn", "hpcc-dcqcn-paper", "best"
OPPONENTS = (SCALED, PAPER, BEST)
RECEIVER, VICTIM = "r1", "v1"
LOOP_US = 5
"""From the switch to a sender and back; the switch is to add no more than a burst takes."""
SERIES = "queue.json"
KEPT = 1.1
"""A set may let the queue come to this multiple of the least peak of all sets: the first one, which
no receiver can avoid. More buffer than that would buy any goodput, and no port has it."""

MB = 10**6


def burst_depth(topology: Topology, end: str) -> int | None:
    """Return up to which depth of the queue nobody is told, in bytes; None without fast CNP."""
    policy = FabricPolicy.of(topology)
    name, port = QUEUE[end]
    switch = topology.switch(name)
    ways = Routes.of(topology).ways(name)
    found = watches(topology, switch, policy, ways).get((port, ROCE))
    return None if found is None else BURSTS * found.target_bytes


def too_long(topology: Topology, end: str) -> int:
    """Return where the variant's own control begins to speak: above a burst, or ECN's threshold."""
    own = burst_depth(topology, end)
    if own is not None:
        return own
    name, port = QUEUE[end]
    ecn = FabricPolicy.of(topology).setting("ecn")[ROCE]
    least: int = ecn.at(topology.link_at(name, port).rate_bps).min_bytes
    return least


def settings(context: Context) -> LiveSettings:
    """Return how the run is watched."""
    own, end = context.settings, context.variant.labels["end"]
    beside_live = context.time_scale > 1
    sample_us = own["live_sample_us"] if beside_live else own["sample_us"]
    jitter_us = own["live_jitter_us"] if beside_live else own["jitter_us"]
    return LiveSettings(
        context.time_scale,
        (QUEUE[end],),
        context.seed,
        jitter_ps=int(jitter_us * 1_000_000),
        above_bytes=too_long(context.run_file().topology, end),
        sample_ps=int(sample_us * 1_000_000),
    )


def measured(seen: LiveRun, context: Context) -> dict[str, Measured]:
    """Return the metrics of a run, from whatever it ran on."""
    port = seen.port(*QUEUE[context.variant.labels["end"]])
    reaction = None
    if port.above_ps is not None and seen.first_cut_ps is not None:
        reaction = (seen.first_cut_ps - port.above_ps) / 1e6
    finite = [flow for flow in seen.flows if flow.source in _first_half(context)]
    done = [flow.done_ps for flow in finite]
    relief = None if None in done or not done else max(at for at in done if at is not None)
    after = None if relief is None else port.peak_between(relief, seen.until_ps)
    lost = sum(sum(reasons.values()) for reasons in seen.drops.values())
    burst = burst_depth(context.run_file().topology, context.variant.labels["end"])
    victim = _goodput(seen, VICTIM)
    _keep(context.out / SERIES, port)
    metrics = {
        "reaction": Measured(reaction, "us"),
        "peak": Measured(port.peak_bytes / MB, "MB"),
        "goodput": Measured(_goodput(seen, RECEIVER), "Gb/s"),
        "relief": Measured(relief and relief / 1e9, "ms"),
        "peak after relief": Measured(None if after is None else after / MB, "MB"),
        "fast CNPs": Measured(seen.count("notified_received")),
        "CNPs": Measured(seen.count("cnps_received")),
        "lost packets": Measured(lost),
    }
    if victim is not None:
        metrics["victim's goodput"] = Measured(victim, "Gb/s")
    if burst is not None:
        metrics["burst"] = Measured(burst / MB, "MB")
    return metrics


def _goodput(seen: LiveRun, target: str) -> float | None:
    """Return what came to a host over the whole run, in Gb/s; None if nobody sends to it."""
    flows = tuple(flow for flow in seen.flows if flow.target == target)
    return replace(seen, flows=flows).goodput_bps() / 1e9 if flows else None


def _first_half(context: Context) -> set[str]:
    """Return the hosts whose transfers end."""
    found: set[str] = set()
    for entry in context.mapping["traffic"]:
        incast = entry["incast"]
        if not incast.get("persistent"):
            found |= set(incast["from"])
    return found


def _keep(path: Path, port: Any) -> None:
    """Keep the queue's course for the figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([port.at_ps.tolist(), port.depth_bytes.tolist()]))


def measure_simulator(context: Context) -> dict[str, Measured]:
    """In virtual time."""
    program = context.program
    seen = live_beside.simulate(
        context.run_file(), program, settings(context), alike=context.time_scale > 1
    )
    return measured(seen, context)


def measure_beside(context: Context) -> dict[str, Measured]:
    """In virtual time, slowed down like the run in real time."""
    return measure_simulator(context)


def measure_live(context: Context) -> dict[str, Measured]:
    """Over namespaces, with eBPF at the hosts."""
    program = context.program
    seen = live.play(context.run_file(), program, settings(context), context.tell)
    return measured(seen, context)


# ---------------------------------------------------------------- what has to come out


def checks(table: Table) -> Iterator[Check]:
    """Yield the rows of the lab's table."""
    if table.runtime is not Runtime.SIMULATOR:
        yield from _live_checks(table)
        return
    for opponent in OPPONENTS:
        yield from _near(table, opponent)
    yield from _recovered(table)
    for control in ("ns3-rdma",):
        for row, metric in (("reaction", "reaction"), ("peak", "peak"), ("goodput", "goodput")):
            name = f"near end, 100 km, 4 senders: {row}, fast CNP over {control}"
            yield Check.reported(name, _ratio(table, "near", "4", FAST, control, metric))
    yield from _over_pfc(table)
    yield from _other_opponents()
    yield from _far(table)
    yield from _longer(table)


def _one(table: Table, end: str, senders: str, control: str, length: str = "100km") -> Variant:
    return table.variant(length=length, end=end, senders=senders, control=control)


def _ratio(
    table: Table, end: str, senders: str, above: str, below: str, metric: str, km: str = "100km"
) -> Any:
    """Return a metric over another variant's, seed by seed: a seed moves the starts of both
    alike.
    """
    return lambda: table.paired(
        _one(table, end, senders, above, km), _one(table, end, senders, below, km), metric
    )


def _near(table: Table, opponent: str) -> Iterator[Check]:
    for senders in ("2", "4", "8"):
        row = f"near end, 100 km: queue crosses threshold -> source's first cut, {senders} senders"
        ratio = _ratio(table, "near", senders, FAST, opponent, "reaction")
        note = f"{opponent}'s is the long way's, by the topology"
        yield Check.reported(f"{row}, over {opponent}", ratio, note=note)
    for senders in ("2", "4", "8"):
        row = f"peak queue there, {senders} senders"
        ratio = _ratio(table, "near", senders, FAST, opponent, "peak")
        if senders == "8":
            yield Check.reported(f"{row}, over {opponent}", ratio)
            continue
        yield Check.at_most(f"{row}, over {opponent}", ratio, 1 / 10)
        needs = _near_end(table, senders, opponent, "peak")
        note = "what senders too many bring in a loop, by the topology"
        yield Check.reported(f"{row}: what {opponent} needs", needs, "MB", note=note)
    for senders in ("2", "4"):
        yield Check.at_least(
            f"goodput over 50 ms with recovery, {senders} senders, over {opponent}",
            _ratio(table, "near", senders, FAST, opponent, "goodput"),
            1 if opponent == BEST else 1.2,
        )


def _near_end(table: Table, senders: str, control: str, metric: str) -> Any:
    return lambda: table.estimate(_one(table, "near", senders, control), metric)


def _recovered(table: Table) -> Iterator[Check]:
    for senders in ("2", "4", "8"):
        reaction = _near_end(table, senders, FAST, "reaction")
        row = f"near end, 100 km: queue crosses threshold -> first cut, {senders} senders, fast CNP"
        yield Check.at_most(row, reaction, LOOP_US, "us")
    for senders in ("2", "4"):
        peak = _near_end(table, senders, FAST, "peak")
        yield Check.at_most(
            f"peak queue there, {senders} senders: fast CNP's buffer", peak, 16, "MB"
        )
    peak = _near_end(table, "8", FAST, "peak")
    yield Check.reported("peak queue there, 8 senders: fast CNP's buffer", peak, "MB")
    for senders in ("2", "4"):
        yield Check.at_most(
            f"after relief no queue peak above 4 bursts, {senders} senders: peak over a burst",
            _after_relief(table, senders),
            4,
        )


def _after_relief(table: Table, senders: str) -> Any:
    def ratio() -> Estimate:
        variant = _one(table, "near", senders, FAST)
        burst = table.estimate(variant, "burst")
        return table.estimate(variant, "peak after relief").over(burst)

    return ratio


def _over_pfc(table: Table) -> Iterator[Check]:
    """Whom a queue harms that nothing keeps short: PFC alone has the same goodput as fast CNP."""
    for number in ("2", "4", "8"):
        senders = f"{number}-and-victim"
        row = f"over PFC, 100 km, {number} senders"
        peak, goodput, victim = (
            _ratio(table, "pfc", senders, FAST, NONE, metric)
            for metric in ("peak", "goodput", "victim's goodput")
        )
        yield Check.at_most(f"{row}: peak, over PFC alone", peak, 1 / 10)
        yield Check.at_least(f"{row}: goodput, over PFC alone", goodput, 0.9)
        if number == "2":
            note = "two senders leave the victim half of its cable anyway"
            yield Check.reported(f"{row}: victim's goodput, over PFC alone", victim, note=note)
        else:
            yield Check.at_least(f"{row}: victim's goodput, over PFC alone", victim, 1.5)
        for opponent in (PAPER, BEST):
            for metric in ("peak", "goodput", "victim's goodput"):
                ratio = _ratio(table, "pfc", senders, FAST, opponent, metric)
                yield Check.reported(f"{row}: {metric}, over {opponent} over PFC", ratio)


def _other_opponents() -> Iterator[Check]:
    """Report what other selection rules would have picked from the sweep."""
    note = "see README: 'The best DCQCN'"
    for name, value in swept()["others"].items():
        yield Check.reported(f"near end, 100 km: {name}", value, "Gb/s", note=note)


def _far(table: Table) -> Iterator[Check]:
    note = "the loop is the whole path's either way: a switch there is as far away as the receiver"
    for opponent in OPPONENTS:
        for senders in ("2", "4"):
            for metric in ("reaction", "peak"):
                row = f"far end, 100 km: {metric}, {senders} senders, over {opponent}"
                ratio = _ratio(table, "far", senders, FAST, opponent, metric)
                yield Check.reported(row, ratio, note=note)
            if opponent == BEST:
                yield Check.at_least(
                    f"far end, 100 km: goodput, {senders} senders, over {opponent}",
                    _ratio(table, "far", senders, FAST, opponent, "goodput"),
                    0.9,
                    note="it is not earlier there, but it knows the rate",
                )
    for senders in ("2", "4"):
        yield Check.reported(
            f"far end, 100 km: goodput, {senders} senders, over {SCALED}",
            _ratio(table, "far", senders, FAST, SCALED, "goodput"),
            note="not by being earlier: all of that set's senders fall to 1 Gb/s every few ms",
        )
    for senders in ("2", "4"):
        for metric in ("peak", "goodput"):
            yield Check.reported(
                f"far end, 100 km, a gateway that answers for it: {metric}, {senders} senders",
                _ratio(table, "far", senders, GATEWAY, BEST, metric),
                note=f"over {BEST}",
            )


def _longer(table: Table) -> Iterator[Check]:
    for metric in ("reaction", "peak", "goodput"):
        ratio = _ratio(table, "near", "4", FAST, SCALED, metric, "300km")
        yield Check.reported(f"near end, 300 km, 4 senders: {metric}, over {SCALED}", ratio)


def _live_checks(table: Table) -> Iterator[Check]:
    row = "Mininet, scaled, 10 km, real eBPF"
    for metric in ("reaction", "peak", "goodput"):
        ours, theirs = (_live(table, control, metric) for control in (FAST, SCALED))
        lower, higher = (theirs, ours) if metric == "goodput" else (ours, theirs)
        word = "higher" if metric == "goodput" else "lower"
        yield Check.below(f"{row}: {metric}, fast CNP's is {word}", lower, higher)
        for control in (FAST, SCALED):
            yield Check.reported(
                f"{row}: {metric} of {control}, real over simulated",
                _over_simulated(table, control, metric),
            )


def _live(table: Table, control: str, metric: str) -> Any:
    return lambda: table.estimate(_one(table, "near", "4", control, "10km"), metric)


def _over_simulated(table: Table, control: str, metric: str) -> Any:
    def ratio() -> Estimate:
        variant = _one(table, "near", "4", control, "10km")
        return table.paired(variant, variant, metric, below_beside=True)

    return ratio


# ---------------------------------------------------------------- the sweep


def swept() -> dict[str, Any]:
    """Return the sweep's points, and what other rules than the lab's would have picked of them."""
    with SWEPT.open(newline="") as file:
        rows: list[dict[str, Any]] = [
            {
                "length": row["length"],
                "senders": int(row["senders"]),
                "goodput": float(row["goodput"]),
                "peak": float(row["peak"]),
                "best": row["best"] == "yes",
            }
            for row in csv.DictReader(file)
        ]
    others: dict[str, float] = {}
    for senders in (2, 4):
        own = [row for row in rows if (row["length"], row["senders"]) == ("100km", senders)]
        least = min(row["peak"] for row in own)
        kept = [row["goodput"] for row in own if row["peak"] <= KEPT * least]
        others[f"the best set for {senders} senders and 100 km alone"] = max(kept)
        others[f"the best set that may fill any buffer, {senders} senders"] = max(
            row["goodput"] for row in own
        )
    return {"rows": rows, "others": others}


# ---------------------------------------------------------------- figures


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Draw the queue's course, the peaks, and the sweep."""
    live_run = table.runtime is not Runtime.SIMULATOR
    length, end = ("10km" if live_run else "100km"), "near"
    shown = table.variants(length=length, end=end, senders="4")
    if shown:
        path = out / "queue.png"
        with drawing(path, where(table)) as figure:
            _courses(figure, table, shown)
        yield Figure(path, f"The queue in front of the long link ({length}), four senders.")
    for place in ("near", "far"):
        shown = table.variants(length="100km", end=place)
        if shown:
            path = out / f"peaks-{place}.png"
            with drawing(path, where(table)) as figure:
                _peaks(figure.subplots(), table, shown)
            yield Figure(path, f"The queue at its longest, {place} end of 100 km.")
    if not live_run:
        path = out / "sweep.png"
        with drawing(path, "simulator, time scale 1; sweep.csv, and this run's medians") as figure:
            _sweep(figure.subplots(1, 2, sharey=True), table)
        yield Figure(
            path,
            "All sets of the sweep: what a set of DCQCN gains in goodput it pays for in buffer.",
        )


def _courses(figure: Any, table: Table, shown: tuple[Variant, ...]) -> None:
    """Draw the longest of the queue in each of 250 parts of the run."""
    axes = figure.subplots()
    for colour, variant in zip(COLOURS, shown, strict=False):
        run = table.runs(variant)[0]
        if run.failure:
            continue
        at_ps, depth = json.loads((run.folder / SERIES).read_text())
        part = max(1, len(at_ps) // 250)
        axes.plot(
            [at / 1e9 for at in at_ps[::part]],
            [max(1000, *depth[i : i + part]) / MB for i in range(0, len(depth), part)],
            label=variant.labels["control"],
            color=colour,
            linewidth=1.4,
        )
    axes.set_yscale("log")
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("queue (MB)")
    if axes.lines:
        figure.legend(loc="outside upper left", ncols=len(axes.lines), frameon=False, fontsize=8)


def _peaks(axes: Any, table: Table, shown: tuple[Variant, ...]) -> None:
    controls = list(dict.fromkeys(variant.labels["control"] for variant in shown))
    senders = list(dict.fromkeys(variant.labels["senders"] for variant in shown))
    width = 0.8 / len(controls)
    for i, (control, colour) in enumerate(zip(controls, COLOURS, strict=False)):
        mine = [v for v in shown if v.labels["control"] == control]
        at = [senders.index(v.labels["senders"]) + i * width - 0.4 + width / 2 for v in mine]
        heights = [table.median(v, "peak") or 0 for v in mine]
        axes.bar(at, heights, width=width * 0.9, color=colour, label=control)
    axes.axhline(16, color="#37424a", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set_xticks(range(len(senders)), [f"{each} senders" for each in senders])
    axes.set_ylabel("peak queue (MB); dotted: 16 MB")
    axes.legend(frameon=False, fontsize=7, ncols=3)


def _sweep(panels: Any, table: Table) -> None:
    rows = swept()["rows"]
    for axes, senders in zip(panels, (2, 4), strict=True):
        own = [row for row in rows if (row["length"], row["senders"]) == ("100km", senders)]
        axes.scatter(
            [row["peak"] for row in own], [row["goodput"] for row in own],
            s=8, color="#9aa5ad", label="DCQCN, all sets of the sweep",
        )  # fmt: skip
        best = [row for row in own if row["best"]]
        axes.scatter(
            [row["peak"] for row in best], [row["goodput"] for row in best],
            s=40, color=COLOURS[0], label="the best one set",
        )  # fmt: skip
        for fast in table.variants(length="100km", end="near", senders=str(senders), control=FAST):
            axes.scatter(
                [table.median(fast, "peak")], [table.median(fast, "goodput")],
                s=60, marker="*", color=COLOURS[1], label="fast CNP",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("peak queue (MB)")
        axes.set_title(f"{senders} senders", loc="left", fontsize=9)
    panels[0].set_ylabel("goodput over 50 ms (Gb/s)")
    panels[0].legend(frameon=False, fontsize=7, loc="lower left")
