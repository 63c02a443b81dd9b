"""The player of scripted events: order, time, failures, cancelling."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

import topologies
from emulation.link_events import EventPlayer, FabricCalls, not_emulated, playable
from emulation.switch_node import Target
from topologies import Endpoint, Link
from topologies.events import Call, DrainCall, LinksCall, PortCall

MS = 10**6
LINK = Link(Endpoint("s1", 1), Endpoint("s2", 1), 10**9, 10**6, 10**6)
PATIENCE_S = 60.0


def port(at_ns: int, says: str, number: int = 1) -> PortCall:
    return PortCall(at_ns, says, "s1", number, {"rate_bps": number})


class Recorder:
    """Notes the calls; refuses those of `broken`."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.made: list[Call] = []
        self.told: list[str] = []

    def perform(self, call: Call) -> None:
        self.made.append(call)
        if call.says == self.broken:
            raise RuntimeError("no such switch")

    def player(self, *calls: Call) -> EventPlayer:
        return EventPlayer(calls, self.perform, self.told.append)


def test_calls_are_made_in_order_and_not_before_their_time() -> None:
    recorder = Recorder()
    events = [
        port(0, "a"),
        port(0, "a", 2),
        LinksCall(2 * MS, "b", (LINK,), False),
        port(5 * MS, "c"),
    ]
    player = recorder.player(*events)
    assert player.pending == tuple(events) and player.played == ()
    player.start()
    assert player.wait(PATIENCE_S)
    assert recorder.made == events
    assert [played.call for played in player.played] == events
    assert all(played.late_ns >= 0 and not played.error for played in player.played)
    assert [line.split(" (")[0] for line in recorder.told] == [
        "event at 0.000 s: a",
        "event at 0.002 s: b",
        "event at 0.005 s: c",
    ]
    assert player.summary().startswith("3 played, at most ")
    player.cancel()


def test_a_failure_is_told_and_the_rest_goes_on() -> None:
    recorder = Recorder(broken="b")
    player = recorder.player(port(0, "a"), port(0, "b"), port(0, "b", 2), port(0, "c"))
    player.start()
    assert player.wait(PATIENCE_S)
    assert [played.error for played in player.played] == [
        "",
        "no such switch",
        "no such switch",
        "",
    ]
    assert recorder.told.count("event failed: b: no such switch") == 1
    assert player.summary().endswith(", 1 failed")


def test_cancelled_events_are_not_played() -> None:
    recorder = Recorder()
    first = threading.Event()
    player = EventPlayer(
        [port(0, "a"), port(3600 * 10**9, "b")], recorder.perform, lambda _line: first.set()
    )
    player.start()
    assert first.wait(PATIENCE_S)
    assert ", 1 to come (the next in 3" in player.summary()
    player.cancel()
    assert player.wait(PATIENCE_S)
    assert [call.says for call in recorder.made] == ["a"]
    assert [call.says for call in player.pending] == ["b"]


def test_a_player_that_never_started_can_be_cancelled() -> None:
    player = Recorder().player(port(0, "a"))
    player.cancel()
    assert player.summary() == "0 played, 1 to come (the next in 0.0 s)"


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ([], ""),
        (["s1-s2: loss", "s1-s2: loss"], ": s1-s2: loss"),
        (["a", "b", "c", "d"], ": a; b; c; ..."),
    ],
)
def test_what_bmv2_does_not_emulate_is_named(says: list[str], text: str) -> None:
    found = not_emulated([port(0, each) for each in says])
    assert found.endswith(text) and bool(found) == bool(says)


def test_interfaces_are_drained_at_the_endpoints() -> None:
    told: list[tuple[tuple[Endpoint, ...], bool]] = []
    session: Any = SimpleNamespace(
        links=SimpleNamespace(on_return=lambda act: None),
        endpoints=SimpleNamespace(drain=lambda ends, on: told.append((ends, on))),
    )
    ends = (Endpoint("h1", 1), Endpoint("h2", 1))
    fabric = FabricCalls(session)
    for on in (True, False):
        fabric.perform(DrainCall(0, "plane B", ends, on))
    assert told == [(ends, True), (ends, False)]


def test_interfaces_are_drained_on_every_target() -> None:
    """It is the hosts' matter, while BMv2's links lose nothing."""
    topology = topologies.loads(
        "{time_scale: 1, generator: dual_plane, spines: 1, leaves: 1, hosts_per_leaf: 2, "
        "link: {rate: 1Gbps, delay: 1us, queue: 1MB}, events: [{at: 0us, plane: A, do: drain}, "
        "{at: 1us, link: s1-s3, loss: 1%}]}"
    )
    for target, kinds in (
        (Target.SOFTSWITCH, [DrainCall, PortCall, PortCall]),
        (Target.BMV2, [DrainCall]),
    ):
        session: Any = SimpleNamespace(topology=topology, target=target)
        assert [type(call) for call in playable(session)[0]] == kinds
