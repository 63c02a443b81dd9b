"""P4Info is p4c's, byte for byte.

The recorded ones are p4c-bm2-ss 1.2.5.16's:
`p4c-bm2-ss --std p4-16 -o X.json --p4runtime-files X.p4info.txtpb X.p4`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from compiler import CompileError, compile_p4

ROOT = Path(__file__).resolve().parents[2]
RECORDED = [
    *sorted((Path(__file__).parent / "programs").glob("*.p4")),
    ROOT / "tests/golden/l3.p4",
    ROOT / "tests/golden/features.p4",
]
FABRIC = sorted(path for path in (ROOT / "p4src").glob("*.p4") if path.stem != "mechanisms")
INCLUDE = [ROOT / "p4src", ROOT / "p4src/include"]

FRAME = """
#include <core.p4>
#include <v1model.p4>
%(top)s
header h_t { bit<8> a; bit<8> b; bit<16> c; }
struct headers { h_t h; }
struct metadata { bit<16> m; }
parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    %(parser)s
    state start { p.extract(hdr.h); transition %(next)s }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    %(locals)s
    apply { %(apply)s }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
%(main)s V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def info_of(tmp_path: Path, **parts: str) -> p4i.P4Info:
    defaults = {"top": "", "parser": "", "next": "accept;", "locals": "", "apply": "", "main": ""}
    source = tmp_path / "p.p4"
    source.write_text(FRAME % (defaults | parts))
    return compile_p4(source).p4info


@pytest.mark.parametrize("source", RECORDED, ids=lambda p: p.stem)
def test_equal_to_what_p4c_wrote(source: Path) -> None:
    recorded = source.with_name(f"{source.stem}.p4info.txtpb").read_text()
    assert compile_p4(source).p4info_text == recorded


