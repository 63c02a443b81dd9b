"""What goes wrong on a link, as people write it, and as the core takes it.

A share is "1%", "0.01" or a number from 0 to 1; the core counts frames' shares in units of 2^-32
and bits' in units of 2^-64, so that no floating point decides what happens to a packet. Each
setting here becomes some members of `struct ws_port_impair` (core.PortImpair):

    changes(loss="1%", reorder=("0.5%", 10_000_000)) -> {"loss": 42949673, "reorder": ..., ...}
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softswitch.core import PortImpair

Share = str | int | float | Fraction

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
_FRAME_UNIT = 1 << 32
_BIT_UNIT = 1 << 64
_MAX_BIT_ERRORS = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Flow:
    """IPv4 packets by their 5-tuple; what is None may be anything. Networks as 10.0.1.0/24."""

    src: str | None = None
    dst: str | None = None
    protocol: str | int | None = None
    sport: int | None = None
    dport: int | None = None

    def members(self) -> dict[str, int]:
        """Return the filter's members of PortImpair. Raises ValueError that names a valid value."""
        found = {"flow_protocol": _protocol(self.protocol)}
        for name, text in (("src", self.src), ("dst", self.dst)):
            network = ipaddress.IPv4Network("0.0.0.0/0")
            if text is not None:
                try:
                    network = ipaddress.IPv4Network(text)
                except ValueError as error:
                    raise ValueError(
                        f"{name} {text!r} is no IPv4 address or network: {error}"
                    ) from None
            found[f"flow_{name}"] = int(network.network_address)
            found[f"flow_{name}_mask"] = int(network.netmask)
        for name, port in (("sport", self.sport), ("dport", self.dport)):
            if port is not None and not 1 <= port <= 65535:
                raise ValueError(f"{name} has to be from 1 to 65535, not {port}")
            found[f"flow_{name}"] = port or 0
        if (self.sport or self.dport) and found["flow_protocol"] not in (0, 6, 17, 132):
            raise ValueError("only tcp, udp and sctp have ports")
        return found


def changes(
    *,
    loss: Share | None = None,
    burst: tuple[Share, Share] | tuple[Share, Share, Share] | None = None,
    bit_errors: Share | None = None,
    corrupt: Share | None = None,
    duplicate: Share | None = None,
    reorder: tuple[Share, int] | None = None,
    jitter_ps: int | None = None,
    flow: Flow | None = None,
    flow_loss: Share = 1,
    seed: int | None = None,
) -> dict[str, int]:
    """Return the members of PortImpair that the given settings set. Raises ValueError.

    `burst`: Gilbert-Elliott, (a good wire turns bad, a bad one turns good, loss while it is bad,
    default all), each drawn for each frame; `loss` is then that of the good state. `bit_errors`:
    of a bit, which costs the frame (FCS). `corrupt`: frames in which one bit is flipped unnoticed.
    `reorder`: frames that are held back, and by how many picoseconds. `flow`: lost silently.
    """
    found: dict[str, int] = {}
    for name, share in (("loss", loss), ("corrupt", corrupt), ("duplicate", duplicate)):
        if share is not None:
            found[name] = fixed_point(share)
    if burst is not None:
        names = ("burst_enter", "burst_leave", "burst_loss")
        found |= zip(names, map(fixed_point, (*burst, 1)), strict=False)
    if bit_errors is not None:
        found["bit_error"] = _fixed_point(bit_errors, _BIT_UNIT, _MAX_BIT_ERRORS)
    if reorder is not None:
        found |= {"reorder": fixed_point(reorder[0]), "reorder_ps": reorder[1]}
    if jitter_ps is not None:
        found["jitter_ps"] = jitter_ps
    if flow is not None:
        found |= {"flow_loss": fixed_point(flow_loss), **flow.members()}
    if seed is not None:
        found["seed"] = seed
    return found


def impair(
    *,
    loss: Share = 0,
    burst: tuple[Share, Share] | tuple[Share, Share, Share] | None = None,
    bit_errors: Share = 0,
    corrupt: Share = 0,
    duplicate: Share = 0,
    reorder: tuple[Share, int] | None = None,
    jitter_ps: int = 0,
    flow: Flow | None = None,
    flow_loss: Share = 1,
    seed: int = 0,
) -> PortImpair:
    """Return all impairments of one direction of a port. Parameters are those of `changes`."""
    from softswitch.core import PortImpair  # topologies read impairments without the core

    return PortImpair(
        **changes(
            loss=loss,
            burst=burst,
            bit_errors=bit_errors,
            corrupt=corrupt,
            duplicate=duplicate,
            reorder=reorder,
            jitter_ps=jitter_ps,
            flow=flow,
            flow_loss=flow_loss,
            seed=seed,
        )
    )


def fixed_point(share: Share) -> int:
    """Convert a share of frames to units of 2^-32. Raises ValueError that names a valid value."""
    return _fixed_point(share, _FRAME_UNIT, Fraction(1))


def _fixed_point(share: Share, unit: int, most: Fraction) -> int:
    value = _fraction(share)
    if not 0 <= value <= most:
        raise ValueError(f"{share} is not from 0 to {most}")
    found = round(value * unit)
    if value and not found:
        raise ValueError(f"{share} is too little to be counted: the least is {1 / unit:.2g}")
    return found


def _fraction(share: Share) -> Fraction:
    if isinstance(share, bool):
        raise ValueError(f"{share} is not a ratio: write it as 1% or 0.01")
    if not isinstance(share, str):
        return Fraction(share)
    text = share.strip()
    try:
        return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{share!r} is not a ratio: write it as 1% or 0.01") from None


def _protocol(protocol: str | int | None) -> int:
    if protocol is None:
        return 0
    if isinstance(protocol, str) and protocol.isdecimal():
        protocol = int(protocol)
    number = PROTOCOLS.get(protocol.lower()) if isinstance(protocol, str) else protocol
    if number is None or not 1 <= number <= 255:
        names = ", ".join(PROTOCOLS)
        raise ValueError(f"{protocol!r} is no protocol: write {names} or a number up to 255")
    return number
