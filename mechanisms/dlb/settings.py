"""Load balancing in topology files: `load_balancing:` of a class, a policy or what differs."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from topologies.extensions import Setting
from topologies.fields import Duration, Model
from topologies.model import Topology
from topologies.tickers import LEAST_PERIOD_PS, MOST_PERIOD_PS
from topologies.units import format_duration

KEY = "load_balancing"
GAP_PS = 20_000_000


class Policy(enum.Enum):
    """How a packet of a class chooses among equally short paths; values as in Balance (P4)."""

    ECMP_QP = 1
    ROUND_ROBIN = 2
    SPRAY = 3
    FLOWLET = 4
    FLOWLET_DLB = 5
    PACKET_DLB = 6
    FLOWLET_GLB = 7
    PACKET_GLB = 8

    @property
    def word(self) -> str:
        """The policy as files say it."""
        return self.name.lower().replace("_", "-")

    @property
    def by_flowlet(self) -> bool:
        """Whether packets of a flow that follow each other closely take one path."""
        return self in (Policy.FLOWLET, Policy.FLOWLET_DLB, Policy.FLOWLET_GLB)

    @property
    def by_quality(self) -> bool:
        """Whether ports are compared by how busy they are."""
        return self.by_path or self in (Policy.FLOWLET_DLB, Policy.PACKET_DLB)

    @property
    def by_draw(self) -> bool:
        """Whether a port is drawn, or hashed to: then faster ones can be so more often."""
        return self in (Policy.ECMP_QP, Policy.SPRAY, Policy.FLOWLET)

    @property
    def by_path(self) -> bool:
        """Whether what lies behind ports counts, as the switches there report it."""
        return self in (Policy.FLOWLET_GLB, Policy.PACKET_GLB)


ECMP = "ecmp"
"""What a class without the setting has: the hash of the flow."""

_OF_WORD = {each.word: each for each in Policy}
WORDS = (ECMP, *_OF_WORD)


@dataclass(frozen=True)
class Balancing:
    """What a class's packets choose their paths by.

    `gap_ps`: of flowlets, in fabric ps. `by_rate`: ports of a group are drawn in proportion to the
    rates of their links.
    """

    policy: Policy
    gap_ps: int = GAP_PS
    by_rate: bool = False


def _policy(word: object) -> Policy | None:
    if word == ECMP:
        return None
    if isinstance(word, str) and word in _OF_WORD:
        return _OF_WORD[word]
    raise ValueError(f"{word!r} is not a policy: known are {', '.join(WORDS)}")


class BalancingEntry(Model):
    """What a class may say: `{policy: flowlet-dlb, gap: 20us}`."""

    policy: Annotated[Policy | None, BeforeValidator(_policy)]
    gap: Duration | None = None
    weights: Literal["auto"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> BalancingEntry:
        if self.gap is not None and (self.policy is None or not self.policy.by_flowlet):
            flowlets = ", ".join(each.word for each in Policy if each.by_flowlet)
            raise ValueError(f"gap is for flowlets: with policy {flowlets}")
        if self.weights is not None and (self.policy is None or not self.policy.by_draw):
            drawn = ", ".join(each.word for each in Policy if each.by_draw)
            raise ValueError(f"weights are for ports that are drawn: with policy {drawn}")
        if self.gap == 0:
            raise ValueError("a gap of 0 makes every packet a flowlet: write policy spray")
        return self


def _said(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


def _setting(entry: BalancingEntry | None) -> Balancing | None:
    if entry is None or entry.policy is None:
        return None
    gap_ps = GAP_PS if entry.gap is None else entry.gap
    return Balancing(entry.policy, gap_ps, entry.weights is not None)


LOAD_BALANCING = Setting(
    KEY,
    Annotated[BalancingEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    Balancing,
)

REPORTS_KEY = "path_reports"
PERIOD_PS = 2_000_000
REFRESH = 4
SILENCE = 4
"""Refreshes that may be missing before a port leads nowhere."""

PORTS = 64
"""As DLB_PORTS of p4src/modules/dlb.p4: a switch's ports to switches."""


@dataclass(frozen=True)
class PathReports:
    """How often switches look at what lies behind their ports, and tell their neighbours.

    `period_ps`: a look at all ports, after which a report leaves if it differs from the last one;
    `refresh`: periods after which one leaves anyway.
    """

    period_ps: int = PERIOD_PS
    refresh: int = REFRESH

    @property
    def silence_ps(self) -> int:
        """How long nothing may come by a port that has brought reports."""
        return SILENCE * self.refresh * self.period_ps


class PathReportsEntry(Model):
    """What a file may say: `path_reports: {period: 2us, refresh: 4}`."""

    period: Duration = PERIOD_PS
    refresh: Annotated[int, Field(ge=1, le=255, strict=True)] = REFRESH

    @model_validator(mode="after")
    def _fits(self) -> PathReportsEntry:
        if not LEAST_PERIOD_PS * PORTS <= self.period <= MOST_PERIOD_PS:
            least, most = (format_duration(ps) for ps in (LEAST_PERIOD_PS * PORTS, MOST_PERIOD_PS))
            raise ValueError(f"a period of reports is from {least} to {most}")
        return self


def _reports(entry: PathReportsEntry | None) -> PathReports | None:
    return None if entry is None else PathReports(entry.period, entry.refresh)


PATH_REPORTS = Setting(
    REPORTS_KEY,
    Annotated[PathReportsEntry | None, AfterValidator(_reports)],
    PathReports,
    "topology",
)


def has_weights(topology: Topology) -> bool:
    """Return whether a class has its ports drawn by the rates of their links."""
    policies = (each.setting(KEY) for each in topology.classes)
    return any(each is not None and each.by_rate for each in policies)


def reports_of(topology: Topology) -> PathReports | None:
    """Return how switches report paths; None where no class has a policy that asks for it."""
    policies = (each.setting(KEY) for each in topology.classes)
    if not any(each is not None and each.policy.by_path for each in policies):
        return None
    said: PathReports | None = topology.setting(REPORTS_KEY)
    return said or PathReports()
