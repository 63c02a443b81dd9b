"""`weft agent` on what hosts' cards say: path migration, planes that are lost or drained."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostagent.pinned_maps import Slot
from observe import agent_cards, agent_rows
from observe.agent_cards import NO_CARD, CardPair
from observe.agent_look import Look, look_json
from tests.observe.test_agent_view import CUT, FABRIC, H1, IDLE, NOW, RAMPING, UP

H1_B = H1 + (1 << 16)
ENDS = agent_rows.Names({"h1": "h1", "h1:1": "h1"}, {H1: "h1", H1_B: "h1:1"})
STARTED = replace(RAMPING, states=UP.states)
"""Plane 1 of queue pair 9; the kernel has it as up."""
MIGRATION = {
    "state": "migrated", "cause": "timeout", "interface": 1, "alternate": 0, "switching": False,
    "migrations": 3, "probes_sent": 9, "probes_answered": 8, "found_at": 5, "migrated_at": 6,
}  # fmt: skip
MIGRATES = {"qpn": 256, "failure": None, "migration": MIGRATION}


def over_planes(state: str, why: str | None) -> dict[str, Any]:
    """Return an endpoint's report of a queue pair whose second plane is like that."""
    return {"qpn": 9, "planes": [{"state": "asked", "why": None}, {"state": state, "why": why}]}


def card_of(*rows: dict[str, Any]) -> dict[tuple[int, int], CardPair]:
    return dict(agent_cards.pairs_of([H1, H1_B], list(rows)))


def row(slot: Slot, cards: dict[tuple[int, int], CardPair]) -> dict[str, str]:
    card = cards.get((slot.local_ip, slot.qpn), NO_CARD)
    told = agent_rows.cells(slot, ENDS, 1, NOW, 0.0, card)
    return dict(zip(agent_rows.COLUMNS, told, strict=True))


@pytest.mark.parametrize(
    ("said", "path", "by", "cause"),
    [
        ({}, "MIGRATED", "h1:1", "time-out"),
        ({"cause": "peer"}, "MIGRATED", "h1:1", "the peer"),
        ({"state": "rearm", "cause": "user"}, "REARM", "h1:1", "the user"),
        ({"state": "armed", "cause": "return", "interface": 0}, "ARMED", "h1", "return"),
        ({"state": "armed", "cause": None, "interface": 0}, "ARMED", "h1", "-"),
        ({"state": "armed", "cause": "link", "switching": True}, "switching", "h1:1", "link"),
    ],
)
def test_a_row_of_path_migration(said: dict[str, Any], path: str, by: str, cause: str) -> None:
    cards = card_of({**MIGRATES, "migration": MIGRATION | said})
    told = row(CUT, cards)
    assert (told["path"], told["sends by"], told["cause"]) == (path, by, cause)
    second = row(replace(CUT, local_ip=H1_B), cards)  # by whichever address its slot is found
    assert (second["path"], second["sends by"]) == (path, by)
    other = row(replace(CUT, qpn=300), cards)
    assert (other["path"], other["sends by"], other["cause"]) == ("-", "-", "-")


@pytest.mark.parametrize(
    ("state", "why", "says", "cause"),
    [
        ("up", None, "up", "-"),
        ("asked", "link", "up", "link"),
        ("lost", "silent", "down", "silent"),
        ("lost", "told", "down", "told"),
        ("lost", "timeout", "down", "time-out"),
        ("drained", None, "drained", "-"),
    ],
)
def test_a_plane_is_what_the_card_knows_before_the_kernel_does(
    state: str, why: str | None, says: str, cause: str
) -> None:
    told = row(STARTED, card_of(over_planes(state, why)))
    assert (told["plane"], told["cause"], told["path"]) == (says, cause, "-")
    assert row(STARTED, {})["plane"] == "up"
    assert row(UP, card_of(over_planes(state, why)))["plane"] == "up"  # the first one


def test_a_plane_that_ramps_does_so_whatever_the_card_says() -> None:
    assert row(RAMPING, card_of(over_planes("up", "link")))["plane"] == "ramp"


def test_columns_of_cards_are_there_when_a_card_says_something() -> None:
    without = agent_rows.cells(CUT, ENDS, 1, NOW, 0.0)
    told = agent_rows.cells(CUT, ENDS, 1, NOW, 0.0, card_of(MIGRATES)[H1, 256])
    added = set(agent_rows.columns_for([told])) - set(agent_rows.columns_for([without]))
    assert added == {"sends by", "path", "cause"}


def test_json_of_cards() -> None:
    cards = card_of(MIGRATES, over_planes("lost", "silent"))
    look = Look(FABRIC, 1.0, NOW, (CUT, STARTED, IDLE), {}, {}, cards=cards)
    data: dict[str, Any] = json.loads(json.dumps(look_json(look, ENDS)))
    migrated, plane, none = data["queue_pairs"]
    assert migrated["path"] == {
        "state": "MIGRATED",
        "interface": "h1:1",
        "address": "10.1.1.1",
        "alternate": "h1",
        "switching": False,
        "cause": "time-out",
        "migrations": 3,
    }
    assert (plane["plane"], plane["cause"], plane["path"]) == ("down", "silent", None)
    assert (none["path"], none["cause"]) == (None, None)


def test_endpoints_are_asked_and_those_that_are_gone_left_out(tmp_path: Path) -> None:
    """h1 has two interfaces, h2 one; h3 hangs up, and of h4 only the socket is left."""
    both = [{"ip": "10.0.1.1"}, {"ip": "10.1.1.1"}]
    answers = {"h1": (both, [MIGRATES]), "h2": (both[:1], [MIGRATES]), "h3": None}
    servers = [serving(tmp_path / f"{name}.rnic", said) for name, said in answers.items()]
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "h4.rnic"))
    try:
        assert agent_cards.card_pairs(tmp_path) == card_of(MIGRATES)
    finally:
        for server in servers:
            server.close()


def serving(path: Path, said: tuple[list[Any], list[Any]] | None) -> socket.socket:
    """Return an endpoint's socket that answers `info` and `watch`; None: it hangs up."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            if said is None:
                return
            interfaces, pairs = said
            for line in stream:
                asked = json.loads(line)["command"]
                answer = {"info": {"interfaces": interfaces}, "watch": {"pairs": pairs}}[asked]
                stream.write(json.dumps(answer) + "\n")
                stream.flush()

    threading.Thread(target=serve, daemon=True).start()
    return server
