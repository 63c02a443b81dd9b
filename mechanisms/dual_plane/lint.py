"""Faults of failover in run files: times that contradict each other, or the fabric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mechanisms.dual_plane.settings import FailoverEntry
from topologies.lint.findings import Remark, Severity
from topologies.units import format_duration
from workloads.lint_transport import farthest
from workloads.model import RunFile

_PATH = ("transport", "failover")


def failover_remarks(run: RunFile) -> Iterator[Remark]:
    """Yield what is wrong with a run's failover."""
    entry: Any = run.transport
    if entry is None or entry.failover is None or entry.failover.mode != "share":
        return
    told: FailoverEntry = entry.failover
    yield from _against_the_fabric(run, entry, told)
    found_ps = (told.misses + 1) * told.silence
    if entry.timeout <= found_ps:
        message = (
            f"a plane that falls silent counts as lost after {format_duration(found_ps)} "
            f"(silence, misses + 1 times), and a time-out of {format_duration(entry.timeout)} "
            "comes before"
        )
        right = "a longer timeout, or less silence"
        yield Remark(Severity.WARNING, _PATH, "transport", message, right)
    if told.hold < told.answers * told.probe:
        least = format_duration(told.answers * told.probe)
        message = (
            f"{told.answers} probes take {least}, longer than hold, {format_duration(told.hold)}: "
            "the first hold-down is over before a plane can be up"
        )
        right = "fewer answers, more frequent probes, or a longer hold"
        yield Remark(Severity.INFO, _PATH, "transport", message, right)


def _against_the_fabric(run: RunFile, entry: Any, told: FailoverEntry) -> Iterator[Remark]:
    found = farthest(run.topology, entry)
    if found is None:
        return
    trip_ps, one, other = found
    if told.silence > trip_ps:
        return
    message = (
        f"silence of {format_duration(told.silence)} is less than a round trip, "
        f"{trip_ps / 10**6:.4g} us: planes that work are probed, and may count as lost"
    )
    right = "give it several round trips"
    yield Remark(Severity.WARNING, _PATH, f"{one.end} to {other.end}", message, right)
