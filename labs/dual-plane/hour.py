"""What a job loses to a plane that fails again and again: one failure simulated, the rest reckoned.

The simulator times the steps from before the cut to the end of the run. If the plane is not in
use again by then, it is after the time that it is known to take, and the steps until then take as
long as the last one simulated. In the rest of the period nothing fails.
"""

from __future__ import annotations

import itertools

from labs import Context, Measured
from mechanisms.dual_plane.opponents import OPPONENTS
from simulator.result_reader import ResultFolder

PS_PER_MS = 10**9
SLOW = 1.02
"""A step that takes so many times as long as the healthy one is not healthy."""


def measured(results: ResultFolder, context: Context, back_us: float) -> dict[str, Measured]:
    """Return the steps' times, and what is left of their rate over the period of failures."""
    rows = results.table("jobs", ["kind", "end_ps"]).to_pylist()
    ends = [row["end_ps"] / PS_PER_MS for row in rows if row["kind"] == "phase" and row["end_ps"]]
    steps = [ends[0], *(later - sooner for sooner, later in itertools.pairwise(ends))]
    healthy, last = steps[0], steps[-1]
    lost = sum(step - healthy for step in steps)
    reckoned = 0.0
    if last > SLOW * healthy:
        takes = OPPONENTS[str(context.variant.labels["hour"])].return_ps / PS_PER_MS
        half = back_us / 1000 + takes - ends[-1]
        reckoned = half * (1 - healthy / last)
    period = 1000 * context.settings["every_s"]
    return {
        "healthy step": Measured(healthy, "ms"),
        "longest step": Measured(max(steps), "ms"),
        "last step": Measured(last, "ms"),
        "lost, simulated": Measured(lost, "ms"),
        "lost, reckoned": Measured(reckoned, "ms"),
        "step rate": Measured(100 * (1 - (lost + reckoned) / period), "%"),
    }
