"""Reads the fabric while it is watched, and sends all watchers the same events (SSE)."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from emulation.errors import EmulationError
from observe.follow import Follower, Moment
from observe.moment_json import moment_json
from observe.web.fabric_json import fabric_json

HEARTBEAT_S = 10.0  # a comment, so that a reader that has gone is noticed

Json = dict[str, Any]


@dataclass(frozen=True)
class _News:
    """What there was to tell at one look: of which fabric (None: none is up), and what."""

    number: int
    fabric: Json | None
    moment: Json
    reason: str = ""


class Broadcast:
    """One thread that looks each `interval_s` seconds as long as there are readers."""

    def __init__(self, follower: Follower, interval_s: float) -> None:
        self._follower = follower
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._news: _News | None = None
        self._readers = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="weft-broadcast", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading the fabric; end all streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def events(self) -> Generator[bytes, None, None]:
        """Yield events for one reader: `fabric` when there is another one, `moment`, `idle`."""
        with self._changed:
            self._readers += 1
            self._news = None if self._readers == 1 else self._news  # not what is long past
            self._changed.notify_all()
        try:
            yield from self._tell()
        finally:
            with self._changed:
                self._readers -= 1

    def _tell(self) -> Generator[bytes, None, None]:
        seen, run = -1, ""
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda seen=seen: (
                        self._closed  # type: ignore[misc]
                        or (self._news is not None and self._news.number != seen)
                    ),
                    HEARTBEAT_S,
                )
                news = self._news
                if self._closed:
                    return
            if news is None or news.number == seen:
                yield b": still here\n\n"
                continue
            seen = news.number
            if news.fabric is None:
                run = ""
                yield event("idle", {"reason": news.reason})
                continue
            if news.fabric["run"] != run:
                run = news.fabric["run"]
                yield event("fabric", news.fabric)
            yield event("moment", news.moment)

    def _work(self) -> None:
        number, fabric = 0, None
        while True:
            with self._changed:
                if not self._readers:
                    self._changed.wait_for(lambda: self._closed or self._readers > 0)
                    self._follower.forget()  # no rates over the time without watchers
                if self._closed:
                    return
            number += 1
            try:
                moment = self._follower.look()
            except EmulationError as error:
                news = _News(number, None, {}, str(error))
            else:
                fabric = self._fabric(moment, fabric)
                told = {**moment_json(moment), "marks": self._follower.marks()}
                news = _News(number, fabric, told)
            with self._changed:
                self._news = news
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed, self._interval_s)

    @staticmethod
    def _fabric(moment: Moment, known: Json | None) -> Json:
        if known is not None and known["run"] == moment.record.run:
            return known
        return fabric_json(moment.record)


def event(name: str, data: Json) -> bytes:
    """Return one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
