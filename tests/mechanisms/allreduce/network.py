"""Switches and workers wired together, without time: a bag of frames on their way.

Which frame comes next, which is lost and which comes twice a seeded generator decides, so links
reorder without bound. A worker times out now and then, and whenever nothing is on its way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softswitch.p4runtime.pipeline import Pipeline
from tests.mechanisms.allreduce import wire
from tests.mechanisms.allreduce.switches import AllReduceSwitch, Membership, Pool
from tests.mechanisms.allreduce.wire import Message
from tests.mechanisms.allreduce.worker import Worker

STEPS_MOST = 400_000
QUEUED_MOST = 400
"""Frames on their way above which no worker times out: repeats would fill the links for ever."""


@dataclass(frozen=True)
class Job:
    """A job: host numbers of its workers, and its slots [base, base + slots) of every switch.

    `server`, `pool`: of a best-effort job, its server's host and its share of the pool.
    """

    number: int
    hosts: tuple[int, ...]
    base: int
    slots: int
    server: int | None = None
    pool: Pool | None = None


@dataclass(frozen=True)
class Shape:
    """Which leaf each host is at, and each tree's parents: switch -> switch; the root has none."""

    leaf_of: Mapping[int, str]
    trees: tuple[Mapping[str, str], ...]

    @property
    def switches(self) -> list[str]:
        names = set(self.leaf_of.values())
        for tree in self.trees:
            names |= {*tree, *tree.values()}
        return sorted(names)


@dataclass
class Faults:
    """Shares of frames that are lost, that come twice, and of steps in which a worker times out."""

    loss: float = 0.0
    twice: float = 0.0
    time_out: float = 0.0
    dead_links: set[frozenset[str]] = field(default_factory=set)


