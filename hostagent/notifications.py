"""The notifications that a host has received from switches in datagrams, by any receiver.

The kernel's program keeps them in a map (`pinned_maps.PinnedMaps.notifications`), a card in its
own memory (`rnic.binding.Card.notifications`), and so does a host's interface in the simulator;
all give the same rows. docs/wire-formats.md says what the fields mean.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.notification_types import NotificationType

TYPES = 16  # four bits

_BYTES = 16


@dataclass(frozen=True)
class Heard:
    """The latest notification of a (host, type, switch, port), and how often one has come.

    Addresses are integers in host order; `local_ip` is the host's. `body_bytes`: how much came
    behind the header. `at_ns`: when, by the clock of whoever took it: CLOCK_MONOTONIC in the
    kernel, virtual time in the simulator.
    """

    local_ip: int
    type: int
    severity: int
    hops: int
    validity: int
    switch_id: int
    port: int
    sequence: int
    destination: int
    destination_qp: int
    queue: int
    body_bytes: int
    at_ns: int
    times: int

    @property
    def kind(self) -> NotificationType:
        """The type by name; only those that have one are kept."""
        return NotificationType(self.type)

    @property
    def local(self) -> str:
        """The host's address, dotted."""
        return str(ipaddress.IPv4Address(self.local_ip))


@dataclass(frozen=True)
class HeardCounts:
    """Datagrams that came to the notifications' port.

    `types`: whole ones, by type, where there are any. `malformed`: others. `no_queue_pair`: of
    congestion, but for no queue pair here. `lost`: there was no room for what they said.
    """

    types: Mapping[int, int]
    malformed: int
    no_queue_pair: int
    lost: int


def read(header: bytes, *, local_ip: int, body_bytes: int, at_ns: int, times: int) -> Heard:
    """Return the row of a notification's 16 bytes."""
    bits = int.from_bytes(header, "big")

    def field(width: int, behind: int) -> int:
        return bits >> behind & (1 << width) - 1

    assert len(header) == _BYTES
    return Heard(
        local_ip,
        type=field(4, 124),
        severity=field(4, 120),
        hops=field(4, 116),
        validity=field(4, 112),
        switch_id=field(16, 96),
        port=field(12, 84),
        sequence=field(12, 72),
        destination=field(32, 40),
        destination_qp=field(24, 16),
        queue=field(16, 0),
        body_bytes=body_bytes,
        at_ns=at_ns,
        times=times,
    )


_PS_PER_NS = 1000


def heard_rows(rows: Any, n: int) -> list[Heard]:
    """Return the first n of an array of struct rnic_notification."""
    return [
        Heard(
            row.local_ip,
            row.type,
            row.severity,
            row.hops,
            row.validity,
            row.switch_id,
            row.port,
            row.sequence,
            row.destination,
            row.destination_qp,
            row.queue,
            row.body_bytes,
            row.at // _PS_PER_NS,
            row.times,
        )
        for row in rows[0:n]
    ]


def heard_counts(row: Any) -> HeardCounts:
    """Return a struct rnic_notification_counts."""
    types = {kind: packets for kind, packets in enumerate(row.types) if packets}
    return HeardCounts(types, row.malformed, row.no_qp, row.lost)
