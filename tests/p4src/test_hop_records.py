"""A switch that writes 12 bytes into what collects telemetry, and all others forward it.

The program is the fabric's with one mechanism more, of these tests (programs/hop_records.p4).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from compiler import compile_p4
from protocols.rocev2 import RETH, Opcode, icrc_is_valid
from protocols.telemetry import (
    Telemetry,
    TelemetryKind,
    appended,
    has_telemetry,
    shim_of,
    with_shim,
    without,
)
from softswitch import Output, Switch
from softswitch.core import CoreConfig
from softswitch.p4runtime.protos import p4i, p4r
from tests.p4src import hop_records
from weft.cli import main

ME = 77
OUT = 2
PATHS = range(2, 6)


def by_p4c(source: Path, folder: Path) -> tuple[bytes, Any]:
    program, info = folder / "fabric.json", folder / "fabric.txtpb"
    command = ["p4c-bm2-ss", *(f"-D{name}" for name in hop_records.CORE), str(source)]
    outputs = ["-o", str(program), "--p4runtime-files", str(info)]
    subprocess.run([*command, *outputs], check=True, capture_output=True)
    return program.read_bytes(), text_format.Parse(info.read_text(), p4i.P4Info())


@pytest.fixture(
    scope="module", params=["weft", pytest.param("p4c", marks=pytest.mark.reference("p4c-bm2-ss"))]
)
def program(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Any]:
    folder = tmp_path_factory.mktemp("program")
    source = hop_records.source(folder)
    if request.param == "p4c":
        return by_p4c(source, folder)
    result = compile_p4(source, defines=hop_records.CORE)
    return result.json_text.encode(), result.p4info


@pytest.fixture
def switch(program: tuple[bytes, Any]) -> Iterator[Switch]:
    """10.0.2.0/24 is behind port 2; 10.0.3.0/24 behind four ports, by the flow's hash."""
    with Switch.from_json(*program, config=CoreConfig(cpu_port=255)) as made:
        for port in PATHS:
            hop = {"port": port, "src_mac": 1, "dst_mac": 2}
            made.table_add("next_hop", {"next_hop": port}, "forward_to", hop)
        made.table_add("ipv4_route", {"dst": ("10.0.2.0", 24)}, "route_to", {"next_hop": OUT})
        made.table_default("hop_record_mode", "write_record", {"switch_id": ME})
        yield made


def packet(
    opcode: Opcode = Opcode.SEND_ONLY, *layers: Any, dst: str = "10.0.2.1", sport: int = 49152
) -> bytes:
    """Return a RoCEv2 frame whose ICRC is right."""
    frame: Any = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    frame /= IP(src="10.0.1.1", dst=dst, tos=2) / UDP(sport=sport, dport=4791, chksum=0)
    frame /= BTH(opcode=int(opcode), dqpn=7, psn=9)
    for layer in layers or (Raw(bytes(range(64))),):
        frame /= layer
    return bytes(frame)


def outputs(switch: Switch) -> list[Output]:
    return switch.run_until(switch.now_ns + 10**9)


def passed(switch: Switch, frame: bytes) -> bytes:
    """Return the frame as it leaves."""
    switch.inject(1, frame)
    (output,) = outputs(switch)
    assert output.port == OUT
    return bytes(output.packet)


def routed(frame: bytes) -> Packet:
    """Return the frame as a router that writes nothing passes it on."""
    layers = Ether(frame)
    layers.src, layers.dst = "00:00:00:00:00:01", "00:00:00:00:00:02"
    layers[IP].ttl -= 1
    del layers[IP].chksum
    return Ether(bytes(layers))


KINDS: dict[str, tuple[Opcode, tuple[Any, ...]]] = {
    "SEND": (Opcode.SEND_ONLY, ()),
    "WRITE": (Opcode.WRITE_ONLY, (RETH(address=1, rkey=2, length=64), Raw(bytes(64)))),
    "response": (Opcode.READ_ONLY, (AETH(syndrome=0x1F, msn=1), Raw(bytes(64)))),
}


@pytest.mark.parametrize("hops", [0, 1, 4, 7, 20])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_record_comes_first_and_all_else_stays(switch: Switch, kind: str, hops: int) -> None:
    opcode, layers = KINDS[kind]
    before = bytes(n % 251 for n in range(12 * hops))
    frame = packet(opcode, *layers)
    shimmed = with_shim(frame, Telemetry(hops=hops, format=int(hops > 0), data=before))
    output = passed(switch, shimmed)
    shim = shim_of(output)
    assert (shim.kind, shim.hops, shim.words, shim.format) == (0, hops + 1, 3 * (hops + 1), 1)
    assert hop_records.RECORD.unpack(shim.data[:12])[:2] == (ME, OUT)
    assert shim.data[12:] == before
    assert len(output) == len(shimmed) + 12
    assert without(output) == bytes(routed(frame))
    assert icrc_is_valid(without(output))
    layers_ = Ether(output)
    del layers_[IP].chksum
    assert Ether(bytes(layers_))[IP].chksum == Ether(output)[IP].chksum


def other_frames() -> dict[str, bytes]:
    shimmed = with_shim(packet(), Telemetry(format=1, data=bytes(12)))
    wrong = bytearray(shimmed)
    wrong[42] |= 0x10
    return {
        "RoCEv2 without a shim": packet(),
        "returned": with_shim(packet(Opcode.ACK, AETH()), Telemetry(kind=1, data=bytes(60))),
        "another format": with_shim(packet(), Telemetry(hops=1, format=9, data=bytes(4))),
        "another version": bytes(wrong),
        "more words than a switch reads": with_shim(packet(), Telemetry(data=bytes(4 * 64))),
    }


