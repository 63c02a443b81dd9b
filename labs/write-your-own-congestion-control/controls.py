"""Who controls a run's senders: the learner's header, or an installed algorithm beside it.

Each control says what switches do for it, as a class of the topology has it, and what stands in
`transport:`. The learner's is a sender that run files know as YOURS while its engine is in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hostagent.own_algorithm import Built
from mechanisms.round_trips import longest_round_trip_ps
from simulator.core.own_algorithm import engine_in_place
from topologies.model import Topology
from workloads import senders
from workloads.slow_motion import slowed

from . import headers

YOURS = "yours"
"""What `congestion_control:` calls the learner's header, whatever its own name is."""
CNP, NOTIFIED = 0, 3
"""Kinds of events: enum cc_event_kind."""
TELEMETRY = 4
"""enum cc_want."""
CNP_INTERVAL_NS = 500
"""A receiver sends a CNP that often at most: that of hpcc-dcqcn at 100 Gb/s (mechanisms/dcqcn)."""
PS_PER_NS = 1000
LEAST_PART = 4000
"""The least rate is this part of the line, as ENCC has it."""


@dataclass(frozen=True)
class Parameters:
    """What the lab tells a header: rates in bits/s, times in ns, as they run."""

    line_rate_bps: int
    min_rate_bps: int
    base_rtt_ns: int
    time_scale: int
    receiver_cnp_interval_ns: int | None

    def fields(self) -> Mapping[str, int]:
        """Return the fields of its C structure."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": self.min_rate_bps,
            "base_rtt_ns": self.base_rtt_ns,
            "time_scale": self.time_scale,
        }

    def with_time_scale(self, scale: int) -> Parameters:
        """Return the same slowed down by `scale`. Raises ParameterError."""
        interval = self.receiver_cnp_interval_ns
        slow: Parameters = slowed(replace(self, receiver_cnp_interval_ns=0), scale)
        return replace(
            slow,
            time_scale=self.time_scale * scale,
            receiver_cnp_interval_ns=interval and interval * scale,
        )


@dataclass(frozen=True)
class Control:
    """`tells`: what the class of data has; `transport`: what the transport has."""

    name: str
    tells: Mapping[str, Any]
    transport: Mapping[str, Any]
    built: Built | None = None
    algorithm: str = ""

    def applied(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run file's mapping with this control in the place of its own."""
        topology = document["topology"]
        kept = {k: v for k, v in topology["classes"]["roce"].items() if k in ("dscp", "queue")}
        classes = {**topology["classes"], "roce": {**kept, **self.tells}}
        timeout = document["transport"]["timeout"]
        return {
            **document,
            "topology": {**topology, "classes": classes},
            "transport": {"timeout": timeout, **self.transport},
        }

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let runs of this process have it meanwhile. Raises CoreBuildError."""
        if self.built is None:
            yield
            return
        with engine_in_place(self.built), senders.with_sender(self._sender()):
            yield

    def _sender(self) -> senders.Sender:
        interval = CNP_INTERVAL_NS if "ecn" in self.tells else None

        def parameters(_: Any, line_rate_bps: int) -> Parameters:
            least = max(line_rate_bps // LEAST_PART, 1)
            return Parameters(line_rate_bps, least, 0, 1, interval)

        def of_fabric(given: Parameters, topology: Topology) -> Parameters:
            trip = -(-longest_round_trip_ps(topology) // PS_PER_NS)
            return replace(given, base_rtt_ns=trip)

        return senders.Sender(
            YOURS, self.algorithm, self.algorithm, parameters, of_fabric=of_fabric
        )


def yours(made: Built, which: int = -1) -> Control:
    """Return the control of a learner's header; `which` of those that were built together."""
    algorithm = made.own[which].name
    said = headers.asks(made, algorithm)
    tells: dict[str, Any] = {}
    if said.wants & TELEMETRY:
        tells["path_telemetry"] = "hops"
    if said.kind(CNP) or said.kind(NOTIFIED):
        tells["ecn"] = "hpcc-dcqcn"
    if said.kind(NOTIFIED):
        tells["fast_cnp"] = True
    return Control("yours", tells, {"congestion_control": YOURS}, made, algorithm)


ENCC = Control("encc", {"path_telemetry": "hops"}, {"congestion_control": "encc"})
DCQCN = Control(
    "dcqcn",
    {"ecn": "hpcc-dcqcn"},
    {"congestion_control": "dcqcn", "parameters": "hpcc-dcqcn"},
)
FAST_CNP = Control(
    "fast-cnp",
    {"ecn": "hpcc-dcqcn", "fast_cnp": True},
    {"congestion_control": "fast-cnp", "parameters": "hpcc-dcqcn"},
)
OTHERS = (DCQCN, FAST_CNP, ENCC)
