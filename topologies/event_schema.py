"""The `events` of a topology file: what goes wrong when, in fabric time.

events:
  - {at: 2ms, link: s1-s3, do: down}            down, up, clear (as at the start)
  - {at: 4ms, link: s1-s3, loss: 1%, lasts: 3ms}
  - {at: 4ms, link: s1:3-s3:1, towards: s3, reorder: {share: 1%, by: 2us}}
  - {at: 9ms, link: s1-s4, flap: {period: 1ms, count: 3}}
  - {at: 9ms, switch: s3, do: down}             every link of the switch
  - {at: 12ms, switch: s3, do: kill, lasts: 5ms}    the switch itself, with all that it knows
  - {at: 20ms, plane: B, do: drain, lasts: 5ms}     hosts send nothing new by that plane
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from softswitch.impairments import Flow, changes, fixed_point
from topologies.fields import Count, Duration, Model, Rate

_SETTINGS = (
    "rate",
    "degraded",
    "delay",
    "loss",
    "burst",
    "bit_errors",
    "corrupt",
    "duplicate",
    "reorder",
    "jitter",
    "drop_flow",
)
_LASTING = ("up", "clear", "revive", "undrain")
"""What is done once and for all."""
_DRAINING = ("drain", "undrain")


def _bit_errors(value: Any) -> int:
    return changes(bit_errors=value)["bit_error"]


Share = Annotated[int, BeforeValidator(fixed_point)]
BitErrors = Annotated[int, BeforeValidator(_bit_errors)]
PortNumber = Annotated[int, Field(ge=1, le=65535, strict=True)]


class Flap(Model):
    """Down for half a period and up for the other half, `count` times."""

    period: Duration
    count: Count = 1


class Burst(Model):
    """Losses that come together: before each frame a good link may turn bad, a bad one good."""

    starts: Share
    ends: Share
    loss: Share = 1 << 32


class Reorder(Model):
    """A share of the frames is held back by so much, so that later ones overtake them."""

    share: Share
    by: Duration


class DropFlow(Model):
    """IPv4 packets that vanish without a trace; what is left out may be anything."""

    src: str | None = None
    dst: str | None = None
    protocol: str | int | None = None
    sport: PortNumber | None = None
    dport: PortNumber | None = None
    share: Share = 1 << 32

    @model_validator(mode="after")
    def _makes_sense(self) -> DropFlow:
        self.members()
        return self

    def members(self) -> dict[str, int]:
        """Return the filter as the switch takes it. Raises ValueError."""
        flow = Flow(self.src, self.dst, self.protocol, self.sport, self.dport)
        return {"flow_loss": self.share, **flow.members()}


class EventEntry(Model):
    """One entry: when, where, and one thing to do or any number of settings."""

    at: Duration
    link: str | None = None
    switch: str | None = None
    plane: str | None = None
    towards: str | None = None
    lasts: Duration | None = None
    do: Literal["down", "up", "clear", "kill", "revive", "drain", "undrain"] | None = None
    flap: Flap | None = None
    rate: Rate | None = None
    degraded: Share | None = None
    delay: Duration | None = None
    loss: Share | None = None
    burst: Burst | None = None
    bit_errors: BitErrors | None = None
    corrupt: Share | None = None
    duplicate: Share | None = None
    reorder: Reorder | None = None
    jitter: Duration | None = None
    drop_flow: DropFlow | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> EventEntry:
        if sum(each is not None for each in (self.link, self.switch, self.plane)) != 1:
            raise ValueError("say where: link: s1-s3, switch: s3, or plane: B")
        given = self.settings()
        things = sum((self.do is not None, self.flap is not None, bool(given)))
        if things != 1:
            known = ", ".join(_SETTINGS)
            raise ValueError(
                "say one thing: do: down|up|clear|kill|revive|drain|undrain, flap, or settings "
                f"({known})"
            )
        if self.plane is not None and self.do not in _DRAINING:
            raise ValueError("a plane is drained: do: drain or do: undrain; the rest is for links")
        if self.switch is not None and self.do in _DRAINING:
            raise ValueError(
                f"do: {self.do} is for interfaces of hosts, who choose planes: "
                "link: h1:1-s3, or plane: B"
            )
        if self.switch is not None and given:
            raise ValueError("a switch goes down, up or flaps; settings are a link's")
        if self.link is not None and self.do in ("kill", "revive"):
            raise ValueError(f"do: {self.do} is for a switch: switch: s3")
        if self.towards is not None and not given:
            raise ValueError("'towards' is for settings: links go down and up in both directions")
        if self.lasts is not None and (self.do in _LASTING or self.flap is not None):
            raise ValueError("'lasts' is for do: down, do: kill, do: drain and for settings")
        if self.lasts == 0:
            raise ValueError("'lasts' has to be more than nothing")
        if self.flap is not None and self.flap.period < 2:
            raise ValueError("a flap's period has to be more than nothing")
        if self.rate is not None and self.degraded is not None:
            raise ValueError("give rate or degraded (a share of the link's rate), not both")
        if self.degraded == 0:
            raise ValueError("a link degraded to 0 is down: write do: down")
        return self

    def settings(self) -> list[str]:
        """Return the names of the settings that are given."""
        return [name for name in _SETTINGS if getattr(self, name) is not None]

    def impairment(self) -> dict[str, int]:
        """Return what goes wrong as members of the switch's ws_port_impair, in fabric time."""
        found: dict[str, int] = {}
        for name, share in (
            ("loss", self.loss),
            ("bit_error", self.bit_errors),
            ("corrupt", self.corrupt),
            ("duplicate", self.duplicate),
            ("jitter_ps", self.jitter),
        ):
            if share is not None:
                found[name] = share
        if self.burst is not None:
            burst = self.burst
            found |= {"burst_enter": burst.starts, "burst_leave": burst.ends}
            found["burst_loss"] = burst.loss
        if self.reorder is not None:
            found |= {"reorder": self.reorder.share, "reorder_ps": self.reorder.by}
        if self.drop_flow is not None:
            found |= self.drop_flow.members()
        return found
