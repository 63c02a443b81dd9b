"""What a run file's `transport` comes to: settings, and DCQCN's parameters for a sender's line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topologies.congestion import (
    GAIN_ONE,
    DcqcnParameters,
    FastCnpParameters,
    fast_cnp_parameters,
    parameters,
)
from topologies.transport_schema import (
    PS_PER_NS,
    FastOverridesEntry,
    OverridesEntry,
    TransportEntry,
)


@dataclass(frozen=True)
class Transport:
    """A transport for senders of one line rate; times in fabric picoseconds.

    `dcqcn`, `fast_cnp` None: without it. `window_packets` 0: the card's default.
    """

    retransmission: str
    operation: str
    ack_every: int
    window_packets: int
    timeout_ps: int
    retries: int
    udp_ports: int
    line_rate_bps: int
    dcqcn: DcqcnParameters | None = None
    fast_cnp: FastCnpParameters | None = None


def transport_for(entry: TransportEntry, line_rate_bps: int, *, stock: bool = False) -> Transport:
    """Return what a run file says, for senders whose interface has that rate.

    `stock`: their cards know plain CNPs only, so that fast-cnp is DCQCN alone.
    Raises CongestionError where no set serves the rate.
    """
    dcqcn = fast_cnp = None
    if entry.congestion_control != "none":
        dcqcn = _overridden(parameters(entry.parameters, line_rate_bps), entry.overrides)
    if entry.congestion_control == "fast-cnp" and not stock:
        fast_cnp = _fast(fast_cnp_parameters(line_rate_bps), entry.fast_overrides)
    return Transport(
        entry.retransmission,
        entry.operation,
        entry.ack_every,
        entry.window or 0,
        entry.timeout,
        entry.retries,
        entry.udp_ports,
        line_rate_bps,
        dcqcn,
        fast_cnp,
    )


def _fast(given: FastCnpParameters, overrides: FastOverridesEntry) -> FastCnpParameters:
    changed: dict[str, int] = {}
    for name, value in overrides.model_dump(exclude_none=True).items():
        if name == "quiet":
            changed[name] = value
        elif name == "increase_timer":
            changed["increase_timer_ns"] = value // PS_PER_NS
        else:
            changed[f"{name}_bps"] = min(value, given.line_rate_bps)
    return replace(given, **changed) if changed else given


def _overridden(given: DcqcnParameters, overrides: OverridesEntry) -> DcqcnParameters:
    changed: dict[str, int] = {}
    for name, value in overrides.model_dump(exclude_none=True).items():
        if name == "gain":
            changed["gain_q16"] = max(1, round(value * GAIN_ONE))
        elif name in ("min_rate", "rate_ai", "rate_hai"):
            changed[f"{name}_bps"] = min(value, given.line_rate_bps)
        elif name in ("byte_counter", "fast_recovery"):
            changed[name] = value
        else:
            changed[f"{name}_ns"] = value // PS_PER_NS
    if not changed:
        return given
    return replace(given, name=f"{given.name} (changed)", **changed)  # type: ignore[arg-type]
