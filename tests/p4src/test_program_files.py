"""p4src as files: they compile without warnings, and their P4Info is the committed one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from google.protobuf import text_format
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from compiler import CompileError, compile_p4
from softswitch import Switch
from softswitch.p4runtime.protos import p4i

P4SRC = Path(__file__).parents[2] / "p4src"
LIST = P4SRC / "mechanisms.p4"
PROGRAMS = ["fabric", "base", "fast_cnp"]


def p4info_of(text: str) -> p4i.P4Info:
    return text_format.Parse(text, p4i.P4Info())


# Said of every table with an action selector, whatever it looks like; no option turns it off.
KNOWN_P4C = "Target does not support default_action for"
KNOWN_OURS = "BMv2 has no default_action for table"


@pytest.mark.parametrize("program", PROGRAMS)
def test_compiles_without_warnings(program: str) -> None:
    warnings = compile_p4(P4SRC / f"{program}.p4", diagnostics=["Werror"]).warnings
    assert [each for each in warnings if KNOWN_OURS not in each.message] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_committed_p4info_is_current(program: str) -> None:
    committed = (P4SRC / f"{program}.p4info.txtpb").read_text()
    made = compile_p4(P4SRC / f"{program}.p4").p4info
    remedy = f"run: weft compile p4src/{program}.p4 -o build, and copy the new P4Info to p4src/"
    assert p4info_of(committed) == made, remedy


def assert_p4c_agrees(source: Path, defines: tuple[str, ...], folder: Path) -> None:
    """p4c takes it with --Werror, says nothing but what is known, and makes the same P4Info."""
    p4c = shutil.which("p4c-bm2-ss")
    assert p4c is not None
    outputs = ["-o", str(folder / "p.json"), "--p4runtime-files", str(folder / "p.txtpb")]
    options = [f"-D{each}" for each in defines]
    command = [p4c, "--std", "p4-16", "--Werror", *options, *outputs, str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if "warning:" in line]
    assert [line for line in said if KNOWN_P4C not in line] == []
    ours = compile_p4(source, defines=defines).p4info
    assert p4info_of((folder / "p.txtpb").read_text()) == ours


@pytest.mark.reference("p4c-bm2-ss")
@pytest.mark.parametrize("program", PROGRAMS)
def test_p4c_takes_it_with_werror_and_makes_the_same_p4info(program: str, tmp_path: Path) -> None:
    assert_p4c_agrees(P4SRC / f"{program}.p4", (), tmp_path)


def test_base_routes_and_nothing_more() -> None:
    program = compile_p4(P4SRC / "base.p4")
    with Switch.from_json(program.json_text.encode(), program.p4info) as switch:
        hop = {"port": 2, "src_mac": 0x020100000001, "dst_mac": 0x02000A000102}
        switch.table_add("next_hop", {"next_hop": 7}, "forward_to", hop)
        switch.table_add("ipv4_route", {"dst": ("10.0.0.0", 8)}, "route_to", {"next_hop": 7})
        for dst in ("10.1.2.3", "192.0.2.1"):
            switch.inject(1, bytes(Ether(src="02:00:0a:00:01:01") / IP(dst=dst, ttl=9) / UDP()))
        (output,) = switch.run_until(1_000_000)
    frame = Ether(output.packet)
    assert (output.port, frame.src, frame.dst) == (2, "02:01:00:00:00:01", "02:00:0a:00:01:02")
    assert (frame[IP].dst, frame[IP].ttl) == ("10.1.2.3", 8)


# --- profiles -------------------------------------------------------------------------------------

MECHANISMS = re.findall(r'^#include "modules/(\w+)\.p4"$', LIST.read_text(), re.MULTILINE)
FEATURES = re.findall(
    r"^//   WITH_(\w+)  ", (P4SRC / "include/profile.p4").read_text(), re.MULTILINE
)
OWN_PREFIXES = {
    "fast_cnp": ("fast_cnp", "stock_", "queue_pair_"),
    "dcqcn": ("ecn_threshold", "port_marked"),
    "dlb": ("dlb", "glb"),
    "iglb": ("iglb",),
    "dpfr": ("dpfr",),
    "allreduce": ("allreduce",),
    "ecn_tuning": ("tuned_", "tuning_"),
    "path_telemetry": ("path_port", "path_use", "path_sent"),
    "bolt": ("bolt",),
}
"""What the tables, counters and digests of a mechanism begin with."""

PARTS = {
    "dlb": ("glb", "dlb_weights"),
    "allreduce": ("best_effort",),
    "path_telemetry": ("path_use",),
}
"""Parts of modules that have a `WITH_` of their own, by mechanism."""


def with_(*parts: str) -> tuple[str, ...]:
    return ("PROFILE", *(f"WITH_{part.upper()}" for part in parts))


def parts_of_all() -> tuple[str, ...]:
    return tuple(part for parts in PARTS.values() for part in parts)


PROFILES = [
    with_(),
    with_("fabric"),
    *(with_(each) for each in FEATURES),
    *(with_(each) for each in MECHANISMS),
    *(with_("fabric", each) for each in MECHANISMS),
    *(with_("fabric", part) for parts in PARTS.values() for part in parts),
    with_(*MECHANISMS),
    with_("fabric", *MECHANISMS),
]


def warnings_of(source: Path, defines: tuple[str, ...]) -> list[str]:
    found = compile_p4(source, defines=defines, diagnostics=["Werror"]).warnings
    return [str(each) for each in found if KNOWN_OURS not in each.message]


def entities(defines: tuple[str, ...]) -> set[str]:
    """Aliases of tables, counters, registers and digests, and the fields of packets' metadata."""
    program = compile_p4(P4SRC / "fabric.p4", defines=defines)
    info = program.p4info
    kinds = (info.tables, info.counters, info.direct_counters, info.registers, info.digests)
    (scalars,) = (
        header for header in json.loads(program.json_text)["header_types"]
        if header["name"].startswith("scalars")
    )  # fmt: skip
    fields = {name.removeprefix("local_metadata_t.") for name, *_ in scalars["fields"]}
    return {each.preamble.alias for kind in kinds for each in kind} | fields


