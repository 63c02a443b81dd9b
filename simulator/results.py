"""What a run leaves behind: a folder of Parquet files and summary.json (docs/results.md).

    w = ResultWriter(out, traffic, identity, nodes, links)
    w.queues(rows); w.links(rows); w.flow_rates(rows)      as samples come, in bounded memory
    w.finish(RunEnd(...))                                  the rest; returns what summary.json says

The same run gives the same bytes: no time of day, no path and no machine goes into any of them.
What is about this machine (how long it took) goes into run.json, which the manifest leaves out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from simulator import (
    result_flows,
    result_paths,
    result_planes,
    result_ports,
    result_telemetry,
    result_transport,
)
from simulator.result_blocking import Blocking, analyse, waiting_rows
from simulator.result_due import DueOutcome, spread_with
from simulator.result_flows import Outcome
from simulator.result_imbalance import Imbalance
from simulator.result_model import Records, ResultError, RunEnd, RunIdentity, Stop
from simulator.result_paths import PathsEnd
from simulator.result_statistics import MILLION, total
from simulator.result_tables import Column, Kind, TableWriter, integers
from topologies.model import Link
from workloads.model import Traffic

FORMAT = 1
RUNTIME = "simulator"
SUMMARY, LOG = "summary.json", "run.json"
TABLES = (
    "blocked",
    "drops",
    "flow_rates",
    "flows",
    "hosts",
    "jobs",
    "links",
    "messages",
    "pauses",
    "ports",
    "queues",
    "victims",
)
"""Of every result. Those of `result_paths.TABLES` and `result_telemetry` only where they were asked
for, that of `result_planes` where interfaces are planes."""
# What `weft plot` draws beside them; a new result makes them stale.
_FIGURES = frozenset(
    f"{what}.png"
    for what in (
        *("queues", "links", "flows", "rates", "jobs", "pauses"),
        *("paths", "imbalance", "gaps", "telemetry"),
    )
)
_PARQUET = frozenset(
    f"{name}.parquet"
    for name in (*TABLES, *result_paths.TABLES, result_planes.TABLE, result_telemetry.TABLE)
)
_OURS = frozenset({SUMMARY, LOG}) | _PARQUET | _FIGURES
_UTILISATION = 8 * 10**12 * MILLION  # bytes over (bits/s x ps), in millionths


class ResultWriter:
    """Writes one run's results into `out`, which is made where it is not there.

    `nodes[i]` is the name of the engine's node i, `links[i]` its link i with end a first. Raises
    ResultError where the folder holds files that are no results, or where nothing can be written.
    """

    def __init__(
        self,
        out: Path,
        traffic: Traffic,
        identity: RunIdentity,
        nodes: Sequence[str],
        links: Sequence[Link] | None = None,
    ) -> None:
        self.out = out
        self.traffic = traffic
        self.identity = identity
        self._links = tuple(links if links is not None else traffic.topology.links)
        self._about = {
            "weft.runtime": RUNTIME,
            "weft.time_scale": str(identity.time_scale),
            "weft.run": identity.name,
            "weft.seed": str(identity.seed),
        }
        _prepare(out)
        names = tuple(nodes)
        ends = tuple(str(end) for link in self._links for end in (link.a, link.b))
        self._queues = TableWriter(
            out / "queues.parquet",
            (
                *integers("at_ps"),
                Column("node", Kind.NAME, names),
                *integers("port", "queue", "packets", "bytes"),
                Column("paused", Kind.FLAG),
            ),
            self._about,
        )
        self._link_samples = TableWriter(
            out / "links.parquet",
            (
                *integers("at_ps", "link"),
                Column("from", Kind.NAME, ends),
                Column("to", Kind.NAME, ends),
                *integers("bytes", "packets", "used_ppm"),
            ),
            self._about,
        )
        self._flow_samples = TableWriter(
            out / "flow_rates.parquet",
            (
                *integers("at_ps", "flow", "bytes"),
                *((result_transport.RATE_COLUMN,) if traffic.transports else ()),
            ),
            self._about,
        )
        self._imbalance: Imbalance | None = None
        if identity.paths_window_ps is not None:
            self._imbalance = Imbalance(
                out / "imbalance.parquet",
                traffic.topology,
                self._links,
                identity.paths_window_ps,
                self._about,
            )
        self._telemetry: result_telemetry.TelemetryTable | None = None
        if identity.telemetry_ports is not None:
            self._telemetry = result_telemetry.TelemetryTable(
                out / f"{result_telemetry.TABLE}.parquet",
                traffic.topology,
                identity.telemetry_ports,
                identity.time_scale,
                self._about,
            )
        self._sharing = result_transport.Sharing(traffic, identity.until_ps)
        scale = identity.time_scale
        self._rates = np.array([max(1, link.rate_bps // scale) for link in self._links], np.int64)
        self._most_queued = (0, 0)  # bytes, packets
        self._busiest = 0
        self._open = True

    def queues(self, rows: Records) -> None:
        """Add samples of queues: sim_queue_sample."""
        if not len(rows):
            return
        self._queues.append(
            {
                "at_ps": rows["at"],
                **{name: rows[name] for name in ("node", "port", "queue", "packets", "bytes")},
                "paused": rows["paused"] != 0,
            }
        )
        most_bytes, most_packets = self._most_queued
        self._most_queued = (
            max(most_bytes, int(rows["bytes"].max())),
            max(most_packets, int(rows["packets"].max())),
        )

    def links(self, rows: Records) -> None:
        """Add samples of links: sim_link_sample."""
        if not len(rows):
            return
        start = 2 * rows["link"].astype(np.int64) + rows["direction"]
        used = self._used_ppm(rows)
        self._link_samples.append(
            {
                "at_ps": rows["at"],
                "link": rows["link"],
                "from": start,
                "to": start ^ 1,
                "bytes": rows["bytes"],
                "packets": rows["packets"],
                "used_ppm": used,
            }
        )
        self._busiest = max(self._busiest, int(used.max()))
        if self._imbalance is not None:
            self._imbalance.add(rows)

    def _used_ppm(self, rows: Records) -> Records:
        """Return the share of an interval that each link was used, in millionths, rounded down."""
        size = rows["bytes"].astype(np.int64)
        found = np.full(len(rows), -1, np.int64)
        if self.identity.sample_ps <= 0:
            return found
        rates = self._rates[rows["link"]]
        for rate in np.unique(rates).tolist():
            here = rates == rate
            room = rate * self.identity.sample_ps
            common = np.gcd.reduce(np.array([_UTILISATION, room], object))
            above, below = _UTILISATION // common, room // common
            if int(size.max()) * above < 1 << 63 and below < 1 << 63:
                found[here] = size[here] * above // below
            else:
                found[here] = [value * above // below for value in size[here].tolist()]
        return found

    def flow_rates(self, rows: Records) -> None:
        """Add samples of flows: sim_flow_sample."""
        if not len(rows):
            return
        columns = {"at_ps": rows["at"], "flow": rows["flow"], "bytes": rows["bytes"]}
        if self.traffic.transports:
            columns["cc_rate_bps"] = result_transport.limited_rates(rows["rate_bps"])
            self._sharing.add(rows)
        self._flow_samples.append(columns)

    def telemetry(self, rows: Records) -> None:
        """Add what packets collected: sim_hop_sample."""
        if self._telemetry is not None and len(rows):
            self._telemetry.add(rows)

    def finish(self, end: RunEnd) -> dict[str, Any]:
        """Write everything else; return what summary.json holds. Raises ResultError."""
        self._close_samples()
        scale = self.identity.time_scale
        due = None
        if self.traffic.due is not None and end.due is not None:
            due = DueOutcome(self.traffic.due, end.due, self.traffic.spans)
        outcome = Outcome(
            self.traffic, end.flow_stats, end.message_times, scale, end.transport_stats, due
        )
        topology, about = self.traffic.topology, self._about
        blocking = self._blocking(end)
        jobs = result_flows.job_rows(outcome)
        drops, pauses = result_ports.drop_rows(end), result_ports.pause_rows(end)
        write: dict[str, Callable[[Path], int]] = {
            "flows": lambda path: _write_flows(path, outcome, end.paths, about),
            "messages": lambda path: result_flows.write_messages(path, outcome, about),
            "ports": lambda path: result_ports.write_ports(path, topology, end, about),
            "hosts": lambda path: result_ports.write_host_ports(path, end, about),
            "drops": lambda path: result_ports.write_drops(path, drops, about),
            "pauses": lambda path: result_ports.write_pauses(path, pauses, about),
            "blocked": lambda path: result_ports.write_blocked(path, end.now_ps, blocking, about),
            "victims": lambda path: result_ports.write_victims(
                path, end.now_ps, blocking, outcome, about
            ),
        }
        paths, links = end.paths, self._links
        if paths is not None:
            write["paths"] = lambda path: result_paths.write_paths(
                path, topology, links, paths, about
            )
            write["gaps"] = lambda path: result_paths.write_gaps(path, paths, about)
        planes = end.planes
        if planes is not None:
            write[result_planes.TABLE] = lambda path: result_planes.write_planes(
                path, self.traffic, planes, about
            )
        counts = {
            "queues": self._queues.rows,
            "links": self._link_samples.rows,
            "flow_rates": self._flow_samples.rows,
        }
        if self._imbalance is not None:
            counts["imbalance"] = self._imbalance.rows
        if self._telemetry is not None:
            counts[result_telemetry.TABLE] = self._telemetry.rows
        for name, each in write.items():
            counts[name] = each(self.out / f"{name}.parquet")
        job_table = TableWriter(self.out / "jobs.parquet", result_flows.JOB_COLUMNS, about)
        job_table.append_rows(jobs)
        job_table.close()
        counts["jobs"] = job_table.rows
        summary = self._summary(end, outcome, jobs, drops, pauses, blocking)
        summary["files"] = {
            f"{name}.parquet": {"rows": counts[name], **_digest(self.out / f"{name}.parquet")}
            for name in sorted(counts)
        }
        _write_json(self.out / SUMMARY, summary)
        return summary

    def abandon(self) -> None:
        """Close the files without a summary: the folder is then no result."""
        self._close_samples()

    def _close_samples(self) -> None:
        if self._open:
            for writer in (self._queues, self._link_samples, self._flow_samples):
                writer.close()
            for table in (self._imbalance, self._telemetry):
                if table is not None:
                    table.close()
        self._open = False

    def _blocking(self, end: RunEnd) -> Blocking:
        rows = [
            row
            for node, switch in end.switches.items()
            for row in waiting_rows(node, switch.waiting)
        ]
        classes = {flow: int(self.traffic.flows["queue"][flow]) for flow in end.flow_paths}
        return analyse(self.traffic.topology, rows, end.flow_paths, classes)

    def _summary(
        self,
        end: RunEnd,
        outcome: Outcome,
        jobs: Sequence[Mapping[str, Any]],
        drops: Sequence[Mapping[str, Any]],
        pauses: Sequence[Mapping[str, Any]],
        blocking: Blocking,
    ) -> dict[str, Any]:
        identity, topology, stats = self.identity, self.traffic.topology, end.flow_stats
        carries, completion = outcome.carries, outcome.completion_ps
        slowdown = outcome.slowdown_ppm[carries]
        due = outcome.due.all() if outcome.due is not None else None
        size = total(self.traffic.messages.messages["bytes"])
        by_reason: dict[str, int] = {}
        for row in drops:
            by_reason[row["reason"]] = by_reason.get(row["reason"], 0) + row["packets"]
        return {
            "format": FORMAT,
            "runtime": RUNTIME,
            "time_scale": identity.time_scale,
            "run": {
                "name": identity.name,
                "description": identity.description,
                "seed": identity.seed,
                "until_ps": identity.until_ps,
                "sample_ps": identity.sample_ps,
                "run_file_sha256": identity.run_file_sha256,
            },
            "topology": {
                "name": topology.name,
                "switches": len(topology.switches),
                "hosts": len(topology.hosts),
                "links": len(topology.links),
            },
            "versions": {**identity.versions, "pyarrow": pa.__version__},
            "end": {
                "reason": end.stop.value,
                "interrupted": end.stop is Stop.INTERRUPTED,
                "now_ps": end.now_ps,
            },
            "totals": {name: int(value) for name, value in end.totals.items()},
            "flows": {
                "count": len(stats),
                **{
                    name: total(stats[name])
                    for name in (
                        "sent_packets",
                        "sent_bytes",
                        "received_packets",
                        "received_bytes",
                        "marked",
                        "out_of_order",
                        "paused_ps",
                    )
                },
            },
            "messages": {
                "count": int(carries.sum()) + (due.messages if due else 0),
                "done": int((completion[carries] >= 0).sum()) + (due.done if due else 0),
                "bytes": size + (due.bytes if due else 0),
                "completion_ps": spread_with(
                    completion[carries & (completion >= 0)], due.completion_ps if due else None
                ),
                "slowdown_ppm": spread_with(
                    slowdown[slowdown >= 0], due.slowdown_ppm if due else None
                ),
                **({"made_as_due": due.messages} if due else {}),
            },
            "jobs": [dict(row) for row in jobs if row["kind"] in result_flows.SUMMARISED],
            "drops": {"packets": sum(by_reason.values()), "by_reason": by_reason},
            "pauses": {
                name: sum(max(0, row[name]) for row in pauses)
                for name in ("xoff_sent", "xon_sent", "xoff_received", "paused_ps")
            },
            "blocking": {
                "blocked_queues": len(blocking.blocked),
                "victim_flows": len({flow for flow, _ in blocking.victims}),
                "deadlocks": [[str(queue) for queue in cycle] for cycle in blocking.deadlocks],
            },
            "samples": {
                "most_queued_bytes": self._most_queued[0],
                "most_queued_packets": self._most_queued[1],
                "most_used_ppm": self._busiest,
            },
            **result_transport.transport_summary(outcome, identity, end, self._sharing),
            **result_paths.paths_summary(
                end.paths,
                identity.paths_window_ps,
                {} if self._imbalance is None else self._imbalance.spread(),
                topology,
                self._links,
            ),
            **({} if self._telemetry is None else self._telemetry.summary(identity)),
            **result_planes.planes_summary(end.planes),
            **result_planes.migrations_summary(end.migrations),
            **{key: dict(counts) for key, counts in end.counters.items()},
            **({"receivers": _plain(end.receivers)} if end.receivers else {}),
            **({"programs": list(end.programs)} if end.programs else {}),
            "switches": _summed(switch.stats for switch in end.switches.values()),
            "buffers": {
                name: dict(switch.buffer) for name, switch in end.switches.items() if switch.buffer
            },
        }


def _write_flows(
    path: Path, outcome: Outcome, paths: PathsEnd | None, about: Mapping[str, str]
) -> int:
    columns: tuple[Column, ...] = ()
    values: dict[str, Any] = {}
    if outcome.traffic.transports:
        columns += result_transport.FLOW_COLUMNS
        values |= result_transport.flow_columns(outcome)
        values["missing_packets"] = result_transport.missing_packets(outcome)
    if paths is not None:
        columns += result_paths.FLOW_COLUMNS
        values |= result_paths.flow_columns(paths)
    return result_flows.write_flows(path, outcome, about, columns, values)


def _plain(of: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(counts) for name, counts in of.items()}


def _summed(all_stats: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for stats in all_stats:
        for name, value in stats.items():
            found[name] = found.get(name, 0) + int(value)
    return found


def _prepare(out: Path) -> None:
    """Make the folder, or empty it of an older result. Raises ResultError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        there = {entry.name for entry in out.iterdir()}
        others = sorted(name for name in there - _OURS if not name.endswith(".pcap"))
        if others:
            raise ResultError(
                f"{out} holds other files than results, for example {others[0]}",
                "give --out a new folder",
            )
        for name in there & _OURS:
            (out / name).unlink()
    except OSError as error:
        raise ResultError(f"can't write results to {out}: {error.strerror}") from error


def _digest(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