class Network:
    """Runs jobs' workers over a shape until all are finished."""

    def __init__(
        self,
        made: Pipeline,
        shape: Shape,
        jobs: Sequence[Job],
        workers: Mapping[tuple[int, int], Worker],
        *,
        seed: int,
        faults: Faults | None = None,
    ) -> None:
        """`workers`: by job number and host."""
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.workers = dict(workers)
        self.steps = 0
        self._bag: list[tuple[str, int, bytes]] = []  # where it arrives: node, port
        self._ends: dict[tuple[str, int], tuple[str, int]] = {}  # the other end of a link
        self._ports: dict[str, dict[str, int]] = {name: {} for name in shape.switches}
        for host, leaf in shape.leaf_of.items():
            self._connect(leaf, f"h{host}")
        for tree in shape.trees:
            for child, parent in tree.items():
                if parent not in self._ports[child]:
                    self._connect(child, parent)
                    self._connect_back(child, parent)
        self.switches = {
            name: AllReduceSwitch(
                made,
                [m for job in jobs for m in self._members(shape, job, name)],
                {
                    port: int(other[1:])
                    for other, port in self._ports[name].items()
                    if other not in self._ports
                },
                list(self._ports[name].values()),
            )
            for name in shape.switches
        }

    def _connect(self, switch: str, other: str) -> None:
        port = len(self._ports[switch]) + 1
        self._ports[switch][other] = port
        if other not in self._ports:
            self._ends[switch, port] = (other, 0)

    def _connect_back(self, child: str, parent: str) -> None:
        self._connect(parent, child)
        up, down = (child, self._ports[child][parent]), (parent, self._ports[parent][child])
        self._ends[up], self._ends[down] = down, up

    def _members(self, shape: Shape, job: Job, name: str) -> list[Membership]:
        found = []
        for number, tree in enumerate(shape.trees):
            used = self._used(shape, job, tree)
            if name not in used:
                continue
            below = [f"h{host}" for host in job.hosts if shape.leaf_of[host] == name]
            below += [child for child, parent in tree.items() if parent == name and child in used]
            parent = tree.get(name)
            if parent is None and job.server is not None:
                parent = f"h{job.server}"
            found.append(
                Membership(
                    job.number,
                    number,
                    tuple(self._ports[name][each] for each in below),
                    None if parent is None else self._ports[name][parent],
                    job.base,
                    job.slots,
                    job.pool,
                    tuple(self._workers_at(shape, job, tree, each) for each in below),
                )
            )
        return found

    def _workers_at(self, shape: Shape, job: Job, tree: Mapping[str, str], node: str) -> int:
        """Return the workers at or beneath a node of a tree, a bit a rank."""
        found = 0
        for rank, host in enumerate(job.hosts):
            way = [f"h{host}"]
            at: str | None = shape.leaf_of[host]
            while at is not None:
                way.append(at)
                at = tree.get(at)
            found |= (node in way) << rank
        return found

    def _used(self, shape: Shape, job: Job, tree: Mapping[str, str]) -> set[str]:
        used = set()
        for host in job.hosts:
            at: str | None = shape.leaf_of[host]
            while at is not None:
                used.add(at)
                at = tree.get(at)
        return used

    # --- what moves -----------------------------------------------------------------------------

    def start(self) -> None:
        """Let all workers send their first packets."""
        for key, worker in self.workers.items():
            self.send(key, worker.start())

    def send(self, key: tuple[int, int], messages: Sequence[Message]) -> None:
        """Put a worker's packets on its link."""
        _, host = key
        for each in messages:
            for name, ports in self._ports.items():
                if f"h{host}" in ports:
                    self._put((f"h{host}", 0), (name, ports[f"h{host}"]), wire.frame(each, host))

    def _put(self, source: tuple[str, int], target: tuple[str, int], frame: bytes) -> None:
        if frozenset((source[0], target[0])) in self.faults.dead_links:
            return
        draw = self.random.random()
        if draw < self.faults.loss:
            return
        copies = 2 if self.random.random() < self.faults.twice else 1
        self._bag += [(*target, frame)] * copies

    @property
    def finished(self) -> bool:
        return all(worker.finished for worker in self.workers.values())

    def outstanding(self) -> int:
        """Return how many frames are on their way."""
        return len(self._bag)

    def step(self) -> None:
        """Deliver one frame, or let a worker time out."""
        self.steps += 1
        if not self._bag or (
            self.random.random() < self.faults.time_out and len(self._bag) < QUEUED_MOST
        ):
            self._time_out()
            return
        index = self.random.randrange(len(self._bag))
        self._bag[index], self._bag[-1] = self._bag[-1], self._bag[index]
        node, port, frame = self._bag.pop()
        if node in self.switches:
            for out, sent in self.switches[node].send(port, frame):
                self._put((node, out), self._ends[node, out], sent)
        else:
            self._arrive(int(node[1:]), frame)

    def _arrive(self, host: int, frame: bytes) -> None:
        assert frame[:6] == wire.mac(host)
        assert frame[30:34] == (10 << 24 | host).to_bytes(4, "big")
        message = wire.message_of(frame)
        key = (message.job, host)
        self.send(key, self.workers[key].receive(message))

    def _time_out(self) -> None:
        waiting = [key for key, worker in self.workers.items() if worker.in_flight]
        key = self.random.choice(waiting)
        self.send(key, self.workers[key].time_out())

    def move(self, key: tuple[int, int]) -> None:
        """Let a worker that makes no progress go on with the next tree."""
        self.send(key, self.workers[key].move())

    def kill_link(self, one: str, other: str) -> None:
        """Lose whatever is sent by a link from now on, and what is on it."""
        self.faults.dead_links.add(frozenset((one, other)))

    def run(self, steps: int = STEPS_MOST) -> None:
        """Go on until all workers are finished, `steps` at most."""
        until = self.steps + steps
        while not self.finished:
            assert self.steps < until, f"not finished after {steps} steps"
            self.step()

    def run_some(self, steps: int) -> None:
        """Go on for so many steps, or until all workers are finished."""
        for _ in range(steps):
            if self.finished:
                return
            self.step()

    def total(self, outcome: str) -> int:
        """Return how often all switches counted an outcome."""
        return sum(
            switch.counts(port).get(outcome, 0)
            for name, switch in self.switches.items()
            for port in self._ports[name].values()
        )
