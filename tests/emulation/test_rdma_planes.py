"""What a measurement asks of planes: at the end that data leaves, of its own queue pairs alone."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulation.rdma import _Ends, _planes
from hostagent.rnic.client import EndpointClient
from tests.emulation.test_endpoints_drained import Daemon


def pair(qpn: int, *sent: int) -> dict[str, Any]:
    return {"qpn": qpn, "planes": [{"sent_packets": count} for count in sent]}


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[_Ends, Daemon, Daemon]]:
    source, target = Daemon(tmp_path / "h1"), Daemon(tmp_path / "h2")
    with (
        EndpointClient.connect(tmp_path / "h1") as here,
        EndpointClient.connect(tmp_path / "h2") as there,
    ):
        # The daemon serves one connection at a time: these end before the next one.
        here.close()
        there.close()
        yield _Ends("h1", "h2", here, there, (0, 0), [1, 2], [7]), source, target
    source.close()
    target.close()


def test_own_queue_pairs_at_the_end_that_data_leaves(ends: tuple[_Ends, Daemon, Daemon]) -> None:
    both, source, target = ends
    source.pairs = [pair(1, 10, 11), pair(2, 20, 21), pair(3, 30, 31), {"qpn": 1}]
    target.pairs = [pair(7, 70, 71), pair(1, 1, 1)]
    assert _planes(both, of_target=False) == (
        {"interface": 0, "sent_packets": 10},
        {"interface": 1, "sent_packets": 11},
        {"interface": 0, "sent_packets": 20},
        {"interface": 1, "sent_packets": 21},
    )
    assert _planes(both, of_target=True) == (
        {"interface": 0, "sent_packets": 70},
        {"interface": 1, "sent_packets": 71},
    )
    assert source.asked == target.asked == [{"command": "watch", "all": True}]


def test_an_end_that_refuses_has_said_nothing(ends: tuple[_Ends, Daemon, Daemon]) -> None:
    both, source, _ = ends
    source.refuses = "no"
    assert _planes(both, of_target=False) == ()


def test_an_end_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    Daemon(tmp_path / "h1").close()
    with EndpointClient(socket.socket(), tmp_path / "h1") as here:
        before = time.monotonic()
        assert _planes(_Ends("h1", "h2", here, here, (0, 0), [1]), of_target=False) == ()
        assert time.monotonic() - before < 2
