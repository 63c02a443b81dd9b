"""Fast CNPs in files: `fast_cnp:` of a class, and `fast_overrides:` of `transport:`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from mechanisms.fast_cnp.parameters import (
    SHARE_PPM,
    FastCnp,
    FastCnpParameters,
    fast_cnp_parameters,
)
from topologies.ecn import CERTAIN
from topologies.extensions import Setting
from topologies.fields import Model, Rate, Size
from topologies.units import parse_share
from workloads.senders import DEFAULT, Column, Key, Recovery, Sender, StateColumn


def _ppm(value: object) -> int:
    """Return a share such as 1% in millionths."""
    share = parse_share(value) * 1_000_000 // CERTAIN
    if share == 0:
        raise ValueError(f"{value!r} of the port's rate is nothing: write a share such as 1%")
    return share


class FastCnpEntry(Model):
    """Fast CNPs of a class: `fast_cnp: true`, or what differs from what the controller computes."""

    target: Size | None = None
    share: Annotated[int, BeforeValidator(_ppm)] = SHARE_PPM
    gateway: bool = False


def _fast_cnp(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: FastCnpEntry | None) -> FastCnp | None:
    return FastCnp(entry.target, entry.share, entry.gateway) if entry else None


class FastOverridesEntry(Model):
    """Single parameters of what a source does with fast CNPs (hostagent/include/fast_cnp.h)."""

    min_rate: Rate | None = None


def of_transport(entry: Any, line_rate_bps: int) -> FastCnpParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    given = fast_cnp_parameters(line_rate_bps)
    least = entry.fast_overrides.min_rate
    return given if least is None else replace(given, min_rate_bps=min(least, line_rate_bps))


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
        "a rate that a fast CNP cut doubles at most every",
        lambda given: given.validity_unit_ns,
    ),
    state_columns=(
        StateColumn("fast_rate_bps", "fast b/s", lambda _, rate_bps: rate_bps, optional=True),
    ),
    columns=(Column("fast_cnps", "notified", "fast CNPs"),),
)
