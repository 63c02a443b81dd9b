"""ENCC in files: `encc_overrides:` of `transport:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from mechanisms.encc.parameters import ONE_Q16, EnccParameters, encc_parameters
from mechanisms.path_telemetry.settings import SHIM
from mechanisms.round_trips import longest_round_trip_ps
from topologies.fields import CountOrNone, Model, Rate, Size
from topologies.model import Topology
from topologies.units import format_rate, format_size, show_duration
from workloads.senders import Key, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer

LOAD_ONE = 1 << 26  # hostagent/include/path_telemetry_last.h: PATH_LOAD_ONE


class EnccOverridesEntry(Model):
    """Single parameters of ENCC (hostagent/include/encc.h), rates and times of the fabric."""

    eta: Annotated[float, Field(gt=0, le=2)] | None = None
    rate_ai: Rate | None = None
    min_rate: Rate | None = None
    max_stage: Annotated[CountOrNone, Field(le=1000)] | None = None
    base_rtt: Timer | None = None
    increase: Literal["root", "constant"] | None = None
    queue_free: Annotated[Size, Field(lt=1 << 32)] | None = None


def of_transport(entry: Any, line_rate_bps: int) -> EnccParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    Without `base_rtt` it has none yet: `of_fabric`. Raises ParameterError: a rate beyond the
    algorithm's numbers.
    """
    told: EnccOverridesEntry = entry.encc_overrides
    changed: dict[str, Any] = {
        f"{name}_bps": min(value, line_rate_bps)
        for name in ("rate_ai", "min_rate")
        if (value := getattr(told, name)) is not None
    }
    if told.eta is not None:
        changed["eta_q16"] = max(1, round(told.eta * ONE_Q16))
    if told.max_stage is not None:
        changed["max_stage"] = told.max_stage
    if told.increase is not None:
        changed["by_root"] = told.increase == "root"
    if told.queue_free is not None:
        changed["queue_free_bytes"] = told.queue_free
    if told.base_rtt is not None:
        changed["base_rtt_ns"] = told.base_rtt // PS_PER_NS
    return replace(encc_parameters(line_rate_bps), **changed)


def of_fabric(given: EnccParameters, topology: Topology) -> EnccParameters:
    """Return the parameters with the fabric's longest round trip, where none was said."""
    if given.base_rtt_ns:
        return given
    return replace(given, base_rtt_ns=-(-longest_round_trip_ps(topology) // PS_PER_NS))


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""
    stages = f", {given['max_stage']} increases at most before" if given["max_stage"] else ""
    root = " at the line, less below" if given["by_root"] else ""
    return (
        f"a load of {given['eta_q16'] / ONE_Q16:.3g} over a base round trip of "
        f"{show_duration(given['base_rtt_ns'] * PS_PER_NS)}{stages}, "
        f"{format_size(given['queue_free_bytes'])} of a queue for nothing, "
        f"+{format_rate(given['rate_ai_bps'])} a round trip{root}, at least "
        f"{format_rate(given['min_rate_bps'])}"
    )


SENDER = Sender(
    "encc",
    "ENCC",
    "encc",
    of_transport,
    shim=SHIM,
    of_fabric=of_fabric,
    keys={"encc_overrides": Key(EnccOverridesEntry, EnccOverridesEntry())},
    state_columns=(
        StateColumn(
            "encc_reference_bps", "ref b/s", lambda state, _: state["reference"], optional=True
        ),
        StateColumn(
            "encc_load",
            "load",
            lambda state, _: state["used"] / LOAD_ONE,
            is_rate=False,
            optional=True,
        ),
    ),
    describe=describe,
)
