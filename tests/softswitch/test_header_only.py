"""Header-only packets: a switch makes of them, byte for byte, what it makes of whole ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.core import CoreConfig, Output, OutputKind, PortConfig, PortImpair, SwitchCore
from softswitch.core.records import Direction
from softswitch.p4runtime.named_updates import NamedUpdates
from softswitch.switch import Switch
from tests.softswitch import vectors

SETTLE_PS = 10_000_000_000


@dataclass(frozen=True)
class Sent:
    """A packet: its first bytes, and a tail."""

    port: int
    head: bytes
    tail_length: int
    tail_seed: int


def _switch(program: str, compiler: str) -> Switch:
    data = vectors.recording(program)
    switch = vectors.make_switch(program, compiler, data["cpu_port"], None)
    names = NamedUpdates(switch.names)
    for update in data["setup"]:
        switch.write([names.update(update)])
    return switch


def _heads(program: str) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for case in vectors.recording(program)["cases"]:
        packets: Any = case.get("in", ())
        for packet in [packets] if isinstance(packets, Mapping) else packets:
            if "hex" in packet:
                found.append((packet["port"], bytes.fromhex(packet["hex"])))
    return found


def _whole(core: SwitchCore, out: Output) -> tuple[OutputKind, int, bytes, int]:
    data = out.data + core.payload(out.tail_seed, out.tail_length)
    return out.kind, out.port, data, out.at_ps


def _run(
    switch: Switch, sent: list[Sent], *, folded: bool
) -> list[tuple[OutputKind, int, bytes, int]]:
    core = switch.core
    # The same moment for both runs' packets: time stamps are part of what comes out.
    start = 1_000_000_000_000
    core.advance(start)
    for number, packet in enumerate(sent):
        at = start + number * 1_000_000
        if folded:
            tail = {"tail_length": packet.tail_length, "tail_seed": packet.tail_seed}
            core.inject(packet.port, packet.head, at, **tail)
        else:
            whole = packet.head + core.payload(packet.tail_seed, packet.tail_length)
            core.inject(packet.port, whole, at)
    core.advance(start + SETTLE_PS)
    return [_whole(core, out) for out in core.take_output()]


@st.composite
def _packets(draw: st.DrawFn, heads: list[tuple[int, bytes]]) -> list[Sent]:
    sent = []
    for _ in range(draw(st.integers(1, 12))):
        port, data = draw(st.sampled_from(heads))
        # Cut anywhere, headers too: what is missing there becomes part of the tail.
        cut = draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
        tail = draw(st.one_of(st.just(0), st.integers(1, 2000)))
        sent.append(Sent(port, data[:cut], tail, draw(st.integers(0, 2**64 - 1))))
    return sent


@pytest.mark.parametrize("compiler", ["p4c", "weft"])
@pytest.mark.parametrize("program", ["l3", "features"])
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whole_and_header_only_packets_come_out_the_same(
    program: str, compiler: str, data: st.DataObject
) -> None:
    sent = data.draw(_packets(_heads(program)))
    with _switch(program, compiler) as one, _switch(program, compiler) as other:
        assert _run(one, sent, folded=True) == _run(other, sent, folded=False)
        assert one.core.stats() == other.core.stats()
        assert vectors_counters(one) == vectors_counters(other)


def vectors_counters(switch: Switch) -> list[str]:
    from softswitch.p4runtime.protos import p4r

    wanted = p4r.Entity(counter_entry=p4r.CounterEntry())
    return [str(entity) for entity in switch.read(wanted)]


@pytest.fixture
def forwarder() -> Iterator[Switch]:
    """l3.p4 with the recorded entries."""
    root = Path(__file__).resolve().parents[2]
    with Switch.from_p4(root / "tests/golden/l3.p4", config=CoreConfig()) as switch:
        names = NamedUpdates(switch.names)
        for update in vectors.recording("l3")["setup"]:
            switch.write([names.update(update)])
        yield switch


def _routed(heads: list[tuple[int, bytes]], switch: Switch) -> tuple[int, bytes]:
    """Return a recorded packet that is forwarded, and so can be given a payload."""
    for port, data in heads:
        core = switch.core
        core.inject(port, data, 0)
        core.advance(1_000_000_000)
        if any(out.kind is OutputKind.PACKET for out in core.take_output()):
            return port, data
    raise AssertionError("no recorded packet is forwarded")


def test_payload_stays_folded_on_the_way(forwarder: Switch) -> None:
    port, head = _routed(_heads("l3"), forwarder)
    core = forwarder.core
    core.inject(port, head, 2_000_000_000, tail_length=4000, tail_seed=7)
    core.advance(3_000_000_000)
    [out] = core.take_output()
    assert (out.tail_length, out.tail_seed) == (4000, 7)
    assert len(out.data) == len(head)


def test_rates_and_counters_count_the_tail(forwarder: Switch) -> None:
    port, head = _routed(_heads("l3"), forwarder)
    core = forwarder.core
    core.inject(port, head, 2_000_000_000)
    core.advance(3_000_000_000)
    [first] = core.take_output()
    rate = 100_000_000_000
    core.configure_port(first.port, PortConfig(rate_bps=rate))
    before = core.port_stats(first.port).tx_bytes
    core.inject(port, head, 4_000_000_000, tail_length=4000, tail_seed=7)
    core.advance(5_000_000_000)
    [out] = core.take_output()
    assert core.port_stats(first.port).tx_bytes - before == len(head) + 4000
    assert out.at_ps - 4_000_000_000 == (len(head) + 4000 + 24) * 8 * 10**12 // rate


def test_a_flipped_bit_may_lie_in_the_tail(forwarder: Switch) -> None:
    port, head = _routed(_heads("l3"), forwarder)
    core = forwarder.core
    core.inject(port, head, 2_000_000_000)
    core.advance(3_000_000_000)
    [first] = core.take_output()
    core.impair_port(first.port, Direction.SEND, PortImpair(corrupt=1 << 32))
    core.inject(port, head, 4_000_000_000, tail_length=8000, tail_seed=7)
    core.advance(5_000_000_000)
    [out] = core.take_output()
    assert out.tail_length == 0
    sound = out.data[: len(head)] + core.payload(7, 8000)
    changed = [(a ^ b).bit_count() for a, b in zip(out.data, sound, strict=True)]
    assert sum(changed[len(head) :]) == 1  # 99 % of the bits are there, and the draw is fixed


@given(seed=st.integers(0, 2**64 - 1), offset=st.integers(0, 300), length=st.integers(0, 300))
def test_any_part_of_a_payload_is_the_same_bytes(seed: int, offset: int, length: int) -> None:
    core = SwitchCore()
    assert core.payload(seed, offset + length)[offset:] == core.payload(seed, length, offset)
