"""Parity runs in process: equal programs agree, others are caught, what is undefined is left out.

Two texts stand in for the two compilers' outputs of one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compat.parity import cases
from compat.parity.compare import Loose, differences, unordered_ports, without_varying_arrays
from compat.parity.minimise import minimise
from compat.parity.report import Compiler, Report, Row
from compat.parity.session import ParitySession, Plan, Program
from compat.parity.targets import Environment, InProcess, prepare
from compat.parity.wires import carries
from compiler import compile_p4

PLAN = Plan("test.p4", packets=150, live=False)

TEXT = """
#include <core.p4>
#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header extra_t { bit<32> a; bit<32> b; }
struct headers { eth_t eth; extra_t extra; extra_t never; }
struct meta_t { bit<8> class; bit<32> never; }
parser P(packet_in b, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.eth);
        transition select(h.eth.type) { 0x1234: extra; default: accept; }
    }
    state extra { b.extract(h.extra); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(16) seen;
    direct_counter(CounterType.packets) hits;
    bit<32> old = 0;
    action classify(bit<8> class) { m.class = class; hits.count(); }
    action to(bit<9> port) { s.egress_spec = port; }
    table classes {
        key = { h.eth.dst: ternary; h.eth.type: exact; }
        actions = { classify; }
        counters = hits;
    }
    table ports { key = { m.class: exact; } actions = { to; NoAction; } }
    apply {
        mark_to_drop(s);
        classes.apply();
        ports.apply();
        %s
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { /* egress */ } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h.eth); b.emit(h.extra); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PLAIN = "h.extra.a = h.extra.a + 1;"


RunTwo = Callable[..., Report]


@pytest.fixture
def run(tmp_path: Path) -> RunTwo:
    """run(statements, other statements, plan, egress statements): the two programs' report."""

    def compiled(name: str, statements: str, egress: str) -> Program:
        source = tmp_path / f"{name}.p4"
        source.write_text(TEXT.replace("/* egress */", egress) % statements)
        result = compile_p4(source)
        return Program(result.json_text, result.p4info_text)

    def run(one: str, other: str, plan: Plan = PLAN, egress: tuple[str, str] = ("", "")) -> Report:
        programs = {
            Compiler.P4C: compiled("one", one, egress[0]),
            Compiler.WEFT: compiled("other", other, egress[1]),
        }
        session = ParitySession(plan, programs)
        try:
            return session.run()
        finally:
            session.close()

    return run


def rows_that_ran(report: Report) -> list[Row]:
    return [row for row in report.rows if not row.missing]


def test_one_program_twice_is_equal(run: RunTwo) -> None:
    report = run(PLAIN, PLAIN)
    assert report.agrees and report.compares
    reference, other = rows_that_ran(report)
    assert (reference.name, reference.against) == ("p4c x softswitch", "")
    assert (other.name, other.against) == ("weft x softswitch", "p4c x softswitch")
    assert (other.cases, other.equal, other.different, other.undefined) == (150, 150, 0, 0)
    assert report.answered >= 50


def test_a_difference_is_found_made_small_and_replays(run: RunTwo, tmp_path: Path) -> None:
    wrong = "if (m.class > 1 && h.extra.isValid()) { h.extra.a[7:0] = 0; }"
    report = run("", wrong)
    row = rows_that_ran(report)[1]
    assert not report.agrees and row.different > 0
    assert row.equal + row.different == row.cases
    example = row.examples[0]
    (packet,) = example.round_.packets
    assert packet.data[12:14] == b"\x12\x34"
    assert len(example.round_.setup) == 2  # a class above 1, and a port for it
    assert "bytes 17..17" in example.what
    path = tmp_path / "small.vectors.json"
    cases.write_vectors(
        path, "test", row.against, example.round_, example.reference.seen, example.what
    )
    again, recorded = cases.read_vectors(path)
    assert again == example.round_
    assert [case["out"] for case in recorded] == [
        cases.seen_as_json(seen)["out"] for seen in example.reference.seen
    ]
    assert not run("", wrong, replace(PLAN, replay=again)).agrees
    assert run("", "", replace(PLAN, replay=again)).agrees


def test_packets_that_a_switch_did_not_live_to_answer_are_written(tmp_path: Path) -> None:
    packets = tuple(cases.Packet(1, bytes([n]) * 20) for n in range(3))
    round_ = cases.Round((), packets)
    path = tmp_path / "ended.vectors.json"
    cases.write_vectors(path, "test", "p4c x BMv2", round_, [cases.Seen()], "BMv2 ended")
    again, recorded = cases.read_vectors(path)
    assert again == round_
    assert ["out" in case for case in recorded] == [True, False, False]


def test_a_difference_that_needs_history_keeps_it(run: RunTwo) -> None:
    count = "seen.read(old, 3); old = old + 1; seen.write(3, old); s.egress_spec = 1;"
    report = run(count, count + "if (old == 5) { s.egress_spec = 2; }")
    example = rows_that_ran(report)[1].examples[0]
    assert len(example.round_.packets) == 5
    assert example.round_.setup == ()


def test_state_that_no_packet_shows_differs_too(run: RunTwo) -> None:
    report = run("seen.write(7, 1);", "seen.write(7, 2);")
    row = rows_that_ran(report)[1]
    assert row.different == 0 and not row.agrees
    assert row.other[0] == "register I.seen[7]: 1 / 2"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s.egress_spec = 1; h.extra.a = s.ingress_global_timestamp[31:0];", "0"),
        ("s.egress_spec = 1; random(h.extra.a, 0, 0xffffffff);", "0"),
        ("s.egress_spec = 1; h.extra.a = h.never.a;", "0"),
        ("s.egress_spec = 1; bit<32> never; h.extra.a = never;", "0"),
    ],
    ids=["time", "chance", "a header that is not there", "a variable without a value"],
)
def test_what_varies_by_itself_is_not_compared(run: RunTwo, one: str, other: str) -> None:
    other = f"s.egress_spec = 1; h.extra.a = {other};"
    report = run(one, other)
    assert report.agrees
    assert report.partly_compared > 0
    # But what stands beside it is.
    assert not run(one, other + "h.extra.b = h.extra.b ^ 1;").agrees


