"""Tracing of a switch whose packet loop runs: one thread reads, any number of clients follow.

The thread lives while there are clients, and so do the core's tracers: no client, no cost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from softswitch.core import DaemonLoop
from softswitch.core.tracing import TraceStats
from softswitch.device import Device
from softswitch.tracing.decoder import Decoded
from softswitch.tracing.filter import compile_filter
from softswitch.tracing.session import TraceError, TraceSession, build_variant

CAPACITY = 1 << 20
"""Bytes of records: some 300 packets. What is shown is then never much older than that."""

POLL_S = 0.02
BACKLOG = 1000
"""Events that wait for one client; what comes on top is counted as missed."""

STALE_PS = 5 * 10**12
"""A packet that has been in the switch for so long is shown as far as it got."""

Event = dict[str, Any]


class Follower:
    """One client: `next` gives its events in order, None at the end."""

    def __init__(self, hub: TraceHub, limit: int | None) -> None:
        self.tracer = -1
        self._hub = hub
        self._left = limit
        self._missed = 0
        self._ended = False
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()

    def next(self) -> Event | None:
        """Wait for an event; return None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._ended)
            return self._events.popleft() if self._events else None

    def put(self, event: Event) -> None:
        """Queue an event for the client; the hub calls this."""
        with self._changed:
            if len(self._events) >= BACKLOG:
                self._missed += event["event"] == "packet"
                return
            if self._missed:
                self._events.append({"event": "missed", "packets": self._missed})
                self._missed = 0
            self._events.append(event)
            self._changed.notify()

    def packet(self, decoded: Decoded) -> None:
        """Queue a packet for this client; the last one that it wants ends it."""
        if self._left == 0:
            return
        self.put({"event": "packet", **decoded.trace.to_json()})
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.end()

    def end(self) -> None:
        """End the client's stream: no event follows."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def close(self) -> None:
        """Close a client that has disconnected or received enough."""
        self.end()
        self._hub.remove(self)


class TraceHub:
    """Shares one switch's tracing among its followers. All methods are thread-safe."""

    def __init__(self, device: Device, loop: DaemonLoop, device_lock: threading.RLock) -> None:
        self._device = device
        self._loop = loop
        self._device_lock = device_lock
        self._lock = threading.RLock()  # taken after device_lock, before the loop's
        self._followers: list[Follower] = []
        self._session: TraceSession | None = None
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._closed = False
        self._refused: tuple[int, str] = (-1, "")  # a program that can't be traced, and why
        self._told_missed = 0

    def follow(
        self, filter: str | None = None, ports: Sequence[int] = (), limit: int | None = None
    ) -> Follower:
        """Add a client. Raises FilterError, TraceError."""
        compile_filter(filter or "")  # here, since the packet loop waits while the tracer starts
        follower = Follower(self, limit)
        self._equip()
        with self._lock:
            if self._closed:
                raise TraceError("the switch is stopping")
            session = self._made_session()
            if self._device.program is None:
                text = "the switch has no program yet"
                follower.put({"event": "waiting", "text": text})
            elif not session.ready and self._refused[0] == self._device.core.program_number:
                raise TraceError(self._refused[1])
            with self._loop.locked():
                follower.tracer = session.start(filter, ports, limit)
            self._followers.append(follower)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
                self._thread.start()
        return follower

    def remove(self, follower: Follower) -> None:
        """End a client's tracer; nothing happens when it has ended."""
        with self._lock:
            if follower not in self._followers or self._session is None:
                return
            self._followers.remove(follower)
            with self._loop.locked():
                data = self._session.take()
                self._session.stop(follower.tracer)
            self._deliver(self._session.decode(data))
            self._session.forget(follower.tracer)
            self._wake.set()

    def stats(self) -> TraceStats:
        """Return the counts of traced and missed packets; all 0 without a client."""
        with self._lock:
            if self._session is None:
                return TraceStats()
            with self._loop.locked():
                return self._session.stats()

    def close(self) -> None:
        """End all clients and the thread."""
        with self._lock:
            self._closed = True
            followers, thread = list(self._followers), self._thread
        for follower in followers:
            follower.put({"event": "ended", "text": "the switch is stopping"})
            follower.close()
        self._wake.set()
        if thread is not None:
            thread.join()

    # --- the thread ---------------------------------------------------------------------------

    def _made_session(self) -> TraceSession:
        if self._session is None:
            self._session = TraceSession(self._device.core, capacity=CAPACITY)
        return self._session

    def _run(self) -> None:
        while True:
            self._wake.wait(POLL_S)
            self._wake.clear()
            self._equip()
            with self._lock:
                if not self._followers or self._session is None:
                    self._thread = None
                    self._told_missed = 0
                    return
                self._look(self._session)

    def _look(self, session: TraceSession) -> None:
        with self._loop.locked():
            data, stats = session.take(), session.stats()
        self._deliver(session.decode(data))
        self._deliver(session.give_up(self._loop.now() - STALE_PS))
        if stats.missed > self._told_missed:
            self._tell({"event": "missed", "packets": stats.missed - self._told_missed})
            self._told_missed = stats.missed

    def _deliver(self, packets: Sequence[Decoded]) -> None:
        for decoded in packets:
            for follower in self._followers:
                if decoded.tracers >> follower.tracer & 1:
                    follower.packet(decoded)

    def _tell(self, event: Event) -> None:
        for follower in self._followers:
            follower.put(event)

    def _equip(self) -> None:
        """Give the program that runs its traced variant, if it has none: this takes a compiler."""
        with self._device_lock, self._lock:
            session = self._made_session()
            program, number = self._device.program, self._device.core.program_number
            if program is None or session.ready or number == self._refused[0]:
                return
        try:
            variant = build_variant(program)
            with self._device_lock, self._lock:
                if self._device.core.program_number != number:
                    return  # replaced meanwhile: next time
                with self._loop.locked():
                    session.equip(program, variant)
                self._tell({"event": "program", "text": "the switch has another program"})
        except TraceError as error:
            with self._lock:
                self._refused = (number, str(error))
                self._tell({"event": "error", "text": str(error)})
