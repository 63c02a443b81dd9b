"""Where the ranks of a job run: rank r on the interface that `place` returns at r."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from topologies.errors import FieldPath, did_you_mean
from topologies.model import Endpoint, Host, Interface, Topology
from workloads.job_schema import JobEntry
from workloads.randomness import Random

Report = Callable[[FieldPath, str], None]


def place(
    topology: Topology, jobs: Sequence[tuple[FieldPath, JobEntry]], seed: int, report: Report
) -> tuple[tuple[Interface, ...], ...]:
    """Return the interfaces of each job's ranks. `report` gets every mistake and its place.

    Jobs with a list of hosts have theirs; the others choose in their order among what is left, so
    that no two ranks share an interface. `seed` moves random placements only.
    """
    placer = _Placer(topology, seed, report)
    found: dict[int, tuple[Interface, ...]] = {}
    listed = [i for i, (_, job) in enumerate(jobs) if isinstance(job.placement, list)]
    rest = [i for i in range(len(jobs)) if i not in listed]
    for i in (*listed, *rest):
        path, job = jobs[i]
        found[i] = placer.listed(path, job) if i in listed else placer.chosen(path, job, i)
    return tuple(found[i] for i in range(len(jobs)))


class _Placer:
    def __init__(self, topology: Topology, seed: int, report: Report) -> None:
        self._topology = topology
        self._seed = seed
        self._tell = report
        self._owners: dict[Endpoint, str] = {}

    def listed(self, path: FieldPath, job: JobEntry) -> tuple[Interface, ...]:
        found: list[Interface] = []
        if len(job.placement) != job.ranks:
            message = f"{len(job.placement)} hosts for {job.ranks} ranks: name one for each rank"
            self._tell((*path, "placement"), message)
            return ()
        for rank, text in enumerate(job.placement):
            here = (*path, "placement", rank)
            interface = find_interface(self._topology, text, partial(self._tell, here))
            if interface is None:
                continue
            owner = self._owners.get(interface.end)
            if owner is not None:
                self._tell(here, f"{interface.end} already runs {owner}: every rank needs its own")
            self._owners[interface.end] = self._called(job, rank)
            found.append(interface)
        return tuple(found)

    def chosen(self, path: FieldPath, job: JobEntry, number: int) -> tuple[Interface, ...]:
        every = [
            interface
            for host in self._topology.hosts
            for interface in host.interfaces[: None if job.interfaces == "all" else 1]
        ]
        free = [interface for interface in every if interface.end not in self._owners]
        if len(free) < job.ranks:
            self._tell((*path, "ranks"), self._too_many(job, len(every), len(free)))
            return ()
        match job.placement:
            case "linear":
                found = free[: job.ranks]
            case "stride":
                found = _strided(free, job.ranks, job.stride or _stride(free, self._topology))
            case _:
                random = Random(self._seed, "placement", number)
                found = random.shuffled(free)[: job.ranks]
        for rank, interface in enumerate(found):
            self._owners[interface.end] = self._called(job, rank)
        return tuple(found)

    @staticmethod
    def _called(job: JobEntry, rank: int) -> str:
        return f"rank {rank}" + (f" of {job.name}" if job.name else "")

    def _too_many(self, job: JobEntry, every: int, free: int) -> str:
        hosts = len(self._topology.hosts)
        what = f"{every} interfaces" if job.interfaces == "all" else f"{hosts} hosts"
        message = f"{job.ranks} ranks, but {self._topology.name} has {what}"
        if free < every:
            message += f", of which other jobs leave {free}"
        total = sum(1 for _ in self._topology.interfaces())
        if job.interfaces != "all" and total > hosts:
            return f"{message}: 'interfaces: all' makes a rank of each of {total} NICs"
        return f"{message}: give at most {free} ranks, or a larger fabric"


def _strided(free: Sequence[Interface], ranks: int, stride: int) -> list[Interface]:
    """Return every stride-th, then again from the second on, and so on."""
    order = [free[i] for start in range(stride) for i in range(start, len(free), stride)]
    return order[:ranks]


def _stride(free: Sequence[Interface], topology: Topology) -> int:
    """Return a step that leads from each interface into another group, or to another leaf."""
    groups = {host.name: host.group for host in topology.hosts}
    of = [groups[interface.host] or interface.switch for interface in free]
    if len(set(of)) == 1:
        of = [interface.switch for interface in free]
    return max(of.count(name) for name in set(of)) if len(set(of)) > 1 else 1


def find_interface(
    topology: Topology, text: str, report: Callable[[str], None]
) -> Interface | None:
    """Return the interface that a user wrote as h1 or h1:1; `report` says what is wrong."""
    name, _, number = text.partition(":")
    try:
        host = topology.host(name)
    except KeyError:
        hosts = [host.name for host in topology.hosts]
        what = f"{name} is a switch" if topology.is_switch(name) else f"no host is called {name!r}"
        report(what + did_you_mean(name, hosts) + _there_is(hosts))
        return None
    count = len(host.interfaces)
    if number and (not number.isdigit() or int(number) >= count):
        last = f"0 to {count - 1}" if count > 1 else "0 only"
        report(f"{name} has no interface {number!r}: it has {last}")
        return None
    return host.interfaces[int(number or 0)]


def _there_is(names: Sequence[str]) -> str:
    return f" (available: {names[0]} to {names[-1]})" if names else " (there are no hosts)"


def hosts_named(topology: Topology, names: Iterable[str]) -> list[Host]:
    """Return hosts by name. Raises KeyError."""
    return [topology.host(name) for name in names]