def of_mechanism(name: str, found: set[str]) -> set[str]:
    return {each for each in found if each.startswith((*OWN_PREFIXES[name], f"{name}."))}


def test_the_list_has_one_line_a_mechanism() -> None:
    code = [line for line in LIST.read_text().splitlines() if line and not line.startswith("//")]
    assert code == [f'#include "modules/{name}.p4"' for name in MECHANISMS]
    assert set(MECHANISMS) == set(OWN_PREFIXES)


@pytest.mark.parametrize("defines", PROFILES, ids=" ".join)
def test_every_profile_compiles_without_warnings(defines: tuple[str, ...]) -> None:
    assert warnings_of(P4SRC / "fabric.p4", defines) == []


@pytest.mark.reference("p4c-bm2-ss")
@pytest.mark.parametrize("base", [(), ("fabric",), *((each,) for each in FEATURES)], ids=" ".join)
def test_p4c_takes_every_profile_and_makes_the_same_p4info(
    base: tuple[str, ...], tmp_path: Path
) -> None:
    few = (each for n in range(3) for each in combinations(MECHANISMS, n))
    for mechanisms in (*few, tuple(MECHANISMS)):
        assert_p4c_agrees(P4SRC / "fabric.p4", with_(*base, *mechanisms), tmp_path)


def test_the_core_has_nothing_of_a_mechanism() -> None:
    core, everything = entities(with_()), entities(())
    assert {"ipv4_route", "ecmp_group", "next_hop"} <= core
    for name in MECHANISMS:
        assert of_mechanism(name, everything)
        assert of_mechanism(name, core) == set()
    assert not any("congestion" in each for each in core)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_brings_only_its_own(name: str) -> None:
    found = entities(with_("fabric", name, *PARTS.get(name, ())))
    assert of_mechanism(name, found) == of_mechanism(name, entities(()))
    for other in set(MECHANISMS) - {name}:
        assert of_mechanism(other, found) == set()


