"""Every interleaving of a small AllReduce, on the compiled program, explored to the end.

A state is what the switches' registers hold, what the workers know, and the set of packets that
were ever sent. Any of these may arrive next: so packets are lost (they never arrive), come twice,
three times, for ever (the set never shrinks) and in any order. A worker's repeat is the same packet
once more, which needs no step of its own. A worker may be allowed to move, a switch to restart.

No deadlock means more than that some order of what was sent leads to the end: in each state all
that is on its way is lost, and what time-outs repeat, delivered once, has to lead there.

Each step of a switch is done by the compiled program, once for each pair of registers and packet.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from protocols.allreduce import AllReduceKind
from softswitch import Switch
from tests.mechanisms.allreduce import wire
from tests.mechanisms.allreduce.switches import AllReduceSwitch
from tests.mechanisms.allreduce.wire import Message
from tests.mechanisms.allreduce.worker import Worker

REGISTERS = ("allreduce_epochs", "allreduce_rounds", "allreduce_bitmaps", "allreduce_sums")

End = tuple[str, int]  # a node and its port
Nodes = tuple[int, ...]  # each node's state by number
State = tuple[Nodes, int]  # and the packets as bits
Packet = tuple[str, int, bytes]  # to which node and port, and what
Cells = tuple[int, ...]
T = TypeVar("T")


RESTART, MOVE, TIME_OUT, MOVE_AT_LAST = b"restart", b"move", b"time-out", b"move at last"
"""Packets that stand for what nodes do by themselves; the last one if time-outs do not help."""
ROUNDS_MOST = 50


class WrongSum(Exception):
    """A worker got a sum that is not numpy's."""


class SwitchNode:
    """A switch whose state is its registers' cells."""

    def __init__(
        self, name: str, switch: AllReduceSwitch, ends: Mapping[int, End], *, restarts: bool = False
    ) -> None:
        self.name, self._ends = name, ends
        self.begins: list[Packet] = [(name, 0, RESTART)] if restarts else []
        self._switch = switch
        inner: Switch = switch.switch
        info = inner.device.pipeline
        assert info is not None
        self._cells = [
            (name, index)
            for name in REGISTERS
            for index in range(info.schema.registers[inner.names.register_id(name)].size)
        ]
        self.first = self._held = self._read()

    def _read(self) -> Cells:
        return tuple(self._switch.switch.register_read(*cell) for cell in self._cells)

    def step(self, state: Cells, port: int, frame: bytes) -> tuple[Cells, list[Packet]]:
        """Let a packet come in a state; return the next one and what is sent."""
        if frame == RESTART:
            return self.first, []
        for cell, was, wanted in zip(self._cells, self._held, state, strict=True):
            if was != wanted:
                self._switch.switch.register_write(*cell, wanted)
        sent = self._switch.send(port, frame)
        self._held = self._read()
        return self._held, [(*self._ends[out], data) for out, data in sent]


@dataclass(frozen=True)
class Known:
    """What a worker knows: the protocol's state, without what never changes."""

    epoch: int
    in_flight: tuple[tuple[int, int], ...]
    done: frozenset[int]
    moved: frozenset[int]
    moving: Message | None
    moves_left: int


class WorkerNode:
    """A worker whose results are checked as they come; `moves`: it may move so often."""

    def __init__(
        self, host: int, make: Callable[[], Worker], sums: Sequence[tuple[int, ...]], end: End,
        moves: int = 0,
    ) -> None:  # fmt: skip
        self.name = f"h{host}"
        self._host, self._make, self._sums, self._end = host, make, sums, end
        worker = make()
        self.begins = self._packets(worker.start())
        self.first = self._known(worker, moves)
        if moves:
            self.begins.append((self.name, 0, MOVE))

    def _packets(self, messages: Sequence[Message]) -> list[Packet]:
        return [(*self._end, wire.frame(each, self._host)) for each in messages]

    @staticmethod
    def _known(worker: Worker, moves: int) -> Known:
        return Known(
            worker.epoch,
            tuple(sorted(worker.in_flight.items())),
            frozenset(worker.results),
            frozenset(worker.moved),
            worker.moving,
            moves,
        )

    def step(self, state: Known, port: int, frame: bytes) -> tuple[Known, list[Packet]]:
        """Let a packet come in a state; raises WrongSum."""
        worker = self._make()
        worker.epoch, worker.in_flight = state.epoch, dict(state.in_flight)
        worker.moved, worker.moving = set(state.moved), state.moving
        nothing = Message(AllReduceKind.RESULT)
        worker.results = dict.fromkeys(state.done, nothing)
        if frame == TIME_OUT:
            return state, self._packets(worker.time_out())
        if frame in (MOVE, MOVE_AT_LAST):
            spent = int(frame == MOVE)
            if state.moves_left < spent:
                return state, []
            sent = worker.move()
            return self._known(worker, state.moves_left - spent), self._packets(sent)
        sent = worker.receive(wire.message_of(frame))
        for chunk in worker.results.keys() - state.done:
            if worker.results[chunk].lanes != self._sums[chunk]:
                raise WrongSum(f"{self.name} got {worker.results[chunk].lanes} for chunk {chunk}")
        return self._known(worker, state.moves_left), self._packets(sent)

    def finished(self, state: Known) -> bool:
        return len(state.done) == len(self._sums)


