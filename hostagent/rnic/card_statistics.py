"""The counters of a card, its queue pairs and their planes, as rnic.h has them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hostagent.rnic.card_records import Failure, QueuePairState
from hostagent.rnic.planes import (
    MigrationCause,
    MigrationState,
    MigrationStats,
    PlaneLoss,
    PlaneState,
    PlaneStats,
)


@dataclass(frozen=True)
class CardStats:
    """struct rnic_stats."""

    received: int
    received_bytes: int
    other: int
    unknown_qp: int
    bad_icrc: int
    malformed: int
    sent: int
    sent_bytes: int
    notification_type: int
    notification_qp: int


@dataclass(frozen=True)
class QueuePairStats:
    """struct rnic_qp_stats."""

    state: QueuePairState
    failure: Failure
    sent_packets: int
    sent_bytes: int
    repeated_packets: int
    repeated_bytes: int
    acked_bytes: int
    received_packets: int
    received_bytes: int
    duplicates: int
    out_of_order: int
    dropped: int
    marked: int
    acks_sent: int
    acks_received: int
    naks_sent: int
    naks_received: int
    rnr_sent: int
    rnr_received: int
    cnps_sent: int
    cnps_received: int
    notified_received: int
    first_cut_at: int
    timeouts: int
    outstanding: int
    rate_bps: int


@dataclass(frozen=True)
class SeenHop:
    """struct rnic_hop: a hop of the path by which packets come.

    Times are the fabric's since the hop before, by both switches' own clocks. `packets`,
    `queue_sum`, `since_sum_ns`: since this hop stands in its place of the path.
    """

    hop: int
    queue_bytes: int
    since_ns: int
    rate_bps: int
    packets: int
    queue_sum: int
    since_sum_ns: int


@dataclass(frozen=True)
class SeenPath:
    """struct rnic_path: `hops` from the sender's side on; `written`: by how many switches."""

    hops: tuple[SeenHop, ...]
    written: int
    packets: int
    changes: int
    at: int


_HOP_FIELDS = [field.name for field in fields(SeenHop)]
_CARD_FIELDS = [field.name for field in fields(CardStats)]
_PAIR_FIELDS = [field.name for field in fields(QueuePairStats) if field.type == "int"]
_PLANE_FIELDS = [field.name for field in fields(PlaneStats) if field.type == "int"]
_MIGRATION_FIELDS = [field.name for field in fields(MigrationStats) if field.type == "int"]


def card_stats_of(row: Any) -> CardStats:
    """Return a struct rnic_stats as Python has it."""
    return CardStats(**_counted(row, _CARD_FIELDS))


def pair_stats_of(row: Any) -> QueuePairStats:
    """Return a struct rnic_qp_stats as Python has it."""
    return QueuePairStats(
        state=QueuePairState(row.state),
        failure=Failure(row.failure),
        **_counted(row, _PAIR_FIELDS),
    )


def plane_stats_of(row: Any) -> PlaneStats:
    """Return a struct rnic_plane_stats as Python has it."""
    return PlaneStats(
        state=PlaneState(row.state), why=PlaneLoss(row.why), **_counted(row, _PLANE_FIELDS)
    )


def migration_stats_of(row: Any) -> MigrationStats:
    """Return a struct rnic_migration_stats as Python has it."""
    return MigrationStats(
        state=MigrationState(row.state),
        cause=MigrationCause(row.cause),
        switching=bool(row.switching),
        **_counted(row, _MIGRATION_FIELDS),
    )


def seen_path_of(row: Any) -> SeenPath:
    """Return a struct rnic_path as Python has it."""
    hops = tuple(SeenHop(**_counted(row.rows[i], _HOP_FIELDS)) for i in range(row.hops))
    return SeenPath(hops, **_counted(row, ["written", "packets", "changes", "at"]))


def _counted(row: Any, names: list[str]) -> dict[str, int]:
    return {name: int(getattr(row, name)) for name in names}
