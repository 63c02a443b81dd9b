"""p4src as files: they compile without warnings, and their P4Info is the committed one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import text_format
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from softswitch import Switch
from softswitch.compiler import compile_p4
from softswitch.p4runtime.protos import p4i

P4SRC = Path(__file__).parents[2] / "p4src"
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


@pytest.mark.reference("p4c-bm2-ss")
@pytest.mark.parametrize("program", PROGRAMS)
def test_p4c_takes_it_with_werror_and_makes_the_same_p4info(program: str, tmp_path: Path) -> None:
    p4c = shutil.which("p4c-bm2-ss")
    assert p4c is not None
    outputs = ["-o", str(tmp_path / "p.json"), "--p4runtime-files", str(tmp_path / "p.txtpb")]
    command = [p4c, "--std", "p4-16", "--Werror", *outputs, str(P4SRC / f"{program}.p4")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if "warning:" in line]
    assert [line for line in said if KNOWN_P4C not in line] == []
    ours = compile_p4(P4SRC / f"{program}.p4").p4info
    assert p4info_of((tmp_path / "p.txtpb").read_text()) == ours


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


def test_no_file_is_left_out_of_the_programs() -> None:
    text = "".join(path.read_text() for path in P4SRC.rglob("*.p4"))
    own_use = {"notification.p4"}  # the signal's layout, for the features that send it
    for path in (P4SRC / "include").glob("*.p4"):
        assert path.name in own_use or f'{path.name}"' in text
    for path in (P4SRC / "modules").glob("*.p4"):
        assert f'"modules/{path.name}"' in (P4SRC / "fabric.p4").read_text()
