"""What a rank's planes did while it trained: lost in which step, and back in which."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.live_planes import PlaneSeen, of_endpoint


@dataclass(frozen=True)
class PlaneOfRank(PlaneSeen):
    """A plane of the queue pair to the next rank; fabric time since the rank's first step.

    `lost_step`: in which of its steps it was lost last, `up_step`: used again after that.
    """

    lost_step: int | None
    up_step: int | None


def planes_of(
    rows: Sequence[Mapping[str, Any]], began_ns: Sequence[int], time_scale: int
) -> tuple[PlaneOfRank, ...]:
    """Return what a rank says of its planes (`PlaneStats.row`).

    `began_ns`: when each of its steps did, by the same clock; one at least, if there are rows.
    """

    def fabric_ps(at_ns: int) -> int:
        return (at_ns - began_ns[0]) * 1000 // time_scale

    def step(at_ps: int | None) -> int | None:
        return None if at_ps is None else max(0, bisect_right(steps_ps, at_ps) - 1)

    steps_ps = [fabric_ps(each) for each in began_ns]
    return tuple(
        PlaneOfRank(**vars(seen), lost_step=step(seen.lost_ps), up_step=step(seen.up_ps))
        for seen in of_endpoint(rows, fabric_ps)
    )


def in_words(planes: Sequence[PlaneOfRank]) -> str:
    """Say it for a table's cell: "1 lost in step 20 (link), back in 93"."""
    told = [_said(number, plane) for number, plane in enumerate(planes) if plane.losses]
    return "; ".join(told) or f"all {len(planes)} up"


def _said(number: int, plane: PlaneOfRank) -> str:
    times = f" {plane.losses} times, last" * (plane.losses > 1)
    back = "not back" if plane.up_step is None else f"back in {plane.up_step}"
    return f"{number} lost{times} in step {plane.lost_step} ({plane.why}), {back}"