def test_all_parts_are_the_same_program_as_without_options() -> None:
    everything = compile_p4(P4SRC / "fabric.p4")
    parts = compile_p4(P4SRC / "fabric.p4", defines=with_("fabric", *MECHANISMS, *parts_of_all()))
    assert parts.json_text == everything.json_text
    assert parts.p4info == everything.p4info


def test_base_is_the_core() -> None:
    core = compile_p4(P4SRC / "fabric.p4", defines=with_())
    assert compile_p4(P4SRC / "base.p4").p4info == core.p4info


def own_files(name: str) -> set[Path]:
    return {P4SRC / f"modules/{name}.p4", *(P4SRC / "modules" / name).glob("*.p4")}


def is_profile(path: Path) -> bool:
    """Files beside fabric.p4 that only say what fabric.p4 is to hold."""
    return path.parent == P4SRC and '#include "fabric.p4"' in path.read_text()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_named_only_in_its_own_files_and_the_list(name: str) -> None:
    spelling = re.compile(name.replace("_", "[ _-]?"), re.IGNORECASE)
    naming = {path for path in P4SRC.rglob("*.p4") if spelling.search(path.read_text())}
    assert naming - own_files(name) - {LIST} == {path for path in naming if is_profile(path)}


def test_profiles_hold_no_code_of_their_own() -> None:
    for path in filter(is_profile, P4SRC.glob("*.p4")):
        lines = [line for line in path.read_text().splitlines() if line]
        assert all(re.match(r"//|#define WITH(OUT)?_\w+ 1$|#define PROFILE 1$|#include", line)
                   for line in lines), path  # fmt: skip


PROBE = """
#if HOOK == HOOK_PROFILE
#elif defined(WITH_PROBE)
#if HOOK == HOOK_TYPES
header probe_header_t {
    bit<16> kind;
}
struct probe_t {
    bit<16> seen;
}
#elif HOOK == HOOK_HEADERS
    probe_header_t probe;
#elif HOOK == HOOK_METADATA
    probe_t probe;
#elif HOOK == HOOK_METADATA_START
        meta.probe.seen = 0;
#elif HOOK == HOOK_UDP_PORTS
            16w7777: parse_probe;
#elif HOOK == HOOK_PARSER_STATES
    state parse_probe {
        packet.extract(hdr.probe);
        meta.probe.seen = hdr.probe.kind;
        transition accept;
    }
#elif HOOK == HOOK_DEPARSER
        packet.emit(hdr.probe);
#elif HOOK == HOOK_CONTROLS
control Probe(inout headers_t hdr, inout local_metadata_t meta, in bit<16> step) {
    apply {
        if (hdr.probe.isValid() && meta.probe.seen == step) {
            meta.probe.seen = meta.probe.seen + 1;
            hdr.probe.kind = meta.probe.seen;
        }
    }
}
#elif HOOK == HOOK_INGRESS_INSTANCES
    Probe() probe_begin;
    Probe() probe_admitted;
    Probe() probe_path;
    Probe() probe_forwarded;
#elif HOOK == HOOK_INGRESS_BEGIN
        probe_begin.apply(hdr, meta, 1);
#elif HOOK == HOOK_INGRESS_ADMITTED
        probe_admitted.apply(hdr, meta, 2);
#elif HOOK == HOOK_PATH_CHOICE
            probe_path.apply(hdr, meta, 3);
            meta.next_hop = 7;
#elif HOOK == HOOK_INGRESS_FORWARDED
        probe_forwarded.apply(hdr, meta, 4);
#elif HOOK == HOOK_EGRESS_INSTANCES
    Probe() probe_egress;
#elif HOOK == HOOK_EGRESS
        probe_egress.apply(hdr, meta, 5);
#endif
#endif
"""


