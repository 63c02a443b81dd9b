"""Messages of a connection's queue pairs: `serve` and `measure` of the daemon (service.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np

from hostagent.rnic.card_records import Operation
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import Task, TaskKind
from hostagent.rnic.measurement import row, sums
from hostagent.rnic.requests import RequestError, own_pairs

DEFAULT_STALL_MS = 10_000
MAX_COUNT = 1 << 24
WHY = {
    "RETRY_EXCEEDED": "the peer does not answer (retries exceeded)",
    "RNR_EXCEEDED": "the peer posts no receive buffers",
    "REMOTE_ACCESS": "the peer refuses the address, length or key",
    "REMOTE_INVALID": "the peer refuses the request",
    "REMOTE_OPERATION": "the peer failed to carry out the request",
    "FLUSHED": "an earlier message failed",
    "LOCAL_LENGTH": "a message did not fit the posted buffer",
}
_OPERATIONS = {"send": Operation.SEND, "write": Operation.WRITE, "read": Operation.READ}


class Measuring:
    """The work of one connection's queue pairs."""

    def __init__(
        self,
        endpoint: Endpoint,
        pairs: Mapping[int, Mapping[str, Any]],
        news: Callable[[float], Awaitable[None]],
        cancelled: asyncio.Event,
    ) -> None:
        """`pairs`: the connection's, with what is known of the peers.

        `news`: waits until tasks have moved, or so many seconds. `cancelled` ends a measurement.
        """
        self._endpoint = endpoint
        self._pairs = pairs
        self._news = news
        self._cancelled = cancelled

    def serve(
        self, qpns: list[int], operation: str, mode: str = "bandwidth", size: int = 65536
    ) -> dict[str, Any]:
        """Answer what the other end measures, from now on. Raises what REFUSED has."""
        _check(operation, mode)
        kind = TaskKind.ANSWER if mode == "latency" and operation != "read" else TaskKind.SERVE
        for qpn in own_pairs(qpns, self._pairs):
            self._endpoint.task(qpn, self._task(kind, qpn, operation, size, depth=1))
        return {}

    async def measure(
        self,
        qpns: list[int],
        operation: str,
        mode: str = "bandwidth",
        size: int = 65536,
        count: int = 1000,
        depth: int = 128,
        duration_ms: int = 0,
        timeout_ms: int = DEFAULT_STALL_MS,
        shared: bool = False,
        contents: int | None = None,
    ) -> dict[str, Any]:
        """Send messages, and return what came of it. Raises what REFUSED has."""
        _check(operation, mode)
        own = own_pairs(qpns, self._pairs)
        if not 1 <= count <= MAX_COUNT or depth < 1 or not own:
            raise RequestError(f"count is from 1 to {MAX_COUNT}, depth and queue pairs at least 1")
        if mode == "latency" and len(own) > 1:
            raise RequestError(f"latency is measured on one queue pair, not {len(own)}")
        if mode == "latency" and shared:
            raise RequestError("messages are shared in mode 'bandwidth' alone")
        kind = TaskKind.LATENCY if mode == "latency" else TaskKind.BANDWIDTH
        if contents is not None:
            for qpn in own:
                source = self._endpoint.source(qpn)
                source[:size] = random_bytes(contents, min(size, len(source)))
        before = {qpn: self._endpoint.pair_stats(qpn) for qpn in own}
        cpu_before = self._endpoint.stats().cpu_ns
        more = {"count": count, "depth": depth, "duration_ns": duration_ms * 1_000_000}
        tasks = {qpn: self._task(kind, qpn, operation, size, **more) for qpn in own}
        self._begin(tasks, shared)
        interrupted = not await self._until_done(own, timeout_ms / 1000)
        states = {qpn: self._endpoint.task_state(qpn, times=True) for qpn in own}
        cpu_ns = self._endpoint.stats().cpu_ns - cpu_before
        cancelled = self._cancelled.is_set()
        failures = [
            {"qpn": qpn, "why": WHY.get(state.failure.name, state.failure.name)}
            for qpn, state in states.items()
            if state.done and state.failure
        ]
        if interrupted and not cancelled:
            failures += [
                {"qpn": qpn, "why": f"nothing was completed for {timeout_ms} ms"}
                for qpn, state in states.items()
                if not state.done
            ]
        after = {qpn: self._endpoint.pair_stats(qpn) for qpn in own}
        rows = [row(qpn, states[qpn], before[qpn], after[qpn], size) for qpn in own]
        for qpn in own:
            self._endpoint.end_task(qpn)
        return {
            "mode": mode,
            "operation": operation,
            "size": size,
            "qps": len(own),
            **sums(list(states.values()), size, ends=mode == "bandwidth"),
            "times_ns": states[own[0]].times.tolist() if mode == "latency" else [],
            "cpu_ns": cpu_ns,
            "interrupted": interrupted and cancelled,
            "failures": failures,
            "pairs": rows,
        }

    def compare(self, qpn: int, contents: int, size: int) -> dict[str, int]:
        """Say how many bytes differ from what a peer with these `contents` has written."""
        (own,) = own_pairs([qpn], self._pairs)
        memory = self._endpoint.memory(own)
        if not 0 < size <= len(memory):
            raise RequestError(f"{size} bytes, and the queue pair's buffer has {len(memory)}")
        expected = np.frombuffer(random_bytes(contents, size), np.uint8)
        return {"wrong_bytes": int((np.frombuffer(memory[:size], np.uint8) != expected).sum())}

    def _task(self, kind: TaskKind, qpn: int, operation: str, size: int, **more: int) -> Task:
        peer = self._pairs[qpn]
        return Task(
            kind,
            _OPERATIONS[operation],
            size,
            rkey=peer.get("peer_rkey", 0),
            remote_address=peer.get("peer_address", 0),
            **more,
        )

    def _begin(self, tasks: dict[int, Task], shared: bool) -> None:
        if shared:
            self._endpoint.share(tasks)
            return
        begun: list[int] = []
        try:
            for qpn, task in tasks.items():
                self._endpoint.task(qpn, task)
                begun.append(qpn)
        except Exception:
            for qpn in begun:
                self._endpoint.end_task(qpn)
            raise

    async def _until_done(self, qpns: list[int], stall_s: float) -> bool:
        """Wait until all tasks are done; False if cancelled, or nothing moves for `stall_s`."""
        loop = asyncio.get_running_loop()
        completed, moved = -1, loop.time()
        while not self._cancelled.is_set():
            states = [self._endpoint.task_state(qpn) for qpn in qpns]
            if all(state.done for state in states):
                return True
            now = sum(state.completed for state in states)
            if now != completed:
                completed, moved = now, loop.time()
            elif loop.time() - moved > stall_s:
                return False
            await self._news(0.05)
        return False


def random_bytes(seed: int, size: int) -> bytes:
    """Return bytes that differ for each seed."""
    return np.random.default_rng(seed).bytes(size)


def _check(operation: str, mode: str) -> None:
    if operation not in _OPERATIONS:
        raise RequestError(f"no operation {operation!r}: {', '.join(_OPERATIONS)}")
    if mode not in ("bandwidth", "latency"):
        raise RequestError(f"no mode {mode!r}: bandwidth, latency")
