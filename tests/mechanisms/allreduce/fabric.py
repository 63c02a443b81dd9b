"""A planned fabric: in-process switches with all that the controller gives them, and jobs' workers.

    fabric = Fabric(topology, seed=1)
    fabric.start("a", data)         a worker at each host of a job, its numbers by rank
    fabric.cut("s1", 3)             a link dies, and the controller's writes wait
    fabric.write()                  one change at one switch, as the seed has it
    fabric.run()                    until all workers have all sums

Frames have no time: which one comes next, and which is lost, the seed decides.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from controller.diff import Change
from controller.fabric_state import FabricModel, FabricReady, LinkChanged, MechanismSwitched
from controller.loop import ControlLoop, Work
from controller.policy import FabricPolicy
from controller.program import CompiledProgram
from controller.target_facts import TargetFacts
from mechanisms.allreduce.counters import ALLREDUCE
from mechanisms.allreduce.life import Jobs
from mechanisms.allreduce.workers import job_of, worker_of
from mechanisms.program import job as build_job
from protocols.allreduce import HOST_TTL
from softswitch import Switch
from softswitch.core import CoreConfig
from softswitch.program_cache import Compiled, Job, compile_program
from tests.mechanisms.allreduce import wire
from tests.mechanisms.allreduce.wire import Message
from tests.mechanisms.allreduce.worker import Worker
from topologies.model import Interface, Link, Topology

SETTLED_NS = 1_000
QUEUED_MOST = 400
"""Frames on their way; of more, one is lost."""

PATIENCE = 1_000
"""Steps without a result after which a worker moves."""

QUEUES = 8

Key = tuple[str, str]
"""A worker: its job and host."""


@cache
def compiled(job: Job) -> Compiled:
    return compile_program(job)


@dataclass
class Faults:
    """Shares of frames that are lost, and of steps in which a worker times out, or moves."""

    loss: float = 0.0
    time_out: float = 0.0
    move: float = 0.0


class Fabric:
    """All switches of a topology, and workers. Each random choice is the seed's."""

    def __init__(
        self, topology: Topology, seed: int = 1, policy: FabricPolicy | None = None
    ) -> None:
        self.topology = topology
        self.random = random.Random(seed)
        self.faults = Faults()
        made = compiled(build_job(topology))
        program = CompiledProgram.of(made)
        self.p4info = program.p4info
        config = CoreConfig(cpu_port=255, priorities=QUEUES)
        self.switches = {
            switch.name: Switch.from_json(
                made.json_text.encode(), program.p4info.message, config=config
            )
            for switch in topology.switches
        }
        facts = TargetFacts(priorities=QUEUES, clone_classes=True)
        model = FabricModel(topology, program.p4info, facts, policy or FabricPolicy.of(topology))
        self.loop = ControlLoop(model)
        self.waiting: dict[str, list[Change]] = {name: [] for name in self.switches}
        self.take(self.loop.handle(FabricReady(dict.fromkeys(self.switches, ())), 0))
        self.write_all()
        self.down: set[Link] = set()
        self._links = {
            (end.node, end.port): link for link in topology.links for end in (link.a, link.b)
        }
        self.workers: dict[Key, Worker] = {}
        self._bag: list[tuple[str, int, bytes]] = []
        self._number = {job.number: name for name, job in self.jobs.plan.jobs.items()}

    @property
    def jobs(self) -> Jobs:
        learner = self.loop.learners["allreduce"]
        assert isinstance(learner, Jobs)
        return learner

    def close(self) -> None:
        for switch in self.switches.values():
            switch.close()

    # --- the controller -------------------------------------------------------------------------

    def take(self, work: Work) -> None:
        """Let what the controller writes wait, by switch and in order."""
        for writes in (work.planned, *work.learned):
            for name, changes in writes.items():
                self.waiting[name] += changes

    def write(self, name: str | None = None) -> None:
        """Write the first change that waits for a switch, or for any."""
        full = [each for each, found in self.waiting.items() if found]
        if full:
            at = name or self.random.choice(full)
            self._write(at, [self.waiting[at].pop(0)])

    def write_all(self) -> None:
        for name, changes in self.waiting.items():
            self._write(name, changes)
            self.waiting[name] = []

    def _write(self, name: str, changes: Sequence[Change]) -> None:
        self.switches[name].write([each.encode(self.p4info) for each in changes])

    def cut(self, node: str, port: int, *, up: bool = False) -> None:
        """Take a link down, or up again: frames vanish, and the controller hears of it."""
        link = self.topology.link_at(node, port)
        self.down ^= {link}
        self.take(self.loop.handle(LinkChanged(link, up), 0))

    def switched(self, on: bool) -> None:
        self.take(self.loop.handle(MechanismSwitched("allreduce", on), 0))
        self.write_all()

    # --- workers --------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        data: Sequence[Sequence[tuple[int, ...]]],
        start: int = 0,
        epoch: int | None = None,
    ) -> None:
        """Let a job's workers begin: each sends its numbers, `data[rank]`.

        At the epoch of the job's start number `start`, unless given.
        """
        for rank, each in enumerate(job_of(self.topology, name).workers):
            known = worker_of(self.topology, name, each.host, start)
            assert known.rank == rank and known.ranks == len(data)
            first = known.epoch if epoch is None else epoch
            worker = Worker(known.job, known.slots, data[rank], epoch=first)
            self.workers[name, each.host] = worker
            self.send((name, each.host), worker.start())

    def send(self, key: Key, messages: Sequence[Message]) -> None:
        interface = self.topology.host(key[1]).interfaces[0]
        for each in messages:
            self._put(interface.switch, interface.port, self._frame(interface, each))

    def _frame(self, interface: Interface, message: Message) -> bytes:
        ours = wire.packed(message)
        gateway = self.topology.switch(interface.switch).mac
        macs = bytes.fromhex((gateway + interface.mac).replace(":", ""))
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, message.ecn, 28 + len(ours), 0, 0x4000, HOST_TTL, 17, 0,
            interface.address.ip.packed, interface.gateway.packed,
        )  # fmt: skip
        ip = ip[:10] + wire.checksum(ip).to_bytes(2, "big") + ip[12:]
        udp = struct.pack(">HHHH", wire.ALLREDUCE_PORT, wire.ALLREDUCE_PORT, 8 + len(ours), 0)
        return macs + b"\x08\x00" + ip + udp + ours

    def _put(self, node: str, port: int, frame: bytes) -> None:
        """Put a frame on its way to a node's port."""
        if self._links[node, port] in self.down or self.random.random() < self.faults.loss:
            return
        self._bag.append((node, port, frame))
        if len(self._bag) > QUEUED_MOST:
            self._bag.pop(self.random.randrange(len(self._bag)))

    # --- what moves -----------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return all(worker.finished for worker in self.workers.values())

    def step(self) -> None:
        """Deliver a frame, or let a worker time out or move."""
        draw = self.random.random()
        if not self._bag or draw < self.faults.time_out + self.faults.move:
            key = self.random.choice([k for k, w in self.workers.items() if w.in_flight])
            worker = self.workers[key]
            moves = draw < self.faults.move
            self.send(key, worker.move() if moves else worker.time_out())
            return
        index = self.random.randrange(len(self._bag))
        self._bag[index], self._bag[-1] = self._bag[-1], self._bag[index]
        node, port, frame = self._bag.pop()
        if node not in self.switches:
            self._arrive(node, port, frame)
            return
        switch = self.switches[node]
        switch.inject(port, frame)
        for each in switch.run_until(switch.now_ns + SETTLED_NS):
            link = self._links.get((node, each.port))  # None: a root has no parent, and sent up
            if link is not None and link not in self.down:
                peer = self.topology.peer(node, each.port)
                self._put(peer.node, peer.port, each.packet)

    def _arrive(self, host: str, number: int, frame: bytes) -> None:
        interface = self.topology.host(host).interfaces[number]
        assert frame[:6] == bytes.fromhex(interface.mac.replace(":", ""))
        assert frame[30:34] == interface.address.ip.packed
        message = wire.message_of(frame)
        key = (self._number[message.job], host)
        self.send(key, self.workers[key].receive(message))

    def run(self, most: int) -> None:
        """Go on until all workers have all sums, `most` steps at most.

        Where no worker gets anything for long, one moves.
        """
        results, since = -1, 0
        for _ in range(most):
            if self.finished:
                return
            now = sum(len(worker.results) for worker in self.workers.values())
            results, since = (now, 0) if now != results else (results, since + 1)
            if since == PATIENCE:
                self._moved()
                since = 0
            self.step()
        assert self.finished, f"not finished after {most} steps"

    def _moved(self) -> None:
        key = self.random.choice([k for k, w in self.workers.items() if w.in_flight])
        self.send(key, self.workers[key].move())

    # --- what came of it ------------------------------------------------------------------------

    def counts(self) -> Mapping[str, int]:
        """Return what packets were counted as, at all switches together."""
        found = dict.fromkeys(ALLREDUCE.labels, 0)
        for name, switch in self.switches.items():
            for port in self.topology.ports_of(name):
                for index, label in ALLREDUCE.cells(port.number).items():
                    found[label] += switch.counter_read(ALLREDUCE.name, index)[0]
        return found
