"""Tracing in the core: tracers, filters, the bounded buffer, variants; l3 as the program.

test_core_sanitized.py runs this once more on the sanitized core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from softswitch.codegen import Bmv2Program, build_pipeline
from softswitch.core import CoreError, CoreErrorCode, PortState, SwitchCore
from softswitch.core.tracing import CoreTracing, FilterInstruction, Record, RecordKind, records
from softswitch.tracing import FilterError, compile_filter

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
CAPACITY = 1 << 16

ETHER = Ether(dst="0a:00:00:00:00:11", src="02:cc:00:00:00:01")
IPV4 = IP(src="10.1.0.1", dst="10.2.0.9", ttl=9)
FRAMES: dict[str, Packet] = {
    "roce": ETHER / IPV4 / UDP(sport=50000, dport=4791) / Raw(bytes(20)),
    "dns": ETHER / IPV4 / UDP(sport=50000, dport=53),
    "fragment": ETHER / IP(src="10.1.0.1", dst="10.2.0.9", frag=7, proto=17) / Raw(bytes(16)),
    "options": ETHER / IP(dst="10.2.0.9", options=b"\x01" * 8) / UDP(dport=4791),
    "tcp": ETHER / IPV4 / TCP(dport=80, flags="S"),
    "ping": ETHER / IPV4 / ICMP(),
    "arp": ETHER / ARP(),
    "vlan": ETHER / Dot1Q(vlan=7) / IPV4 / UDP(dport=4791),
    "ipv6": ETHER / IPv6(dst="2001:db8::1") / UDP(dport=4791),
    "long": ETHER / IPV4 / UDP(sport=7, dport=9) / Raw(bytes(1200)),
    "runt": Raw(b"\x0a\x00\x00\x00"),
}
MATCHES = [
    ("udp dst port 4791", {"roce", "options", "ipv6"}),
    ("ip", {"roce", "dns", "fragment", "options", "tcp", "ping", "long"}),
    ("arp", {"arp"}),
    ("arp or icmp", {"arp", "ping"}),
    ("not ip", {"arp", "vlan", "ipv6"}),
    ("vlan 7 and udp dst port 4791", {"vlan"}),
    ("tcp[tcpflags] & tcp-syn != 0", {"tcp"}),
    ("ip[8] < 10", {"roce", "dns", "tcp", "ping", "long"}),
    ("greater 1000", {"long"}),
    ("less 60", {"dns", "options", "tcp", "ping", "arp", "vlan", "runt", "fragment"}),
    ("host 10.1.0.1 and not port 53", {"roce", "fragment", "tcp", "ping", "long"}),
    ("udp[4:2] = 28", {"roce"}),
    ("ether[0] & 1 = 0 and len % 2 = 0", None),
    ("ip[2:2] / 2 * 2 = ip[2:2] and ip[9] ^ 17 = 0", None),
]

RET_ALL: FilterInstruction = (0x06, 0, 0, 1)
MALFORMED: dict[str, list[FilterInstruction]] = {
    "no return": [(0x28, 0, 0, 12)],
    "jump beyond the end": [(0x15, 9, 0, 1), RET_ALL],
    "false jump beyond the end": [(0x15, 0, 1, 1), RET_ALL],
    "long jump": [(0x05, 0, 0, 0xFFFFFFFF), RET_ALL],
    "division by zero": [(0x34, 0, 0, 0), RET_ALL],
    "memory cell 16": [(0x02, 0, 0, 16), RET_ALL],
    "load from cell 99": [(0x60, 0, 0, 99), RET_ALL],
    "unknown operation": [(0xB4, 0, 0, 1), RET_ALL],
    "unknown jump": [(0x55, 0, 0, 0), RET_ALL],
    "unknown load": [(0x38, 0, 0, 0), RET_ALL],
    "unknown misc": [(0x17, 0, 0, 0), RET_ALL],
    "high bits": [(0x8028, 0, 0, 12), RET_ALL],
}
HARMLESS: dict[str, tuple[list[FilterInstruction], bool]] = {
    "a load beyond the packet": ([(0x20, 0, 0, 0xFFFFFFFC), RET_ALL], False),
    "an index that overflows": (
        [(0x01, 0, 0, 0xFFFFFFFF), (0x40, 0, 0, 0xFFFFFFFF), RET_ALL],
        False,
    ),
    "division by a zero X": ([(0x01, 0, 0, 0), (0x3C, 0, 0, 0), RET_ALL], False),
    "shift by 40": ([(0x00, 0, 0, 1), (0x64, 0, 0, 40), (0x16, 0, 0, 0)], False),
    "memory": (
        [(0x00, 0, 0, 5), (0x02, 0, 0, 3), (0x00, 0, 0, 0), (0x60, 0, 0, 3), (0x16, 0, 0, 0)],
        True,
    ),
    "X to A": ([(0x81, 0, 0, 0), (0x87, 0, 0, 0), (0x16, 0, 0, 0)], True),
}


@pytest.fixture(scope="module")
def program() -> Bmv2Program:
    return Bmv2Program.from_json(GOLDEN / "l3.json")


@pytest.fixture(scope="module")
def variant(program: Bmv2Program) -> Path:
    return build_pipeline(program, sanitize=SANITIZE, trace=True)


@pytest.fixture
def core(program: Bmv2Program) -> Iterator[SwitchCore]:
    with SwitchCore(sanitize=SANITIZE) as made:
        made.load(build_pipeline(program, sanitize=SANITIZE))
        yield made


@pytest.fixture
def tracing(core: SwitchCore, variant: Path) -> CoreTracing:
    made = CoreTracing(core)
    made.variant(variant)
    return made


def begun(tracing: CoreTracing) -> list[Record]:
    return [r for r in records(tracing.take()) if r.kind is RecordKind.BEGIN]


@pytest.mark.parametrize(("expression", "wanted"), MATCHES)
def test_a_filter_takes_what_it_says(
    core: SwitchCore, tracing: CoreTracing, expression: str, wanted: set[str] | None
) -> None:
    tracing.start(filter=compile_filter(expression), capacity=CAPACITY)
    taken = set()
    for name, frame in FRAMES.items():
        core.inject(1, bytes(frame))
        if begun(tracing):
            taken.add(name)
    if wanted is None:  # arithmetic: against the same sum here
        data = {name: bytes(frame) for name, frame in FRAMES.items()}
        if "len" in expression:
            wanted = {name for name, b in data.items() if b[0] & 1 == 0 and len(b) % 2 == 0}
        else:
            ip = {name: b for name, b in data.items() if b[12:14] == b"\x08\x00"}
            wanted = {name for name, b in ip.items() if b[17] % 2 == 0 and b[23] == 17}
    assert taken == wanted


@pytest.mark.parametrize("expression", ["udp prt 1", "ip and", "port 99999", "((", "ether[0"])
def test_an_expression_that_is_none(expression: str) -> None:
    with pytest.raises(FilterError) as refused:
        compile_filter(expression)
    assert expression in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "tcpdump" not in str(refused.value)


def test_filters_need_tcpdump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_options: None)
    with pytest.raises(FilterError, match="apt install tcpdump"):
        compile_filter("ip and not ip")
    assert compile_filter("  ") == ()


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_program_never_runs(tracing: CoreTracing, name: str) -> None:
    with pytest.raises(CoreError) as refused:
        tracing.start(filter=MALFORMED[name], capacity=CAPACITY)
    assert refused.value.code == CoreErrorCode.EINVAL
    assert tracing.stats().tracers == 0


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_filter_may_try(core: SwitchCore, tracing: CoreTracing, name: str) -> None:
    code, taken = HARMLESS[name]
    tracing.start(filter=code, capacity=CAPACITY)
    core.inject(1, bytes(FRAMES["roce"]))
    assert bool(begun(tracing)) is taken


def test_tracers_take_by_port_and_up_to_their_limit(core: SwitchCore, tracing: CoreTracing) -> None:
    everywhere = tracing.start(limit=2, capacity=CAPACITY)
    at_two = tracing.start(ports=[2, 5], capacity=CAPACITY)
    for port in (1, 2, 3, 2, 5):
        core.inject(port, bytes(FRAMES["roce"]))
    masks = [(r.c, r.y) for r in begun(tracing)]
    assert masks == [(1, 1 << everywhere), (2, 3), (2, 1 << at_two), (5, 1 << at_two)]
    tracing.stop(at_two)
    core.inject(2, bytes(FRAMES["roce"]))
    assert begun(tracing) == []
    tracing.stop(everywhere)
    assert tracing.stats().tracers == 0
    with pytest.raises(CoreError):
        tracing.stop(everywhere)


def test_eight_tracers_and_no_more(tracing: CoreTracing) -> None:
    numbers = [tracing.start(capacity=CAPACITY) for _ in range(8)]
    assert numbers == list(range(8))
    with pytest.raises(CoreError) as refused:
        tracing.start(capacity=CAPACITY)
    assert refused.value.code == CoreErrorCode.EFULL
    tracing.stop(3)
    assert tracing.start(capacity=CAPACITY) == 3


def test_a_buffer_that_nobody_reads(core: SwitchCore, tracing: CoreTracing) -> None:
    tracing.start(capacity=8192)
    for _ in range(50):
        core.inject(1, bytes(FRAMES["roce"]))
    stats = tracing.stats()
    assert (stats.packets + stats.missed, stats.lost) == (50, 0)
    assert 0 < stats.packets < 50
    assert len(begun(tracing)) == stats.packets
    core.inject(1, bytes(FRAMES["roce"]))
    assert len(begun(tracing)) == 1


def test_records_that_were_lost_are_told(core: SwitchCore, tracing: CoreTracing) -> None:
    tracing.start(capacity=600)  # less than one packet's records
    core.inject(1, bytes(FRAMES["roce"]))
    assert tracing.stats().lost > 0
    tracing.take()
    core.inject(1, bytes(FRAMES["roce"]))
    after = list(records(tracing.take()))
    assert after[0].flags & 2


def test_packets_in_flight_survive_the_end_of_tracing(
    core: SwitchCore, tracing: CoreTracing
) -> None:
    core.set_port(2, PortState.BLOCKED)
    tracer = tracing.start(capacity=CAPACITY)
    core.inject(1, bytes(FRAMES["arp"]))
    tracing.stop(tracer)
    tracing.start(capacity=CAPACITY)
    core.set_port(2, PortState.UP, now_ps=10)
    assert [o.port for o in core.take_output()] == [2]
    late = list(records(tracing.take()))
    assert all(record.kind is not RecordKind.BEGIN for record in late)


def test_without_a_variant_packets_are_missed(core: SwitchCore) -> None:
    tracing = CoreTracing(core)
    tracing.start(capacity=CAPACITY)
    core.inject(1, bytes(FRAMES["roce"]))
    stats = tracing.stats()
    assert (stats.missed, stats.packets, stats.ready) == (1, 0, False)
    assert tracing.layout() is None


def test_only_the_variant_of_the_program_that_runs(
    core: SwitchCore, program: Bmv2Program, variant: Path
) -> None:
    tracing = CoreTracing(core)
    other = Bmv2Program.from_json(GOLDEN / "features.json")
    with pytest.raises(CoreError, match="of another program"):
        tracing.variant(build_pipeline(other, sanitize=SANITIZE, trace=True))
    with pytest.raises(CoreError, match="not a traced variant"):
        tracing.variant(build_pipeline(program, sanitize=SANITIZE))
    with pytest.raises(CoreError, match="no such file"):
        tracing.variant(Path("/nowhere.so"))
    tracing.variant(variant)
    tracing.variant(variant)
    assert tracing.stats().ready
    with (
        SwitchCore(sanitize=SANITIZE) as empty,
        pytest.raises(CoreError, match="no program is loaded"),
    ):
        CoreTracing(empty).variant(variant)


def test_a_load_ends_what_was_in_flight(
    core: SwitchCore, program: Bmv2Program, tracing: CoreTracing
) -> None:
    core.set_port(2, PortState.BLOCKED)
    tracing.start(capacity=CAPACITY)
    core.inject(1, bytes(FRAMES["arp"]))
    core.load(build_pipeline(program, sanitize=SANITIZE))
    kinds = [record.kind for record in records(tracing.take())]
    assert kinds[-1] is RecordKind.UNLOADED
    assert not tracing.stats().ready
