"""Packets and entries made from a program: they reach its states, and its tables hit."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from compat.parity.cases import PORTS, Round
from compat.parity.coverage import Coverage
from compat.parity.packet_draft import Draft
from compat.parity.packets import PacketMaker
from compat.parity.rounds import RoundMaker
from compat.parity.targets import Environment, InProcess, prepare
from compat.parity.values import ProgramValues, RoundValues
from compiler import compile_p4
from softswitch.codegen.expressions import Const, FieldRef, Lookahead, Op

REPOSITORY = Path(__file__).resolve().parents[2]

# Each way through the parser leaves by a port of its own.
PARSER = """
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<96> macs; bit<16> type; }
header tag_t { bit<4> more; bit<12> id; }
header ip_t { bit<4> version; bit<4> ihl; bit<8> tos; bit<16> sum; bit<32> dst; }
header options_t { varbit<320> data; }
header probe_t { bit<8> first; bit<8> second; }
struct headers { eth_t eth; tag_t[3] tags; ip_t ip; options_t options; probe_t probe; }
struct meta_t { bit<8> way; bit<8> ahead; bit<1> wrong; }
error { BadVersion }
parser P(packet_in b, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.eth);
        m.way = 0;
        transition select(h.eth.type) {
            0x8100: tags;
            0x0800 &&& 0xfff0: ip;
            0x9000 .. 0x9003: ahead;
            default: accept;
        }
    }
    state tags {
        b.extract(h.tags.next);
        transition select(h.tags.last.more) { 1: tags; 2: ip; default: tagged; }
    }
    state tagged { m.way = 1; transition accept; }
    state ip {
        b.extract(h.ip);
        verify(h.ip.version == 4 && h.ip.ihl >= 3, error.BadVersion);
        transition select(h.ip.ihl) { 3: plain; default: options; }
    }
    state plain { m.way = 2; transition accept; }
    state options {
        b.extract(h.options, ((bit<32>)h.ip.ihl - 3) << 5);
        m.way = 3;
        transition accept;
    }
    state ahead {
        m.ahead = b.lookahead<probe_t>().second;
        transition select(m.ahead) { 0x5a: probe; default: accept; }
    }
    state probe { b.extract(h.probe); m.way = 4; transition accept; }
}
control V(inout headers h, inout meta_t m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.dst }, h.ip.sum,
                        HashAlgorithm.csum16);
    }
}
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = (bit<9>)m.way; h.eth.macs[0:0] = s.checksum_error; }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out b, in headers h) {
    apply { b.emit(h.eth); b.emit(h.tags); b.emit(h.ip); b.emit(h.options); b.emit(h.probe); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def in_process(source: Path, cache: Path | None = None) -> InProcess:
    compiled = compile_p4(source)
    return InProcess(prepare(compiled.json_text, compiled.p4info_text, cache), cache)


@pytest.fixture(scope="module")
def parser_switch(tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    source = tmp_path_factory.mktemp("parity") / "parser.p4"
    source.write_text(PARSER)
    return in_process(source)


def test_packets_go_every_way_through_the_parser(parser_switch: InProcess) -> None:
    round_ = RoundMaker(parser_switch, 1, None).round(0, 100)
    answer = parser_switch.run(round_)
    ways = Counter(port for seen in answer.seen for port in seen.frames)
    assert set(ways) == set(PORTS)
    assert all(count >= 2 for count in ways.values()), ways


def test_checksums_are_right_more_often_than_not(parser_switch: InProcess) -> None:
    round_ = RoundMaker(parser_switch, 2, None).round(0, 200)
    answer = parser_switch.run(round_)
    frames = [f for seen in answer.seen for port in (2, 3) for f in seen.frames.get(port, ())]
    wrong = sum(frame[11] & 1 for frame in frames)
    assert 0 < wrong < len(frames) / 2


def test_some_packets_are_cut_short_but_none_below_a_frame(parser_switch: InProcess) -> None:
    values = ProgramValues(parser_switch.prepared.program)
    rng = random.Random(3)
    maker = PacketMaker(parser_switch.prepared, RoundValues(values, rng, PORTS), rng)
    lengths = [len(maker.packet().data) for _ in range(300)]
    assert min(lengths) >= 14
    assert len(set(lengths)) > 50


def test_the_same_seed_gives_the_same_round(parser_switch: InProcess) -> None:
    rounds = [RoundMaker(parser_switch, seed, None).round(4, 30) for seed in (5, 5, 6)]
    assert rounds[0] == rounds[1]
    assert rounds[0] != rounds[2]


@pytest.mark.parametrize(
    "program", ["p4src/fabric.p4", "tests/golden/features.p4", "tests/golden/l3.p4"]
)
def test_entries_are_accepted_and_met(program: str) -> None:
    switch = in_process(REPOSITORY / program)
    came_out = []
    for number in range(2):  # of one round all may be dropped: an entry that drops is one, too
        answer = switch.run(RoundMaker(switch, 1, None).round(number, 50))
        assert [text for text in answer.refused if text] == []
        came_out.append(sum(1 for seen in answer.seen if seen.count))
    assert sum(came_out) >= 15


def test_the_users_entries_are_taken_as_they_are(parser_switch: InProcess) -> None:
    group = {"id": 9, "replicas": [{"port": 1, "instance": 1}]}
    mine = ({"type": "INSERT", "multicast_group": group},)
    assert RoundMaker(parser_switch, 1, mine).round(0, 10).setup == mine


def test_unlike_environments_agree_where_all_is_defined(parser_switch: InProcess) -> None:
    round_ = RoundMaker(parser_switch, 1, None).round(1, 100)
    usual = parser_switch.run(round_)
    for seed in range(4):
        assert parser_switch.run_in(Environment.varied(seed), round_).seen == usual.seen


# --- the draft ------------------------------------------------------------------------------------


# A packet comes out when five tables have hit in a row, each with the action that lets it pass.
CHAIN = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<32> b; bit<48> c; }
struct headers { h_t h; }
struct meta_t { bit<16> next; bit<1> good; }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    action deny() { mark_to_drop(s); exit; }
    action pass(bit<16> next, bit<1> good) { m.next = next; m.good = good; }
    action leave(bit<9> port) { s.egress_spec = port; }
    table t1 { key = { h.h.a: exact; } actions = { pass; deny; } const default_action = deny; }
    table t2 { key = { m.next: exact; h.h.b: lpm; }
               actions = { pass; deny; } const default_action = deny; }
    table t3 { key = { m.next: exact; h.h.c: ternary; }
               actions = { pass; deny; } const default_action = deny; }
    table t4 { key = { m.next: exact; h.h.a: exact; h.h.b: exact; }
               actions = { pass; deny; } const default_action = deny; }
    table t5 { key = { m.next: exact; } actions = { leave; deny; } const default_action = deny; }
    apply {
        t1.apply(); t2.apply(); t3.apply(); t4.apply();
        if (m.good == 0) { deny(); }
        t5.apply();
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_packets_get_through_many_tables_in_a_row(tmp_path: Path, seed: int) -> None:
    source = tmp_path / "chain.p4"
    source.write_text(CHAIN)
    switch = in_process(source)
    round_ = RoundMaker(switch, seed, None).round(0, 60)
    answer = switch.run(round_)
    assert [text for text in answer.refused if text] == []
    schema, coverage = switch.prepared.schema, Coverage.of(switch.prepared.schema)
    coverage.add(schema, round_.packets, answer.seen, switch.watch(round_))
    assert coverage.unchanged >= 5 and coverage.dropped >= 5 and coverage.changed == 0
    assert coverage.unchanged + coverage.dropped == len(round_.packets)
    assert len(coverage.hit) == coverage.of_tables == 5
    assert coverage.of_actions == 10 and ("I.t5", "I.leave") in coverage.ran


def test_varied_packets_go_the_same_way(parser_switch: InProcess) -> None:
    rng = random.Random(4)
    values = RoundValues(ProgramValues(parser_switch.prepared.program), rng, PORTS)
    maker = PacketMaker(parser_switch.prepared, values, rng)
    made = [maker.made() for _ in range(100)]
    varied = [maker.varied(one) for one in made]
    assert [one.packet.port for one in made] == [one.packet.port for one in varied]
    ways = []
    for of in (made, varied):
        watched = parser_switch.watch(Round((), tuple(one.packet for one in of)))
        ways.append([{mark for mark in one.marks if mark[0] == "state"} for one in watched])
    pairs = list(zip(*ways, strict=True))
    # Some are cut short, or get another value where any leads on.
    assert sum(one == other for one, other in pairs) > 60
    assert len({frozenset(one) for one, _ in pairs}) > 4
    unlike = [a.packet != b.packet for a, b in zip(made, varied, strict=True)]
    assert sum(unlike) > 80


@pytest.fixture
def draft(parser_switch: InProcess) -> Draft:
    made = Draft(parser_switch.prepared.program)
    of = made.program.headers["eth"].type
    for name, at in made.place("eth", of).items():
        made.fill(at, 0x0800 if name == "type" else 0x0123456789AB << 48)
    return made


def test_bits_that_were_decided_about_stay(draft: Draft) -> None:
    draft.write((112, 4), 0xA)  # a lookahead's bits, before the header is there
    draft.fill((112, 8), 0xFF)
    draft.fill((110, 4), 0)
    assert draft.read((108, 12)) == 0x0AF
    assert draft.to_bytes()[-2:] == bytes([0x00, 0xAF])


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (FieldRef("eth", "type"), 0x0800),
        (Op("&", FieldRef("eth", "type"), Const(0xFF)), 0x00),
        (Op("&", Op(">>", FieldRef("eth", "type"), Const(8)), Const(0xFF)), 0x08),
        (Op("==", FieldRef("eth", "type"), Const(0x0800)), 1),
        (Op("and", Op("<", Const(3), Const(4)), Op("not", None, Const(0))), 1),
        (Op("-", Const(3), Const(4)), -1),
        (Op("<<", Const(1), Const(1 << 40)), None),
        (Op("%", Const(7), Const(0)), None),
        (Lookahead(0, 8), None),
    ],
)
def test_expressions_on_what_is_known(draft: Draft, expr: Op, value: int | None) -> None:
    assert draft.evaluate(expr) == value


@pytest.mark.parametrize("want", [True, False])
@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("swapped", [True, False])
def test_a_condition_is_made_true_or_false(
    draft: Draft, op: str, want: bool, swapped: bool
) -> None:
    sides = (FieldRef("eth", "type"), Const(0x77))
    condition = Op(op, *(reversed(sides) if swapped else sides))
    draft.satisfy(condition, want)
    assert bool(draft.evaluate(condition)) is want
    both = Op("and", condition, Op("not", None, Op("!=", FieldRef("eth", "macs"), Const(5))))
    draft.satisfy(both)
    assert draft.evaluate(FieldRef("eth", "macs")) == 5


def test_packets_with_members_of_union_stacks_are_varied() -> None:
    compiled = compile_p4(REPOSITORY / "tests/language/header_unions.p4")
    prepared = prepare(compiled.json_text, compiled.p4info_text)
    rng = random.Random(5)
    maker = PacketMaker(prepared, RoundValues(ProgramValues(prepared.program), rng, PORTS), rng)
    made = [maker.made() for _ in range(40)]
    assert sum(maker.varied(one).packet != one.packet for one in made) > 20