def test_user_metadata_begins_as_zero_and_is_compared(run: RunTwo) -> None:
    used = "s.egress_spec = 1; h.extra.a = m.never;"
    assert run(used, "s.egress_spec = 1; h.extra.a = 0;").partly_compared == 0
    assert not run(used, "s.egress_spec = 1; h.extra.a = 1;").agrees


def test_an_answer_that_varies_in_kind_is_counted_as_undefined(run: RunTwo) -> None:
    report = run("if (s.ingress_global_timestamp[3:3] == 1) { s.egress_spec = 1; }", "")
    row = rows_that_ran(report)[1]
    assert report.agrees and row.undefined > 0


@pytest.mark.parametrize(
    "statements",
    [
        "if (h.extra.isValid()) { resubmit_preserving_field_list(0); }",
        "s.egress_spec = 1; if (h.extra.isValid()) { seen.write(h.eth.src[31:0] | 16, 1); }",
        "s.egress_spec = 1; assert(!h.extra.isValid());",
    ],
    ids=["resubmission without end", "beyond an array", "failed assertion"],
)
def test_packets_that_no_switch_should_get_are_not_made(run: RunTwo, statements: str) -> None:
    report = run(statements, statements)
    assert report.agrees
    assert rows_that_ran(report)[1].cases >= 50


def test_a_compiler_that_is_not_there_leaves_one_pairing(tmp_path: Path) -> None:
    source = tmp_path / "one.p4"
    source.write_text(TEXT % "")
    result = compile_p4(source)
    programs = {
        Compiler.P4C: Program(missing="no p4c on PATH"),
        Compiler.WEFT: Program(result.json_text, result.p4info_text),
    }
    report = ParitySession(PLAN, programs).run()
    assert report.agrees and not report.compares
    assert [row.missing for row in report.rows if row.target == "softswitch"] == [
        "no p4c on PATH",
        "",
    ]


def test_a_program_that_only_one_compiler_takes_is_a_difference(tmp_path: Path) -> None:
    source = tmp_path / "one.p4"
    source.write_text(TEXT % "")
    result = compile_p4(source)
    programs = {
        Compiler.P4C: Program(result.json_text, result.p4info_text),
        Compiler.WEFT: Program(missing="weft does not take it", refused=True),
    }
    report = ParitySession(PLAN, programs).run()
    assert not report.agrees
    assert [row.name for row in report.rows if row.failed] == ["weft x softswitch"]


