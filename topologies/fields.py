"""What the parts of a topology file are made of, whichever form the file has.

Each type says what it takes and refuses the rest with a sentence that says what would be right.
"""

from __future__ import annotations

import ipaddress
import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from softswitch.ticker_options import packet_bytes
from topologies import extensions
from topologies.model import PS_PER_METRE
from topologies.tickers import period
from topologies.units import parse_duration, parse_length, parse_rate, parse_size

# Interfaces are called <node>-eth<port> and Linux allows 15 characters, so names stay short.
NAME = re.compile(r"[a-z][a-z0-9_]{0,7}")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
MAX_PORT = 254  # 255 is the CPU port, unless a file says another one above
MAX_CPU_PORT = 510  # 511 drops
MAX_DEVICE_ID = 10**6
MAX_LATENCY_PS = 10**9
MAX_TIME_SCALE = 10**9
MIN_MTU, MAX_MTU = 576, 9600  # RFC 791's smallest; what switches call jumbo
MAX_WEIGHT = 1000
MAX_VOLUME = 10**12
MAX_MOMENT_PS = 10_000 * 10**12
QUEUES = 8  # of a port: classes 0..7, the highest is served first


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a node name: a small letter, then up to 7 small letters, digits or _"
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
    if parsed is None or "/" not in value or not 8 <= parsed.network.prefixlen <= 31:
        raise ValueError(f"{value!r} is not a host address: write it with its prefix, 10.0.1.1/24")
    return value


def _gateway(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a gateway's address: write it as 10.0.1.254") from None


def _mtu(value: object) -> int:
    size = parse_size(value)
    if not MIN_MTU <= size <= MAX_MTU:
        raise ValueError(f"an MTU is from {MIN_MTU}B to {MAX_MTU}B, not {value}")
    return size


def parse_volume(value: object) -> int:
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


def _period(value: object) -> int:
    return period(parse_duration(value))


def _packet(value: object) -> str:
    """Return a packet in hex, two digits a byte. YAML reads digits alone as a number."""
    if not isinstance(value, str):
        raise ValueError('a packet is written in hex, in quotes: "ffffffffffff 020000000001 88b5"')
    return packet_bytes(value).hex()


def _entries(value: object) -> object:
    files = value.values() if isinstance(value, dict) else [value]
    if not all(isinstance(each, str) and each for each in files):
        raise ValueError("a folder, or a file a switch: {s1: s1-runtime.json}")
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, int) else value


Entries = Annotated[Any, AfterValidator(_entries)]
Name = Annotated[str, AfterValidator(_name)]
Mac = Annotated[str, AfterValidator(_mac)]
Gateway = Annotated[str, AfterValidator(_gateway)]
InterfaceAddress = Annotated[str, AfterValidator(_interface)]


def _latency(value: object) -> int:
    found = parse_duration(value)
    if found > MAX_LATENCY_PS:
        raise ValueError("a switch's latency is at most 1ms; links have a delay")
    return found


Rate = Annotated[int, BeforeValidator(parse_rate)]
Duration = Annotated[int, BeforeValidator(parse_duration)]
Latency = Annotated[int, BeforeValidator(_latency)]
Volume = Annotated[int, BeforeValidator(parse_volume)]
Moment = Annotated[int, BeforeValidator(_moment)]
Length = Annotated[int, BeforeValidator(parse_length)]
Size = Annotated[int, BeforeValidator(parse_size)]
Mtu = Annotated[int, BeforeValidator(_mtu)]
Count = Annotated[int, Field(ge=1, strict=True)]
CountOrNone = Annotated[int, Field(ge=0, strict=True)]
TimeScale = Annotated[int, Field(ge=1, le=MAX_TIME_SCALE, strict=True)]
Dscp = Annotated[int, Field(ge=0, le=63, strict=True)]
Weight = Annotated[int, Field(ge=1, le=MAX_WEIGHT, strict=True)]
CpuPort = Annotated[int, Field(ge=MAX_PORT + 1, le=MAX_CPU_PORT, strict=True)]
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


class TickerEntry(Model):
    """A packet (hex, from the Ethernet header on) that comes into switches at a period.

    `start`: of the first one; left out, each switch begins at another time. `switches`: all,
    unless named.
    """

    period: Annotated[int, BeforeValidator(_period)]
    packet: Annotated[str, BeforeValidator(_packet)]
    start: Moment | None = None
    switches: list[Name] = Field(default=[])


class ClassFields(Model):
    """A traffic class: its DSCPs, the queue that serves it, and how that queue behaves.

    `class_entry` adds what mechanisms know of a class.
    """

    dscp: Annotated[list[Dscp], BeforeValidator(_listed)] = Field(default=[])
    queue: Queue | None = None
    lossless: bool = False
    weight: Weight | None = None


@cache
def class_entry() -> type[ClassFields]:
    """Return the schema of a class with the settings of all mechanisms."""
    added: Any = {each.key: (each.type, None) for each in extensions.settings("class")}
    return create_model("ClassEntry", __base__=ClassFields, **added)


if TYPE_CHECKING:
    ClassEntry = ClassFields


class CommonFile(Model):
    """What both forms of a topology file may say beside the nodes and links.

    Forms are complete after `completed`: what a class may say is known when the first file is read.
    """

    time_scale: TimeScale
    description: str = ""
    latency: Latency = 0  # of every switch's pipeline
    classes: dict[str, ClassEntry] = {}
    stock_nics: list[Name] = Field(default=[])
    tickers: list[TickerEntry] = Field(default=[])
    # Of `topologies.own_program`:
    program: str | None = None
    entries: Entries | None = None
    controller: Literal["none", "fabric"] | None = None
    arp: Literal["learned", "static"] | None = None
    units: Literal["weft", "bmv2"] | None = None
    cpu_port: CpuPort | None = None


AnyForm = TypeVar("AnyForm", bound=CommonFile)


@cache
def completed(form: type[AnyForm]) -> type[AnyForm]:
    """Return a form of which every part is known, with the settings of all mechanisms."""
    form.model_rebuild(_types_namespace={"ClassEntry": class_entry()})
    added: Any = {each.key: (each.type, None) for each in extensions.settings("topology")}
    return create_model(form.__name__, __base__=form, **added) if added else form
