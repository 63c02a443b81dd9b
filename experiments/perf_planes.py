"""What each plane carried in a measurement, counted at the end that data leaves.

Both runtimes count what the card does (`struct rnic_plane_stats`), from the first packet on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topologies.model import Interface, Topology
from topologies.planes import planes_of


@dataclass(frozen=True)
class PlaneShare:
    """One plane of a source's queue pairs together; `bytes` of payload, repetitions too.

    `interface`: who sends by it, as h1:1; `plane`: the topology's name of it, empty where it has
    none. `share`: of the bytes of all of them, 0 to 1. `moved_packets`: sent again by others
    because this one was lost, `losses` times.
    """

    interface: str
    plane: str
    packets: int
    bytes: int
    share: float
    losses: int
    moved_packets: int


def shares(
    topology: Topology, sender: Interface, rows: Iterable[tuple[int, Mapping[str, Any]]]
) -> tuple[PlaneShare, ...]:
    """Return what planes have carried by (number of the sender's interface, what its card said).

    In the order of the interfaces; none where there are no rows.
    """
    names = ("sent_packets", "sent_bytes", "losses", "moved_packets")
    sums: dict[int, list[int]] = {}
    for number, said in rows:
        of_plane = sums.setdefault(number, [0] * len(names))
        sums[number] = [n + int(said[name]) for n, name in zip(of_plane, names, strict=True)]
    total = sum(of_plane[1] for of_plane in sums.values())
    called = _names(topology, topology.host(sender.host).interfaces) if sums else {}
    return tuple(
        PlaneShare(
            *called[number],
            packets=packets,
            bytes=carried,
            share=carried / total if total else 0.0,
            losses=losses,
            moved_packets=moved,
        )
        for number, (packets, carried, losses, moved) in sorted(sums.items())
    )


def _names(topology: Topology, interfaces: Sequence[Interface]) -> dict[int, tuple[str, str]]:
    """Return how an interface and its plane are called, by its number."""
    of_end = {part: plane.name for plane in planes_of(topology).planes for part in plane.interfaces}
    return {part.number: (str(part.end), of_end.get(part, "")) for part in interfaces}