# --- the parts ------------------------------------------------------------------------------------


def answer(*seen: cases.Seen, **cells: int) -> cases.Answer:
    return cases.Answer(list(seen), [], dict(cells))


def test_packets_are_compared_without_entries_that_one_side_refuses(tmp_path: Path) -> None:
    programs = {}
    for compiler, size in ((Compiler.P4C, 1), (Compiler.WEFT, 2)):
        source = tmp_path / f"{compiler.value}.p4"
        text = TEXT.replace("table ports {", f"table ports {{ size = {size};")
        source.write_text(text % "if (m.class == 0 && h.extra.isValid()) { s.egress_spec = 3; }")
        result = compile_p4(source)
        programs[compiler] = Program(result.json_text, result.p4info_text)
    entries = tuple(
        {
            "type": "INSERT",
            "table_entry": {
                "table": "I.ports",
                "match": {"m.class": {"exact": hex(key)}},
                "action": {"name": "I.to", "params": {"port": "0x1"}},
            },
        }
        for key in (5, 0)
    )
    session = ParitySession(replace(PLAN, packets=40, entries=entries), programs)
    report = session.run()
    session.close()
    row = rows_that_ran(report)[1]
    assert [text.split(":")[0] for text in row.other] == ["update 1"] and not row.agrees
    assert (row.cases, row.equal, row.different) == (40, 40, 0)
    # Without that entry: what has no class goes nowhere but for the statement's packets.
    assert report.answered == report.coverage.unchanged + report.coverage.changed > 0
    assert report.coverage.dropped > 0


def test_several_copies_to_one_port_come_in_any_order() -> None:
    replicas = [{"port": 1, "instance": 1}, {"port": 2, "instance": 1}, {"port": 1, "instance": 2}]
    group = {"type": "INSERT", "multicast_group": {"id": 1, "replicas": replicas}}
    assert unordered_ports([group]) == {1}
    one = answer(cases.Seen({1: (b"ab", b"cd"), 2: (b"ab", b"cd")}))
    other = answer(cases.Seen({1: (b"cd", b"ab"), 2: (b"ab", b"cd")}))
    ordered = answer(cases.Seen({1: (b"ab", b"cd"), 2: (b"cd", b"ab")}))
    assert differences(one, other, Loose(unordered=frozenset({1}))) == []
    assert differences(one, other, Loose()) != []
    assert differences(one, ordered, Loose(unordered=frozenset({1}))) != []


def test_bits_are_compared_one_by_one() -> None:
    def frame(data: str) -> cases.Answer:
        return answer(cases.Seen({1: (bytes.fromhex(data),)}))

    loose = Loose()
    loose.learn(frame("00ff00"), frame("00f000"))
    assert differences(frame("00ff00"), frame("00f300"), loose) == []
    (found,) = differences(frame("00ff00"), frame("00ff01"), loose)
    assert found.text == "port 1, bytes 2..2: 00 / 01"


def test_bits_learnt_from_answers_of_another_shape_say_nothing() -> None:
    def frames(*data: str) -> cases.Answer:
        return answer(cases.Seen({1: tuple(bytes.fromhex(each) for each in data)}))

    loose = Loose()
    loose.learn(frames("00"), frames("01"))
    assert differences(frames("00", "02"), frames("00", "02"), loose) == []
    (found,) = differences(frames("00", "02"), frames("01", "02"), loose)
    assert found.text == "port 1, bytes 0..0: 00 / 01"


def test_cells_of_an_array_that_varies_are_not_compared_with_bmv2() -> None:
    def counted(**cells: int) -> cases.Answer:
        return cases.Answer(
            [], [], {f"counter {k[0]}[{k[1:]}] packets": v for k, v in cells.items()}
        )

    loose = Loose()
    loose.learn(counted(a1=1, b1=1), counted(a2=1, b1=1))
    found = differences(counted(a1=1, b1=1), counted(a3=1, b1=2), loose)
    assert [d.cell for d in found] == ["counter a[3] packets", "counter b[1] packets"]
    assert [d.cell for d in without_varying_arrays(found, loose)] == ["counter b[1] packets"]


