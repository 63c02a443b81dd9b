"""PowerTCP in files: `powertcp_overrides:` of `transport:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from mechanisms.path_telemetry.settings import SHIM
from mechanisms.powertcp.parameters import ONE_Q16, PowerTcpParameters, powertcp_parameters
from mechanisms.round_trips import longest_round_trip_ps
from topologies.fields import Model, Rate
from topologies.model import Topology
from topologies.units import format_rate, show_duration
from workloads.senders import Key, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer

POWER_ONE = 1 << 26  # hostagent/include/path_telemetry_last.h: PATH_LOAD_ONE


class PowerTcpOverridesEntry(Model):
    """Single parameters of PowerTCP (powertcp.h); rates and times of the fabric."""

    eta: Annotated[float, Field(gt=0, le=2)] | None = None
    gamma: Annotated[float, Field(gt=0, le=1)] | None = None
    rate_ai: Rate | None = None
    min_rate: Rate | None = None
    base_rtt: Timer | None = None


def of_transport(entry: Any, line_rate_bps: int) -> PowerTcpParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    Without `base_rtt` it has none yet: `of_fabric`. Raises ParameterError: a rate beyond the
    algorithm's numbers.
    """
    told: PowerTcpOverridesEntry = entry.powertcp_overrides
    changed: dict[str, Any] = {
        f"{name}_bps": min(value, line_rate_bps)
        for name in ("rate_ai", "min_rate")
        if (value := getattr(told, name)) is not None
    }
    changed |= {
        f"{name}_q16": max(1, round(value * ONE_Q16))
        for name in ("eta", "gamma")
        if (value := getattr(told, name)) is not None
    }
    if told.base_rtt is not None:
        changed["base_rtt_ns"] = told.base_rtt // PS_PER_NS
    return replace(powertcp_parameters(line_rate_bps), **changed)


def of_fabric(given: PowerTcpParameters, topology: Topology) -> PowerTcpParameters:
    """Return the parameters with the fabric's longest round trip, where none was said."""
    if given.base_rtt_ns:
        return given
    return replace(given, base_rtt_ns=-(-longest_round_trip_ps(topology) // PS_PER_NS))


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""
    return (
        f"a power of {given['eta_q16'] / ONE_Q16:.3g} over a base round trip of "
        f"{show_duration(given['base_rtt_ns'] * PS_PER_NS)}, "
        f"gamma {given['gamma_q16'] / ONE_Q16:.3g}, "
        f"+{format_rate(given['rate_ai_bps'])}, at least {format_rate(given['min_rate_bps'])}"
    )


SENDER = Sender(
    "powertcp",
    "PowerTCP",
    "powertcp",
    of_transport,
    shim=SHIM,
    of_fabric=of_fabric,
    keys={"powertcp_overrides": Key(PowerTcpOverridesEntry, PowerTcpOverridesEntry())},
    state_columns=(
        StateColumn(
            "powertcp_power",
            "power",
            lambda state, _: state["power"] / POWER_ONE,
            is_rate=False,
            optional=True,
        ),
    ),
    describe=describe,
)
