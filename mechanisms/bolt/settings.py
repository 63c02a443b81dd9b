"""Bolt in files: `bolt:` of a class, and `bolt_overrides:` of `transport:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from mechanisms.bolt.parameters import ONE_Q16, BoltParameters, bolt_parameters
from mechanisms.round_trips import longest_round_trip_ps
from topologies.extensions import Setting
from topologies.fields import Model, Rate, Size
from topologies.model import Topology
from topologies.units import format_rate, show_duration
from workloads.paths import mtu_payload
from workloads.senders import Key, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer

KEY = "bolt"

THRESHOLD_MOST = 1 << 30


@dataclass(frozen=True)
class Bolt:
    """What switches do with packets of a class that ask.

    `threshold_bytes`: of a queue from which on sources are notified; None: a packet of the link's
    MTU.
    """

    threshold_bytes: int | None = None


def _threshold(value: int) -> int:
    if not 0 < value <= THRESHOLD_MOST:
        raise ValueError("it is from 1B to 1GiB")
    return value


class BoltEntry(Model):
    """What a class may say: `bolt: true`, or `{threshold: 8KB}`."""

    threshold: Annotated[Size, AfterValidator(_threshold)] | None = None


def _said(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


def _setting(entry: BoltEntry | None) -> Bolt | None:
    return None if entry is None else Bolt(entry.threshold)


BOLT = Setting(
    KEY, Annotated[BoltEntry | None, BeforeValidator(_said), AfterValidator(_setting)], Bolt
)


class BoltOverridesEntry(Model):
    """Single parameters of Bolt (bolt.h); times of the fabric, windows in packets."""

    base_rtt: Timer | None = None
    ai: Annotated[float, Field(ge=0, le=16)] | None = None
    max_mdf: Annotated[float, Field(gt=0, lt=1)] | None = None
    window_min: Annotated[float, Field(gt=0, le=1)] | None = None
    window_most: Annotated[float, Field(ge=1, le=1000)] | None = None
    steps: Literal["exact", "whole"] | None = None
    min_rate: Rate | None = None


def of_transport(entry: Any, line_rate_bps: int) -> BoltParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    What follows from a fabric it has not yet: `of_fabric`. Raises ParameterError: a rate beyond
    the algorithm's numbers.
    """
    told: BoltOverridesEntry = entry.bolt_overrides
    changed: dict[str, Any] = {"packet_bytes": entry.mtu or 0}
    for name in ("ai", "max_mdf", "window_min", "window_most"):
        value = getattr(told, name)
        if value is not None:
            changed[name] = value
    if told.base_rtt is not None:
        changed["base_rtt_ns"] = told.base_rtt // PS_PER_NS
    if told.steps is not None:
        changed["whole_steps"] = told.steps == "whole"
    if told.min_rate is not None:
        changed["min_rate_bps"] = min(told.min_rate, line_rate_bps)
    return replace(bolt_parameters(line_rate_bps), **changed)


def of_fabric(given: BoltParameters, topology: Topology) -> BoltParameters:
    """Return the parameters with the fabric's longest round trip, where nothing was said."""
    trip_ns = -(-longest_round_trip_ps(topology) // PS_PER_NS)
    packet = mtu_payload(min((link.mtu_bytes for link in topology.links), default=0))
    return given.in_fabric(trip_ns, packet)


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""
    steps = "whole" if given["whole_steps"] else "exact"
    return (
        f"windows from {given['window_min']:g} packets to {given['window_most']:g} times what the "
        f"line carries in {show_duration(given['base_rtt_ns'] * PS_PER_NS)}; "
        f"+{given['ai']:g} packets a round trip, in {steps} steps; "
        f"at least {format_rate(given['min_rate_bps'])}"
    )


SENDER = Sender(
    "bolt",
    "Bolt",
    "bolt",
    of_transport,
    shim="the word that asks for more",
    of_fabric=of_fabric,
    keys={"bolt_overrides": Key(BoltOverridesEntry, BoltOverridesEntry())},
    state_columns=(
        StateColumn(
            "bolt_window",
            "granted",
            lambda state, _: state["window_q16"] / ONE_Q16,
            is_rate=False,
            optional=True,
        ),
    ),
    describe=describe,
)
