"""What became of the planes of queue pairs, at both ends, where interfaces are such."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hostagent.rnic.planes import MigrationCause, MigrationState, PlaneLoss, PlaneState
from simulator.result_model import Records
from simulator.result_statistics import total
from simulator.result_tables import Column, Kind, TableWriter, integers
from workloads.model import Traffic

TABLE = "planes"

_STATES = {
    PlaneState.UP: "up",
    PlaneState.ASKED: "asked",
    PlaneState.LOST: "lost",
    PlaneState.DRAINED: "drained",
}
_LOSSES = {
    PlaneLoss.NONE: "",
    PlaneLoss.LINK: "link",
    PlaneLoss.TOLD: "told",
    PlaneLoss.SILENT: "silent",
    PlaneLoss.TIMEOUT: "time-out",
}
_CAUSES = {
    MigrationCause.LINK: "link",
    MigrationCause.TIMEOUT: "time-out",
    MigrationCause.PEER: "the peer",
    MigrationCause.DRAINED: "drained",
    MigrationCause.USER: "the user",
    MigrationCause.RETURN: "return",
}
_COUNTS = (
    *("losses", "sent_packets", "sent_bytes", "moved_packets", "outstanding"),
    *("probes_sent", "probes_answered"),
)
_TIMES = ("heard", "lost", "up")


def write_planes(path: Path, traffic: Traffic, rows: Records, about: Mapping[str, str]) -> int:
    """Write planes.parquet: a row for each flow, end and interface. Returns how many."""
    names = tuple(host.name for host in traffic.topology.hosts)
    columns = (
        *integers("flow"),
        Column("host", Kind.NAME, names),
        *integers("interface"),
        Column("sends", Kind.FLAG),
        Column("state", Kind.NAME, tuple(_STATES.values())),
        Column("why", Kind.NAME, tuple(_LOSSES.values())),
        *integers(*_COUNTS, "cc_rate_bps", *(f"{name}_ps" for name in _TIMES)),
    )
    writer = TableWriter(path, columns, about)
    sends, flows = rows["sends"] != 0, traffic.flows[rows["flow"]]
    rates = rows["rate_bps"].astype(np.int64)
    writer.append(
        {
            "flow": rows["flow"],
            "host": np.where(sends, flows["src"], flows["dst"]),
            "interface": rows["interface"],
            "sends": sends,
            "state": rows["state"],
            "why": np.where(rows["losses"] > 0, rows["why"].astype(np.int64), -1),
            **{name: rows[name] for name in _COUNTS},
            "cc_rate_bps": np.where(rates > 0, rates, -1),
            **{f"{name}_ps": rows[f"{name}_at"] for name in _TIMES},
        }
    )
    writer.close()
    return writer.rows


def planes_summary(rows: Records | None) -> dict[str, Any]:
    """Return what summary.json says of planes; nothing of a run without any.

    `lost`: that are so at the end; `by`: what reported the last loss of each that was ever lost.
    """
    if rows is None:
        return {}
    ever = rows["losses"] > 0
    by = {_LOSSES[why]: int((rows["why"][ever] == why).sum()) for why in PlaneLoss if why}
    return {
        TABLE: {
            "count": len(rows),
            "lost": int((rows["state"] == PlaneState.LOST).sum()),
            "losses": total(rows["losses"]),
            "by": {why: count for why, count in by.items() if count},
            "moved_packets": total(rows["moved_packets"]),
            "probes_sent": total(rows["probes_sent"]),
            "probes_answered": total(rows["probes_answered"]),
        }
    }


def migrations_summary(rows: Records | None) -> dict[str, Any]:
    """Return what summary.json says of path migration; nothing of a run without it.

    `by`: why each end that ever migrated did so the last time.
    """
    if rows is None:
        return {}
    ever = rows["migrations"] > 0
    by = {word: int((rows["cause"][ever] == cause).sum()) for cause, word in _CAUSES.items()}
    return {
        "migrations": {
            "ends": len(rows),
            "count": total(rows["migrations"]),
            "by": {word: count for word, count in by.items() if count},
            "migrated": int((rows["state"] == MigrationState.MIGRATED).sum()),
            "probes_sent": total(rows["probes_sent"]),
            "probes_answered": total(rows["probes_answered"]),
        }
    }
