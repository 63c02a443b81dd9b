"""Interfaces in maintenance: what endpoints are told, those that start later too."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulation import endpoints
from emulation.endpoints import EndpointError, Endpoints
from topologies import Endpoint


class Daemon:
    """An endpoint's daemon as its clients see it: it answers, and keeps what it was asked."""

    def __init__(self, path: Path, refuses: str = "") -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses = refuses
        self.pairs: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as stream:
                for line in stream:
                    self.asked.append(json.loads(line))
                    answer = {"error": self.refuses} if self.refuses else {"pairs": self.pairs}
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()

    def close(self) -> None:
        self._socket.close()


class Started:
    """A process that runs, and has said that it is ready."""

    stdout = None

    def poll(self) -> None:
        return None


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Daemon]]:
    daemons: dict[str, Daemon] = {}

    def start(self: Endpoints, name: str) -> endpoints._Daemon:
        path = tmp_path / name.replace(":", "-")
        daemons[name] = Daemon(path)
        process: Any = Started()
        return endpoints._Daemon(process, path, tmp_path / "log")

    def wait(self: Endpoints, name: str) -> None:
        self._daemons[name].ready = True

    monkeypatch.setattr(Endpoints, "_start", start)
    monkeypatch.setattr(Endpoints, "_wait", wait)
    yield daemons
    for daemon in daemons.values():
        daemon.close()


def made() -> Endpoints:
    session: Any = None
    return Endpoints(session)


def interface(name: str) -> Any:
    return SimpleNamespace(name=name)


PLANE = [Endpoint("h1", 1), Endpoint("h2", 1), Endpoint("h3", 9)]


def told(daemon: Daemon) -> list[tuple[int, bool]]:
    return [(each["interface"], each["on"]) for each in daemon.asked if each["command"] == "drain"]


def test_endpoints_that_are_up_are_told_and_later_ones_too(started: dict[str, Daemon]) -> None:
    cards = made()
    cards.places([interface("h1")])
    cards.drain(PLANE, True)
    assert told(started["h1"]) == [(1, True)]
    cards.places([interface("h2:1"), interface("h3:9"), interface("h4")])
    assert told(started["h2"]) == [(1, True)]
    assert told(started["h3:8"]) == [(1, True)]  # number 1 of the host's second card
    assert told(started["h4"]) == []
    assert cards.drained == set(PLANE)
    cards.drain(PLANE[:1], False)
    assert told(started["h1"]) == [(1, True), (1, False)]
    assert told(started["h2"]) == [(1, True)]
    assert cards.drained == set(PLANE[1:])


def test_packets_on_the_way_are_summed_over_cards(started: dict[str, Daemon]) -> None:
    cards = made()
    assert cards.outstanding(PLANE) == 0
    cards.places([interface("h1"), interface("h2")])
    for name, there in (("h1", 3), ("h2", 4)):
        started[name].pairs = [{"planes": [{"outstanding": 50}, {"outstanding": there}]}, {}]
    assert cards.outstanding(PLANE) == 7
    assert started["h1"].asked[-1] == {"command": "watch", "all": True}


def test_one_that_refuses_is_told_after_the_others(started: dict[str, Daemon]) -> None:
    cards = made()
    cards.places([interface("h1"), interface("h2")])
    started["h1"].refuses = "no interface 1"
    with pytest.raises(EndpointError, match=r"^h1: no interface 1"):
        cards.drain(PLANE, True)
    assert told(started["h2"]) == [(1, True)]


def test_a_daemon_that_ended_is_not_asked(started: dict[str, Daemon]) -> None:
    cards = made()
    cards.places([interface("h1")])
    process: Any = SimpleNamespace(poll=lambda: 1, stdout=subprocess.PIPE)
    cards._daemons["h1"].process = process
    cards.drain(PLANE, True)
    assert told(started["h1"]) == []