class Numbers(Generic[T]):
    """Numbers things in the order in which they are seen."""

    def __init__(self) -> None:
        self.of: dict[T, int] = {}
        self.things: list[T] = []

    def __call__(self, thing: T) -> int:
        number = self.of.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


@dataclass(frozen=True)
class Explored:
    """What a search found.

    `moved`: nodes' states from which time-outs alone did not lead to the end; `stuck`: those from
    which nothing did.
    """

    states: int
    steps: int
    compiled_steps: int
    moved: int
    stuck: int


class Search:
    """Breadth first through all states of nodes that send each other packets."""

    def __init__(self, switches: Sequence[SwitchNode], workers: Sequence[WorkerNode]) -> None:
        self.nodes: list[SwitchNode | WorkerNode] = [*switches, *workers]
        self._workers = {len(switches) + i: worker for i, worker in enumerate(workers)}
        self._index = {node.name: i for i, node in enumerate(self.nodes)}
        self._packets: Numbers[Packet] = Numbers()
        self._states: list[Numbers[object]] = [Numbers() for _ in self.nodes]
        self._steps: dict[tuple[int, int, int], tuple[int, int]] = {}

    def _bits(self, packets: Sequence[Packet]) -> int:
        bits = 0
        for packet in packets:
            bits |= 1 << self._packets(packet)
        return bits

    def _step(self, node: int, state: int, packet: int) -> tuple[int, int]:
        known = self._steps.get((node, state, packet))
        if known is None:
            _, port, frame = self._packets.things[packet]
            held = self._states[node].things[state]
            after, sent = self.nodes[node].step(held, port, frame)  # type: ignore[arg-type]
            known = self._steps[node, state, packet] = (
                self._states[node](after), self._bits(sent),
            )  # fmt: skip
        return known

    def _next(self, state: State) -> Iterator[State]:
        nodes, packets = state
        left = packets
        while left:
            packet = (left & -left).bit_length() - 1
            left &= left - 1
            node = self._index[self._packets.things[packet][0]]
            after, sent = self._step(node, nodes[node], packet)
            if after != nodes[node] or sent & ~packets:
                yield (*nodes[:node], after, *nodes[node + 1 :]), packets | sent

    def run(self) -> Explored:
        """Explore to the end. Raises WrongSum."""
        first = tuple(
            self._states[i](node.first)  # type: ignore[arg-type]
            for i, node in enumerate(self.nodes)
        )
        begins = [packet for node in self.nodes for packet in node.begins]
        numbers: Numbers[State] = Numbers()
        numbers((first, self._bits(begins)))
        steps = 0
        for number in itertools.count():
            if number == len(numbers.things):
                break
            for after in self._next(numbers.things[number]):
                steps += 1
                numbers(after)
        of_nodes = {nodes for nodes, _ in numbers.things}
        moves = [self._moves_to_the_end(nodes) for nodes in of_nodes]
        return Explored(
            len(numbers.things), steps, len(self._steps), sum(map(bool, moves)), moves.count(None)
        )

    # --- without what is on its way -------------------------------------------------------------

    def _moves_to_the_end(self, nodes: Nodes) -> int | None:
        """Return how often workers have to move until all are finished; None: it never ends."""
        moves = 0
        for _ in range(ROUNDS_MOST):
            waiting = self._unfinished(nodes)
            if not waiting:
                return moves
            before = nodes
            nodes = self._deliver(nodes, [(self.nodes[i].name, 0, TIME_OUT) for i in waiting])
            if nodes == before:
                moves += 1
                nodes = self._deliver(nodes, [(self.nodes[waiting[0]].name, 0, MOVE_AT_LAST)])
        return None

    def _deliver(self, nodes: Nodes, packets: Sequence[Packet]) -> Nodes:
        """Deliver packets and all that follows from them, each once and in order."""
        queue = deque(self._packets(packet) for packet in packets)
        while queue:
            packet = queue.popleft()
            node = self._index[self._packets.things[packet][0]]
            after, sent = self._step(node, nodes[node], packet)
            nodes = (*nodes[:node], after, *nodes[node + 1 :])
            while sent:
                queue.append((sent & -sent).bit_length() - 1)
                sent &= sent - 1
        return nodes

    def _unfinished(self, nodes: Nodes) -> list[int]:
        return [
            i
            for i, worker in self._workers.items()
            if not worker.finished(self._states[i].things[nodes[i]])  # type: ignore[arg-type]
        ]
