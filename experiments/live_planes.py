"""A flow's planes at its source, as both runtimes report them, in fabric time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.result_reader import ResultFolder

TABLE = "planes"

_COUNTS = ("losses", "sent_packets", "moved_packets")
_COLUMNS = ("flow", "sends", "why", "lost_ps", "up_ps", *_COUNTS)


@dataclass(frozen=True)
class PlaneSeen:
    """One plane when the run ended. `why`: by what it was found lost, None where it never was.

    `lost_ps`, `up_ps`: when it was lost last, and used again after that; None: it was not.
    `moved_packets`: sent again by others because this one was lost.
    """

    why: str | None
    losses: int
    lost_ps: int | None
    up_ps: int | None
    sent_packets: int
    moved_packets: int


def of_endpoint(
    rows: Sequence[Mapping[str, Any]], fabric_ps: Callable[[int], int]
) -> tuple[PlaneSeen, ...]:
    """Return what an endpoint's `stats` say of a queue pair's planes."""

    def at(row: Mapping[str, Any], name: str) -> int | None:
        return None if row[name] is None else fabric_ps(row[name])

    return tuple(_seen(row, at(row, "lost_at"), at(row, "up_at")) for row in rows)


def of_simulator(results: ResultFolder, scale: int) -> dict[int, tuple[PlaneSeen, ...]]:
    """Return the planes of each flow by its number; none where interfaces are no planes."""
    found: dict[int, tuple[PlaneSeen, ...]] = {}
    if not results.has(TABLE):
        return found
    for row in results.table(TABLE, _COLUMNS).to_pylist():
        if row["sends"]:
            lost, up = (
                None if row[name] is None else row[name] // scale for name in ("lost_ps", "up_ps")
            )
            found[row["flow"]] = (*found.get(row["flow"], ()), _seen(row, lost, up))
    return found


def _seen(row: Mapping[str, Any], lost_ps: int | None, up_ps: int | None) -> PlaneSeen:
    back = None if lost_ps is None or up_ps is None or up_ps < lost_ps else up_ps
    why = "time-out" if row["why"] == "timeout" else row["why"]
    return PlaneSeen(why, lost_ps=lost_ps, up_ps=back, **{name: row[name] for name in _COUNTS})
