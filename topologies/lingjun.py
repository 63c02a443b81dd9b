"""The network of Alibaba's Lingjun dataset as a topology: its topo.csv, of which users have a copy.

    ip,DSW,PSW,ASW               a host a row; its address is blinded
    0c9d...,G6,P10,S14           core group G6, pod P10, and leaf S14 in the pod

The file says which leaf, pod and core group a host is in, and nothing of how many spines a pod has,
how many cores a group, how many NICs a host, or how fast links are: that is chosen (`Sizes`).
Host n here is row n there, so jobs are placed by `hosts`. Format and data: Cao et al., "Crux:
GPU-Efficient Communication Scheduling for Deep Learning Training", SIGCOMM 2024;
github.com/alibaba/alibaba-lingjun-dataset-2023
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from topologies.errors import did_you_mean
from topologies.fields import MAX_PORT, NAME
from topologies.import_file import ImportFailedError
from topologies.loader import loads
from topologies.units import parse_rate

COLUMNS = ("ip", "DSW", "PSW", "ASW")
_OURS = re.compile(r"[ach][0-9]+")
"""Names of spines ("aggregation"), cores and hosts here."""


class Place(NamedTuple):
    """A host's address as the dataset blinds it, its core group, pod, and leaf in the pod."""

    address: str
    cores: str
    pod: str
    leaf: str


@dataclass(frozen=True)
class Sizes:
    """What the dataset does not say.

    `spines` of a pod, each with an uplink to every leaf; `cores` above each of them, to which that
    spine of every pod leads; `nics` of a host, all at its leaf; `rate` of every link.
    """

    spines: int = 8
    cores: int = 8
    nics: int = 1
    rate: str = "200Gbps"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Sizes:
        """Return sizes with some given by key. Raises ValueError."""
        known = [each.name for each in fields(cls)]
        wanted: dict[str, Any] = {}
        for key, value in given.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"; available: {', '.join(known)}"
                raise ValueError(f"nothing is called {key!r} here{hint}")
            if key == "rate":
                parse_rate(value)
            elif type(value) is not int or not 1 <= value <= MAX_PORT:
                raise ValueError(f"{key} is a number from 1 to {MAX_PORT}, not {value!r}")
            wanted[key] = value
        return cls(**wanted)


def places(source: Path) -> tuple[Place, ...]:
    """Return where hosts are, in the order of the file. Raises ImportFailedError."""
    found: list[Place] = []
    seen: set[str] = set()
    for number, row in rows(source, COLUMNS):
        place = Place(*(row[column].strip() for column in COLUMNS))
        if not all(place):
            raise ImportFailedError(f"{source}:{number}: a host needs {', '.join(COLUMNS)}")
        if place.address in seen:
            raise ImportFailedError(f"{source}:{number}: {place.address} has a row already")
        seen.add(place.address)
        found.append(place)
    if not found:
        raise ImportFailedError(f"{source}: there is no host in it")
    return tuple(found)


def hosts(source: Path) -> dict[str, str]:
    """Return the name that each address of topo.csv has in the topology."""
    return {place.address: f"h{number}" for number, place in enumerate(places(source), 1)}


