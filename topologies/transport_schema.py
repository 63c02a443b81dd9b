"""The `transport` of a run file: how the two ends of a flow deal with each other.

transport:
  congestion_control: dcqcn            or none, or fast-cnp: what switches say, and DCQCN beside it
  parameters: hpcc-dcqcn               a set's name (docs/congestion-control.md)
  overrides: {rate_ai: 100Mbps, alpha_timer: 1us}
  fast_overrides: {increase_timer: 50us}   of fast-cnp
  retransmission: go-back-n            or selective-repeat
  operation: write                     or send, read
  mtu: 4096B                           payload of a packet; without it what the links' MTU allows
  ack_every: 8                         packets a coalesced acknowledgement stands for
  window: 1024                         packets sent and not acknowledged
  timeout: 4.2ms
  retries: 7
  udp_ports: 1                         source ports of a queue pair

`transport: {}` takes all defaults. Without it flows are open loop: nothing is acknowledged.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from topologies.congestion import BANDWIDTH_SCALED, CongestionError, parameters
from topologies.fields import Count, CountOrNone, Model, Moment, Rate, Size
from topologies.units import parse_size

PAYLOADS = (256, 512, 1024, 2048, 4096)
MAX_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 8192}  # hostagent/rnic/core/card.h
DEFAULT_WINDOW = {"go-back-n": 1 << 22, "selective-repeat": 1024}  # the same
PS_PER_NS = 1000
DEFAULT_TIMEOUT_PS = 4_200_000_000


def _set(value: object) -> str:
    """Return a parameter set's name. Raises ValueError, which lists them."""
    try:
        parameters(str(value), 10**9)
    except CongestionError as error:
        raise ValueError(str(error)) from None
    return str(value)


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


class OverridesEntry(Model):
    """Single parameters of DCQCN in the place of the set's."""

    min_rate: Rate | None = None
    rate_ai: Rate | None = None
    rate_hai: Rate | None = None
    alpha_timer: Timer | None = None
    increase_timer: Timer | None = None
    cut_interval: Moment | None = None
    cnp_interval: Moment | None = None
    byte_counter: Size | None = None
    fast_recovery: CountOrNone | None = None
    gain: Annotated[float, Field(gt=0, le=1)] | None = None


class FastOverridesEntry(Model):
    """Single parameters of what a source does with fast CNPs (hostagent/include/fast_cnp.h)."""

    min_rate: Rate | None = None
    rate_ai: Rate | None = None
    rate_hai: Rate | None = None
    increase_timer: Timer | None = None
    quiet: CountOrNone | None = None


class TransportEntry(Model):
    """Reliable connections, their retransmission and their congestion control."""

    congestion_control: Literal["dcqcn", "fast-cnp", "none"] = "dcqcn"
    parameters: Annotated[str, BeforeValidator(_set)] = BANDWIDTH_SCALED
    overrides: OverridesEntry = OverridesEntry()
    fast_overrides: FastOverridesEntry = FastOverridesEntry()
    retransmission: Literal["go-back-n", "selective-repeat"] = "go-back-n"
    operation: Operation = "write"
    mtu: Mtu | None = None
    ack_every: Annotated[Count, Field(le=1024)] = 8
    window: Count | None = None
    timeout: Timer = DEFAULT_TIMEOUT_PS
    retries: Annotated[CountOrNone, Field(le=1000)] = 7
    udp_ports: Annotated[Count, Field(le=1024)] = 1
