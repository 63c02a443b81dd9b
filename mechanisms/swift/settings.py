"""Swift in files: `swift_overrides:` of `transport:`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mechanisms.round_trips import longest_round_trip_ps, most_hops
from mechanisms.swift.parameters import (
    FS_MAX,
    FS_MIN,
    ONE_Q16,
    SwiftParameters,
    swift_parameters,
)
from topologies.fields import Count, Model, Moment, Rate
from topologies.model import Topology
from topologies.units import format_rate, show_duration
from workloads.paths import mtu_payload
from workloads.senders import Key, Sender, StateColumn
from workloads.transport_schema import PS_PER_NS, Timer

Factor = Annotated[float, Field(gt=0, lt=1)]
Packets = Annotated[float, Field(gt=0, le=1 << 17)]


class SwiftOverridesEntry(Model):
    """Single parameters of Swift (swift.h); times of the fabric, windows in packets."""

    base_rtt: Timer | None = None
    base: Literal["own", "fabric"] | None = None
    hops: Annotated[Count, Field(le=255)] | None = None
    hop_scale: Moment | None = None
    fs_range: Moment | None = None
    fs_min: Packets | None = None
    fs_max: Packets | None = None
    ai: Annotated[float, Field(gt=0, le=16)] | None = None
    beta: Factor | None = None
    max_mdf: Factor | None = None
    window_min: Annotated[float, Field(gt=0, le=1)] | None = None
    min_rate: Rate | None = None

    @model_validator(mode="after")
    def _scaling(self) -> Self:
        least, most = self.fs_min or FS_MIN, self.fs_max or FS_MAX
        if least >= most:
            raise ValueError(f"fs_min is below fs_max, not {least:g} and {most:g} packets")
        return self


TIMES = ("base_rtt", "hop_scale", "fs_range")
PLAIN = ("hops", "fs_min", "fs_max", "ai", "beta", "max_mdf", "window_min")


def of_transport(entry: Any, line_rate_bps: int) -> SwiftParameters:
    """Return what `transport:` says, for senders whose interface has that rate in the fabric.

    What follows from a fabric it has not yet: `of_fabric`. Raises ParameterError: a rate beyond
    the algorithm's numbers.
    """
    told: SwiftOverridesEntry = entry.swift_overrides
    changed: dict[str, Any] = {"packet_bytes": entry.mtu or 0}
    for name in (*TIMES, *PLAIN):
        value = getattr(told, name)
        if value is not None:
            changed |= {f"{name}_ns": value // PS_PER_NS} if name in TIMES else {name: value}
    if told.base is not None:
        changed["own_base"] = told.base == "own"
    if told.min_rate is not None:
        changed["min_rate_bps"] = min(told.min_rate, line_rate_bps)
    return replace(swift_parameters(line_rate_bps), **changed)


def of_fabric(given: SwiftParameters, topology: Topology) -> SwiftParameters:
    """Return the parameters with the fabric's longest round trip, its hops and its packets."""
    trip_ns = -(-longest_round_trip_ps(topology) // PS_PER_NS)
    packet = mtu_payload(min((link.mtu_bytes for link in topology.links), default=0))
    return given.in_fabric(trip_ns, most_hops(topology), packet)


def describe(given: Mapping[str, Any]) -> str:
    """Return all parameters in a line, as results keep them."""
    trip, scale, most = (
        show_duration((given[name] or 0) * PS_PER_NS)
        for name in ("base_rtt_ns", "hop_scale_ns", "fs_range_ns")
    )
    bound = "at most " if given["own_base"] else ""
    return (
        f"a target of {bound}{trip} and {scale} at each of {given['hops']} hops, up to {most} more "
        f"from {given['fs_max']:g} packets down to {given['fs_min']:g}; +{given['ai']:g} packets, "
        f"-{given['beta']:g} of what is too long, at most -{given['max_mdf']:g}; windows from "
        f"{given['window_min']:g} packets, at least {format_rate(given['min_rate_bps'])}"
    )


SENDER = Sender(
    "swift",
    "Swift",
    "swift",
    of_transport,
    of_fabric=of_fabric,
    keys={"swift_overrides": Key(SwiftOverridesEntry, SwiftOverridesEntry())},
    state_columns=(
        StateColumn(
            "swift_window",
            "window",
            lambda state, _: state["window_q16"] / ONE_Q16,
            is_rate=False,
            optional=True,
        ),
    ),
    describe=describe,
)
