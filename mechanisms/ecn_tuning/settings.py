"""Dynamic ECN thresholds in topology files: `ecn_tuning:` of a class, beside its `ecn:`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, model_validator

from topologies.extensions import Setting
from topologies.fields import Duration, Model, Size
from topologies.units import format_duration

KEY = "ecn_tuning"

WAITS = 2
"""Feedback delays that a packet may wait."""

INTERVALS = 5
"""Feedback delays in an interval. What grows in one counts as grown before anybody slowed down, so
it is some delays; at a round trip of 20 us a busy queue has 10 000 reports a second."""

MEMORY = 1000
"""Intervals for which a burst is remembered: 0.1 s at 20 us. Senders that were slowed down make
smaller bursts, so it is about what they need to be fast again: by published sets, 0.15 s of
hyper increase from nothing to the line's rate."""

LEAST_PS = 1_000_000
MOST_PS = 10**12


@dataclass(frozen=True)
class EcnTuning:
    """How a class's queues are measured, in fabric picoseconds and bytes.

    `feedback_ps`: how long a mark takes to have an effect, None for the fabric's longest round
    trip. `wait_ps`: how long packets may wait where marking begins, None for WAITS of that.
    `interval_ps`: between two reports of a queue, None for INTERVALS of it; `memory_ps`: how long a
    burst counts, None for MEMORY intervals. `room_bytes`: what a queue may hold, None for the
    `queue` of its link.
    """

    feedback_ps: int | None = None
    wait_ps: int | None = None
    interval_ps: int | None = None
    memory_ps: int | None = None
    room_bytes: int | None = None


def _time(value: int) -> int:
    if not LEAST_PS <= value <= MOST_PS:
        least, most = format_duration(LEAST_PS), format_duration(MOST_PS)
        raise ValueError(f"it is from {least} to {most}")
    return value


Time = Annotated[Duration, AfterValidator(_time)]


class EcnTuningEntry(Model):
    """What a class may say: `ecn_tuning: {feedback: 25us, interval: 500us}`, or `true`."""

    feedback: Time | None = None
    wait: Time | None = None
    interval: Time | None = None
    memory: Time | None = None
    room: Size | None = None

    @model_validator(mode="after")
    def _in_order(self) -> EcnTuningEntry:
        times = {
            name: value
            for name in ("feedback", "interval", "memory")
            if (value := getattr(self, name)) is not None
        }
        for (shorter, short), (longer, long) in zip(
            times.items(), list(times.items())[1:], strict=False
        ):
            if long < short:
                raise ValueError(f"{longer} is shorter than {shorter}: make it several of them")
        return self


def _said(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: EcnTuningEntry | None) -> EcnTuning | None:
    if entry is None:
        return None
    return EcnTuning(entry.feedback, entry.wait, entry.interval, entry.memory, entry.room)


ECN_TUNING = Setting(
    KEY,
    Annotated[EcnTuningEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    EcnTuning,
)
