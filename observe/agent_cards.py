"""What hosts' cards say of queue pairs over several interfaces, as `weft agent` shows it.

The kernel's maps have neither: which interface path migration has reached, and that a plane is lost
before it has answered again. A run's endpoints are asked, by their sockets in its directory.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostagent.rnic.client import EndpointClient, EndpointGone, RequestRefused

_PATIENCE_S = 1.0
_CAUSES = {"timeout": "time-out", "peer": "the peer", "user": "the user"}
_WORDS = {"lost": "down", "drained": "drained"}


@dataclass(frozen=True)
class CardPath:
    """Path migration of a queue pair: `state` ARMED, REARM or MIGRATED.

    `address`: of the interface that it sends by; `alternate`: of the one that is next. `switching`:
    it has found that it must migrate, and has not yet. `cause`: of the last migration, empty before
    the first.
    """

    state: str
    address: int
    alternate: int
    switching: bool
    cause: str
    migrations: int


@dataclass(frozen=True)
class CardPlane:
    """A plane: `state` up, asked, lost or drained; `cause` of its last loss, empty without any."""

    state: str
    cause: str


@dataclass(frozen=True)
class CardPair:
    """A queue pair's planes, or its path; neither of one that has one interface."""

    planes: tuple[CardPlane, ...] = ()
    path: CardPath | None = None

    def plane_word(self, number: int, of_kernel: str) -> str:
        """Return what a plane is in a word; the kernel's, unless the card knows better."""
        if number >= len(self.planes):
            return of_kernel
        return _WORDS.get(self.planes[number].state, of_kernel)

    def cause(self, number: int) -> str:
        """Return why a plane was lost, or the path changed; empty where it never was."""
        if self.path is not None:
            return self.path.cause
        return self.planes[number].cause if number < len(self.planes) else ""


NO_CARD = CardPair()
Cards = Mapping[tuple[int, int], CardPair]
"""By the address of each interface of the card, and the queue pair's number."""


def card_pairs(directory: Path) -> dict[tuple[int, int], CardPair]:
    """Ask a run's endpoints; those that have ended, or do not answer, are left out."""
    found: dict[tuple[int, int], CardPair] = {}
    for socket in sorted(directory.glob("*.rnic")):
        try:
            with EndpointClient.connect(socket, 0.0) as client:
                addresses = [
                    int(ipaddress.IPv4Address(each["ip"]))
                    for each in client.call("info", timeout_s=_PATIENCE_S)["interfaces"]
                ]
                if len(addresses) > 1:
                    said = client.call("watch", timeout_s=_PATIENCE_S, all=True)
                    found.update(pairs_of(addresses, said["pairs"]))
        except (EndpointGone, RequestRefused):
            continue
    return found


def pairs_of(
    addresses: list[int], rows: list[dict[str, Any]]
) -> Iterator[tuple[tuple[int, int], CardPair]]:
    """Yield the queue pairs of a card with these addresses, of an endpoint's `stats`."""
    for row in rows:
        planes, path = row.get("planes", []), row.get("migration")
        if not planes and path is None:
            continue
        pair = CardPair(
            tuple(CardPlane(each["state"], _cause(each["why"])) for each in planes),
            None if path is None else _path(addresses, path),
        )
        yield from (((address, row["qpn"]), pair) for address in addresses)


def _path(addresses: list[int], said: dict[str, Any]) -> CardPath:
    return CardPath(
        said["state"].upper(),
        addresses[said["interface"]],
        addresses[said["alternate"]],
        said["switching"],
        _cause(said["cause"]),
        said["migrations"],
    )


def _cause(said: str | None) -> str:
    return _CAUSES.get(said or "", said or "")
