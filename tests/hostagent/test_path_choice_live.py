"""Senders that choose their paths in real time: endpoint daemons of two namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostagent.rnic.client import EndpointClient, RequestRefused, join
from tests.hostagent.two_hosts import TwoHosts, daemon

pytestmark = pytest.mark.root

SETTINGS = {"repeat": "selective-repeat", "reorder_us": 2000, "udp_ports": 16, "ack_every": 1}


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("ends")
    paths = folder / "a", folder / "b"
    with (
        TwoHosts() as hosts,
        daemon(hosts.h1, "10.77.1.1", paths[0]),
        daemon(hosts.h2, "10.77.1.2", paths[1]),
    ):
        yield paths


@pytest.mark.parametrize("kind", ["oblivious", "bitmap", "reps", "plb"])
def test_messages_arrive_by_chosen_ports(ends: tuple[Path, Path], kind: str) -> None:
    with EndpointClient.connect(ends[0]) as here, EndpointClient.connect(ends[1]) as there:
        (own,), (peer,) = join(
            here, there, qps=1, buffer_bytes=65536, path_choice={"kind": kind},
            rate_bps=50_000_000, **SETTINGS,
        )  # fmt: skip
        there.call("serve", qpns=[peer], operation="write", mode="bandwidth", size=65536)
        found = here.call(
            "measure", qpns=[own], operation="write", mode="bandwidth", size=65536, count=8
        )
        assert (found["messages"], found["failures"]) == (8, [])
        (row,) = found["pairs"]
        packets = 8 * 65536 // 2048
        acknowledgements = row["acks_received"]
        if kind != "oblivious":  # each packet is told of, though one may tell of several
            assert packets // 8 <= acknowledgements <= 2 * packets


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"path_choice": {"kind": "hash"}}, "its kind oblivious, bitmap, reps, plb"),
        (
            {"path_choice": {"kind": "reps", "speed": 3}},
            "a path_choice is a mapping of kind, idle_rounds",
        ),
        ({"path_choice": "reps"}, "a path_choice is a mapping"),
        ({"path_choice": {"kind": "plb", "rounds": "x"}}, "whole numbers from 0 on"),
        ({"path_choice": {"kind": "plb", "rounds": 1 << 40}}, "does not fit"),
        ({"path_choice": {"kind": "reps"}, "udp_ports": 3}, "power of two from 2 to 256"),
        ({"path_choice": {"kind": "reps"}, "repeat": "go-back-n"}, "needs selective repeat"),
    ],
)
def test_what_makes_no_sense_is_refused(
    ends: tuple[Path, Path], changes: dict[str, object], why: str
) -> None:
    settings = {**SETTINGS, **changes}
    with EndpointClient.connect(ends[0]) as here, pytest.raises(RequestRefused, match=why):
        here.call("open", qps=1, buffer_bytes=4096, **settings)