@pytest.mark.parametrize("what", list(other_frames()))
def test_others_are_forwarded_as_they_are(switch: Switch, what: str) -> None:
    frame = other_frames()[what]
    assert passed(switch, frame) == bytes(routed(frame))


@pytest.mark.parametrize("size", [0, 3])
def test_a_shim_that_is_cut_short_is_no_harm(switch: Switch, size: int) -> None:
    """A datagram to that port may be anything: it is dropped as malformed, or forwarded."""
    frame = Ether() / IP(src="10.0.1.1", dst="10.0.2.1") / UDP(dport=4794) / Raw(bytes(size))
    switch.inject(1, bytes(frame))
    assert all(output.port == OUT for output in outputs(switch))
    shimmed = with_shim(packet(), Telemetry(data=bytes(40)))
    for cut in range(42, len(shimmed)):
        switch.inject(1, shimmed[:cut])
    assert len(outputs(switch)) <= len(shimmed) - 42
    assert has_telemetry(passed(switch, shimmed))


def spread(switch: Switch, p4info: Any) -> None:
    """Group 1 has all four paths."""
    profile = next(each.preamble.id for each in p4info.action_profiles)
    actions = {each.preamble.alias: each.preamble.id for each in p4info.actions}
    group = p4r.ActionProfileGroup(action_profile_id=profile, group_id=1, max_size=len(PATHS))
    for port in PATHS:
        action = p4r.Action(action_id=actions["choose_next_hop"])
        action.params.add(param_id=1, value=bytes([port]))
        member = p4r.ActionProfileMember(action_profile_id=profile, member_id=port, action=action)
        switch.insert(action_profile_member=member)
        group.members.add(member_id=port, weight=1)
    switch.insert(action_profile_group=group)


def test_a_flow_with_a_shim_takes_the_path_of_the_flow_without(
    switch: Switch, program: tuple[bytes, Any]
) -> None:
    spread(switch, program[1])
    switch.table_add("ecmp_group", {"group": 1}, group=1)
    switch.table_add("ipv4_route", {"dst": ("10.0.3.0", 24)}, "route_to_group", {"group": 1})
    taken = set()
    for sport in range(49152, 49152 + 40):
        frame = packet(dst="10.0.3.1", sport=sport)
        ports = []
        for each in (frame, with_shim(frame, Telemetry()), with_shim(frame, Telemetry(version=3))):
            switch.inject(1, each)
            (output,) = outputs(switch)
            ports.append(output.port)
        assert len(set(ports)) == 1
        taken.add(ports[0])
    assert taken == set(PATHS)


def stf(frames: dict[str, bytes]) -> str:
    """Return a test in p4c's format: what goes in at port 1, and what it comes out as."""
    lines = [
        "add next_hop next_hop:2 forward_to(port:2, src_mac:1, dst_mac:2)",
        "add ipv4_route dst:0x0a000200/24 route_to(next_hop:2)",
        f"setdefault hop_record_mode write_record(switch_id:{ME})",
    ]
    for name, frame in frames.items():
        collects = name == "collects"
        record = hop_records.RECORD.pack(ME, OUT, 0, 0)
        text = bytes(routed(appended(frame, record) if collects else frame)).hex()
        if collects:  # when it left, nobody can know
            at = 2 * (42 + 4 + 8)
            text = text[:at] + "********" + text[at + 8 :]
        lines += [f"# {name}", f"packet 1 {frame.hex()}", f"expect 2 {text}$"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("compiler", "target"),
    [
        ("weft", "softswitch"),
        pytest.param("p4c", "softswitch", marks=pytest.mark.reference("p4c-bm2-ss")),
        pytest.param("weft", "bmv2", marks=pytest.mark.reference("simple_switch_grpc")),
        pytest.param("p4c", "bmv2", marks=pytest.mark.reference()),
    ],
)
def test_it_is_the_same_on_every_pairing(
    compiler: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Telemetry(hops=3, format=1, data=bytes(range(36)))
    frames = {"collects": with_shim(packet(), before), **other_frames()}
    script = tmp_path / "telemetry.stf"
    script.write_text(stf(frames))
    options = ["--compiler", compiler, "--target", target, "--json"]
    options += [option for name in hop_records.CORE for option in ("-D", name)]
    status = main(["stf", str(hop_records.source(tmp_path)), str(script), *options])
    result = json.loads(capsys.readouterr().out)
    assert status == 0, [row for row in result["rows"] if not row["ok"]]
    assert len(result["rows"]) == len(frames)


def test_with_all_of_the_fabric_it_compiles_without_warnings(tmp_path: Path) -> None:
    source = hop_records.source(tmp_path)
    warnings = compile_p4(source, defines=["WITH_HOP_RECORDS"], diagnostics=["Werror"]).warnings
    known = "BMv2 has no default_action for table"
    assert [each for each in warnings if known not in each.message] == []


def test_without_a_mechanism_that_wants_it_nothing_of_it_is_there() -> None:
    defines = ["PROFILE", "WITH_FABRIC", "WITH_FAST_CNP", "WITH_DCQCN"]
    program = compile_p4(hop_records.P4SRC / "fabric.p4", defines=defines)
    assert "telemetry" not in program.json_text.replace("include/telemetry.p4", "")


def test_kinds_are_those_of_c_and_scapy() -> None:
    assert [kind.value for kind in TelemetryKind] == [0, 1]
