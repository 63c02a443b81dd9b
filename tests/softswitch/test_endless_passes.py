"""A pipeline whose graph goes round without end: the packet is dropped, counted and logged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from softswitch import Switch
from softswitch.codegen import Bmv2Program, build_pipeline, generate_c
from softswitch.codegen.layout import PASS_STEPS
from softswitch.core import SwitchCore
from softswitch.diagnostics import DiagnosticsClient
from softswitch.tracing.records import End
from tests.softswitch import tiny_program as tiny
from tests.softswitch.test_switch_daemon import Running, Wire, receive, start, wire

__all__ = ["start", "wire"]  # fixtures

SECOND_PS = 10**12
X = tiny.field("h", "x")
PORT = tiny.field("standard_metadata", "egress_spec")

LOOP = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> step; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action nothing() {}
    table t { key = { h.h.a : exact; } actions = { nothing; } default_action = nothing; }
    apply {
        s.egress_spec = 2;
        INGRESS
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action nothing() {}
    table t { key = { h.h.a : exact; } actions = { nothing; } default_action = nothing; }
    apply { EGRESS }
}
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
BODY = "for (bit<8> i = 0; i != 1; i = i + h.h.step) { h.h.a = h.h.a + i; t.apply(); }"
FOREVER, ONCE = bytes([7, 2]), bytes([7, 1])


@pytest.mark.parametrize("where", ["INGRESS", "EGRESS"])
def test_loop_around_a_table_ends_for_each_packet(where: str, tmp_path: Path) -> None:
    source = tmp_path / "loop.p4"
    text = LOOP.replace(where, BODY).replace("INGRESS", "").replace("EGRESS", "")
    source.write_text(text)
    with Switch.from_p4(source) as switch:
        lines: list[tuple[int, str]] = []
        switch.core.set_log(lambda level, line: lines.append((level, line)))

        def send(data: bytes) -> list[bytes]:
            switch.inject(1, data)
            return [output.packet for output in switch.run_until(switch.now_ns)]

        assert send(FOREVER) == []
        assert send(ONCE) == [ONCE]  # and goes on with the next packet
        stats = switch.switch_stats()
    assert stats.endless_passes == 1
    assert (stats.drop_ingress, stats.drop_egress)[where == "EGRESS"] == 1
    ((level, line),) = lines
    assert level == 3
    assert f'pipeline "{where.lower()}"' in line
    assert f"more than {PASS_STEPS} steps backwards" in line
    assert "dropped" in line


@pytest.mark.root
def test_daemon_goes_on_behind_a_packet_that_loops(
    wire: Wire, start: Callable[..., Running], tmp_path: Path
) -> None:
    """Two hosts on veth pairs: the loop's packet in, and the next one still crosses."""
    source, json = tmp_path / "loop.p4", tmp_path / "loop.json"
    source.write_text(LOOP.replace("INGRESS", BODY).replace("EGRESS", ""))
    json.write_text(compile_p4(source).json_text)
    ports = f"-i 1@{wire.ports[0]} -i 2@{wire.ports[1]}"
    daemon = start(str(json), ports)
    padding = bytes(58)
    for data in (FOREVER + padding, ONCE + padding):
        wire.hosts[0].send(data)
    assert receive(wire.hosts[1], lambda frame: frame[2:] == padding)[:2] == ONCE
    with DiagnosticsClient(daemon.address) as client:
        assert client.switch_stats()["switch"]["endless_passes"] == 1
    assert daemon.end() == 0
    (line,) = [line for line in daemon.log.read_text().splitlines() if "steps backwards" in line]
    assert "WARNING" in line