@pytest.mark.reference("p4c-bm2-ss")
@pytest.mark.parametrize("source", [*RECORDED, *FABRIC], ids=lambda p: p.stem)
def test_equal_to_what_p4c_writes(source: Path, tmp_path: Path) -> None:
    p4c = shutil.which("p4c-bm2-ss")
    assert p4c is not None
    include = Path(p4c).parent / "p4include"
    flags = ["-I", str(include)] if include.is_dir() else []
    for folder in INCLUDE:
        flags += ["-I", str(folder)]
    written = tmp_path / "p.p4info.txtpb"
    command = [p4c, "--std", "p4-16", *flags, "-o", str(tmp_path / "p.json")]
    command += ["--p4runtime-files", str(written), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert compile_p4(source, include_dirs=INCLUDE).p4info_text == written.read_text()


@pytest.mark.parametrize("source", [*RECORDED, *FABRIC], ids=lambda p: p.stem)
def test_the_text_is_the_message(source: Path) -> None:
    result = compile_p4(source, include_dirs=INCLUDE)
    assert text_format.Parse(result.p4info_text, p4i.P4Info()) == result.p4info


def test_annotations_and_documentation(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        locals="""
            @id(7) @brief("drops") @description("everything") @mine(a, 1) action drop() { }
            @name("other.a") action a(@id(9) bit<8> x, @name("y2") bit<9> y) { }
            @name(".top") @size_hint[bytes=12, exact=true] table t {
                key = { hdr.h.a: exact @name("first") @id(5); hdr.h.c[7:0]: ternary; }
                actions = { @tableonly a; drop; @defaultonly NoAction; }
                size = 16;
            }""",
        apply="t.apply();",
    )
    (table,) = info.tables
    assert (table.preamble.name, table.preamble.alias, table.size) == ("top", "top", 16)
    (note,) = table.preamble.structured_annotations
    assert note.name == "size_hint"
    pairs = {p.key: p.value for p in note.kv_pair_list.kv_pairs}
    assert (pairs["bytes"].int64_value, pairs["exact"].bool_value) == (12, True)
    assert [(f.id, f.name, f.bitwidth) for f in table.match_fields] == [
        (5, "first", 8),
        (2, "hdr.h.c[7:0]", 8),
    ]
    actions = {a.preamble.name: a for a in info.actions}
    assert set(actions) == {"NoAction", "I.drop", "I.other.a"}
    drop = actions["I.drop"].preamble
    assert drop.id == 0x01000007
    assert list(drop.annotations) == ["@mine(a , 1)"]
    assert (drop.doc.brief, drop.doc.description) == ("drops", "everything")
    assert [(p.id, p.name) for p in actions["I.other.a"].params] == [(9, "x"), (2, "y2")]
    scopes = {r.id: r.scope for r in table.action_refs}
    assert scopes[actions["I.other.a"].preamble.id] == p4i.ActionRef.TABLE_ONLY
    assert scopes[drop.id] == p4i.ActionRef.TABLE_AND_DEFAULT
    assert scopes[actions["NoAction"].preamble.id] == p4i.ActionRef.DEFAULT_ONLY


def test_hidden_and_unused_objects_are_left_out(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        locals="""
            action used() { } action unused() { } action inner() { }
            action called(bit<8> x) { hdr.h.a = x; inner(); }
            @hidden table secret { actions = { used; } }
            table shown { actions = { used; } }
            table never { actions = { unused; } }""",
        apply="secret.apply(); shown.apply(); called(3); if (false) { never.apply(); }",
    )
    assert [t.preamble.name for t in info.tables] == ["I.shown"]
    assert {a.preamble.name for a in info.actions} == {"NoAction", "I.used", "I.called"}
    called = next(a for a in info.actions if a.preamble.name == "I.called")
    assert not called.params, "the control plane can't give what the program gives"


def test_translated_types(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        top="""
            @p4runtime_translation("net/port", string) type bit<9> port_id_t;
            @p4runtime_translation("net/vrf", 32) type bit<10> vrf_t;
            type bit<16> plain_t;
            enum bit<8> kind_t { A = 1, B = 2 }""",
        locals="""
            action go(port_id_t port, vrf_t vrf, plain_t plain, kind_t kind) { }
            table t { key = { hdr.h.a: exact; } actions = { go; } }""",
        apply="t.apply();",
    )
    (go,) = (a for a in info.actions if a.preamble.name == "I.go")
    assert [(p.bitwidth, p.type_name.name) for p in go.params] == [
        (0, "port_id_t"),
        (32, "vrf_t"),
        (16, "plain_t"),
        (8, ""),
    ]
    types = info.type_info.new_types
    assert types["port_id_t"].translated_type.uri == "net/port"
    assert types["port_id_t"].translated_type.HasField("sdn_string")
    assert types["vrf_t"].translated_type.sdn_bitwidth == 32
    assert types["plain_t"].original_type.bitstring.bit.bitwidth == 16
    members = info.type_info.serializable_enums["kind_t"].members
    assert [(m.name, m.value) for m in members] == [("A", b"\1"), ("B", b"\2")]


def test_default_actions_with_arguments(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        locals="""
            action set(bit<9> x, bit<48> y) { }
            table t { actions = { set; } const default_action = set(300, 5); }""",
        apply="t.apply();",
    )
    (table,) = info.tables
    assert table.const_default_action_id == table.initial_default_action.action_id
    values = [(a.param_id, a.value) for a in table.initial_default_action.arguments]
    assert values == [(1, b"\x01\x2c"), (2, b"\0\0\0\0\0\5")]


def test_value_sets_as_p4c_lists_them(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        top="""
            enum bit<8> kind_t { DATA = 1, ACK = 2 }
            struct pair_t { @name("first") bit<8> a; bit<16> b; }""",
        parser="""
            value_set<kind_t>(4) kinds;
            value_set<pair_t>(4) pairs;
            value_set<bit<8>>(4) never;
            value_set<bit<8>>(4) unreachable;
            state lost { transition select(hdr.h.a) { unreachable: accept; } }
            state more {
                transition select(hdr.h.b, hdr.h.c) { pairs: accept; default: accept; }
            }""",
        next="select((kind_t)hdr.h.a) { kinds: more; default: accept; }",
    )
    assert [
        (v.preamble.name, [(m.id, m.name, m.bitwidth) for m in v.match]) for v in info.value_sets
    ] == [
        ("P.kinds", [(1, "DATA", 8), (2, "ACK", 8)]),
        ("P.pairs", [(1, "first", 8), (2, "b", 16)]),
    ]


@pytest.mark.parametrize(
    ("top", "instance", "apply", "listed"),
    [
        ("", "counter(4, CounterType.bytes) x;", "", True),
        ("typedef counter c_t;", "c_t(4, CounterType.bytes) x;", "", False),
        ("typedef counter c_t;", "c_t(4, CounterType.bytes) x;", "x.count(1);", True),
        ("", "register<bit<8>>(4) x;", "bit<8> v; x.read(v, 0);", True),
        ("typedef register<bit<8>> r_t;", "r_t(4) x;", "bit<8> v; x.read(v, 0);", False),
        ("typedef register<bit<8>> r_t;", "r_t(4) x;", "x.write(0, hdr.h.a);", True),
    ],
)
def test_externs_that_nothing_uses(
    tmp_path: Path, top: str, instance: str, apply: str, listed: bool
) -> None:
    info = info_of(tmp_path, top=top, locals=instance, apply=apply)
    assert len(info.counters) + len(info.registers) == int(listed)


@pytest.mark.parametrize(
    ("top", "local", "apply"),
    [
        ("", "action tell() { digest<d_t>(1, { hdr.h.a }); } action a() { tell(); }", "a();"),
        ("void tell(in bit<8> x) { digest<d_t>(1, { x }); }", "", "tell(hdr.h.a);"),
        (
            "void tell(in bit<8> x) { digest<d_t>(1, { x }); }",
            "action a() { if (hdr.h.b == 2) { tell(hdr.h.a); } }",
            "a();",
        ),
    ],
    ids=["action in action", "function", "function in action"],
)
def test_digests_of_what_is_called(tmp_path: Path, top: str, local: str, apply: str) -> None:
    """Without its digest in P4Info, nobody can ask for the messages."""
    info = info_of(tmp_path, top="struct d_t { bit<8> a; } " + top, locals=local, apply=apply)
    assert [d.preamble.name for d in info.digests] == ["d_t"]
    assert list(info.type_info.structs) == ["d_t"]


def test_digests_of_generic_structs_are_told_apart(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        top="struct box_t<T> { T a; bit<8> b; } struct two_t<T, U> { T a; U b; }",
        apply="""
            digest<box_t<bit<8>>>(1, { hdr.h.a, hdr.h.b });
            digest<box_t<bit<16>>>(1, { hdr.h.c, hdr.h.b });
            digest<two_t<bit<8>, box_t<int<4>>>>(1, { hdr.h.a, { 1, hdr.h.b } });""",
    )
    names = ["box_t_bit8", "box_t_bit16", "two_t_bit8_box_t_int4"]
    assert [d.preamble.name for d in info.digests] == names
    assert [d.type_spec.struct.name for d in info.digests] == names
    assert sorted(info.type_info.structs) == sorted([*names, "box_t_int4"])


def test_selectors_value_sets_and_package(tmp_path: Path) -> None:
    info = info_of(
        tmp_path,
        parser="value_set<bit<8>>(4) known;",
        next="select(hdr.h.a) { known: accept; default: accept; }",
        locals="""
            action set(bit<9> p) { std.egress_spec = p; }
            @max_group_size(8) @selector_size_semantics("sum_of_members")
            action_selector(HashAlgorithm.crc16, 64, 16) members;
            table t {
                key = { hdr.h.a: exact; hdr.h.b: selector; }
                actions = { set; }
                implementation = members;
            }""",
        apply="t.apply();",
        main='@pkginfo(name="demo", version="1") @platform_property(multicast_group_table_size=9)',
    )
    (profile,) = info.action_profiles
    assert (profile.with_selector, profile.size, profile.max_group_size) == (True, 64, 8)
    assert profile.HasField("sum_of_members")
    assert list(profile.table_ids) == [info.tables[0].preamble.id]
    (values,) = info.value_sets
    assert (values.preamble.name, values.size, values.match[0].bitwidth) == ("P.known", 4, 8)
    assert (info.pkg_info.name, info.pkg_info.version, info.pkg_info.arch) == (
        "demo",
        "1",
        "v1model",
    )
    assert info.pkg_info.platform_properties.multicast_group_table_size == 9


@pytest.mark.parametrize(
    ("apply", "listed"),
    [
        ("t.apply(); return; u.apply();", "t"),
        ("if (hdr.h.a == 1) { return; } else { return; } u.apply();", ""),
        ("if (hdr.h.a == 1) { exit; } else { return; } u.apply();", ""),
        ("if (true) { return; } u.apply();", ""),
        ("if (hdr.h.a == 1) { exit; } else { exit; } u.apply();", "u"),
        ("t.apply(); exit; u.apply();", "tu"),
        ("switch (hdr.h.a) { 1: { return; } default: { return; } } u.apply();", "u"),
        ("switch (8w3) { 1: { t.apply(); } 2: 3: 4: { u.apply(); } default: { v.apply(); } }", "u"),
        ("switch (8w3) { 1: { t.apply(); } default: { v.apply(); } }", "v"),
        ("switch (8w3) { 1: { t.apply(); } } u.apply();", "u"),
        ("if (false && t.apply().hit || u.apply().hit) { v.apply(); }", "uv"),
        ("if (w.apply().hit) { }", "tw"),
    ],
)
def test_tables_that_can_be_reached(tmp_path: Path, apply: str, listed: str) -> None:
    # Which ones p4c 1.2.5.16 lists: it looks past a return, but past an exit only beside a return.
    tables = "".join(f"table {n} {{ key = {{ hdr.h.a: exact; }} actions = {{ }} }}" for n in "tuv")
    keyed = 'table w { key = { t.apply().hit: exact @name("t"); } actions = { } }'
    info = info_of(tmp_path, locals=tables + keyed, apply=apply)
    assert "".join(t.preamble.alias for t in info.tables) == listed


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"locals": "@id(0x03000001) table t { actions = { NoAction; } }", "apply": "t.apply();"},
         "wrong 8-bit prefix"),
        ({"locals": "@id(0) table t { actions = { NoAction; } }", "apply": "t.apply();"},
         "not a valid @id"),
        ({"locals": "table t { key = { hdr.h.a + 1: exact; } actions = { NoAction; } }",
          "apply": "t.apply();"}, "no name for the control plane"),
        ({"locals": "table t { actions = { @tableonly @defaultonly NoAction; } }",
          "apply": "t.apply();"}, "both @tableonly and @defaultonly"),
        ({"locals": """@name("x", "y") table t { actions = { NoAction; } }""",
          "apply": "t.apply();"}, "@name takes one string"),
        ({"top": """control Twice() { @name(".t") table t { actions = { NoAction; } }
                    apply { t.apply(); } }""",
          "locals": "Twice() one; Twice() two;", "apply": "one.apply(); two.apply();"},
         "two instances of table"),
    ],
)  # fmt: skip
def test_bad_annotations_are_errors_with_a_place(
    tmp_path: Path, parts: dict[str, str], complaint: str
) -> None:
    with pytest.raises(CompileError, match=complaint) as caught:
        info_of(tmp_path, **parts)
    assert caught.value.diagnostics[0].pos.line > 0
