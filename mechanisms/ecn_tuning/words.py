"""The word `ecn` at the prompt: what comes for queues, and when they mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mechanisms.contract import Rows, Running, Word
from mechanisms.ecn_tuning.entries import NAME, QUEUE_TABLE
from mechanisms.ecn_tuning.formula import RATIO
from mechanisms.ecn_tuning.learner import EcnTuner
from mechanisms.ecn_tuning.settings import KEY
from mechanisms.on_off import ON_OFF, is_used, knowing
from topologies.model import Topology
from topologies.units import format_rate, format_size


def _ecn(running: Running, rest: str) -> Iterator[str | Rows]:
    topology, controller = running.topology, running.controller
    used = any(each.setting(KEY) is not None for each in topology.classes)
    without = f"{topology.name} has no {KEY}: queues mark as the file's ecn says"
    if not is_used("ecn", rest, used, without, f"in a class of the topology: {KEY}: true"):
        yield without
        return
    knowing(running, QUEUE_TABLE, None, "dynamic ECN thresholds")
    if rest:
        controller.switch_mechanism(NAME, rest == "on")
        found = "as the controller finds" if rest == "on" else "as the file's ecn says"
        yield f"thresholds are {rest}: queues mark {found}"
        return
    if NAME in controller.policy.off:
        yield "off: queues mark as the file's ecn says"
    rows = controller.ask(NAME, lambda learner: _rows(topology, learner))
    if not rows:
        yield "nothing was reported yet: queues mark as the file's ecn says"
        return
    yield Rows(("queue", "to", "flows", "came", "burst", "marks from", "all above"), rows, "ECN")


def _rows(topology: Topology, learner: Any) -> list[list[str]]:
    if not isinstance(learner, EcnTuner):
        return []
    rows = []
    for (switch, port, queue), known in sorted(learner.known.items()):
        if known.found is not None:
            most = known.measured()
            rows.append(
                [
                    f"{switch}:{port} class {queue}",
                    str(topology.peer(switch, port)),
                    str(most.flows),
                    format_rate(known.last_bps),
                    format_size(most.rise_bytes),
                    format_size(known.found.min_bytes),
                    format_size(RATIO * known.found.min_bytes),
                ]
            )
    return rows


WORDS = (
    Word(
        "ecn",
        "[on|off]",
        "when queues mark, by what comes for them; off and on at run time",
        _ecn,
        """\
ecn       of each queue: flows and the largest burst lately, what came in the last interval, and
          the depths at which it marks
ecn off   queues mark as the file's ecn says
ecn on    as the controller finds, again
Off stays off until ecn on or the end of the run; help: docs/ecn-thresholds.md.""",
        ON_OFF,
    ),
)
