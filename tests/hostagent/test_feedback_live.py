"""Windows, round trips and telemetry between endpoints of two namespaces.

    h1 far 10.77.2.1 ==== [wire: two switches' records go into what collects] ==== far 10.77.2.2 h2

The algorithms are of the tests alone (algorithms_for_tests): in the endpoint's own card, and in the
XDP program, to which the endpoint gives its send times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from hostagent import agent, algorithms, pins
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic.card_records import EventKind, Operation, QueuePairConfig, Work
from protocols.telemetry import TelemetryKind, appended, has_telemetry, shim_of
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import LISTENER, windowed
from tests.hostagent.two_hosts import CONFIG, Joined, TwoHosts, joined, until

pytestmark = pytest.mark.root

SIZE = 200_001
RECORDS = [bytes([n] * 12) for n in (1, 2)]


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    own = more_algorithms.built()
    with own.card_in_place(), pytest.MonkeyPatch.context() as patch, TwoHosts() as found:
        carry = found.wire._carry

        def written(frame: bytes, to: int) -> None:
            if has_telemetry(frame) and shim_of(frame).kind == TelemetryKind.COLLECTS:
                for record in RECORDS:
                    frame = appended(frame, record)
            carry(frame, to)

        patch.setattr(found.wire, "_carry", written)
        yield found


@pytest.fixture(scope="module")
def maps(hosts: TwoHosts) -> Iterator[PinnedMaps]:
    """Attach the host agent's program with these algorithms to all interfaces; yield its maps."""
    directory = pins.BPF_FILE_SYSTEM / f"weft-test-feedback-{os.getpid()}"
    try:
        loaded = agent.Agent.load(directory, include=more_algorithms.built().include)
        for namespace, interface in hosts.interfaces():
            loaded.attach(namespace, interface)
        found = PinnedMaps.open(directory)
        yield found
        found.close()
        loaded.close()
    finally:
        pins.remove(directory)


@pytest.fixture(params=["af_xdp", "af_packet", "af_packet, kernel"])
def way(request: pytest.FixtureRequest, maps: PinnedMaps) -> tuple[str, PinnedMaps | None]:
    """How frames come, and the maps if the kernel keeps the congestion control."""
    mode, _, kernel = request.param.partition(", ")
    return mode, maps if kernel or mode == "af_xdp" else None


def states(pair: Joined, maps: PinnedMaps | None) -> dict[str, dict[str, Any]]:
    """Return the states of the sender's algorithms, wherever they run."""
    if maps is not None:
        (slot,) = (each for each in maps.slots() if each.qpn == pair.near.qpn)
        return {name: dict(state) for name, state in slot.states.items()}
    row = pair.one.lib.rnic_qp_slot(pair.one._card, pair.near.qpn)
    return {
        name: algorithms.state(pair.one.ffi, getattr(row, name)) for name in more_algorithms.NAMES
    }


def test_the_sender_hears_what_the_way_wrote_and_how_long_it_took(
    hosts: TwoHosts, way: tuple[str, PinnedMaps | None]
) -> None:
    packets = 4
    wanted = {"listener": LISTENER, "windowed": windowed(packets * CONFIG.mtu)}
    config = QueuePairConfig(**{**vars(CONFIG), "timeout_ps": 2_000_000_000_000})
    sent, back = Random(5).randbytes(SIZE), bytearray(SIZE)
    before = hosts.h2.unreachables()
    with joined(hosts, "far", way, config, wanted) as pair:
        far = pair.other.memory(pair.far.qpn)
        for id, operation, data in ((1, Operation.WRITE, sent), (2, Operation.READ, back)):
            pair.one.post(
                pair.near.qpn,
                Work(id, operation, data, remote_address=pair.far.address, rkey=pair.far.rkey),
            )
            until(lambda n=id: len(pair.events(0, EventKind.COMPLETED)) == n, pair.one)
        assert bytes(far[:SIZE]) == sent == bytes(back)
        found = states(pair, way[1])
        heard, count = found["listener"], -(-SIZE // CONFIG.mtu)
        stats = pair.one.card_stats()
        assert (stats.bad_icrc, stats.malformed, stats.unknown_qp) == (0, 0, 0)
        assert pair.other.card_stats().malformed == 0
    assert hosts.h2.unreachables() == before
    # With a window of four packets there are a quarter as many acknowledgements at the least.
    assert count // packets <= heard["told"] <= count
    assert heard["last_bytes"] == 24 and heard["last_hops"] == 2
    told = b"".join(heard[f"words[{n}]"].to_bytes(8) for n in range(3))
    assert told == RECORDS[1] + RECORDS[0]
    # A time for each, unless the machine was so busy that something was sent again.
    assert count // packets // 2 <= heard["timed"] <= heard["events"]
    mean = heard["rtt_sum_ns"] / heard["timed"]
    assert 10_000 < mean < 1_000_000_000


def test_a_window_of_one_packet_takes_a_round_trip_each(
    hosts: TwoHosts, way: tuple[str, PinnedMaps | None]
) -> None:
    wanted = {"listener": LISTENER, "windowed": windowed(1)}
    with joined(hosts, "far", way, CONFIG, wanted) as pair:
        work = Work(1, Operation.WRITE, bytes(30 * CONFIG.mtu), remote_address=pair.far.address,
                    rkey=pair.far.rkey)  # fmt: skip
        pair.one.post(pair.near.qpn, work)
        until(lambda: len(pair.events(0, EventKind.COMPLETED)) == 1, pair.one)
        heard = states(pair, way[1])["listener"]
        # A host that stands still for two round trips sends a probe beyond its window, and one
        # acknowledgement may then be for two packets.
        assert heard["events"] >= heard["told"] >= 20
        assert heard["bytes"] == 30 * CONFIG.mtu
