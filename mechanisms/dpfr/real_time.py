"""What becomes of heartbeats' times in real time: what one machine can't hold, and lint says.

A switch is a process, and a busy machine lets it wait. What comes late is not lost: a tick enters
with the time at which it was due. But heartbeats that were not sent while a process waited are
silence at the far end, and more than `misses` periods of silence are a dead link.
"""

from __future__ import annotations

from collections.abc import Iterator

from mechanisms.dpfr.settings import KEY, Dpfr
from mechanisms.dpfr.ways import ports_to_switches
from topologies.errors import FieldPath
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology
from topologies.tickers import LEAST_REAL_PS
from topologies.units import format_duration

STALL_PS = 30_000_000_000
"""For so long a process of a busy machine of two cores may wait for its turn: 30 ms."""

BMV2_PERIOD_PS = 1_000_000_000
"""BMv2's heartbeats come from a process beside it and by a veth pair: 1 ms."""


def real_time_remarks(
    topology: Topology, setting: Dpfr, prefix: FieldPath = ()
) -> Iterator[Remark]:
    """Yield what of the times is too short here; nothing of a topology without a time scale."""
    scale = topology.time_scale
    if scale == 1:
        return
    where = (*prefix, KEY)
    subject = f"time_scale {scale}"
    counts = (len(ports_to_switches(topology, switch.name)) for switch in topology.switches)
    most = max(counts, default=0)
    if not most:
        return
    real_ps = setting.period_ps * scale
    if real_ps // most < LEAST_REAL_PS:
        message = (
            f"a switch with {most} links to others ticks every {format_duration(real_ps // most)} "
            f"of real time; one machine keeps {format_duration(LEAST_REAL_PS)} and more, and "
            "refuses others"
        )
        right = f"period: {_at_least(most * LEAST_REAL_PS, scale)} would do, or the simulator"
        yield Remark(Severity.WARNING, where, subject, message, right)
    elif setting.misses * real_ps < STALL_PS:
        message = (
            f"a link is dead here after {format_duration(setting.misses * real_ps)} of silence, "
            f"and a busy machine lets a switch wait for {format_duration(STALL_PS)}: it would "
            "find links dead that are not"
        )
        right = f"period: {_at_least(-(-STALL_PS // setting.misses), scale)}, or more misses"
        yield Remark(Severity.WARNING, where, subject, message, right)
    if real_ps < BMV2_PERIOD_PS:
        message = f"heartbeats every {format_duration(real_ps)} of real time are too many for BMv2"
        right = f"period: {_at_least(BMV2_PERIOD_PS, scale)} or more there"
        yield Remark(Severity.INFO, where, subject, message, right)


def _at_least(real_ps: int, scale: int) -> str:
    """Return a period in fabric time that is so long here."""
    return format_duration(-(-real_ps // scale))