def test_how_long_a_packet_was_queued_is_not_compared(run: RunTwo) -> None:
    queued = "(bit<32>)(s.egress_global_timestamp - s.ingress_global_timestamp)"
    report = run("", "", egress=(f"h.extra.b = {queued};", f"h.extra.b = {queued} + 7;"))
    assert report.agrees and report.partly_compared


def test_junk_in_invalid_headers_is_sometimes_what_a_program_compares_with(tmp_path: Path) -> None:
    source = tmp_path / "junk.p4"
    source.write_text(TEXT % "s.egress_spec = 1; if (h.never.a == 1) { s.egress_spec = 2; }")
    result = compile_p4(source)
    switch = InProcess(prepare(result.json_text, result.p4info_text))
    round_ = cases.Round((), (cases.Packet(1, bytes(14)),))
    runs = [switch.run_in(Environment.varied(n), round_) for n in range(20)]
    assert {tuple(run.seen[0].frames) for run in runs} == {(1,), (2,)}


@pytest.mark.parametrize(
    ("frame", "carried"),
    [
        ("88a80001", False),
        ("81000001080000", False),
        ("8100000108000000", True),
        ("08004500", True),
        ("", True),
    ],
)
def test_short_frames_with_a_tag_do_not_cross_a_link(frame: str, carried: bool) -> None:
    assert carries(bytes(12) + bytes.fromhex(frame)) is carried


def test_a_run_that_ended_among_its_updates_leaves_the_packets_loose() -> None:
    seen = cases.Seen({1: (b"ab",)})
    whole = cases.Answer([seen, seen], ["", "no room"], {})
    short = cases.Answer([], [""], {}, died="the switch ended")
    for one, other in ((whole, short), (short, whole)):
        loose = Loose()
        loose.learn(one, other)
        assert loose.shape == {0, 1}
        assert loose.updates == set()  # the second was never asked of the one that ended


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (cases.Seen({2: (b"ab",)}), "port 1 / port 2"),
        (cases.Seen(), "port 1 / nothing"),
        (cases.Seen({1: (b"ab", b"ab")}), "port 1 / port 1, port 1"),
        (cases.Seen({1: (b"abc",)}), "port 1: 2 B / 3 B: 6162 / 616263"),
        (cases.Seen({1: (b"ab",)}, ((b"x", ()),)), "port 1 / port 1, packet-in"),
        (cases.Seen({1: (b"ab",)}, (), (("d", ((1,),)),)), "port 1 / port 1, digest d"),
    ],
)
def test_each_kind_of_difference_has_its_words(other: cases.Seen, text: str) -> None:
    reference = answer(cases.Seen({1: (b"ab",)}))
    assert [d.text for d in differences(reference, answer(other), Loose())] == [text]


def test_minimising_keeps_what_is_needed_and_ends_with_its_budget() -> None:
    packets = tuple(cases.Packet(1, bytes([n]) * 40) for n in range(20))
    round_ = cases.Round(tuple({"type": "INSERT", "n": n} for n in range(10)), packets)
    asked = []

    def needs(candidate: cases.Round) -> bool:
        asked.append(candidate)
        names = {update["n"] for update in candidate.setup}
        firsts = [packet.data[0] for packet in candidate.packets]
        return {3, 7} <= names and 4 in firsts and firsts[-1] == 9

    small = minimise(round_, 9, needs, checks=500, seconds=60)
    assert [update["n"] for update in small.setup] == [3, 7]
    assert [packet.data for packet in small.packets] == [b"\4" + bytes(13), b"\t" + bytes(13)]
    asked.clear()
    minimise(round_, 9, needs, checks=7, seconds=60)
    assert len(asked) == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("3", "no list of updates"),
        ('{"setup": [1]}', "no list of updates"),
        ('{"setup": []}', "cases"),
        ('{"setup": [], "cases": [{"in": {"port": 1}}]}', r"cases\[0\]"),
    ],
)
def test_files_that_are_no_vectors_say_why(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(cases.VectorFileError, match=says):
        cases.read_entries(path)
        cases.read_vectors(path)
