"""Toy as a mechanism of the house: counts marked packets, and lets senders go at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.entries import Entry, Exact, TableEntry, call, match
from controller.parts import View
from mechanisms.contract import Mechanism, PortCounter, Rows, Running, Word
from topologies.errors import FieldPath
from topologies.extensions import Setting
from topologies.fields import Rate
from topologies.lint.findings import Remark, Severity
from topologies.model import Topology
from workloads.senders import Key, Sender, StateColumn
from workloads.slow_motion import slowed


@dataclass(frozen=True)
class ToyParameters:
    """One rate, in bits/s."""

    line_rate_bps: int
    fixed_rate_bps: int

    @property
    def receiver_cnp_interval_ns(self) -> None:
        """Receivers do nothing for it."""
        return None

    def fields(self) -> Mapping[str, int]:
        """Return the fields of `struct toy_params`."""
        return {
            "line_rate": self.line_rate_bps,
            "min_rate": 1,
            "fixed_rate": min(self.fixed_rate_bps, self.line_rate_bps),
        }

    def with_time_scale(self, scale: int) -> ToyParameters:
        """Return the same slowed down."""
        return slowed(self, scale)


def of_transport(entry: Any, line_rate_bps: int) -> ToyParameters:
    """Return what `transport:` says."""
    return ToyParameters(line_rate_bps, entry.toy_rate)


def show(running: Running, rest: str) -> Iterator[str | Rows]:
    """Yield which switches count."""
    names = [switch.name for switch in running.topology.switches]
    yield f"{', '.join(names)} count for toy{rest and ' ' + rest}"


@dataclass(frozen=True)
class Toy(Mechanism):
    """What the toy does beyond data."""

    def entries(self, view: View) -> Iterator[Entry]:
        """Yield the ports that count: those of all switches, or of those that the file names."""
        named = view.topology.setting("toy_switches")
        if named is not None and view.switch.name not in named:
            return
        for port in view.topology.ports_of(view.switch.name):
            yield TableEntry("toy_port", match(port=Exact(port.number)), call("count_port"))

    def remarks(self, topology: Topology, prefix: FieldPath = ()) -> Iterator[Remark]:
        """Yield classes whose marked packets are counted, and that nothing marks."""
        for each in topology.classes:
            if each.setting("toy") and each.setting("ecn") is None:
                path = (*prefix, "classes", each.name, "toy")
                message = "nothing marks its packets, so none are counted"
                yield Remark(Severity.WARNING, path, f"class {each.name}", message, "give it ecn")


MECHANISM = Toy(
    "toy",
    "toy",
    settings=(
        Setting("toy", bool | None, bool),
        Setting("toy_switches", tuple[str, ...] | None, tuple[str, ...], "topology"),
    ),
    sender=Sender(
        "toy",
        "toy",
        "toy",
        of_transport,
        keys={"toy_rate": Key(Rate, 10**9)},
        state_columns=(StateColumn("toy_bps", "toy b/s", lambda _, rate: rate, optional=True),),
        describe=lambda given: f"at {given['fixed_rate_bps']} b/s",
    ),
    tables=frozenset({"toy_port"}),
    counters=(
        PortCounter(
            "toy_marked",
            "toy_marked",
            "toy marks",
            lambda port: {port: "marked"},
            "marked",
            {"marked": "left with CE"},
            "Packets that left with CE.",
            "what",
        ),
    ),
    words=(Word("toy", "", "which switches count for the toy", show),),
)
