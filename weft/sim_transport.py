"""What `weft sim` prints of a run with transports: every parameter, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topologies.units import format_rate, format_size

_PS_PER_NS = 1000
_SHOWN = 3
_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"))
_GAIN_ONE = 1 << 16
_MILLION = 10**6


def transport_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the printed table; none for an open-loop run."""
    transports = summary.get("transports", [])
    for each in transports:
        yield "transport", _transport(each)
        if each["dcqcn"]:
            yield "DCQCN", _dcqcn(each["dcqcn"])
    found = summary.get("transport")
    if not found:
        return
    for mark in found["ecn"]:
        yield "ECN", _marking(mark)
    if any(each["dcqcn"] or each["fast_cnp"] for each in transports):
        yield (
            "notifications",
            f"{found['cnps']} CNPs reached senders"
            + (
                f", {found['fast_cnps']} fast CNPs"
                if any(each["fast_cnp"] for each in transports)
                else ""
            ),
        )
    text = f"{found['repeated_packets']} packets ({found['repeated_bytes'] / 1e6:.1f} MB)"
    yield "sent again", f"{text}; {found['timeouts']} time-outs, {found['naks']} NAKs"
    if found["sharing"]:
        yield "fairness", _sharing(found["sharing"])
    if found["failed"]:
        yield "failed", _failed(found)


def _transport(each: Mapping[str, Any]) -> str:
    sizes = " or ".join(f"{size} B" for size in each["mtu"])
    ports = f"{each['udp_ports']} UDP port{'s' if each['udp_ports'] > 1 else ''}"
    return (
        f"RC {each['operation'].upper()}, {each['retransmission']}, MTU {sizes}, an ACK for "
        f"{each['ack_every']}, window {each['window_packets']}, time-out "
        f"{_time(each['timeout_ps'])}, {each['retries']} retries, {ports}; "
        f"{each['flows']} flows of {format_rate(each['line_rate_bps'])} interfaces"
        + ("" if each["dcqcn"] else "; no congestion control")
    )


def _time(ps: int) -> str:
    """A time in the largest unit of which there is one: timers stand in whole numbers of those."""
    for unit, name in _UNITS:
        if ps >= unit:
            return f"{ps / unit:.9g}{name}"
    return f"{ps}ps"


def _dcqcn(given: Mapping[str, Any]) -> str:
    def time(name: str) -> str:
        return _time(given[f"{name}_ns"] * _PS_PER_NS)

    def rate(name: str) -> str:
        return format_rate(given[f"{name}_bps"])

    count = format_size(given["byte_counter"]) if given["byte_counter"] else "off"
    gain = given["gain_q16"]
    share = f"1/{_GAIN_ONE // gain}" if _GAIN_ONE % gain == 0 else f"{gain}/{_GAIN_ONE}"
    return (
        f"{given['name']} at {rate('line_rate')}: g {share}, alpha timer {time('alpha_timer')}, "
        f"increase timer {time('increase_timer')}, byte counter {count}, fast recovery "
        f"{given['fast_recovery']}, +{rate('rate_ai')}, then +{rate('rate_hai')}, at least "
        f"{rate('min_rate')}; cuts {time('cut_interval')} apart, CNPs {time('cnp_interval')} apart "
        f"({given['source']})"
    )


def _marking(each: Mapping[str, Any]) -> str:
    place = f"class {each['class']} at {format_rate(each['rate_bps'])}"
    least, most = each["min_bytes"], each["max_bytes"]
    if least == most:
        return f"{place}: all above {format_size(least)}"
    share = each["probability_ppm"] / 10**4
    of = f" ({each['set']})" if each["set"] else ""
    return f"{place}: from {format_size(least)} to {format_size(most)} up to {share:.3g} %{of}"


def _sharing(found: Mapping[str, Any]) -> str:
    indices, least = found["jain_ppm"], found["least"]
    since = _time(found["from_ps"])
    text = (
        f"Jain's index {least['jain_ppm'] / _MILLION:.4f} of {least['flows']} flows to "
        f"{least['to']}, from {since} on"
    )
    if indices["count"] == 1:
        return text
    return (
        f"{text}; of {indices['count']} such interfaces the least (p50 {indices['p50'] / 1e6:.4f})"
    )


def _failed(found: Mapping[str, Any]) -> str:
    shown = [
        f"{each['name']} (flow {each['flow']}): {each['reason']}"
        for each in found["failed_first"][:_SHOWN]
    ]
    more = found["failed"] - len(shown)
    pairs = f"{found['failed']} queue pair{'s' if found['failed'] > 1 else ''}"
    return f"{pairs}: {'; '.join(shown)}" + (f"; and {more} more" if more else "")
