"""One run in virtual time, from values: a dict, a file or a shipped run's name."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.interactive.errors import Interrupted, plainly
from experiments.interactive.program import Program
from experiments.interactive.runs import Run, run_file, until_ps
from experiments.value_words import show_time
from weft.api import progress as bars
from weft.api.result import Result

if TYPE_CHECKING:
    from controller.program import CompiledProgram
    from simulator.runner import Progress
    from workloads.model import RunFile


@plainly
def simulate(
    run: Run,
    *,
    seed: int | None = None,
    until: str | None = None,
    set: Mapping[str, Any] | None = None,
    p4: Program | str | Path | None = None,
    entries: str | Path | None = None,
    out: str | Path | None = None,
    progress: bars.Wanted = None,
) -> Result:
    """Simulate a run; the same run and seed give the same numbers everywhere.

    Args:
        run: a dict as a run file has it (docs/workloads.md), a file, or a name such as "incast-32".
        seed: of what is random, in the place of the run's own.
        until: the virtual time at which it ends, such as "20ms", in the place of the run's own.
        set: changes to the run by dotted paths: {"transport.window": 64, "topology.k": 8}. What
            stands there is replaced, dicts are merged, None removes.
        p4: what all switches run, compiled or a file.
        entries: a folder of entries for switches that the fabric's controller does not plan for.
        out: a folder for the results, which stays; without it they go with the `Result`.
        progress: False shows nothing; a function gets the share done (or None) and a text.

    Raises:
        InputError: with everything that is wrong in the run, each with the keys that lead to it.
        WeftError: for anything else that can't be used.
        Interrupted: on Ctrl-C; its `.result` is what had been simulated by then.
    """
    end_ps = None if until is None else until_ps(until)
    loaded = run_file(run, set)
    kept = None
    if out is None:
        kept = tempfile.TemporaryDirectory(prefix="weft-sim-", ignore_cleanup_errors=True)
        out = Path(kept.name) / loaded.name
    try:
        result = _simulated(loaded, seed, end_ps, p4, entries, Path(out), progress, kept)
    finally:
        # Simulation, switches and engine hold each other, and the collector of cycles, which
        # counts objects, does not see the megabytes that C holds.
        gc.collect()
    if result.summary["end"]["interrupted"]:
        raise Interrupted(f"{loaded.name} was simulated up to {show_time(result.now_ps)}", result)
    return result


def _simulated(
    loaded: RunFile,
    seed: int | None,
    end_ps: int | None,
    p4: Program | str | Path | None,
    entries: str | Path | None,
    folder: Path,
    progress: bars.Wanted,
    kept: tempfile.TemporaryDirectory[str] | None,
) -> Result:
    # Here, so that using one name of `weft` does not load what the others need.
    from experiments.sweep_metrics import Ended
    from mechanisms.switch_programs import choose
    from simulator.fabric import target_facts
    from simulator.flow_times import FlowTimes
    from simulator.runner import Simulation
    from weft.own_options import with_own
    from weft.sim import rows

    path = None if p4 is None or isinstance(p4, Program) else Path(p4)
    topology = with_own(loaded.topology, path, None if entries is None else Path(entries))
    loaded = replace(loaded, topology=topology)
    with bars.shown(progress) as show:
        show(None, f"set up {topology.name}")
        programs = choose(topology, target_facts(topology), default=_given(p4)).programs
        every = {each.name: each.sha256 for each in (programs.program, *programs.others.values())}
        simulation = Simulation(
            loaded, programs.program, seed=seed, until_ps=end_ps, versions=every,
            programs=programs,
        )  # fmt: skip
        outcome = simulation.run(folder, _telling(show))
    times = FlowTimes.of(simulation.traffic, outcome.end)
    return Result(
        folder,
        outcome.summary,
        rows=list(rows(outcome.summary, times)),
        ended=Ended.of(simulation, outcome),
        kept=kept,
    )


def _given(p4: Program | str | Path | None) -> CompiledProgram | None:
    """Return a program that is compiled already, as one that the user chose for all switches."""
    return replace(p4.compiled, given=True) if isinstance(p4, Program) else None


def _telling(show: bars.Show) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        share, text = None, show_time(progress.now_ps)
        if progress.until_ps:
            share = progress.now_ps / progress.until_ps
            text += f" of {show_time(progress.until_ps)}"
        elif progress.messages:
            share = progress.messages_done / progress.messages
            text += f", {progress.messages_done} of {progress.messages} messages"
        show(share, text)

    return tell
