"""Which links flows take, their gaps and their order, as the engine counts them: by hand.

a (node 0), b (node 1) -- s (node 2) -- t (node 3) -- c (node 4)
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from hostagent.rnic.card_records import Operation
from simulator.core import EngineError, Stop
from simulator.core.binding import Transport

NS = 1000
US = 1_000_000
MANY = 1000


def wire(payload: int) -> int:
    """Bytes of a RoCEv2 packet on the wire: headers, ICRC, preamble, FCS and gap."""
    return 14 + 20 + 8 + 12 + payload + 4 + 24


@pytest.fixture
def chain(net: Any) -> Any:
    a, b = net.host(), net.host()
    s, t = net.switch(3), net.switch(2)
    c = net.host()
    for ends in ((a, (s, 1)), (b, (s, 2)), ((s, 3), (t, 1)), ((t, 2), c)):
        net.link(*ends)
    for host, port in ((a, 1), (b, 2), (c, 3)):
        net.route(s, host, port)
    for host, port in ((a, 1), (b, 1), (c, 2)):
        net.route(t, host, port)
    return net


A, B, C = 0, 1, 4


def paths(net: Any) -> list[tuple[int, ...]]:
    names = ("flow", "link", "direction", "packets", "bytes")
    return [tuple(int(row[name]) for name in names) for row in net.engine.path_rows()]


def gaps(net: Any) -> list[tuple[int, ...]]:
    rows = net.engine.gap_rows()
    return [tuple(int(row[name]) for name in ("flow", "gap_ns", "packets")) for row in rows]


def order(net: Any, flow: int) -> tuple[int, int, int]:
    row = net.engine.flow_orders(flow, 1)[0]
    return int(row["arrived"]), int(row["reordered"]), int(row["most_behind"])


def test_every_link_of_a_flow_counts_its_packets_and_bytes(chain: Any) -> None:
    one, other = chain.flow(A, C, payload=1000), chain.flow(B, A, payload=1024)
    chain.engine.record_paths(MANY)
    chain.messages([{"flow": one, "bytes": 3000}, {"flow": other, "bytes": 1024}])
    assert chain.engine.run(to_the_end=True) is Stop.DONE
    assert paths(chain) == [
        *((one, link, 0, 3, 3 * wire(1000)) for link in (0, 2, 3)),
        (other, 0, 1, 1, wire(1024)),
        (other, 1, 0, 1, wire(1024)),
    ]
    assert order(chain, one) == (3, 0, 0)
    assert order(chain, other) == (1, 0, 0)


@pytest.mark.parametrize("read", [False, True])
def test_acknowledgements_and_requests_of_a_transport_are_no_data(chain: Any, read: bool) -> None:
    """Of a READ, data flows from the end that is asked."""
    chain.engine.add_transports([Transport(ack_every=1)])
    flow = chain.flow(
        A, C, payload=1024, transport=1, operation=Operation.READ if read else Operation.SEND
    )
    chain.engine.record_paths(MANY)
    chain.messages([{"flow": flow, "bytes": 4096}])
    assert chain.engine.run(to_the_end=True) is Stop.DONE
    assert [row[:4] for row in paths(chain)] == [(flow, link, int(read), 4) for link in (0, 2, 3)]
    assert order(chain, flow) == (4, 0, 0)


@pytest.mark.parametrize(
    ("interval_ns", "least"), [(300, 256), (1023, 512), (1024, 1024), (2047, 1024), (5000, 4096)]
)
def test_gaps_lie_from_a_power_of_two_to_the_next_one(
    chain: Any, interval_ns: int, least: int
) -> None:
    flow = chain.flow(A, C, payload=1000)
    chain.engine.record_paths(MANY)
    chain.stream(flow, payload=1000, interval_ps=interval_ns * NS, packets=10)
    chain.engine.run(1000 * US)
    assert gaps(chain) == [(flow, least, 9)]


def test_a_pause_between_messages_is_a_gap_of_its_own(chain: Any) -> None:
    flow = chain.flow(A, C, payload=1000)
    chain.engine.record_paths(MANY)
    chain.messages(
        [{"flow": flow, "bytes": 5000}, {"flow": flow, "bytes": 5000, "start_ps": 100 * US}]
    )
    assert chain.engine.run(to_the_end=True) is Stop.DONE
    slot_ns = wire(1000) * 8 // 100  # 86
    assert gaps(chain) == [
        (flow, 64, 8),
        (flow, 1 << ((100_000 - 4 * slot_ns).bit_length() - 1), 1),
    ]


def data(psn: int, dst: int, qp: int, opcode: int = 4, shim: bytes = b"") -> bytes:
    """Return a frame of a flow's data, SEND only, with 64 bytes of payload.

    `shim`: of telemetry.
    """
    bth = shim + struct.pack("!BBHII", opcode, 0x40, 0xFFFF, qp, psn) + bytes(64 + 4)
    udp = struct.pack("!HHHH", 0xC000, 4794 if shim else 4791, 8 + len(bth), 0)
    length = 20 + 8 + len(bth)
    head = struct.pack(
        "!BBHHHBBHII", 0x45, 0, length, 0, 0, 64, 17, 0, 0x0A000000, 0x0A000000 + dst
    )
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
    return bytes.fromhex("02ff00000000020000000000") + b"\x08\x00" + head + udp + bth


@pytest.mark.parametrize(
    ("psns", "expected"),
    [
        ((0, 1, 2, 3), (4, 0, 0)),
        ((0, 3, 1, 2, 5, 4), (6, 3, 2)),
        ((0, 2, 1, 1), (4, 2, 1)),  # what comes twice is behind twice
        ((5, 5, 6), (3, 0, 0)),  # of the newest one a copy is no reordering
        ((0xFFFFFE, 0, 0xFFFFFF, 1), (4, 1, 1)),  # over the end of 24 bits
        ((0, 40, *range(1, 40)), (41, 39, 39)),
    ],
)
def test_what_arrives_behind_a_later_packet_is_counted(
    chain: Any, psns: tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    flow = chain.flow(A, C, payload=64)
    chain.engine.record_paths(MANY)
    script = [(A, 0, i * US, data(psn, C, flow + 1)) for i, psn in enumerate(psns)]
    script.append((A, 0, 100 * US, data(9, B, flow + 1)))  # goes elsewhere
    script.append((A, 0, 100 * US, data(0, C, flow + 1, opcode=0x11)))  # acknowledges
    script.append((A, 0, 100 * US, data(0, C, flow + 2)))  # of no flow
    chain.engine.add_script(script)
    chain.engine.run(200 * US)
    assert order(chain, flow) == expected
    assert [row[:4] for row in paths(chain)] == [(flow, link, 0, len(psns)) for link in (0, 2, 3)]


def test_data_behind_a_telemetry_shim_counts(chain: Any) -> None:
    flow = chain.flow(A, C, payload=64)
    chain.engine.record_paths(MANY)
    written = bytes([0, 3, 1, 1]) + bytes(12)  # three words of one hop
    frames = [data(0, C, flow + 1, shim=written), data(1, C, flow + 1, opcode=0x11, shim=written)]
    chain.engine.add_script([(A, 0, i * US, frame) for i, frame in enumerate(frames)])
    chain.engine.run(100 * US)
    size = len(frames[0]) + 24
    assert paths(chain) == [(flow, link, 0, 1, size) for link in (0, 2, 3)]
    assert order(chain, flow) == (1, 0, 0)


def test_a_link_that_loses_what_is_on_it_has_carried_it(chain: Any) -> None:
    """As its own counters say: what was put on the link, not what came."""
    flow = chain.flow(A, C, payload=1000)
    chain.engine.record_paths(MANY)
    chain.messages([{"flow": flow, "bytes": 2000}])
    chain.engine.run(US)  # both are on the first link
    chain.engine.set_link(0, up=False)
    chain.engine.run(10 * US)
    assert [row[:4] for row in paths(chain)] == [(flow, 0, 0, 2)]
    assert order(chain, flow) == (0, 0, 0)


def test_many_flows_are_told_apart(chain: Any) -> None:
    """More rows than the table begins with: it grows."""
    count = 3000
    flows = [chain.flow(A if i % 2 else B, C, payload=64) for i in range(count)]
    chain.engine.record_paths(1 << 20)
    chain.messages([{"flow": flow, "bytes": 64 + 64 * (flow % 3)} for flow in flows])
    assert chain.engine.run(to_the_end=True) is Stop.DONE
    expected = [
        (flow, link, 0, 1 + flow % 3) for flow in flows for link in (0 if flow % 2 else 1, 2, 3)
    ]
    assert [row[:4] for row in paths(chain)] == expected


def test_more_rows_than_allowed_end_the_run(chain: Any) -> None:
    chain.flow(A, C, payload=1000)
    chain.engine.record_paths(2)
    chain.messages([{"flow": 0, "bytes": 1000}])
    for _ in range(2):
        with pytest.raises(EngineError, match="more links than can be kept, 2 rows of a flow"):
            chain.engine.run(to_the_end=True)


def test_what_was_not_recorded_is_not_there(chain: Any) -> None:
    chain.flow(A, C, payload=1000)
    for ask in (chain.engine.path_rows, chain.engine.gap_rows):
        with pytest.raises(EngineError, match="paths are not recorded"):
            ask()
    with pytest.raises(EngineError, match="was not recorded"):
        chain.engine.flow_orders(0, 1)
    with pytest.raises(EngineError, match="1 to 2\\^32 - 1, not 0"):
        chain.engine.record_paths(0)
    chain.engine.record_paths(MANY)
    with pytest.raises(EngineError, match="recorded already"):
        chain.engine.record_paths(MANY)
    with pytest.raises(EngineError, match="was not recorded"):
        chain.engine.flow_orders(0, 2)