def backwards(pipeline: int = 0, *, requests: bool = True) -> Any:
    """`again` adds 1 to h.x until it is h.until; `setup` forwards, with `requests` also copies."""
    made = tiny.Tiny()
    made.type("h_t", [["x", 16, False], ["until", 16, False]])
    made.header("h", "h_t")
    made.emit("h")
    made.state("start", [tiny.extract("h")])
    setup = [tiny.call("assign", PORT, tiny.const(2))]
    if requests:
        group = tiny.field("standard_metadata", "mcast_grp")
        clone = "clone_ingress_pkt_to_egress"
        setup.append(tiny.call("assign", group, tiny.const(1)))
        setup.append(tiny.call(clone, tiny.const(1), tiny.const(0)))
    made.action("setup", *setup)
    made.action("again", tiny.call("add_to_field", X, tiny.const(1)), pipeline=pipeline)
    graph = made.doc["pipelines"][pipeline]
    graph["action_calls"][-1]["next_node"] = "until"
    graph["conditionals"].append(
        {
            "name": "until",
            "id": 0,
            "expression": tiny.op("==", X, tiny.field("h", "until")),
            "true_next": None,
            "false_next": graph["action_calls"][-1]["name"],
        }
    )
    return made


def load(made: Any, tmp_path: Path) -> SwitchCore:
    core = SwitchCore()
    core.load(build_pipeline(Bmv2Program.from_json(made.json()), cache_dir=tmp_path))
    return core


def packet(x: int, until: int) -> bytes:
    """h with both fields."""
    return x.to_bytes(2, "big") + until.to_bytes(2, "big")


@pytest.mark.parametrize("pipeline", [0, 1])
@pytest.mark.parametrize("steps", [PASS_STEPS, PASS_STEPS + 1])
def test_branch_backwards_has_a_budget(pipeline: int, steps: int, tmp_path: Path) -> None:
    core = load(backwards(pipeline, requests=False), tmp_path)
    core.inject(1, packet(0, steps + 1))  # the first addition is no step backwards
    out = [output.data for output in core.take_output()]
    stats = core.stats()
    drops = stats.drop_egress if pipeline else stats.drop_ingress
    if steps == PASS_STEPS:
        assert (out, stats.endless_passes, drops) == ([packet(steps + 1, steps + 1)], 0, 0)
    else:
        assert (out, stats.endless_passes, drops) == ([], 1, 1)
    core.close()


def test_trace_says_why_the_packet_was_dropped(tmp_path: Path) -> None:
    source = tmp_path / "loop.p4"
    source.write_text(LOOP.replace("INGRESS", "").replace("EGRESS", BODY))
    with Switch.from_p4(source) as switch, switch.trace():
        switch.inject(1, FOREVER)
        switch.run_until(switch.now_ns)
        (branch,) = switch.traced[-1].branches
    end = branch.steps[-1]
    assert isinstance(end, End)
    assert f"more than {PASS_STEPS} steps backwards" in end.why


def test_nothing_is_left_of_a_packet_that_goes_round(tmp_path: Path) -> None:
    core = load(backwards(), tmp_path)
    core.inject(1, packet(1, 0))
    stats = core.stats()
    assert core.take_output() == []
    assert (stats.endless_passes, stats.drop_ingress) == (1, 1)
    assert (stats.clone_unknown_session, stats.multicast_unknown_group) == (0, 0)
    core.inject(1, packet(1, 2))
    stats = core.stats()
    assert (stats.endless_passes, stats.clone_unknown_session) == (1, 1)
    core.close()


def test_jumps_of_an_action_in_a_cycle_share_its_budget(tmp_path: Path) -> None:
    made = backwards(requests=False)
    made.doc["actions"][1]["primitives"].append(tiny.call("_jump", tiny.const(0)))
    core = load(made, tmp_path)
    core.inject(1, packet(0, 1))
    assert core.stats().endless_passes == 1
    core.close()


def test_log_says_it_once_a_second(tmp_path: Path) -> None:
    core = load(backwards(), tmp_path)
    lines: list[str] = []
    core.set_log(lambda _level, line: lines.append(line))
    for at_ps in (0, 1, SECOND_PS - 1, SECOND_PS, SECOND_PS + 1):
        core.inject(1, packet(1, 0), at_ps)
    assert len(lines) == 2
    assert core.stats().endless_passes == 5
    core.close()


def test_program_without_a_cycle_counts_nothing() -> None:
    made = tiny.Tiny()
    made.state("start", [])
    made.action("jumps", tiny.call("_jump", tiny.const(0)))
    code = generate_c(Bmv2Program.from_json(made.json()))
    assert "backward_steps" not in code
    assert "pass_is_endless" not in code
    assert "backward_steps" in generate_c(Bmv2Program.from_json(backwards().json()))
