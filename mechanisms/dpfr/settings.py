"""DPFR in topology files: `dpfr: true`, or what differs from the usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from softswitch.impairments import fixed_point
from topologies.extensions import Setting
from topologies.fields import Duration, Model
from topologies.tickers import LEAST_PERIOD_PS, MOST_PERIOD_PS
from topologies.units import format_duration

KEY = "dpfr"
PERIOD_PS = 8_400_000
MISSES = 3
HOLD = 16
COPIES = 3
VALIDITY = 7
REFRESH = 56
"""Twice within what is valid, so that one may be lost."""

HOPS = 4
WEIGHT = 400
LOSSES = 6
"""A score of so many lost packets, and a link loses too many."""

LOSSES_AT_ONCE = 2
"""What one heartbeat adds to the score at most: a short interruption is no lossy link."""

LEAST_LOSS, MOST_LOSS = "0.01%", "50%"


@dataclass(frozen=True)
class Dpfr:
    """Times are in periods, but for the period itself (fabric picoseconds).

    `misses`: the most without any arrival that are tolerated. `hold`: good ones before a link that
    was down is used again; doubled up to ten times while it flaps. `copies`: how many notifications
    are sent at first. `refresh`: when they are repeated. `validity`: they hold for 2^validity.
    `weight`: a link is avoided that keeps losing more than one packet in so many; 0: none is.
    `remote` False: switches reroute around dead links without notifications (for comparisons).
    `carrier`: a port without carrier is dead at once, where the target reports it.
    """

    period_ps: int = PERIOD_PS
    misses: int = MISSES
    hold: int = HOLD
    copies: int = COPIES
    refresh: int = REFRESH
    validity: int = VALIDITY
    weight: int = WEIGHT
    remote: bool = True
    carrier: bool = True

    @property
    def detection_ps(self) -> int:
        """The longest time from the last arrival until a link is known to be dead."""
        return (self.misses + 2) * self.period_ps


def _weight(loss: Any) -> int:
    if loss is False:
        return 0
    share = fixed_point(loss)
    if not fixed_point(LEAST_LOSS) <= share <= fixed_point(MOST_LOSS):
        raise ValueError(
            f"a link is avoided that loses more than a share from {LEAST_LOSS} to {MOST_LOSS}, "
            f"not {loss}; loss: false bears any"
        )
    return ((1 << 32) + share // 2) // share


class DpfrEntry(Model):
    """What a file may say."""

    period: Duration = PERIOD_PS
    misses: Annotated[int, Field(ge=1, le=255, strict=True)] = MISSES
    hold: Annotated[int, Field(ge=1, le=4096, strict=True)] = HOLD
    copies: Annotated[int, Field(ge=1, le=15, strict=True)] = COPIES
    refresh: Annotated[int, Field(ge=1, le=16384, strict=True)] = REFRESH
    validity: Annotated[int, Field(ge=1, le=15, strict=True)] = VALIDITY
    loss: Annotated[int, BeforeValidator(_weight)] = WEIGHT
    remote: Annotated[bool, Field(strict=True)] = True
    carrier: StrictBool = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not WAYS_LEAST_PS <= self.period <= MOST_PERIOD_PS:
            least, most = format_duration(WAYS_LEAST_PS), format_duration(MOST_PERIOD_PS)
            raise ValueError(f"a period of heartbeats is from {least} to {most}")
        if 1 << self.validity <= self.refresh + self.copies:
            enough = (self.refresh + self.copies).bit_length()
            wrong = (
                f"a notification holds for 2^{self.validity} periods and has to be repeated before "
                f"that: with {self.copies} copies and a refresh of {self.refresh} it is too short"
            )
            raise ValueError(f"{wrong}; validity: {enough} would do" if enough <= 15 else wrong)
        return self


WAYS_LEAST_PS = 64 * LEAST_PERIOD_PS
"""A tick for each of 64 ways in a period."""


def _said(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: DpfrEntry | None) -> Dpfr | None:
    if entry is None:
        return None
    return Dpfr(
        entry.period,
        entry.misses,
        entry.hold,
        entry.copies,
        entry.refresh,
        entry.validity,
        entry.loss,
        entry.remote,
        entry.carrier,
    )


DPFR = Setting(
    KEY,
    Annotated[DpfrEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    Dpfr,
    "topology",
)
