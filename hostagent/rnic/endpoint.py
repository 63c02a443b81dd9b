"""A host's endpoint in this process: a card on an interface, its loop in a thread of its own.

    with Endpoint(EndpointConfig("h1-eth0", ip, mac, gateway_mac), maps=None) as endpoint:
        pair = endpoint.open(QueuePairConfig(...), buffer_bytes=1 << 20)
        endpoint.connect(pair.qpn, peer_ip, peer_qpn=..., peer_psn=...)
        endpoint.post(pair.qpn, Work(...)); endpoint.events()
        endpoint.task(pair.qpn, Task(...)); endpoint.task_state(pair.qpn)

With maps (`PinnedMaps`) the kernel keeps the congestion control of each queue pair, and the loop
paces by the slot that it maps read-only; without, it runs in the card itself. Times are ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hostagent.rnic.card_records import CardError, Event, Failure, Work, event_of
from hostagent.rnic.endpoint_pairs import EndpointPairs
from hostagent.rnic.endpoint_records import EndpointError, Task, TaskState
from hostagent.rnic.measurement import Times

TASK_COUNT_MOST = 1 << 24

_EVENTS = 256


class Endpoint(EndpointPairs):
    """An endpoint that runs, with work and tasks. Calls may come from several threads."""

    # --- work -----------------------------------------------------------------------------------

    def post(self, qpn: int, work: Work) -> None:
        """Hand over work, whose `data` stays alive until the queue pair is closed.

        Raises CardError.
        """
        with self._locked():
            held = self._held(qpn)
            local = self.ffi.NULL
            length = work.length or 0
            if work.data is not None:
                local = self.ffi.from_buffer("uint8_t[]", work.data)
                length = len(local)
                held.keep[work.id] = local
            request = self.ffi.new(
                "struct rnic_work *",
                {
                    "id": work.id,
                    "operation": int(work.operation),
                    "immediate": work.immediate,
                    "length": length,
                    "local": self.ffi.cast("uint8_t *", local),
                    "remote_address": work.remote_address,
                    "rkey": work.rkey,
                },
            )
            now = self.lib.rnicd_now(self._driver)
            self._check(self.lib.rnic_post(self._card, qpn, request, now))

    def post_receive(self, qpn: int, id: int, buffer: Any) -> None:
        """Hand over a receive buffer (writable), which stays alive until the pair is closed."""
        with self._locked():
            local = self.ffi.from_buffer("uint8_t[]", buffer)
            self._held(qpn).keep[-id - 1] = local
            self._check(self.lib.rnic_post_receive(self._card, qpn, id, local, len(local)))

    def events(self) -> list[Event]:
        """Take the events of queue pairs without a task."""
        rows = self.ffi.new("struct rnic_event[]", _EVENTS)
        with self._locked():
            n = self.lib.rnicd_take_events(self._driver, rows, _EVENTS)
        return [event_of(row) for row in rows[0:n]]

    # --- tasks ----------------------------------------------------------------------------------

    def task(self, qpn: int, task: Task, *, left: Any = None) -> None:
        """Give the loop something to keep going; `left`: messages that it shares with others.

        Raises EndpointError; CardError: a queue pair that has failed takes no receive buffers.
        """
        with self._locked():
            held = self._held(qpn)
            if task.size > held.bytes:
                raise EndpointError(
                    f"messages of {task.size} bytes, and the queue pair's buffer has {held.bytes}"
                )
            if not 0 <= task.count <= TASK_COUNT_MOST:
                raise EndpointError(f"{task.count} messages: at most {TASK_COUNT_MOST} are counted")
            posts = self.ffi.new("uint64_t[]", max(task.count, 1))
            times = self.ffi.new("uint64_t[]", max(task.count, 1))
            native_task = self.ffi.new(
                "struct rnicd_task *",
                {
                    "kind": int(task.kind),
                    "operation": int(task.operation),
                    "size": task.size,
                    "count": task.count,
                    "depth": task.depth,
                    "rkey": task.rkey,
                    "remote_address": task.remote_address,
                    "buffer": held.base + held.bytes,
                    "receive": held.base,
                    "duration_ns": task.duration_ns,
                    "left": self.ffi.NULL if left is None else left,
                    "receive_size": held.bytes,
                    "posts": posts,
                    "times": times,
                },
            )
            if not held.connected:
                raise EndpointError(f"queue pair {qpn} is not connected")
            self._check(self.lib.rnicd_task_set(self._driver, qpn, native_task))
            held.task, held.posts, held.times, held.left = task, posts, times, left

    def share(self, tasks: Mapping[int, Task]) -> None:
        """Let queue pairs, by number, send messages together: as many as one's `count` says.

        Each takes the next one, at first in turn, when fewer than its `depth` are outstanding.
        Raises EndpointError, CardError; then none of them has a task.
        """
        left = self.ffi.new("uint64_t *", max(task.count for task in tasks.values()))
        begun: list[int] = []
        try:
            for qpn, task in tasks.items():
                self.task(qpn, task, left=left)
                begun.append(qpn)
            with self._locked():
                numbers = self.ffi.new("uint32_t[]", begun)
                self._check(self.lib.rnicd_tasks_share(self._driver, numbers, len(begun)))
        except (EndpointError, CardError):
            for qpn in begun:
                self.end_task(qpn)
            raise

    def task_state(self, qpn: int, *, times: bool = False) -> TaskState:
        """Return how far a task has come; with `times` each message's.

        Raises CardError, EndpointError.
        """
        state = self.ffi.new("struct rnicd_task_state *")
        with self._locked():
            if self.lib.rnicd_task_get(self._driver, qpn, state):
                raise EndpointError(f"queue pair {qpn} has no task")
            held = self._held(qpn)
            most = held.task.count if times and held.task else 0
            posts = self._copied(held.posts, min(state.posted, most))
            taken = self._copied(held.times, min(state.completed, most))
        return TaskState(
            state.posted,
            state.completed,
            state.started_ns,
            state.ended_ns,
            bool(state.done),
            Failure(state.failure),
            posts,
            taken,
        )

    def _copied(self, numbers: Any, count: int) -> Times:
        if not count:
            return np.zeros(0, np.uint64)
        return np.frombuffer(self.ffi.buffer(numbers, 8 * count), np.uint64).copy()

    def end_task(self, qpn: int) -> None:
        """Forget a task; what is posted stays posted."""
        with self._locked():
            self.lib.rnicd_task_end(self._driver, qpn)
