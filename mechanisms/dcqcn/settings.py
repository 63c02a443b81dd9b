"""DCQCN in files: `ecn:` of a class, and `parameters:` and `overrides:` of `transport:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mechanisms.dcqcn.parameters import (
    BANDWIDTH_SCALED,
    GAIN_ONE,
    SETS,
    DcqcnParameters,
    MarkingOfSet,
    parameters,
)
from topologies.ecn import EcnMarking, EcnThresholds, step
from topologies.extensions import Setting
from topologies.fields import CountOrNone, Model, Moment, Rate, Size
from topologies.units import format_rate, format_size, parse_share, parse_size, show_duration
from workloads.senders import Key, Recovery, Sender, StateColumn
from workloads.slow_motion import ParameterError
from workloads.transport_schema import PS_PER_NS, Timer

ALPHA_ONE = 1 << 32  # hostagent/include/dcqcn.h: DCQCN_ONE


def _marking(value: object) -> EcnMarking:
    """Return how a class marks: a size is a step, a mapping a ramp, a name a parameter set's."""
    if isinstance(value, str) and value in SETS:
        return MarkingOfSet(value)
    if isinstance(value, dict):
        right = "write {min: 400kB, max: 1600kB, probability: 20%}"
        if set(value) != {"min", "max", "probability"}:
            raise ValueError(f"a ramp has min, max and probability: {right}")
        low, high = parse_size(value["min"]), parse_size(value["max"])
        if low > high:
            raise ValueError(f"min is above max: {right}")
        return EcnThresholds(low, high, parse_share(value["probability"]))
    try:
        return step(parse_size(value))
    except ValueError:
        raise ValueError(
            f"{value!r} is not a threshold: write a size (mark above it), "
            f"{{min: 400kB, max: 1600kB, probability: 20%}}, or a parameter set: {', '.join(SETS)}"
        ) from None


def _set(value: object) -> str:
    """Return a parameter set's name. Raises ValueError, which lists them."""
    try:
        parameters(str(value), 10**9)
    except ParameterError as error:
        raise ValueError(str(error)) from None
    return str(value)


class OverridesEntry(Model):
    """Single parameters of DCQCN in the place of the set's."""

    min_rate: Rate | None = None
    rate_ai: Rate | None = None
    rate_hai: Rate | None = None
    alpha_timer: Timer | None = None
    increase_timer: Timer | None = None
    cut_interval: Moment | None = None
    cnp_interval: Moment | None = None
    byte_counter: Size | None = None
    fast_recovery: CountOrNone | None = None
    clamp_target_rate: Annotated[bool, Field(strict=True)] | None = None
    gain: Annotated[float, Field(gt=0, le=1)] | None = None


def of_transport(entry: Any, line_rate_bps: int) -> DcqcnParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    Raises ParameterError where no set serves the rate.
    """
    given = parameters(entry.parameters, line_rate_bps)
    changed: dict[str, Any] = {}
    for name, value in entry.overrides.model_dump(exclude_none=True).items():
        if name == "gain":
            changed["gain_q16"] = max(1, round(value * GAIN_ONE))
        elif name in ("min_rate", "rate_ai", "rate_hai"):
            changed[f"{name}_bps"] = min(value, given.line_rate_bps)
        elif name in ("byte_counter", "fast_recovery", "clamp_target_rate"):
            changed[name] = value
        else:
            changed[f"{name}_ns"] = value // PS_PER_NS
    return replace(given, name=f"{given.name} (changed)", **changed) if changed else given


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""

    def time(name: str) -> str:
        return show_duration(given[f"{name}_ns"] * PS_PER_NS)

    def rate(name: str) -> str:
        return format_rate(given[f"{name}_bps"])

    count = format_size(given["byte_counter"]) if given["byte_counter"] else "off"
    target = "each sets the target" if given["clamp_target_rate"] else "the first sets the target"
    gain = given["gain_q16"]
    share = f"1/{GAIN_ONE // gain}" if GAIN_ONE % gain == 0 else f"{gain}/{GAIN_ONE}"
    return (
        f"{given['name']} at {rate('line_rate')}: g {share}, alpha timer {time('alpha_timer')}, "
        f"increase timer {time('increase_timer')}, byte counter {count}, fast recovery "
        f"{given['fast_recovery']}, +{rate('rate_ai')}, then +{rate('rate_hai')}, at least "
        f"{rate('min_rate')}; cuts {time('cut_interval')} apart, {target}, CNPs "
        f"{time('cnp_interval')} apart "
        f"({given['source']})"
    )


def _alpha(state: Mapping[str, int], _rate: int) -> float:
    """Return alpha as a share; 0 as long as no CNP came."""
    return state["alpha"] / ALPHA_ONE if state["limited"] else 0.0


ECN = Setting(
    "ecn",
    Annotated[EcnThresholds | MarkingOfSet, BeforeValidator(_marking)] | None,
    EcnThresholds | MarkingOfSet,
)

SENDER = Sender(
    "dcqcn",
    "DCQCN",
    "dcqcn",
    of_transport,
    keys={
        "parameters": Key(Annotated[str, BeforeValidator(_set)], BANDWIDTH_SCALED),
        "overrides": Key(OverridesEntry, OverridesEntry()),
    },
    sets=SETS,
    default_set=BANDWIDTH_SCALED,
    set_key="parameters",
    recovery=Recovery(
        "cnps", "DCQCN raises a rate that was cut every", lambda given: given.increase_timer_ns
    ),
    state_columns=(
        StateColumn("target_bps", "target b/s", lambda state, _: state["target"]),
        StateColumn("alpha", "alpha", _alpha, is_rate=False),
        StateColumn("limited", "", lambda state, _: bool(state["limited"]), is_rate=False),
    ),
    describe=describe,
)
