"""What a flow loses while its controller does not know that a link is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.grade import reference
from labs import Check, Context, Estimate, Figure, LabError, Measured, Table
from labs.drawing import bars, drawing, where
from labs.python_answers import from_text
from simulator.lock_step import LockStep
from simulator.runner import Simulation

from .bed import ELECTION_ID, pipeline, plan

PS_PER_US = 1_000_000
LOST, OTHER, OUTAGE = "lost", "lost of the other flow", "outage"
MOST_US = 20


def measure_simulator(context: Context) -> dict[str, Measured]:
    """Let the reference control three simulated switches, and tell it of the link when it is time.

    `outage`: the packets that the flow lost at its mean rate.
    """
    answer = from_text(reference(context.folder), Path("reference.py"), ("Controller",))
    run = context.run_file()
    assert run.until_ps is not None
    simulation = Simulation(run, context.program, seed=context.seed)
    with LockStep(simulation) as step:
        ids = {each.name: each.device_id for each in run.topology.switches}
        switches = {name: (address, ids[name]) for name, address in step.addresses.items()}
        controller = answer.call("Controller", switches, pipeline(), plan, ELECTION_ID)
        answer.call_method(controller, "start")
        if not all(each.is_primary for each in controller.sessions.values()):
            raise LabError("the controller is not every switch's primary")
        fails = int(context.settings["fails_us"]) * PS_PER_US
        delay = context.variant.labels["delay_us"]
        if delay != "never":
            simulation.advance(fails + int(delay) * PS_PER_US)
            answer.call_method(controller, "link", "s1", "s2", False)
        simulation.advance(run.until_ps)
        answer.call_method(controller, "stop")
    first, other = simulation.engine.flow_stats(0, 2)
    sent, lost = (int(first["sent_packets"]), _lost(first))
    return {
        LOST: Measured(lost, "packets"),
        OTHER: Measured(_lost(other), "packets"),
        OUTAGE: Measured(lost / sent * 3900, "us"),
    }


def _lost(row: Any) -> int:
    return int(row["sent_packets"]) - int(row["received_packets"])


def checks(table: Table) -> Iterator[Check]:
    """Yield what a learner should see."""
    for variant, delay in (("at-once", 0), ("after-100us", 100), ("after-1ms", 1000)):
        low, high = delay * 0.8, delay * 1.2 + MOST_US
        yield Check.within(f"{variant}: outage", _of(table, variant, OUTAGE), low, high, "us")
        yield Check.at_most(f"{variant}: lost of the other flow", _of(table, variant, OTHER), 0,
                            "packets")  # fmt: skip
    yield Check.at_least("never: outage", _of(table, "never", OUTAGE), 2700, "us",
                         note="a dead link, and nobody who knows")  # fmt: skip


def _of(table: Table, variant: str, metric: str) -> Callable[[], Estimate]:
    return lambda: table.estimate(variant, metric)


def figures(table: Table, out: Path) -> Iterator[Figure]:
    """Lost packets by how late the controller hears."""
    with drawing(out / "lost.png", where(table)) as figure:
        bars(figure.subplots(), table, table.variants(), LOST)
    yield Figure(out / "lost.png", "Packets that the flow from h1 to h2 loses, by when the "
                 "controller hears of the link; median and 95 % interval over seeds.")  # fmt: skip