def rows(source: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield a CSV file's rows and their lines. Raises ImportFailedError."""
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [each for each in columns if each not in (reader.fieldnames or ())]
            if missing:
                raise ImportFailedError(
                    f"{source}:1: no column {', '.join(missing)}: the dataset's file begins with "
                    f"a line that names {', '.join(columns)}, among others"
                )
            for row in reader:
                yield reader.line_num, {key: row[key] or "" for key in columns}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ImportFailedError(f"{source}: can't be read: {why}") from None


def text(source: Path, out: Path, sizes: Sizes) -> str:
    """Return the topology file. Raises ImportFailedError; TopologyError for what can't be one."""
    made = "\n".join(_Fabric(places(source), sizes).lines(source)) + "\n"
    loads(made, file=str(out), name=out.stem)
    return made


class _Fabric:
    def __init__(self, found: Sequence[Place], sizes: Sizes) -> None:
        self.places, self.sizes = found, sizes
        self.pods = list(dict.fromkeys((each.cores, each.pod) for each in found))
        self.groups = list(dict.fromkeys(cores for cores, _ in self.pods))
        self.leaves = list(dict.fromkeys(each[1:] for each in found))
        names = [f"{pod}{leaf}".lower() for _, pod, leaf in self.leaves]
        readable = len(set(names)) == len(names) and all(
            NAME.fullmatch(name) and not _OURS.fullmatch(name) for name in names
        )
        if not readable:
            names = [f"l{number}" for number in range(1, len(self.leaves) + 1)]
        self.leaf_names = dict(zip(self.leaves, names, strict=True))
        self._ports: dict[str, int] = {}

    def lines(self, source: Path) -> Iterator[str]:
        sizes = self.sizes
        yield f"# {source.name} of Alibaba's Lingjun dataset, imported: host n is its row n. It"
        yield "# says leaf, pod and core group of each host; how many spines, cores and NICs there"
        yield "# are, and their rate, was chosen: weft topo import topo.csv --set spines=8"
        yield (
            f"description: {len(self.places)} hosts on {len(self.leaves)} leaves in "
            f"{len(self.pods)} pods"
        )
        yield "time_scale: 1"
        yield f"link: {{rate: {sizes.rate}, delay: 500ns, queue: 1MB, mtu: 4200B}}"
        yield "latency: 500ns"
        yield "classes:"
        yield "  cnp: {dscp: 48, queue: 7}"
        yield "  roce: {dscp: 26, queue: 3}"
        yield "  rest: {queue: 0}"
        yield "switches:"
        for cores, pod, leaf in self.leaves:
            name = self.leaf_names[cores, pod, leaf]
            yield f"  - {{name: {name}, role: leaf, group: {_quoted(cores + pod)}}}"
        for number, (cores, pod) in enumerate(self.pods):
            for spine in range(sizes.spines):
                name = self._spine(number, spine)
                yield f"  - {{name: {name}, role: spine, group: {_quoted(cores + pod)}}}"
        yield from (f"  - {{name: {name}, role: core}}" for name, _, _ in self._cores())
        yield "hosts:"
        yield from (f"  - h{number}" for number in range(1, len(self.places) + 1))
        yield "links:"
        yield from (f"  - {{a: {a}, b: {b}}}" for a, b in self._links())

    def _links(self) -> Iterator[tuple[str, str]]:
        sizes = self.sizes
        for number, place in enumerate(self.places, 1):
            for nic in range(sizes.nics):
                end = f"h{number}:{nic}" if nic else f"h{number}"
                yield end, self._port(self.leaf_names[place[1:]])
        for cores, pod, leaf in self.leaves:
            for spine in range(sizes.spines):
                ends = (
                    self.leaf_names[cores, pod, leaf],
                    self._spine(self.pods.index((cores, pod)), spine),
                )
                yield self._port(ends[0]), self._port(ends[1])
        for name, group, spine in self._cores():
            for number, (cores, _) in enumerate(self.pods):
                if cores == group:
                    yield self._port(self._spine(number, spine)), self._port(name)

    def _cores(self) -> Iterator[tuple[str, str, int]]:
        """Yield each core's name, its group, and which spine of each pod leads to it."""
        number = 0
        for group in self.groups:
            if sum(cores == group for cores, _ in self.pods) < 2:
                continue  # nothing to join
            for spine in range(self.sizes.spines):
                for _ in range(self.sizes.cores):
                    number += 1
                    yield f"c{number}", group, spine

    def _spine(self, pod: int, spine: int) -> str:
        return f"a{pod * self.sizes.spines + spine + 1}"

    def _port(self, switch: str) -> str:
        self._ports[switch] = self._ports.get(switch, 0) + 1
        return f"{switch}:{self._ports[switch]}"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
