"""Import of htsim's connection matrices, the text files that say who sends how much to whom.

    Nodes 16
    Connections 2
    Triggers 1
    7->5 id 1 start 0 size 2000000 recv_done_trigger 1
    5->1 id 2 trigger 1 size 2000000
    trigger id 1 oneshot

As csg-htsim's connection_matrix.cpp reads it: `start` in picoseconds, `size` in bytes; a connection
with `trigger` starts when that trigger fires. A trigger fires when a connection that names it with
`recv_done_trigger` or `send_done_trigger` is done: `oneshot` and `multishot` after the one that
does, `barrier` after all `count` of them. Here both names mean that the last byte has arrived.
`prio` is left out. Not taken: `addon`, `failure`, `multishot` that several connections fire, and
flows without an end (`size 0`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.errors import Problem, TopologyError
from topologies.fields import MAX_MOMENT_PS, MAX_VOLUME

_HEADER = ("Nodes", "Connections", "Triggers")
_PAIR = re.compile(r"([0-9]{1,9})->([0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,18}(\.0*)?")
_PART = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
_TRIGGERS = ("oneshot", "multishot", "barrier")
_MOST_PROBLEMS = 10


@dataclass
class Connection:
    """One line `a->b`: nodes from 0, bytes, picoseconds; `after` and `fires` are triggers or 0."""

    line: int
    source: int
    target: int
    size: int
    start_ps: int
    after: int
    fires: tuple[int, ...]


@dataclass
class Trigger:
    """One line `trigger`: it fires once `count` connections are done."""

    line: int
    count: int
    firing: list[int] = field(default_factory=list)


def read_htsim(text: str, file: str) -> dict[str, object]:
    """Return what a file says, as `matrix` of a run file keeps it.

    `nodes`: how many there are; `connections`: a list of [source, target, bytes, start in ps], with
    nodes counted from 0; `waits`: a list of [later, earlier], of places in `connections`. Raises
    TopologyError with what is wrong and its line.
    """
    return _Reader(text, file).matrix()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.lines = text.splitlines()
        self.file = file
        self.problems: list[Problem] = []
        self.header: dict[str, int] = {}
        self.connections: list[Connection] = []
        self.triggers: dict[int, Trigger] = {}

    def matrix(self) -> dict[str, object]:
        for number, line in enumerate(self.lines, start=1):
            words = line.split()
            if words and not words[0].startswith("#"):
                self._line(number, words)
        self._counts()
        if not self.problems:
            self._connect()
        if self.problems:
            raise TopologyError(self.problems[:_MOST_PROBLEMS])
        rows = [[one.source, one.target, one.size, one.start_ps] for one in self.connections]
        waits = list(self._waits())
        self._ordered(waits)
        return {"nodes": self.header["Nodes"], "connections": rows, "waits": waits}

    def _tell(self, line: int, message: str) -> None:
        self.problems.append(Problem(self.file, max(line, 1), 1, "", message))

    def _number(self, line: int, key: str, word: str | None) -> int:
        if word is None or not _NUMBER.fullmatch(word):
            self._tell(line, f"{key}: a whole number has to follow, not {word or 'nothing'!r}")
            return 0
        return int(word.partition(".")[0])

    def _line(self, number: int, words: list[str]) -> None:
        first = words[0]
        if first in _HEADER:
            self.header[first] = self._number(number, first, words[1] if words[1:] else None)
        elif (pair := _PAIR.fullmatch(first)) is not None:
            self._connection(number, int(pair[1]), int(pair[2]), words[1:])
        elif first == "trigger":
            self._trigger(number, words[1:])
        elif first in ("failure", "Failures"):
            self._tell(number, "failures are not taken: write 'events' into the run file")
        else:
            message = f"{first!r} begins no line of a connection matrix: there is Nodes, "
            self._tell(number, message + "Connections, Triggers, 3->7 and trigger")

    def _pairs(
        self, number: int, words: list[str], known: tuple[str, ...]
    ) -> dict[str, list[int]] | None:
        """Return the numbers behind each word that is known; None where something is wrong."""
        found: dict[str, list[int]] = {}
        before = len(self.problems)
        at = 0
        while at < len(words):
            key = words[at]
            if key not in known:
                self._tell(number, f"{key!r} is not taken; available: {', '.join(known)}")
                return None
            value = self._number(number, key, words[at + 1] if at + 1 < len(words) else None)
            found.setdefault(key, []).append(value)
            at += 2
        return found if len(self.problems) == before else None

    def _connection(self, number: int, source: int, target: int, words: list[str]) -> None:
        found = self._pairs(number, words, _PART)
        if found is None:
            return
        last = {key: values[-1] for key, values in found.items()}
        if ("start" in last) == ("trigger" in last):
            self._tell(number, "give one of 'start' (picoseconds) and 'trigger'")
        if last.get("size", 0) == 0:
            self._tell(number, "size 0 never ends: give the bytes, or use 'incast: persistent'")
        if last.get("size", 0) > MAX_VOLUME:
            self._tell(number, f"size {last['size']} is more than {MAX_VOLUME} bytes")
        if last.get("start", 0) > MAX_MOMENT_PS:
            self._tell(number, f"start {last['start']} ps is after {MAX_MOMENT_PS // 10**12}s")
        if source == target:
            self._tell(number, f"{source}->{target}: a node would send to itself")
        fires = (*found.get("send_done_trigger", ()), *found.get("recv_done_trigger", ()))
        size, start_ps, after = (last.get(key, 0) for key in ("size", "start", "trigger"))
        self.connections.append(Connection(number, source, target, size, start_ps, after, fires))

    def _trigger(self, number: int, words: list[str]) -> None:
        kinds = [word for word in words if word in _TRIGGERS]
        if len(kinds) != 1:
            found = " ".join(kinds) or "nothing"
            self._tell(number, f"a trigger is one of {', '.join(_TRIGGERS)}, not {found}")
            return
        found_pairs = self._pairs(number, [w for w in words if w != kinds[0]], ("id", "count"))
        if found_pairs is None:
            return
        name = found_pairs.get("id", [0])[-1]
        if name == 0 or name in self.triggers:
            why = "is there twice" if name else "has to be given, and is not 0"
            self._tell(number, f"the trigger's id {why}")
            return
        count = found_pairs.get("count", [1])[-1]
        self.triggers[name] = Trigger(number, count if kinds[0] == "barrier" else 1)

    def _counts(self) -> None:
        nodes = self.header.get("Nodes", 0)
        if nodes < 2:
            self._tell(1, "no connection matrix: 'Nodes' and how many has to be there, 2 or more")
        there = {"Connections": len(self.connections), "Triggers": len(self.triggers)}
        for key, count in there.items():
            if not self.problems and self.header.get(key, 0) != count:
                message = f"{key} says {self.header.get(key, 0)}, but there are {count}"
                self._tell(1, message)
        if not self.problems and not self.connections:
            self._tell(1, "there is no connection")
        for one in self.connections:
            if nodes and max(one.source, one.target) >= nodes:
                message = f"{one.source}->{one.target}: nodes are 0 to {nodes - 1}"
                self._tell(one.line, message)

    def _connect(self) -> None:
        """Give each trigger the connections that fire it."""
        for place, one in enumerate(self.connections):
            for name in (*one.fires, *([one.after] if one.after else [])):
                if name not in self.triggers:
                    self._tell(one.line, f"there is no trigger {name}")
            for name in one.fires:
                if name in self.triggers:
                    self.triggers[name].firing.append(place)
        for name, trigger in self.triggers.items():
            if len(trigger.firing) != trigger.count:
                message = (
                    f"trigger {name} waits for {trigger.count} and {len(trigger.firing)} "
                    "connections fire it: it would start nothing, or before some are done"
                )
                self._tell(trigger.line, message)

    def _waits(self) -> Iterator[list[int]]:
        for place, one in enumerate(self.connections):
            if one.after:
                for earlier in self.triggers[one.after].firing:
                    yield [place, earlier]

    def _ordered(self, waits: list[list[int]]) -> None:
        """Report connections that wait for each other in a circle."""
        waiting = [0] * len(self.connections)
        later: list[list[int]] = [[] for _ in self.connections]
        for after, before in waits:
            waiting[after] += 1
            later[before].append(after)
        ready = [place for place, count in enumerate(waiting) if count == 0]
        for place in ready:  # it grows meanwhile
            for after in later[place]:
                waiting[after] -= 1
                if waiting[after] == 0:
                    ready.append(after)
        if len(ready) < len(self.connections):
            place = next(place for place, count in enumerate(waiting) if count)
            one = self.connections[place]
            self._tell(one.line, f"{one.source}->{one.target} waits for what waits for it")
            raise TopologyError(self.problems)
