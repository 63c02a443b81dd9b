"""Words at the prompt: `fast-cnp`, off and on, and `queue-pairs`, what is known of stock NICs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from ipaddress import IPv4Address

from mechanisms.contract import Control, Rows, Running, Word, WordError
from mechanisms.fast_cnp.counters import FAST_CNPS
from mechanisms.fast_cnp.entries import KEY, MODE_TABLE, NAME, STAND_STILL
from mechanisms.fast_cnp.queue_pairs import Ambiguous, Answer
from mechanisms.fast_cnp.stock_queue_pairs import StockQueuePairs
from mechanisms.on_off import ON_OFF, SwitchState, is_used, knowing, modes, read_state
from topologies.model import Topology

SUBJECT = "fast CNPs are"
_REMEDY = "in the topology: classes: {roce: {dscp: 26, queue: 3, fast_cnp: true}}"


def _fast_cnp(running: Running, rest: str) -> Iterator[str | Rows]:
    topology, controller = running.topology, running.controller
    without = f"no class of {topology.name} has fast CNPs: no switch sends any"
    if not is_used("fast-cnp", rest, bool(controller.policy.setting(KEY)), without, _REMEDY):
        yield without
        return
    knowing(running, MODE_TABLE, FAST_CNPS, "fast CNPs")
    found = read(topology, controller)
    if rest:
        written = controller.switch_mechanism(NAME, rest == "on")
        found = read(topology, controller)
        yield f"{modes(found, SUBJECT)}; the controller wrote {written} updates"
        return
    yield modes(found, SUBJECT)
    rows = [
        [f"{switch}:{port}", str(topology.peer(switch, port)), FAST_CNPS.text(counts)]
        for switch, state in found.items()
        for port, counts in sorted(state.counts.items())
    ]
    title = "packets that met a long queue"
    yield (
        Rows(["port", "to", "fast CNPs"], rows, title) if rows else "no packet has met a long queue"
    )


def read(topology: Topology, controller: Control) -> dict[str, SwitchState]:
    """Return what each switch does about fast CNPs, as read from it."""
    return read_state(topology, controller, MODE_TABLE, STAND_STILL, FAST_CNPS)


def _queue_pairs(running: Running, rest: str) -> Iterator[str | Rows]:
    if rest:
        raise WordError("queue-pairs takes no arguments")

    def known(learner: StockQueuePairs | None) -> tuple[list[Rows], str] | None:
        if learner is None:
            return None
        answers = sorted(dict(learner.logic.answers()).items())
        rows = [
            [str(IPv4Address(target.destination)), str(target.qp), *_source(answer)]
            for target, answer in answers
        ]
        columns = ["destination", "queue pair", "source", "queue pair"]
        counts = ", ".join(f"{value} {name}" for name, value in asdict(learner.counts).items())
        return [Rows(columns, rows, "queue pairs of stock NICs")], counts

    told = running.controller.ask(NAME, known)
    if told is None:
        yield "no host has a stock NIC, or no class has fast CNPs: nothing is to be known"
        return
    tables, counts = told
    yield from tables
    yield f"{counts}, {running.controller.digests_dropped} dropped"


def _source(answer: Answer) -> list[str]:
    if isinstance(answer, Ambiguous):
        sources = " or ".join(str(IPv4Address(each)) for each in sorted(answer.sources))
        return [sources, "ambiguous"]
    return [str(IPv4Address(answer.source)), str(answer.qp)]


WORDS = (
    Word(
        "queue-pairs",
        "",
        "the queue pairs of stock NICs and their peers, as far as the controller knows",
        _queue_pairs,
        "Switches have to know it to send fast CNPs to stock NICs; others resolve them\n"
        "themselves. It is found out from samples of both directions.",
    ),
    Word(
        "fast-cnp",
        "[on|off]",
        "fast CNPs of the switches, by outcome; off and on at run time",
        _fast_cnp,
        """\
fast-cnp       which switches send fast CNPs, and what became of packets that met a long queue
fast-cnp off   no switch sends any; ECN marks as if there were none
fast-cnp on    again
Off stays off, whatever links and switches do, until fast-cnp on or the end of the run. Switches
keep all they hold for it. Counts are since a switch started; help: docs/fast-cnp.md.""",
        ON_OFF,
    ),
)
