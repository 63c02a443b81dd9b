"""The lab's runs: the starter, which tells nobody, beside the reference, which tells the source."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from google.protobuf import text_format
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from compiler import compile_p4
from hostagent.algorithms import Parameters
from labs import Check, Context, Figure, Measured, Runtime, Table
from labs.drawing import drawing, lines, where
from labs.grade import STARTER, reference
from mechanisms.dcqcn.parameters import parameters
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from protocols.rocev2 import icrc_is_valid
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i

from .control_plane import CELL_BYTES
from .network import Network, lab_setup

STORY = "story.json"
CNPS = "cnps.pcap"
US = 1000
TELLS_NOBODY, TELLS, READS = "starter", "by-hand", "notification"


def pipeline_of(context: Context) -> Pipeline:
    """Return the variant's program, ready to run.

    `starter` is always the starter; the others the reference, or what `--p4` names.
    """
    if context.variant.name == TELLS_NOBODY:
        return _compiled((context.folder / STARTER).read_text(encoding="utf-8"))
    if not context.program.given:
        return _compiled(reference(context.folder))
    info = text_format.Parse(context.program.p4info_text, p4i.P4Info())
    return prepare(info, context.program.json_text.encode())


def _control(context: Context, time_scale: int = 1) -> Parameters:
    """Return the sources' congestion control: DCQCN, and what the variant's read in CNPs."""
    own = context.settings
    dcqcn = parameters(own["dcqcn"], line_rate_bps=own["gbps"] * 10**9, time_scale=time_scale)
    found = {"dcqcn": dcqcn.fields()}
    if context.variant.name == READS:
        fast = fast_cnp_parameters(own["gbps"] * 10**9, context.time_scale)
        found["fast_cnp"] = fast.fields()
    return found


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
        congestion_control=_control(context),
    )
    try:
        story = network.play(own["ms"] * 1_000_000, own["sample_us"] * US)
    finally:
        network.close()
    rows = [(s.at_ns, s.rates_bps, s.queue_bytes) for s in story.samples]
    reaction = None
    if story.crossed_at is not None and story.first_cut_at is not None:
        reaction = max(story.first_cut_at - story.crossed_at, 0) / US
    return {
        "reaction": Measured(reaction, "us"),
        **_measured(context, rows, story.made, (story.cnps_received, story.notifications)),
        "goodput": Measured(story.delivered_bytes * 8 / story.ended_at, "Gb/s"),
    }


def measure_live(context: Context) -> dict[str, Measured]:
    """Run endpoints and a switch in real time, slowed down by the time scale."""
    from .live_network import LiveNetwork, running  # the simulator does without

    own, scale = context.settings, context.time_scale
    rate_bps = own["gbps"] * 10**9
    cells = own["threshold_kb"] * 1000 // CELL_BYTES
    threshold = own["threshold_bmv2"] if context.runtime is Runtime.BMV2 else cells
    network = LiveNetwork(
        context.runtime,
        pipeline_of(context),
        lab_setup(threshold, own["interval_us"] * scale),
        rate_bps=rate_bps // scale,
        congestion_control=_control(context, scale),
    )
    with running(network):
        story = network.play(own["ms"] * scale / 1000, lambda share: context.tell(share, ""))
    rows = [
        (at // scale, tuple(r * scale for r in rates), queue) for at, rates, queue in story.samples
    ]
    return {
        **_measured(context, rows, story.made, (story.cnps_received, story.notifications)),
        "goodput": Measured(story.delivered_bytes * 8 / story.ended_at * scale, "Gb/s"),
    }


Rows = Sequence[tuple[int, tuple[int, ...], int | None]]
"""(time in ns, each source's rate in bits/s, bytes in the queue or None: not to be seen)."""


def _measured(
    context: Context, rows: Rows, made: Sequence[bytes], taken: tuple[int, int]
) -> dict[str, Measured]:
    (context.out / STORY).write_text(json.dumps(rows))
    if made:
        wrpcap(str(context.out / CNPS), [Ether(frame) for frame in made])
    late = rows[len(rows) // 2 :]
    found = {
        "rates, second half": Measured(_mean([sum(rates) for _, rates, _ in late]) / 1e9, "Gb/s")
    }
    if all(queue is not None for _, _, queue in rows):
        peak = max(queue or 0 for _, _, queue in rows)
        found["peak queue"] = Measured(peak / 1000, "KB")
        mean = _mean([queue or 0 for _, _, queue in late])
        found["queue, second half"] = Measured(mean / 1000, "KB")
    wrong = sum(not icrc_is_valid(frame) for frame in made)
    found["CNPs made"] = Measured(float(len(made)))
    found["CNPs taken"] = Measured(float(sum(taken)))
    found["of these as notifications"] = Measured(float(taken[1]))
    found["CNPs with a wrong ICRC"] = Measured(float(wrong))
    return found


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def checks(table: Table) -> Iterator[Check]:
    """Yield the checks of what a learner should see."""
    yield Check.within(
        "the starter tells nobody", lambda: table.estimate(TELLS_NOBODY, "CNPs made"), 0, 0
    )
    yield Check.at_least("the program sends CNPs", lambda: table.estimate(TELLS, "CNPs made"), 1)
    yield Check.within(
        "their ICRC is right", lambda: table.estimate(TELLS, "CNPs with a wrong ICRC"), 0, 0
    )
    yield Check.at_least(
        "the sources' cards take them", lambda: table.estimate(TELLS, "CNPs taken"), 1
    )
    yield Check.at_most(
        "the sources' rates fall",
        lambda: table.paired(TELLS, TELLS_NOBODY, "rates, second half"),
        0.75,
        note="sum of both sources' rates, told to not told",
    )
    if table.runtime is not Runtime.BMV2:  # which shows nobody how long its queues are
        yield Check.at_most(
            "and the queue with them",
            lambda: table.paired(TELLS, TELLS_NOBODY, "queue, second half"),
            0.25,
            note="mean of the second half, told to not told",
        )
    if not table.runtime.is_live:
        yield Check.reported(
            "queue crosses the threshold -> a source slows down",
            lambda: table.estimate(TELLS, "reaction"),
            "us",
        )
    for variant in (TELLS, READS):
        yield Check.reported(
            f"goodput, {variant}", partial(table.estimate, variant, "goodput"), "Gb/s"
        )


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Rates and queue over time, of the first seed."""
    stories: dict[str, Rows] = {}
    for finished in table:
        path = finished.folder / STORY
        if path.is_file() and finished.variant.title not in stories:
            stories[finished.variant.title] = json.loads(path.read_text())
    if not stories:
        return
    rates, queues = {}, {}
    for name, rows in stories.items():
        rates[name] = ([at / 1e6 for at, _, _ in rows], [sum(each) / 1e9 for _, each, _ in rows])
        seen = [(at / 1e6, held / 1000) for at, _, held in rows if held is not None]
        if seen:
            queues[name] = ([at for at, _ in seen], [held for _, held in seen])
    path = out / "rates.png"
    with drawing(path, where(table)) as figure:
        panels = figure.subplots(2 if queues else 1, 1, sharex=True, squeeze=False)[:, 0]
        lines(panels[0], rates, steps=True)
        panels[0].set_ylabel("both sources' rates [Gb/s]")
        if queues:
            lines(panels[1], queues)
            panels[1].set_yscale("symlog", linthresh=10)
            panels[1].set_ylim(bottom=0)
            panels[1].get_legend().remove()
            panels[1].set_ylabel("queue [KB], logarithmic")
        panels[-1].set_xlabel("time [ms]")
    yield Figure(path, "What the sources may send together, and the queue that they make.")
