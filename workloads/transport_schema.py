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
  link_delay: 0                        after which a host hears that a link of its own went or came;
                                       without it 200us where interfaces are planes
  path_choice: {kind: reps, paths: 128}  or bitmap, oblivious, plb: how to choose among source ports
  queue_pairs: 1                       that a message is striped over, each with a port of its own
  striping: equal                      pieces that differ by a byte at most, one a queue pair; or
                                       as-drained: one that has sent its piece takes the next
  piece: 64KiB                         of a message that is striped so
  outstanding: 2                       pieces that a queue pair has at most, sent or not

`transport: {}` takes all defaults. Without it flows are open loop: nothing is acknowledged.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, create_model, field_validator

from topologies.fields import Count, CountOrNone, Model, Moment
from topologies.units import parse_size
from workloads.senders import JOINED, Sender, choices, is_control, senders, why_not_together

PAYLOADS = (256, 512, 1024, 2048, 4096)
MAX_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 8192}  # hostagent/rnic/core/card.h
DEFAULT_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 1024}  # the same
PS_PER_NS = 1000
MIN_PIECE, MAX_PIECE = 256, 1 << 30
DEFAULT_PIECE, DEFAULT_OUTSTANDING = 1 << 16, 2
DEFAULT_TIMEOUT_PS = 4_200_000_000
PLANES_LINK_DELAY_PS = 200_000_000
"""In Linux netlink reports a lost carrier after 0.1 to 0.3 ms, as we measured it."""


def _payload(value: object) -> int:
    size = parse_size(f"{value}B" if isinstance(value, int) else value)
    if size not in PAYLOADS:
        raise ValueError(f"a RoCE MTU is 256B, 512B, 1024B, 2048B or 4096B, not {value}")
    return size


def _piece(value: object) -> int:
    size = parse_size(f"{value}B" if isinstance(value, int) else value)
    if not MIN_PIECE <= size <= MAX_PIECE:
        raise ValueError(f"a piece has {MIN_PIECE}B to 1GiB, not {value}")
    return size


def _timer(value: int) -> int:
    if value < PS_PER_NS:
        raise ValueError("a timer is at least 1ns")
    return value


Timer = Annotated[Moment, AfterValidator(_timer)]
Piece = Annotated[int, BeforeValidator(_piece)]
Mtu = Annotated[int, BeforeValidator(_payload)]
Operation = Literal["write", "send", "read"]


class PathChoice(Model):
    """How a sender chooses the UDP source port of each packet (hostagent/rnic/core/path_choice.h).

    `kind` single: one port, as without the key. `paths`: how many ports, a power of two.
    `idle_rounds`, `rounds`: PLB's marked round trips before it takes another port, between messages
    and at any time. `pause`: PLB's suspension and REPS's frozen mode after a time-out.
    """

    kind: Literal["single", "oblivious", "bitmap", "reps", "plb"]
    paths: Annotated[Count, Field(ge=2, le=256)] = 128
    idle_rounds: Annotated[Count, Field(le=31)] | None = None
    rounds: Annotated[Count, Field(le=31)] | None = None
    pause: Timer | None = None

    @field_validator("paths")
    @classmethod
    def _is_power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError(f"must be a power of two from 2 to 256, not {value}")
        return value

    @property
    def reorders(self) -> bool:
        """Whether packets of one message take several paths at once."""
        return self.kind in ("oblivious", "bitmap", "reps")


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
    link_delay: Moment | None = None
    path_choice: PathChoice | None = None
    queue_pairs: Annotated[Count, Field(le=64)] = 1
    striping: Literal["equal", "as-drained"] = "equal"
    piece: Piece = DEFAULT_PIECE
    outstanding: Annotated[Count, Field(le=1024)] = DEFAULT_OUTSTANDING

    @property
    def equal_stripes(self) -> int:
        """Return into how many equal parts a message is cut."""
        return self.queue_pairs if self.striping == "equal" else 1

    @property
    def shared_queue_pairs(self) -> int:
        """Return how many queue pairs carry a message as they drain, 1 for none but its own."""
        return self.queue_pairs if self.striping == "as-drained" else 1

    @property
    def chosen(self) -> PathChoice | None:
        """Return the choice of paths, None where there is only one."""
        single = self.path_choice is None or self.path_choice.kind == "single"
        return None if single else self.path_choice

    @property
    def source_ports(self) -> int:
        """Return how many UDP source ports a queue pair has."""
        return self.udp_ports if self.chosen is None else self.chosen.paths


def transport_entry() -> type[TransportFields]:
    """Return the schema with the names and the keys of all senders; the first is the default."""
    return _transport_entry(senders())


def _control(value: str) -> str:
    if is_control(value):
        if clash := why_not_together(value):
            raise ValueError(clash)
        return value
    names = [*(each.name for each in choices()), "none"]
    together = f"or two that run together, as {JOINED.join(names[1:3])}"
    raise ValueError(f"no congestion control {value!r}: there is {', '.join(names)}, {together}")


@cache
def _transport_entry(known: tuple[Sender, ...]) -> type[TransportFields]:
    names = tuple(each.name for each in choices())
    added: Any = {"congestion_control": (Annotated[str, AfterValidator(_control)], names[0])}
    for each in known:
        added |= {name: (key.type, key.default) for name, key in each.keys.items()}
    return create_model("TransportEntry", __base__=TransportFields, **added)
