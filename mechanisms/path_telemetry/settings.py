"""Path telemetry in topology files: `path_telemetry:` of a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, model_validator

from topologies.extensions import Setting
from topologies.fields import Duration, Model
from topologies.units import format_duration

KEY = "path_telemetry"

SHIM = "what switches write"
"""What the telemetry shim of senders is for that read it (`Sender.shim`)."""

Format = Literal["hops", "most-used"]

LEAST_PS = 1_000_000
MOST_PS = 100 * 10**9
"""Of a round trip over which utilisation is averaged: what is exact to 2^-16 up to 1.6 Tb/s."""


@dataclass(frozen=True)
class PathTelemetry:
    """What packets of a class collect: a record of each hop, or how much the path is used.

    `round_trip_ps`: over which a line's use is averaged, in fabric picoseconds; None for the
    longest of the fabric. `monitor`: its packets collect whatever their sender's algorithm wants.
    """

    format: Format = "hops"
    round_trip_ps: int | None = None
    monitor: bool = False


def _time(value: int) -> int:
    if not LEAST_PS <= value <= MOST_PS:
        least, most = format_duration(LEAST_PS), format_duration(MOST_PS)
        raise ValueError(f"it is from {least} to {most}")
    return value


class PathTelemetryEntry(Model):
    """What a class may say: `hops`, `most-used` or a mapping.

    `{format: most-used, round_trip: 20us}`, `{format: hops, monitor: true}`.
    """

    format: Format
    round_trip: Annotated[Duration, AfterValidator(_time)] | None = None
    monitor: bool = False

    @model_validator(mode="after")
    def _of_the_format(self) -> PathTelemetryEntry:
        if self.round_trip is not None and self.format == "hops":
            raise ValueError("round_trip is for the format most-used: hops average nothing")
        if self.monitor and self.format != "hops":
            raise ValueError("monitor is for the format hops: a word for the path names no hop")
        return self


def _said(value: object) -> object:
    return {"format": value} if isinstance(value, str) else value


def _setting(entry: PathTelemetryEntry | None) -> PathTelemetry | None:
    if entry is None:
        return None
    return PathTelemetry(entry.format, entry.round_trip, entry.monitor)


PATH_TELEMETRY = Setting(
    KEY,
    Annotated[PathTelemetryEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    PathTelemetry,
)
