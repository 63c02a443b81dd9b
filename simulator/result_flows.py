"""Tables of what was carried: flows, messages, and the jobs and collectives made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.result_due import DueOutcome, spread_with
from simulator.result_model import Records
from simulator.result_statistics import rate_bps, ratios, total
from simulator.result_tables import Column, Kind, TableWriter, integers
from workloads.model import Span, SpanKind, Traffic

_CHUNK = 1 << 17
_TIMES = ("ready", "first_sent", "last_sent", "done")
Integers = npt.NDArray[Any]


@dataclass(frozen=True)
class Outcome:
    """Traffic, and what became of it: sim_flow_stats and sim_message_times of all of it.

    Ideal times are fabric time in `traffic`, and of links slowed by `time_scale` here.
    `transport_stats`: sim_transport_stats of all flows, None where all are open loop. `due`: of
    messages that were made as they were due, which are not among those of `traffic`.
    """

    traffic: Traffic
    flow_stats: Records
    message_times: Records
    time_scale: int = 1
    transport_stats: Records | None = None
    due: DueOutcome | None = None

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The names of hosts by number, as `Traffic.flows` counts them."""
        return tuple(host.name for host in self.traffic.topology.hosts)

    @cached_property
    def completion_ps(self) -> Integers:
        """From ready to done of each message, -1 for one that is not done."""
        ready = self.message_times["ready"].astype(np.int64)
        done = self.message_times["done"].astype(np.int64)
        return np.where((done >= 0) & (ready >= 0), done - ready, -1)

    @cached_property
    def ideal_ps(self) -> Integers:
        """A message's ideal time."""
        return np.asarray(self.traffic.ideal_ps * self.time_scale)

    @cached_property
    def slowdown_ppm(self) -> Integers:
        """A message's completion time over its ideal, in millionths; -1 where there is none."""
        return ratios(self.completion_ps, self.ideal_ps)

    @cached_property
    def carries(self) -> npt.NDArray[np.bool_]:
        """Which messages carry bytes; the others are barriers and computing."""
        return np.asarray(self.traffic.messages.messages["bytes"] > 0)


def write_messages(path: Path, outcome: Outcome, about: Mapping[str, str]) -> int:
    """Write a row for each message; return how many."""
    traffic = outcome.traffic
    writer = TableWriter(
        path,
        (
            *integers("message", "flow"),
            Column("src", Kind.NAME, outcome.hosts),
            Column("dst", Kind.NAME, outcome.hosts),
            *integers("bytes", *(f"{name}_ps" for name in _TIMES)),
            *integers("completion_ps", "ideal_ps", "slowdown_ppm"),
        ),
        about,
    )
    messages, flows = traffic.messages.messages, traffic.flows
    for first in range(0, len(messages), _CHUNK):
        part = slice(first, first + _CHUNK)
        numbers = messages["flow"][part]
        carries = outcome.carries[part]
        # A barrier has no sender: flow 0 or any is set there.
        writer.append(
            {
                "message": np.arange(first, first + len(numbers)),
                "flow": np.where(carries, numbers, -1),
                "src": _names_of(flows, numbers, "src", carries),
                "dst": _names_of(flows, numbers, "dst", carries),
                "bytes": messages["bytes"][part],
                **{f"{name}_ps": outcome.message_times[name][part] for name in _TIMES},
                "completion_ps": outcome.completion_ps[part],
                "ideal_ps": outcome.ideal_ps[part],
                "slowdown_ppm": outcome.slowdown_ppm[part],
            }
        )
    writer.close()
    return writer.rows


def _names_of(
    flows: Records, numbers: Integers, end: str, carries: npt.NDArray[np.bool_]
) -> Integers:
    if not len(flows):
        return np.full(len(numbers), -1)
    safe = np.where(carries, numbers, 0)
    return np.where(carries, flows[end][safe].astype(np.int64), -1)


def write_flows(
    path: Path,
    outcome: Outcome,
    about: Mapping[str, str],
    more: Sequence[Column] = (),
    values: Mapping[str, Any] | None = None,
) -> int:
    """Write a row for each flow; return how many.

    `more` columns come behind, and `values` are theirs, or in the place of those from here.
    """
    traffic, stats = outcome.traffic, outcome.flow_stats
    flows = traffic.flows
    count = len(flows)
    writer = TableWriter(
        path,
        (
            *integers("flow"),
            Column("src", Kind.NAME, outcome.hosts),
            *integers("src_port"),
            Column("dst", Kind.NAME, outcome.hosts),
            *integers("dst_port", "udp_port", "dscp", "class", "rate_bps"),
            *integers("sent_packets", "sent_bytes", "received_packets", "received_bytes"),
            *integers("missing_packets", "marked", "out_of_order"),
            *integers("first_sent_ps", "last_sent_ps", "first_received_ps", "last_received_ps"),
            *integers("goodput_bps", "delay_mean_ps", "delay_max_ps", "paused_ps"),
            *integers("messages", "messages_done", "completion_ps"),
            *more,
        ),
        about,
    )
    done, completion, messages = _completions(outcome, count)
    lasted = stats["last_received"].astype(np.int64) - stats["first_sent"].astype(np.int64)
    received_any = stats["received_packets"] > 0
    goodput = [
        rate_bps(size, time) if any_came else -1
        for size, time, any_came in zip(
            stats["received_bytes"].tolist(), lasted.tolist(), received_any.tolist(), strict=True
        )
    ]
    delays = stats["delay_sum_ps"] // np.maximum(stats["received_packets"], 1)
    missing = stats["sent_packets"].astype(np.int64) - stats["received_packets"].astype(np.int64)
    columns: dict[str, Any] = {
        "flow": np.arange(count),
        "class": flows["queue"],
        "missing_packets": np.maximum(missing, 0),
        "goodput_bps": np.array(goodput, np.int64),
        "delay_mean_ps": np.where(received_any, delays.astype(np.int64), -1),
        "delay_max_ps": np.where(received_any, stats["delay_max_ps"].astype(np.int64), -1),
        "messages": messages,
        "messages_done": done,
        "completion_ps": completion,
    }
    for name in ("src", "src_port", "dst", "dst_port", "udp_port", "dscp", "rate_bps"):
        columns[name] = flows[name]
    for name in ("first_sent", "last_sent", "first_received", "last_received"):
        columns[f"{name}_ps"] = stats[name]
    for name in ("sent_packets", "sent_bytes", "received_packets", "received_bytes"):
        columns[name] = stats[name]
    for name in ("marked", "out_of_order", "paused_ps"):
        columns[name] = stats[name]
    columns |= values or {}
    for first in range(0, count, _CHUNK):
        writer.append({key: each[first : first + _CHUNK] for key, each in columns.items()})
    writer.close()
    return writer.rows


