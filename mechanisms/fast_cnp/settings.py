"""Fast CNPs in files: `fast_cnp:` of a class, and `fast_overrides:` of `transport:`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, model_validator

from mechanisms.fast_cnp.parameters import FastCnp, FastCnpParameters, fast_cnp_parameters
from topologies.ecn import CERTAIN
from topologies.extensions import Setting
from topologies.fields import CountOrNone, Model, Rate, Size
from topologies.units import parse_share
from workloads.senders import DEFAULT, Column, Key, Recovery, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer


def _ppm(value: object) -> int:
    """Return a share such as 1% in millionths."""
    share = parse_share(value) * 1_000_000 // CERTAIN
    if share == 0:
        raise ValueError(f"{value!r} of the port's rate is nothing: write a share such as 1%")
    return share


class FastCnpEntry(Model):
    """Fast CNPs of a class: `fast_cnp: true`, or what differs from what the controller computes."""

    low: Size | None = None
    high: Size | None = None
    share: Annotated[int, BeforeValidator(_ppm)] = 10_000
    gateway: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> FastCnpEntry:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high: write {low: 200kB, high: 800kB}")
        return self


def _fast_cnp(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: FastCnpEntry | None) -> FastCnp | None:
    return FastCnp(entry.low, entry.high, entry.share, entry.gateway) if entry else None


class FastOverridesEntry(Model):
    """Single parameters of what a source does with fast CNPs (hostagent/include/fast_cnp.h)."""

    min_rate: Rate | None = None
    rate_ai: Rate | None = None
    rate_hai: Rate | None = None
    increase_timer: Timer | None = None
    quiet: CountOrNone | None = None


def of_transport(entry: Any, line_rate_bps: int) -> FastCnpParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    given = fast_cnp_parameters(line_rate_bps)
    changed: dict[str, int] = {}
    for name, value in entry.fast_overrides.model_dump(exclude_none=True).items():
        if name == "quiet":
            changed[name] = value
        elif name == "increase_timer":
            changed["increase_timer_ns"] = value // PS_PER_NS
        else:
            changed[f"{name}_bps"] = min(value, given.line_rate_bps)
    return replace(given, **changed) if changed else given


FAST_CNP = Setting(
    "fast_cnp",
    Annotated[FastCnpEntry | None, BeforeValidator(_fast_cnp), AfterValidator(_setting)],
    FastCnp,
)

SENDER = Sender(
    "fast-cnp",
    "fast CNPs",
    "fast_cnp",
    of_transport,
    keys={"fast_overrides": Key(FastOverridesEntry, FastOverridesEntry())},
    beside=(DEFAULT,),
    hears_switches=True,
    recovery=Recovery(
        "notified",
        "a rate that a fast CNP cut grows at most every",
        lambda given: given.increase_timer_ns,
    ),
    state_columns=(
        StateColumn("fast_rate_bps", "fast b/s", lambda _, rate_bps: rate_bps, optional=True),
    ),
    columns=(Column("fast_cnps", "notified", "fast CNPs"),),
)
