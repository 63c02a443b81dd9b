"""Load balancing in topology files: `load_balancing:` of a class, a policy or what differs."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, model_validator

from topologies.extensions import Setting
from topologies.fields import Duration, Model

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

    @property
    def word(self) -> str:
        """The policy as files say it."""
        return self.name.lower().replace("_", "-")

    @property
    def by_flowlet(self) -> bool:
        """Whether packets of a flow that follow each other closely take one path."""
        return self in (Policy.FLOWLET, Policy.FLOWLET_DLB)

    @property
    def by_quality(self) -> bool:
        """Whether ports are compared by how busy they are."""
        return self in (Policy.FLOWLET_DLB, Policy.PACKET_DLB)


ECMP = "ecmp"
"""What a class without the setting has: the hash of the flow."""

_OF_WORD = {each.word: each for each in Policy}
WORDS = (ECMP, *_OF_WORD)


@dataclass(frozen=True)
class Balancing:
    """What a class's packets choose their paths by. `gap_ps`: of flowlets, in fabric ps."""

    policy: Policy
    gap_ps: int = GAP_PS


def _policy(word: object) -> Policy | None:
    if word == ECMP:
        return None
    if isinstance(word, str) and word in _OF_WORD:
        return _OF_WORD[word]
    raise ValueError(f"{word!r} is no policy: known are {', '.join(WORDS)}")


class BalancingEntry(Model):
    """What a class may say: `{policy: flowlet-dlb, gap: 20us}`."""

    policy: Annotated[Policy | None, BeforeValidator(_policy)]
    gap: Duration | None = None

    @model_validator(mode="after")
    def _fits(self) -> BalancingEntry:
        if self.gap is not None and (self.policy is None or not self.policy.by_flowlet):
            flowlets = ", ".join(each.word for each in Policy if each.by_flowlet)
            raise ValueError(f"gap is for flowlets: with policy {flowlets}")
        if self.gap == 0:
            raise ValueError("a gap of 0 makes every packet a flowlet: write policy spray")
        return self


def _said(value: object) -> object:
    return {"policy": value} if isinstance(value, str) else value


def _setting(entry: BalancingEntry | None) -> Balancing | None:
    if entry is None or entry.policy is None:
        return None
    return Balancing(entry.policy, GAP_PS if entry.gap is None else entry.gap)


LOAD_BALANCING = Setting(
    KEY,
    Annotated[BalancingEntry | None, BeforeValidator(_said), AfterValidator(_setting)],
    Balancing,
)