def _completions(outcome: Outcome, count: int) -> tuple[Integers, Integers, Integers]:
    """Return for each flow: messages done, time from its first ready to its last done, messages.

    The time is -1 unless all of the flow's messages are done.
    """
    carries = outcome.carries
    number = outcome.traffic.messages.messages["flow"][carries].astype(np.int64)
    times = outcome.message_times[carries]
    messages = np.bincount(number, minlength=count)
    done = np.bincount(number[times["done"] >= 0], minlength=count)
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, -1)
    np.minimum.at(
        first, number, np.where(times["ready"] >= 0, times["ready"], first.max(initial=0))
    )
    np.maximum.at(last, number, times["done"])
    if outcome.due is not None:
        more = outcome.due.flows
        messages, done = messages + outcome.due.messages(), done + more["done"].astype(np.int64)
        ready = more["first_ready"] >= 0
        first[ready] = np.minimum(first[ready], more["first_ready"][ready])
        last = np.maximum(last, more["last_done"])
    complete = (messages > 0) & (done == messages)
    return done, np.where(complete, last - first, -1), messages


def job_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return a row for each job, phase, collective and entry of traffic, as the plan has them."""
    return [_span_row(outcome, number, span) for number, span in enumerate(outcome.traffic.spans)]


def _span_row(outcome: Outcome, number: int, span: Span) -> dict[str, Any]:
    part = slice(span.first, span.stop)
    times = outcome.message_times[part]
    due = outcome.due.of_span(number) if outcome.due is not None else None
    ready = times["ready"][times["ready"] >= 0]
    if due is not None and due.first_ready >= 0:
        ready = np.append(ready, due.first_ready)
    start = span.start_ps if span.start_ps is not None else int(ready.min(initial=_NEVER))
    carries = outcome.carries[part]
    data_done = (times["done"] >= 0) & carries
    end = -1
    if (len(times) or due) and bool((times["done"] >= 0).all()):
        end = int(times["done"].max(initial=-1))
        if due is not None:
            end = max(end, due.last_done) if due.done == due.messages else -1
    took = end - start if end >= 0 else -1
    fct = spread_with(outcome.completion_ps[part][data_done], due.completion_ps if due else None)
    slowdowns = outcome.slowdown_ppm[part][data_done]
    slowdown = spread_with(slowdowns[slowdowns >= 0], due.slowdown_ppm if due else None)
    ideal = span.ideal_ps * outcome.time_scale
    size = total(outcome.traffic.messages.messages["bytes"][part])
    row: dict[str, Any] = {
        "span": number,
        "kind": span.kind.value,
        "name": span.name,
        "parent": span.parent,
        "algorithm": span.algorithm,
        "ranks": span.ranks,
        "bytes_per_rank": span.bytes_per_rank,
        "messages": int(carries.sum()) + (due.messages if due else 0),
        "messages_done": int(data_done.sum()) + (due.done if due else 0),
        "bytes": size + (due.bytes if due else 0),
        "start_ps": start if start != _NEVER else -1,
        "end_ps": end,
        "duration_ps": took,
        "ideal_ps": ideal if ideal > 0 else -1,
        "slowdown_ppm": took * 10**6 // ideal if took >= 0 and ideal > 0 else -1,
    }
    for key in ("p50", "p99", "max"):
        row[f"fct_{key}_ps"] = fct.get(key, -1)
        row[f"message_slowdown_{key}_ppm"] = slowdown.get(key, -1)
    return row


_NEVER = int(np.iinfo(np.int64).max)

JOB_COLUMNS = (
    *integers("span"),
    Column("kind", Kind.TEXT),
    Column("name", Kind.TEXT),
    *integers("parent"),
    Column("algorithm", Kind.TEXT),
    *integers("ranks", "bytes_per_rank", "messages", "messages_done", "bytes"),
    *integers("start_ps", "end_ps", "duration_ps", "ideal_ps", "slowdown_ppm"),
    *integers("fct_p50_ps", "fct_p99_ps", "fct_max_ps"),
    *(Column(f"message_slowdown_{key}_ppm") for key in ("p50", "p99", "max")),
)
# What summary.json reports: a run may have thousands of collectives.
SUMMARISED = frozenset({SpanKind.JOB.value, SpanKind.PHASE.value, SpanKind.TRAFFIC.value})
