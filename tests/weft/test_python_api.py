"""`import weft`: what it costs, programs and switches, topologies, and what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import weft

BRIDGE = """#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    counter(8, CounterType.packets_and_bytes) sent;
    register<bit<32>>(4) cells;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; sent.count((bit<32>)port); }
    table macs {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { macs.apply(); cells.write(1, (bit<32>)s.packet_length); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
MAC = "02:00:00:00:00:02"
FRAME = Ether(dst=MAC) / IP(dst="10.0.0.2") / UDP() / b"hello"


@pytest.fixture(scope="module")
def program() -> weft.Program:
    return weft.compile(BRIDGE, name="bridge.p4")


@pytest.fixture
def switch(program: weft.Program) -> weft.Switch:
    switch = weft.Switch(program)
    switch.insert("macs", {"h.ethernet.dst": MAC}, "forward", {"port": 2})
    return switch


def python(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_importing_weft_imports_nothing_else() -> None:
    script = """
import sys
before = set(sys.modules)
import weft
new = {name.partition(".")[0].lstrip("_") for name in set(sys.modules) - before}
print(sorted(new - sys.stdlib_module_names))
"""
    assert python(script) == "['weft']"


def test_compile_and_sweep_are_functions_whatever_was_imported_before() -> None:
    commands = "weft.cli, weft.compile_command, weft.sweep_command"
    script = f"import {commands}, weft; print(weft.compile.__name__, weft.sweep.__name__)"
    assert python(script) == "compile sweep"


def test_all_names_are_there_and_no_others() -> None:
    assert {name for name in weft.__all__ if not hasattr(weft, name)} == set()
    assert set(weft.__all__) <= set(dir(weft))
    with pytest.raises(AttributeError, match="no attribute 'simulation'"):
        weft.simulation  # type: ignore[attr-defined]  # noqa: B018


# --- programs ------------------------------------------------------------------------------------


def test_a_program_says_its_tables(program: weft.Program) -> None:
    assert program.name == "bridge.p4"
    assert program.tables == ("macs",)
    assert program.source == BRIDGE
    assert "h.ethernet.dst (exact)" in repr(program)
    assert "<td" in program._repr_html_()


def test_program_files_are_those_of_weft_compile(program: weft.Program, tmp_path: Path) -> None:
    json_path, p4info_path = program.write(tmp_path / "out")
    assert json_path.read_text() == program.json
    assert p4info_path.name == "bridge.p4info.txtpb"


def test_an_error_shows_line_and_mark_of_the_text() -> None:
    with pytest.raises(weft.CompileError) as caught:
        weft.compile(BRIDGE.replace("sent.count", "snt.count"), name="bridge.p4")
    line = BRIDGE.splitlines()[13]
    place, text, mark = str(caught.value).splitlines()
    assert place.startswith("bridge.p4:14:") and 'did you mean "sent"?' in place
    assert text == line.replace("sent.count", "snt.count")
    assert mark.index("^") == text.index("snt")
    assert caught.value.diagnostics[0].pos.file == "bridge.p4"
    (shown,) = caught.value._render_traceback_()
    assert shown.startswith("CompileError: bridge.p4:14:") and "Traceback" not in shown


def test_a_changed_file_is_quoted_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "wrong.p4"
    for name in ("first", "other"):
        path.write_text(f"control {name}( {{\n")
        with pytest.raises(weft.CompileError, match=rf"control {name}\( {{\n +\^"):
            weft.compile(path)


def test_warnings_name_the_program_as_it_was_named() -> None:
    used = BRIDGE.replace("action drop()", "action never() { }\n    action drop()")
    (warning,) = weft.compile(used, name="bridge.p4").warnings
    assert warning.startswith("bridge.p4:13:") and warning.endswith("^")


def test_definitions_may_be_a_dict(program: weft.Program) -> None:
    text = BRIDGE.replace("sent.count", "NAME.count")
    assert weft.compile(text, defines={"NAME": "sent"}, name="bridge.p4").tables == ("macs",)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("router", {}, "'router' is neither a file"),
        ("no/such.p4", {}, "no/such.p4: error: can't read the program"),
        (BRIDGE, {"defines": "A=1"}, r'write \["A=1"\]'),
        (BRIDGE, {"name": "a/b.p4"}, "write a file's name"),
        (BRIDGE, {"diagnostics": ["Werror=foo"]}, "Werror=foo: no such kind"),
    ],
)
def test_what_cannot_be_compiled_is_said(
    source: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(source, **options)  # type: ignore[arg-type]


# --- switches ------------------------------------------------------------------------------------


def test_a_packet_goes_through(switch: weft.Switch) -> None:
    (left,) = switch.send(FRAME, port=1)
    assert (left.port, left.data) == (2, bytes(FRAME))
    assert left.packet[IP].dst == "10.0.0.2"
    assert switch.counter("sent", 2) == (1, len(bytes(FRAME)))
    assert switch.register("cells", 1) == len(bytes(FRAME))


def test_packets_that_wait_for_a_line_come_out(switch: weft.Switch) -> None:
    switch.inner.configure_port(2, rate_bps=10**9, delay_ns=1000)
    (left,) = switch.send(FRAME, port=1)
    assert left.at_ns == 84 * 8 + 1000  # the least that a frame takes on a line


def test_a_trace_says_why_a_packet_was_dropped(switch: weft.Switch) -> None:
    assert "hit" in switch.trace(FRAME)
    trace = switch.trace(Ether(dst="02:00:00:00:00:09"))
    assert "dropped" in trace and "I.drop() (default)" in trace
    assert trace.count("packet ") == 1  # not the one before
    assert repr(trace) == trace


def test_entries_are_shown_by_names(switch: weft.Switch) -> None:
    assert switch.entries() == [("macs", f"h.ethernet.dst {MAC}", "forward(port=2)", 0)]
    assert MAC in switch._repr_html_() and MAC in repr(switch)
    switch.delete("macs", {"h.ethernet.dst": MAC})
    assert switch.send(FRAME) == []
    switch.default("macs", "forward", {"port": 3})
    assert [left.port for left in switch.send(FRAME)] == [3]


@pytest.mark.parametrize(
    ("table", "match", "action", "params", "message"),
    [
        ("mac", {}, "forward", {"port": 2}, "did you mean 'macs'"),
        ("macs", {"dst": MAC}, "forward", {"port": 2}, "it has: h.ethernet.dst"),
        ("macs", {"h.ethernet.dst": "x"}, "forward", {"port": 2}, "'x' is not a value"),
        ("macs", {"h.ethernet.dst": 1}, "forward", {"port": 512}, "does not fit in 9 bits"),
        ("macs", {"h.ethernet.dst": MAC}, "forward", {"port": 2}, "^ALREADY_EXISTS: .* is there"),
    ],
)
def test_a_wrong_entry_is_said(
    switch: weft.Switch,
    table: str,
    match: dict[str, int | str],
    action: str,
    params: dict[str, int],
    message: str,
) -> None:
    with pytest.raises(weft.WeftError, match=message):
        switch.insert(table, match, action, params)  # type: ignore[arg-type]


def test_what_is_no_packet_port_or_option_is_said(switch: weft.Switch) -> None:
    for wrong in ("abc", None, 3):
        with pytest.raises(weft.WeftError, match="is no packet"):
            switch.send(wrong)
    for port in (-1, 512):
        with pytest.raises(weft.WeftError, match="a number from 0 to 511"):
            switch.send(FRAME, port)
    with pytest.raises(weft.WeftError, match="no option 'cpu' of a switch: there is cpu_port"):
        weft.Switch(switch.program, cpu=255)


# --- topologies ----------------------------------------------------------------------------------


def test_a_topology_of_each_kind(tmp_path: Path) -> None:
    made = weft.Topology.generate("leaf_spine", leaves=4, link={"rate": "100Gbps"})
    assert repr(made) == "leaf_spine: 6 switches, 8 hosts, 16 links"
    assert {link.rate_bps for link in made.model.links} == {10**11}
    assert {link.delay_ps for link in made.model.links} == {500_000}  # as a new file has it
    saved = weft.Topology(made.save(tmp_path / "net.yaml"))
    assert (saved.switches, saved.hosts) == (made.switches, made.hosts)
    assert weft.Topology(made.data).hosts == made.hosts
    assert weft.Topology("leafspine").run_value() == "leafspine"
    assert saved.run_value() == str(tmp_path / "net.yaml")
    with pytest.raises(FileExistsError):
        made.save(tmp_path / "net.yaml")


def test_a_topology_is_checked_and_drawn(tmp_path: Path) -> None:
    net = weft.Topology.generate("single", hosts=3)
    assert net._repr_svg_().count("<svg") == 1
    assert net.draw(tmp_path / "net.png").ending == "svg"
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    split = {**net.data, "time_scale": 1}
    assert any("time_scale" in each.message for each in weft.Topology(split).check())
    del split["time_scale"]  # in virtual time there is none to speak of
    found = weft.Topology(split).check()
    assert all("time_scale" not in each.message for each in found)
    assert "single point" in found._repr_html_()


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    before = dict(mpl.rcParams)
    weft.Topology("leafspine").draw()
    assert dict(mpl.rcParams) == before
    assert mpl.get_backend() == "svg"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"generator": "leaf_spine", "leafs": 2}, "^link: .*missing(.|\n)*leafs: unknown key"),
        ("leafspin", "did you mean 'leafspine'"),
        ({"generator": object()}, "^generator: object can't stand in a run"),
        ({1.5: 2}, "the key 1.5 is no text"),
    ],
)
def test_a_wrong_topology_is_said(source: object, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.Topology(source)  # type: ignore[arg-type]


def test_a_generator_that_there_is_not_is_said() -> None:
    with pytest.raises(weft.WeftError, match="there is no generator 'leaf'"):
        weft.Topology.generate("leaf")
