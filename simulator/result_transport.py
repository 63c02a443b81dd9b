"""What transports did: columns of tables, and what summary.json says of a run that has them.

Runs without a transport have none of it: their files are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from hostagent.rnic.card_records import Failure, QueuePairState
from simulator.result_due import DueOutcome
from simulator.result_flows import Outcome
from simulator.result_model import Records, RunEnd, RunIdentity, Stop
from simulator.result_statistics import MILLION, spread, total
from simulator.result_tables import Column, Kind, integers
from topologies.ecn import CERTAIN
from workloads.model import Traffic
from workloads.path_choice import path_words
from workloads.planes import plane_words
from workloads.senders import columns
from workloads.transport import Transport
from workloads.transport_schema import DEFAULT_WINDOW

SHOWN_FAILURES = 16
"""Failed queue pairs that summary.json names; flows.parquet has all of them."""

_NONE = -1
_FAILURES: Mapping[Failure, str] = {
    Failure.NONE: "",
    Failure.FLUSHED: "flushed",
    Failure.RETRY_EXCEEDED: "no answer: retries exceeded",
    Failure.RNR_EXCEEDED: "receiver never ready: retries exceeded",
    Failure.REMOTE_ACCESS: "refused by the peer: address, length or key",
    Failure.REMOTE_INVALID: "refused by the peer: invalid request",
    Failure.REMOTE_OPERATION: "failed at the peer",
    Failure.LOCAL_LENGTH: "longer than the posted buffer",
}
_COUNTERS = {
    "repeated_packets": "repeated_packets",
    "repeated_bytes": "repeated_bytes",
    "timeouts": "timeouts",
    "acks": "acks",
    "naks": "naks",
    "cnps": "cnps",
    **{each.name: each.counter for each in columns()},
}
"""Columns, and their fields of sim_transport_stats."""
FLOW_COLUMNS = (
    *integers("transport", *_COUNTERS, "duplicates", "dropped", "cc_rate_bps", "first_cut_ps"),
    Column("failure", Kind.NAME, tuple(_FAILURES.values())),
)
"""Of flows.parquet. `transport` is a place in summary.json's `transports`; open loop: null."""

RATE_COLUMN = Column("cc_rate_bps")
"""Of flow_rates.parquet: the sender's rate by congestion control; null: not limited."""


def flow_columns(outcome: Outcome) -> dict[str, Any]:
    """Return the columns of `FLOW_COLUMNS`, a value a flow; all null for open-loop flows."""
    stats = _stats(outcome)
    number = outcome.traffic.flows["transport"].astype(np.int64) - 1
    reliable = number >= 0

    def known(values: Any) -> npt.NDArray[np.int64]:
        return np.where(reliable, values.astype(np.int64), _NONE)

    codes = np.array([list(_FAILURES).index(failure) for failure in Failure], np.int64)
    failed = codes[stats["failure"].astype(np.int64)]
    return {
        "transport": number,
        **{name: known(stats[counter]) for name, counter in _COUNTERS.items()},
        "dropped": known(stats["dropped"]),
        "duplicates": known(outcome.flow_stats["duplicates"]),
        "cc_rate_bps": limited_rates(stats["rate_bps"]),
        "first_cut_ps": known(stats["first_cut_at"]),
        "failure": np.where(_failed(stats), failed, _NONE),
    }


def missing_packets(outcome: Outcome) -> npt.NDArray[np.int64]:
    """Return what was sent and is neither there nor known to have come: lost, or on its way."""
    flows = outcome.flow_stats
    missing = flows["sent_packets"].astype(np.int64) - flows["received_packets"].astype(np.int64)
    if outcome.transport_stats is not None:
        # What was sent again may come twice, and go-back-N does not keep what comes too early.
        missing -= np.where(_reliable(outcome), flows["duplicates"].astype(np.int64), 0)
        missing -= outcome.transport_stats["dropped"].astype(np.int64)
    return np.maximum(missing, 0)


def limited_rates(rates: Records) -> npt.NDArray[np.int64]:
    """Return rates with -1, which becomes null, where congestion control does not limit."""
    found = rates.astype(np.int64)
    return np.where(found > 0, found, _NONE)


class Sharing:
    """Counts what flows with a transport get in the last quarter of a run that has an end."""

    def __init__(self, traffic: Traffic, until_ps: int | None) -> None:
        self.from_ps = 3 * until_ps // 4 if until_ps else None
        self._traffic = traffic
        self._bytes = np.zeros(len(traffic.flows), np.int64)
        self._first = traffic.first_flows()

    def add(self, rows: Records) -> None:
        """Take samples of flows: sim_flow_sample."""
        if self.from_ps is not None:
            late = rows["at"] > self.from_ps
            flow = self._first[rows["flow"][late]]
            np.add.at(self._bytes, flow, rows["bytes"][late].astype(np.int64))

    def summary(self, end: RunEnd, due: DueOutcome | None = None) -> dict[str, Any] | None:
        """Return Jain's index of the flows that sent all the time to the same interface.

        Only interfaces with two such flows or more count; None where there is none.
        """
        if self.from_ps is None or end.stop is not Stop.UNTIL:
            return None
        flows, messages = self._traffic.flows, self._traffic.messages.messages
        undone = (end.message_times["done"] < 0) & (messages["bytes"] > 0)
        busy = np.zeros(len(flows), bool)
        busy[messages["flow"][undone]] = True
        if due is not None:
            busy |= due.undone_flows()
        began = end.flow_stats["first_sent"].astype(np.int64)
        busy &= (flows["transport"] > 0) & (began >= 0) & (began <= self.from_ps)
        groups: dict[tuple[int, int], list[int]] = {}
        for flow in np.flatnonzero(busy).tolist():
            key = int(flows["dst"][flow]), int(flows["dst_port"][flow])
            groups.setdefault(key, []).append(int(self._bytes[flow]))
        found = [(jain_ppm(got), len(got), key) for key, got in groups.items() if len(got) > 1]
        if not found:
            return None
        index, count, (host, port) = min(found)
        name = self._traffic.topology.hosts[host].interfaces[port].end
        return {
            "from_ps": self.from_ps,
            "jain_ppm": spread(np.array([each for each, _, _ in found], np.int64)),
            "least": {"to": str(name), "flows": count, "jain_ppm": index},
        }