@pytest.fixture
def with_probe(tmp_path: Path) -> Path:
    """Return the programs with one mechanism more: one new file and one line."""
    folder = shutil.copytree(P4SRC, tmp_path / "p4src")
    (folder / "modules/probe.p4").write_text(PROBE)
    with (folder / "mechanisms.p4").open("a") as file:
        file.write('#include "modules/probe.p4"\n')
    return folder


def test_a_new_mechanism_is_one_file_and_one_line(with_probe: Path) -> None:
    """A packet with the mechanism's header passes all hooks in order, and takes its next hop."""
    source = with_probe / "fabric.p4"
    assert warnings_of(source, with_("probe")) == []
    assert warnings_of(source, with_("fabric", "probe", *MECHANISMS)) == []
    program = compile_p4(source, defines=with_("probe"))
    with Switch.from_json(program.json_text.encode(), program.p4info) as switch:
        hop = {"port": 2, "src_mac": 1, "dst_mac": 2}
        switch.table_add("next_hop", {"next_hop": 7}, "forward_to", hop)
        switch.table_add("ipv4_route", {"dst": ("10.0.0.0", 8)}, "route_to", {"next_hop": 1})
        packet = Ether() / IP(dst="10.1.2.3") / UDP(dport=7777, chksum=0) / b"\x00\x01rest"
        switch.inject(1, bytes(packet))
        (output,) = switch.run_until(1_000_000)
    assert (output.port, bytes(Ether(output.packet)[UDP].payload)) == (2, b"\x00\x06rest")


def test_an_error_in_a_mechanism_names_its_file_and_line(with_probe: Path) -> None:
    module = with_probe / "modules/probe.p4"
    wrong = "        meta.probe.sene = hdr.probe.kind;"
    module.write_text(PROBE.replace("        meta.probe.seen = hdr.probe.kind;", wrong))
    line = module.read_text().splitlines().index(wrong) + 1
    with pytest.raises(CompileError) as caught:
        compile_p4(with_probe / "fabric.p4", defines=with_("probe"))
    places = {(Path(each.pos.file).name, each.pos.line) for each in caught.value.diagnostics}
    assert places == {("probe.p4", line)}


# --- ids and references ---------------------------------------------------------------------------


def test_every_id_is_a_macro_that_stands_once() -> None:
    numbers: dict[str, str] = {}
    texts = {path: path.read_text() for path in P4SRC.rglob("*.p4")}
    for path, text in texts.items():
        for name, number in re.findall(r"^#define (\w+_ID_\w+) +(0x\w+)$", text, re.MULTILINE):
            assert number not in numbers, f"{path}: {name} has the id of {numbers[number]}"
            numbers[number] = name
    used = [
        each
        for text in texts.values()
        for each in re.findall(r"^ *@id\((\w+)\)$", text, re.MULTILINE)  # of parameters: in a line
    ]
    assert sorted(used) == sorted(numbers.values())


def test_references_name_tables_and_keys_of_the_program() -> None:
    info = compile_p4(P4SRC / "fabric.p4").p4info
    keys = {(each.preamble.alias, key.name) for each in info.tables for key in each.match_fields}
    notes = [note for each in info.actions for param in each.params for note in param.annotations]
    notes += [note for each in info.tables for key in each.match_fields for note in key.annotations]
    found = [re.fullmatch(r"@refers_to\((\w+) , (\w+)\)", note) for note in notes]
    referred = {match.groups() for match in found if match}
    assert referred == {("next_hop", "next_hop"), ("ecmp_group", "group")}
    assert referred <= keys


def test_no_file_is_left_out_of_the_programs() -> None:
    texts = {path: path.read_text() for path in P4SRC.rglob("*.p4")}
    included = {
        (path.parent / name).resolve()
        for path, text in texts.items()
        for name in re.findall(r'^#include "(.+)"$', text, re.MULTILINE)
    }
    tops = {P4SRC / f"{program}.p4" for program in PROGRAMS}
    assert included | tops == set(texts)
