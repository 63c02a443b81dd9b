"""The `transport` of a run file: how the two ends of a flow deal with each other.

transport:
  congestion_control: none             or a sender's name, whose own keys stand here, too
  retransmission: go-back-n            or selective-repeat
  operation: write                     or send, read
  mtu: 4096B                           payload of a packet; without it what the links' MTU allows
  ack_every: 8                         packets a coalesced acknowledgement stands for
  reorder: 10us                        selective-repeat: packets may overtake each other by so much
  ack_class: control                   the topology's class that they go in; without it the data's
  window: 1024                         packets sent and not acknowledged
  timeout: 4.2ms
  retries: 7
  udp_ports: 1                         source ports of a queue pair
  interfaces: one                      or all: a queue pair uses all interfaces of both its hosts

`transport: {}` takes all defaults. Without it flows are open loop: nothing is acknowledged.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from topologies.fields import Count, CountOrNone, Model, Moment
from topologies.units import parse_size
from workloads.senders import senders

PAYLOADS = (256, 512, 1024, 2048, 4096)
MAX_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 8192}  # hostagent/rnic/core/card.h
DEFAULT_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 1024}  # the same
PS_PER_NS = 1000
DEFAULT_TIMEOUT_PS = 4_200_000_000


def _payload(value: object) -> int:
    size = parse_size(f"{value}B" if isinstance(value, int) else value)
    if size not in PAYLOADS:
        raise ValueError(f"a RoCE MTU is 256B, 512B, 1024B, 2048B or 4096B, not {value}")
    return size


def _timer(value: int) -> int:
    if value < PS_PER_NS:
        raise ValueError("a timer is at least 1ns")
    return value


Timer = Annotated[Moment, AfterValidator(_timer)]
Mtu = Annotated[int, BeforeValidator(_payload)]
Operation = Literal["write", "send", "read"]


class TransportFields(Model):
    """Reliable connections, their retransmission and their congestion control.

    `transport_entry` adds the keys of the algorithms at the sender.
    """

    congestion_control: str = "none"
    retransmission: Literal["go-back-n", "selective-repeat"] = "go-back-n"
    operation: Operation = "write"
    mtu: Mtu | None = None
    ack_every: Annotated[Count, Field(le=1024)] = 8
    window: Count | None = None
    timeout: Timer = DEFAULT_TIMEOUT_PS
    retries: Annotated[CountOrNone, Field(le=1000)] = 7
    udp_ports: Annotated[Count, Field(le=1024)] = 1
    ack_class: str | None = None
    reorder: Timer | None = None
    interfaces: Literal["one", "all"] = "one"


@cache
def transport_entry() -> type[TransportFields]:
    """Return the schema with the names and the keys of all senders; the first is the default."""
    known = senders()
    names = (*(each.name for each in known), "none")
    added: Any = {"congestion_control": (Literal[names], names[0])}
    for each in known:
        added |= {name: (key.type, key.default) for name, key in each.keys.items()}
    return create_model("TransportEntry", __base__=TransportFields, **added)