def jain_ppm(shares: list[int]) -> int:
    """Return Jain's index of fairness, (sum x)^2 / (n sum x^2), in millionths, rounded down.

    1 000 000 is equal shares, also of nothing; 1/n is one that has all. (Jain, Chiu, Hawe: DEC
    Research Report TR-301, 1984.)
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 * MILLION // (len(shares) * squares) if squares else MILLION


def transport_summary(
    outcome: Outcome, identity: RunIdentity, end: RunEnd, sharing: Sharing
) -> dict[str, Any]:
    """Return what summary.json says of transports: parameters, counters, failures, shares.

    Empty for an open-loop run.
    """
    traffic = outcome.traffic
    if not traffic.transports:
        return {}
    stats, reliable = _stats(outcome), _reliable(outcome)
    failed = np.flatnonzero(_failed(stats)).tolist()
    reasons: dict[str, int] = {}
    for flow in failed:
        why = _reason(stats, flow)
        reasons[why] = reasons.get(why, 0) + 1
    return {
        "transports": _parameters(traffic, identity.time_scale),
        "transport": {
            "flows": int(reliable.sum()),
            "received_bytes": total(outcome.flow_stats["received_bytes"][reliable]),
            **{name: total(stats[counter]) for name, counter in _COUNTERS.items()},
            "dropped": total(stats["dropped"]),
            "duplicates": total(outcome.flow_stats["duplicates"][reliable]),
            "failed": len(failed),
            "failures": reasons,
            "failed_first": [
                {"flow": flow, "name": str(traffic.flow(flow)), "reason": _reason(stats, flow)}
                for flow in failed[:SHOWN_FAILURES]
            ],
            "ecn": _marking(traffic, reliable),
            "sharing": sharing.summary(end, outcome.due),
        },
    }


def _parameters(traffic: Traffic, scale: int) -> list[dict[str, Any]]:
    """Return all parameters of each transport, as it ran."""
    found = []
    for number, each in enumerate(traffic.transports, start=1):
        flows = traffic.flows[traffic.flows["transport"] == number]
        told = {name: known.with_time_scale(scale) for name, known in each.algorithms.items()}
        found.append(
            {
                "operation": each.operation,
                "retransmission": each.retransmission,
                "flows": len(flows),
                "mtu": sorted(set(flows["payload"].tolist())),
                "ack_every": each.ack_every,
                **({"ack_class": each.ack_class} if each.ack_class else {}),
                **({"reorder_ps": each.reorder_ps * scale} if each.reorder_ps else {}),
                "window_packets": each.window_packets or DEFAULT_WINDOW[each.retransmission],
                "timeout_ps": each.timeout_ps * scale,
                "retries": each.retries,
                "udp_ports": each.udp_ports,
                **path_words(each.path_choice, scale),
                **({"queue_pairs": each.queue_pairs} if each.queue_pairs > 1 else {}),
                **_striping(each),
                **({"interfaces": each.interfaces} if each.interfaces > 1 else {}),
                **({"link_delay_ps": each.link_delay_ps * scale} if each.link_delay_ps else {}),
                **plane_words(each.planes, scale),
                "line_rate_bps": max(1, each.line_rate_bps // scale),
                "congestion_control": each.congestion_control,
                **{name: asdict(known) for name, known in told.items()},
            }
        )
    return found


def _striping(each: Transport) -> dict[str, Any]:
    if not each.piece_bytes:
        return {}
    pieces = {"piece_bytes": each.piece_bytes, "outstanding": each.outstanding}
    return {"striping": "as-drained", **pieces}


def _marking(traffic: Traffic, reliable: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return where the queues mark that such flows use, for each rate of a link."""
    used = set(traffic.flows["dscp"][reliable].tolist())
    rates = sorted({link.rate_bps for link in traffic.topology.links})
    found = []
    for each in traffic.topology.classes:
        marking = each.setting("ecn")
        if marking is None or not used & set(each.dscps):
            continue
        for rate in rates:
            at = marking.at(rate)
            found.append(
                {
                    "class": each.name,
                    "set": marking.set_name,
                    "rate_bps": rate,
                    "min_bytes": at.min_bytes,
                    "max_bytes": at.max_bytes,
                    "probability_ppm": at.probability * MILLION // CERTAIN,
                }
            )
    return found


def _stats(outcome: Outcome) -> Records:
    assert outcome.transport_stats is not None
    return outcome.transport_stats


def _reliable(outcome: Outcome) -> npt.NDArray[np.bool_]:
    return np.asarray(outcome.traffic.flows["transport"] > 0)


def _failed(stats: Records) -> npt.NDArray[np.bool_]:
    return np.asarray(stats["state"] == QueuePairState.ERROR)


def _reason(stats: Records, flow: int) -> str:
    return _FAILURES[Failure(int(stats["failure"][flow]))]
