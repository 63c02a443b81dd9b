"""A step and an all-to-all on a rail fabric: bytes by tier, and the time of the network's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from experiments.grade import reference
from labs import Check, Context, Estimate, Figure, Measured, NotRunError, Table, Variant
from labs.drawing import drawing, where
from labs.python_answers import from_text

from .job import Bytes, Job, Messages, busiest, linear, strided
from .network import played

GROUPS = ("one", "two")
STEPS, TOKENS = ("random", "strided", "linear", "best"), ("direct", "relayed")
TIERS = ("in servers", "by leaves alone", "over spines")
TIME, FLOOR, MEASURED = "time", "time of the busiest NIC", "measured over computed"
FUNCTIONS = ("place", "relay")


def job_of(context: Context) -> Job:
    """Return the job on the variant's fabric."""
    topology = context.mapping["topology"]
    return Job(
        topology["groups"], topology["hosts_per_group"], topology["rails"],
        context.settings["tp"], context.settings["ep"],
    )  # fmt: skip


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Play one step, or one all-to-all of tokens, and count what crossed what."""
    job, placement = job_of(context), context.variant.labels["placement"]
    messages = _messages(job, placement, context)
    tiers = job.tiers(messages)
    run = played(context.mapping, job, messages, context.seed, context.program)
    counts = tiers.server, tiers.leaf, tiers.spine
    return {
        **{n: Measured(c / 1e6, "MB") for n, c in zip(TIERS, counts, strict=True)},
        TIME: Measured(run.took_us, "us"),
        FLOOR: Measured(8 * busiest(messages) / 1e5, "us"),
        MEASURED: Measured(run.spine_bytes / tiers.spine if tiers.spine else None),
    }


def _messages(job: Job, placement: str, context: Context) -> Messages:
    answer = from_text(reference(context.folder), Path("reference.py"), FUNCTIONS)
    size = int(context.settings["tokens"])
    if placement == "direct":
        return job.tokens(size, lambda source, target: source)
    if placement == "relayed":
        return job.tokens(size, lambda source, target: answer.call("relay", source, target))
    if placement == "best":
        places = answer.call("place", job.groups, job.servers, job.rails, job.tp)
    elif placement == "random":
        places = job.nics()
        Random(context.seed).shuffle(places)
    else:
        places = {"strided": strided, "linear": linear}[placement](job)
    return job.step(places, Bytes(**context.settings["step"]))


def checks(table: Table) -> Iterator[Check]:
    """Yield what a learner should see."""
    spines = TIERS[2]
    for groups in GROUPS:
        least = 0.0 if groups == "one" else 7.5
        yield Check.at_most(f"{groups}: best, over spines", _of(table, groups, "best", spines),
                            least, "MB")  # fmt: skip
        for other in STEPS[:-1]:
            yield Check.below(f"{groups}: best is faster than {other}",
                              _of(table, groups, "best", TIME),
                              _of(table, groups, other, TIME))  # fmt: skip
        yield Check.at_most(
            f"{groups}: best, time over that of the busiest NIC",
            _over_floor(table, groups, "best"), 1.1,
        )  # fmt: skip
        yield Check.below(f"{groups}: relaying spares the spines",
                          _of(table, groups, "relayed", spines),
                          _of(table, groups, "direct", spines))  # fmt: skip
        for placement in ("random", "linear", "direct"):
            yield Check.within(
                f"{groups}: {placement}, spine bytes measured over computed",
                _of(table, groups, placement, MEASURED), 1, 1.05, note="headers are the rest",
            )  # fmt: skip
    yield Check.below("one: relaying is faster", _of(table, "one", "relayed", TIME),
                      _of(table, "one", "direct", TIME))  # fmt: skip
    yield Check.reported("two: relayed", _of(table, "two", "relayed", TIME), "us")
    yield Check.reported("two: direct", _of(table, "two", "direct", TIME), "us")


def _of(table: Table, groups: str, placement: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(table.variant(groups=groups, placement=placement), metric)


def _over_floor(table: Table, groups: str, placement: str) -> Callable[[], float]:
    def ratio() -> float:
        variant = table.variant(groups=groups, placement=placement)
        return _median(table, variant, TIME) / _median(table, variant, FLOOR)

    return ratio


def _median(table: Table, variant: Variant, metric: str) -> float:
    value = table.median(variant, metric)
    if value is None:
        raise NotRunError(f"{variant.name} has no {metric}")
    return value


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Bytes by tier, a bar a placement."""
    shown = [each for each in table.variants() if each.labels["placement"] in STEPS]
    with drawing(out / "tiers.png", where(table)) as figure:
        axes = figure.subplots()
        names = [f"{each.labels['groups']}\n{each.labels['placement']}" for each in shown]
        base = [0.0] * len(shown)
        for tier in TIERS:
            sizes = [_median(table, each, tier) for each in shown]
            axes.bar(names, sizes, bottom=base, label=tier)
            base = [low + size for low, size in zip(base, sizes, strict=True)]
        axes.set_ylabel("MB of a step")
        axes.margins(y=0.25)  # room for the legend
        axes.legend(loc="upper center", ncols=len(TIERS))
    yield Figure(out / "tiers.png", "What a step sends, by what it crosses: one group of four "
                 "servers and two groups of two, by placement.")  # fmt: skip
