"""The lab's runs: the starter, which tells nobody, beside the reference, which tells the source."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import text_format

from labs import Check, Context, Figure, Measured, Table
from labs.grade import STARTER, reference
from protocols.rocev2 import icrc_is_valid
from softswitch.compiler import compile_p4
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i
from topologies.congestion import parameters

from .control_plane import CELL_BYTES
from .network import Network, Story, lab_setup

STORY = "story.json"
US = 1000
TELLS, TELLS_NOBODY = "by-hand", "starter"


def pipeline_of(context: Context) -> Pipeline:
    """Return the variant's program, ready to run.

    `starter` is always the starter; `by-hand` the reference, or what `--p4` names.
    """
    starter = context.folder / STARTER
    if context.variant.name == TELLS_NOBODY:
        return _compiled(starter.read_text(encoding="utf-8"))
    if context.program.path.resolve() == starter.resolve():
        return _compiled(reference(context.folder))
    info = text_format.Parse(context.program.p4info_text, p4i.P4Info())
    return prepare(info, context.program.json_text.encode())


def _compiled(text: str) -> Pipeline:
    with tempfile.TemporaryDirectory(prefix="weft-cnp-") as scratch:
        path = Path(scratch, "program.p4")
        path.write_text(text, encoding="utf-8")
        result = compile_p4(path)
    return prepare(result.p4info, result.json_text.encode())


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Run cards and switch in virtual time."""
    own = context.settings
    rate_bps = own["gbps"] * 10**9
    network = Network(
        pipeline_of(context),
        lab_setup(own["threshold_kb"] * 1000 // CELL_BYTES, own["interval_us"]),
        line_rate_bps=rate_bps,
        congestion_control=parameters(own["dcqcn"], line_rate_bps=rate_bps),
    )
    try:
        story = network.play(own["ms"] * 1_000_000, own["sample_us"] * US)
    finally:
        network.close()
    _keep(story, context.out)
    return _measured(story)


def _measured(story: Story) -> dict[str, Measured]:
    late = story.samples[len(story.samples) // 2 :]
    reaction = None
    if story.crossed_at is not None and story.first_cut_at is not None:
        reaction = max(story.first_cut_at - story.crossed_at, 0) / US
    rates = sum(sum(sample.rates_bps) for sample in late) / len(late)
    return {
        "reaction": Measured(reaction, "us"),
        "rates, second half": Measured(rates / 1e9, "Gb/s"),
        "peak queue": Measured(max(s.queue_bytes for s in story.samples) / 1000, "KB"),
        "queue, second half": Measured(sum(s.queue_bytes for s in late) / len(late) / 1000, "KB"),
        "goodput": Measured(story.delivered_bytes * 8 / story.ended_at, "Gb/s"),
        "CNPs made": Measured(float(len(story.made))),
        "CNPs taken": Measured(float(story.cnps_received)),
        "CNPs with a wrong ICRC": Measured(
            float(sum(not icrc_is_valid(frame) for frame in story.made))
        ),
    }


def checks(table: Table) -> Iterator[Check]:
    """What a learner should see."""
    yield Check.within(
        "the starter tells nobody", lambda: table.median(TELLS_NOBODY, "CNPs made"), 0, 0
    )
    yield Check.at_least("the reference sends CNPs", lambda: table.median(TELLS, "CNPs made"), 1)
    yield Check.within(
        "their ICRC is right", lambda: table.median(TELLS, "CNPs with a wrong ICRC"), 0, 0
    )
    yield Check.at_least(
        "the sources' cards take them",
        lambda: table.median(TELLS, "CNPs taken"),
        1,
    )
    yield Check.at_most(
        "the sources' rates fall",
        lambda: table.ratio(TELLS, TELLS_NOBODY, "rates, second half"),
        0.75,
        note="sum of both sources' rates, told to not told",
    )
    yield Check.at_most(
        "and the queue with them",
        lambda: table.ratio(TELLS, TELLS_NOBODY, "queue, second half"),
        0.25,
        note="mean of the second half, told to not told",
    )
    yield Check.reported(
        "queue crosses the threshold -> a source slows down",
        lambda: table.median(TELLS, "reaction"),
        "us",
    )
    yield Check.reported("goodput", lambda: table.median(TELLS, "goodput"), "Gb/s")


def _keep(story: Story, out: Path) -> None:
    rows = [[s.at_ns, *s.rates_bps, s.queue_bytes] for s in story.samples]
    (out / STORY).write_text(json.dumps(rows))


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Rates and queue over time."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(7.5, 5.5), layout="constrained")
    rates, queue = drawing.subplots(2, 1, sharex=True)
    for finished in table:
        path = finished.folder / STORY
        if not path.is_file():
            continue
        rows = json.loads(path.read_text())
        ms = [row[0] / 1e6 for row in rows]
        title = finished.variant.title
        rates.plot(ms, [sum(row[1:-1]) / 1e9 for row in rows], label=title)
        queue.plot(ms, [row[-1] / 1000 for row in rows], label=title)
    rates.set_ylabel("both sources' rates, Gb/s")
    queue.set_ylabel("queue of the port, KB")
    queue.set_xlabel("time, ms")
    rates.legend()
    for axes in (rates, queue):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    path = out / "rates.png"
    drawing.savefig(path, dpi=120, metadata={"Software": None})
    yield Figure(path, "What the sources may send together, and the queue that they make.")
