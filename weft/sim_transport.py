"""What `weft sim` prints of a run with transports: every parameter, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topologies.units import format_rate, format_size, show_duration
from workloads.senders import Sender, senders

_SHOWN = 3
_MILLION = 10**6


def transport_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the printed table; none for an open-loop run."""
    transports = summary.get("transports", [])
    for each in transports:
        yield "transport", _transport(each)
        for sender in _running(each):
            if sender.describe is not None:
                yield sender.title, sender.describe(each[sender.algorithm])
    found = summary.get("transport")
    if not found:
        return
    for mark in found["ecn"]:
        yield "ECN", _marking(mark)
    running = dict.fromkeys(sender for each in transports for sender in _running(each))
    if running:
        more = [f", {found[c.name]} {c.title}" for sender in running for c in sender.columns]
        yield "notifications", f"{found['cnps']} CNPs reached senders{''.join(more)}"
    text = f"{found['repeated_packets']} packets ({found['repeated_bytes'] / 1e6:.1f} MB)"
    yield "sent again", f"{text}; {found['timeouts']} time-outs, {found['naks']} NAKs"
    if "planes" in summary:
        yield "planes", _planes(summary["planes"])
    if "migrations" in summary:
        moved = summary["migrations"]
        told = ", ".join(f"{count} by {why}" for why, count in moved["by"].items())
        last = f" (the last ones: {told})" if told else ""
        yield "migrations", f"{moved['count']} of {moved['ends']} ends of queue pairs{last}"
    if found["sharing"]:
        yield "fairness", _sharing(found["sharing"])
    if found["failed"]:
        yield "failed", _failed(found)


def _running(transport: Mapping[str, Any]) -> list[Sender]:
    """Return the senders that run in a transport, as its summary says."""
    return [each for each in senders() if transport.get(each.algorithm)]


def _transport(each: Mapping[str, Any]) -> str:
    sizes = " or ".join(f"{size} B" for size in each["mtu"])
    ports = f"{each['udp_ports']} UDP port{'s' if each['udp_ports'] > 1 else ''}"
    if "path_choice" in each:
        ports += f" chosen by {each['path_choice']['kind']}"
    if "queue_pairs" in each:
        ports += f", messages striped over {each['queue_pairs']} queue pairs"
    if "striping" in each:
        ports += f" as they drain, {each['outstanding']} pieces of {each['piece_bytes']} B each"
    if "reorder_ps" in each:
        ports += f", packets may overtake each other by {show_duration(each['reorder_ps'])}"
    lines = f"of {format_rate(each['line_rate_bps'])} interfaces"
    if "interfaces" in each:
        lines = (
            f"over {each['interfaces']} interfaces, {format_rate(each['line_rate_bps'])} together"
        )
    planes = each.get("planes", {})
    if planes.get("use") == "single":
        lines += ", one at a time"
    elif planes:
        lines += (
            f", planes that are asked after {show_duration(planes['silence_ps'])} of silence, lost "
            f"after {planes['misses']} unanswered, and then probed each "
            f"{show_duration(planes['probe_ps'])}"
        )
    own = f" in class {each['ack_class']}" if "ack_class" in each else ""
    return (
        f"RC {each['operation'].upper()}, {each['retransmission']}, MTU {sizes}, an ACK{own} for "
        f"{each['ack_every']}, window {each['window_packets']}, time-out "
        f"{show_duration(each['timeout_ps'])}, {each['retries']} retries, {ports}; "
        f"{each['flows']} flows {lines}"
        + ("" if each["congestion_control"] != "none" else "; no congestion control")
    )


def _planes(found: Mapping[str, Any]) -> str:
    told = ", ".join(f"{count} by {why}" for why, count in found["by"].items())
    losses = f"{found['losses']} lost" + (f" ({told})" if told else "")
    return (
        f"{losses}, {found['lost']} still so, of {found['count']} at both ends; "
        f"{found['moved_packets']} packets sent again by others, {found['probes_answered']} of "
        f"{found['probes_sent']} probes answered"
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
    since = show_duration(found["from_ps"])
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
