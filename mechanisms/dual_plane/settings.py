"""Failover in run files: `failover:` of `transport:`, beside any congestion control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from hostagent.rnic.planes import FIRST_HASH, FIRST_TURN, MISSES_MOST, PlaneConfig, PlaneUse
from mechanisms.dual_plane.opponents import OPPONENTS, tries_of
from mechanisms.dual_plane.parameters import DualPlaneParameters, least_rate_bps
from topologies.fields import Count, CountOrNone, Model, Moment
from topologies.units import show_duration
from workloads.senders import Key, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer

US, MS, S = 10**6, 10**9, 10**12


_SHARE = ("silence", "misses", "probe", "hold", "hold_most", "stable", "ramp", "answers")
_MIGRATE = ("first", "tries", "by_link", "switch", "back", "like")
_FIRST = {"turn": FIRST_TURN, "hash": FIRST_HASH}


class FailoverEntry(Model):
    """When a plane is lost, and when it is used again; times of the fabric.

    `mode` share: packets take turns over all planes. migrate: one plane at a time, the others are
    alternates (automatic path migration): it begins with interface `first` (or in turn, or by a
    hash as a bond does), migrates after `tries` time-outs in a row (0: never) and `by_link` with
    its link, sends by the other one `switch` later, and returns when the first one has been well
    for `back` (0: never). `like`: all of that as others do it.
    """

    mode: Literal["share", "migrate"] = "share"
    silence: Timer = 50 * US
    misses: Annotated[Count, Field(le=MISSES_MOST)] = 3
    probe: Timer = 1 * MS
    hold: Moment = 10 * MS
    hold_most: Moment = 10 * S
    stable: Moment = 2 * S
    ramp: Moment = 100 * US
    answers: Annotated[Count, Field(le=1 << 20)] = 5
    first: Literal["turn", "hash"] | Annotated[int, Field(ge=0, lt=8, strict=True)] = 0
    tries: Annotated[CountOrNone, Field(le=1001)] = 1
    by_link: Annotated[bool, Field(strict=True)] = True
    switch: Moment = 0
    back: Moment = 0
    like: Literal["bond", "nccl"] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> FailoverEntry:
        more = sorted(self.model_fields_set - {"mode", "like"})
        if self.like is not None and (more or self.mode != "migrate"):
            raise ValueError(
                f"'like' says all of path migration: write {{mode: migrate, like: {self.like}}} "
                "and nothing else, or keys of your own without it"
            )
        of_other = _SHARE if self.mode == "migrate" else _MIGRATE
        wrong = [name for name in of_other if name in self.model_fields_set]
        if wrong:
            other = "share" if self.mode == "migrate" else "migrate"
            raise ValueError(f"{wrong[0]!r} is for mode {other}, not for {self.mode}")
        if self.hold > self.hold_most:
            raise ValueError(
                f"hold is above hold_most, {show_duration(self.hold_most)}: write for example "
                "{hold: 10ms, hold_most: 10s}"
            )
        return self


def _failover(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def planes_of(entry: Any) -> PlaneConfig | None:
    """Return what the card makes of interfaces by a validated `transport:`."""
    told: FailoverEntry | None = entry.failover
    if told is None:
        return None
    if told.mode == "share":
        return PlaneConfig(PlaneUse.SHARED, told.misses, told.silence, told.probe)
    if told.like is not None:
        return replace(OPPONENTS[told.like], tries=tries_of(told.like, entry.retries))
    return PlaneConfig(
        PlaneUse.SINGLE,
        first=told.first if isinstance(told.first, int) else _FIRST[told.first],
        tries=told.tries,
        by_link=told.by_link,
        switch_ps=told.switch,
        return_ps=told.back,
    )


def of_transport(entry: Any, line_rate_bps: int) -> DualPlaneParameters:
    """Return what `transport:` says, for a plane whose line has that rate in the fabric.

    Raises ParameterError: a rate beyond the algorithm's numbers.
    """
    told: FailoverEntry = entry.failover
    return DualPlaneParameters(
        line_rate_bps=line_rate_bps,
        min_rate_bps=least_rate_bps(line_rate_bps),
        hold_ns=told.hold // PS_PER_NS,
        hold_most_ns=told.hold_most // PS_PER_NS,
        stable_ns=told.stable // PS_PER_NS,
        ramp_ns=told.ramp // PS_PER_NS,
        answers=told.answers,
    )


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""

    def time(name: str) -> str:
        return show_duration(given[f"{name}_ns"] * PS_PER_NS)

    return (
        f"a plane that was lost is held down for {time('hold')}, doubling up to "
        f"{time('hold_most')} unless it had stood for {time('stable')}; up after "
        f"{given['answers']} answers in a row, then 1/16 and 1/4 of its line, {time('ramp')} each"
    )


def _state(state: Mapping[str, int], _rate: int) -> str:
    if state["down"]:
        return "down"
    return "ramp" if state["ramping"] else "up"


SENDER = Sender(
    "dual-plane",
    "failover of planes",
    "dual_plane",
    of_transport,
    keys={
        "failover": Key(Annotated[FailoverEntry | None, BeforeValidator(_failover)]),
    },
    planes=planes_of,
    state_columns=(
        StateColumn("plane", "plane", _state, is_rate=False, optional=True, is_plane=True),
        StateColumn("plane_rate_bps", "plane b/s", lambda _, rate_bps: rate_bps, optional=True),
        StateColumn(
            "plane_losses", "losses", lambda state, _: state["losses"], is_rate=False, optional=True
        ),
    ),
    describe=describe,
)
