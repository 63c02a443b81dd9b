"""What the parts of a topology file are made of, whichever form the file has.

Each type says what it takes and refuses the rest with a sentence that tells what would be right.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from topologies.congestion import CERTAIN, SETS, EcnMarking, EcnThresholds, step
from topologies.model import PS_PER_METRE
from topologies.units import parse_duration, parse_length, parse_rate, parse_share, parse_size

# Interfaces are called <node>-eth<port> and Linux allows 15 characters, so names stay short.
NAME = re.compile(r"[a-z][a-z0-9_]{0,7}")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
MAX_PORT = 254  # 255 is the CPU port
MAX_TIME_SCALE = 10**9
MIN_MTU, MAX_MTU = 576, 9600  # RFC 791's smallest; what switches call jumbo
MAX_WEIGHT = 1000
MAX_VOLUME = 10**12
MAX_MOMENT_PS = 10_000 * 10**12
QUEUES = 8  # of a port: classes 0..7, the highest is served first


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is no node name: a small letter, then up to 7 small letters, digits or _"
        )
    return value


def _mac(value: str) -> str:
    if not MAC.fullmatch(value):
        raise ValueError(f"{value!r} is no MAC address: write it as 02:00:0a:00:01:01")
    if int(value[:2], 16) & 1:
        raise ValueError(f"{value!r} is a multicast address: make its first byte even")
    return value


def _interface(value: str) -> str:
    try:
        parsed = ipaddress.IPv4Interface(value)
    except ValueError:
        parsed = None
    if parsed is None or "/" not in value or not 8 <= parsed.network.prefixlen <= 30:
        raise ValueError(f"{value!r} is no host address: write it with its prefix, 10.0.1.1/24")
    return value


def _mtu(value: object) -> int:
    size = parse_size(value)
    if not MIN_MTU <= size <= MAX_MTU:
        raise ValueError(f"an MTU is from {MIN_MTU}B to {MAX_MTU}B, not {value}")
    return size


def _volume(value: object) -> int:
    """Return bytes to be sent: few enough that the time they take fits 63 bits."""
    size = parse_size(value)
    if size > MAX_VOLUME:
        raise ValueError(f"at most {MAX_VOLUME // 10**9}GB at a time, not {value}")
    return size


def _moment(value: object) -> int:
    """Return a time in a run: short enough that many of them add up in 63 bits."""
    duration = parse_duration(value)
    if duration > MAX_MOMENT_PS:
        raise ValueError(f"a time in a run is at most {MAX_MOMENT_PS // 10**12}s, not {value}")
    return duration


def _listed(value: object) -> object:
    return [value] if isinstance(value, int) else value


Name = Annotated[str, AfterValidator(_name)]
Mac = Annotated[str, AfterValidator(_mac)]
InterfaceAddress = Annotated[str, AfterValidator(_interface)]
Rate = Annotated[int, BeforeValidator(parse_rate)]
Duration = Annotated[int, BeforeValidator(parse_duration)]
Volume = Annotated[int, BeforeValidator(_volume)]
Moment = Annotated[int, BeforeValidator(_moment)]
Length = Annotated[int, BeforeValidator(parse_length)]
Size = Annotated[int, BeforeValidator(parse_size)]
Mtu = Annotated[int, BeforeValidator(_mtu)]
Count = Annotated[int, Field(ge=1, strict=True)]
CountOrNone = Annotated[int, Field(ge=0, strict=True)]
TimeScale = Annotated[int, Field(ge=1, le=MAX_TIME_SCALE, strict=True)]
Dscp = Annotated[int, Field(ge=0, le=63, strict=True)]
Weight = Annotated[int, Field(ge=1, le=MAX_WEIGHT, strict=True)]
Queue = Annotated[int, Field(ge=0, le=QUEUES - 1, strict=True)]


class Model(BaseModel):
    """Base of all parts of the file: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkSettings(Model):
    """What a link may be given.

    rate (bits/s), delay (picoseconds) or length (metres, 5 us a km), queue (bytes, each end), mtu
    (bytes of an IP packet).
    """

    rate: Rate | None = None
    delay: Duration | None = None
    length: Length | None = None
    queue: Size | None = None
    mtu: Mtu | None = None

    @model_validator(mode="after")
    def _one_delay(self) -> LinkSettings:
        if self.delay is not None and self.length is not None:
            raise ValueError("give delay or length, not both: a kilometre of fibre is 5 us")
        return self

    @property
    def delay_ps(self) -> int | None:
        """The delay that `delay` or `length` says."""
        return self.delay if self.length is None else self.length * PS_PER_METRE

    def over(self, fallback: LinkSettings) -> LinkSettings:
        """Return these settings, with what they leave out taken from `fallback`."""
        own_delay = self.delay_ps is not None
        return LinkSettings.model_construct(
            rate=fallback.rate if self.rate is None else self.rate,
            delay=self.delay if own_delay else fallback.delay,
            length=self.length if own_delay else fallback.length,
            queue=fallback.queue if self.queue is None else self.queue,
            mtu=fallback.mtu if self.mtu is None else self.mtu,
        )


def _ppm(value: object) -> int:
    """Return a share such as 1% in millionths."""
    share = parse_share(value) * 1_000_000 // CERTAIN
    if share == 0:
        raise ValueError(f"{value!r} of the port's rate is nothing: write a share such as 1%")
    return share


def _ecn(value: object) -> EcnMarking:
    """Return how a class marks: a size is a step, a mapping a ramp, a name a parameter set's."""
    if isinstance(value, str) and value in SETS:
        return value
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
            f"{value!r} is no threshold: write a size (mark above it), "
            f"{{min: 400kB, max: 1600kB, probability: 20%}}, or a parameter set: {', '.join(SETS)}"
        ) from None


class FastCnpEntry(Model):
    """Fast CNPs of a class: `fast_cnp: true`, or what differs from what the controller computes."""

    low: Size | None = None
    high: Size | None = None
    share: Annotated[int, BeforeValidator(_ppm)] = 10_000
    gateway: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> FastCnpEntry:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high: write {low: 200kB, high: 800kB}")
        return self


def _fast_cnp(value: object) -> object:
    if value is True:
        return {}
    return None if value is False else value


class ClassEntry(Model):
    """A traffic class: its DSCPs, the queue that serves it, and how that queue behaves."""

    dscp: Annotated[list[Dscp], BeforeValidator(_listed)] = Field(default=[])
    queue: Queue | None = None
    lossless: bool = False
    ecn: Annotated[EcnMarking, BeforeValidator(_ecn)] | None = None
    weight: Weight | None = None
    fast_cnp: Annotated[FastCnpEntry | None, BeforeValidator(_fast_cnp)] = None


class CommonFile(Model):
    """What both forms of a topology file may say beside the nodes and links."""

    time_scale: TimeScale
    description: str = ""
    classes: dict[str, ClassEntry] = {}
    stock_nics: list[Name] = Field(default=[])
