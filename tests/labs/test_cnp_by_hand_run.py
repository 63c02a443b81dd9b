"""The lab cnp-by-hand as it runs: cards slow down for CNPs, in virtual time and live.

    card 1 --\\
              switch (starter | reference) --> card 3
    card 2 --/
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments import grade_worker, loader
from experiments.api import Check, Context, Finished, Measured, Runtime, Table, Variant, Verdict
from experiments.grade import reference
from experiments.lab_code import Hooks
from protocols.rocev2 import icrc_is_valid
from softswitch import Switch
from softswitch.p4runtime.named_updates import NamedUpdates
from weft import cli

LAB = loader.load("cnp-by-hand")
FOLDER = LAB.folder
SCRIPT = FOLDER / "build_cnp.py"


@pytest.fixture(scope="module")
def hooks() -> Hooks:
    return Hooks.of(FOLDER)


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    result = compile_p4(LAB.program)
    return CompiledProgram.of(result, LAB.program)


@pytest.fixture
def context(program: CompiledProgram, tmp_path: Path) -> Any:
    def context(variant: str, runtime: Runtime, **settings: int) -> Context:
        planned = {each.variant.name: each.variant for each in LAB.variants(runtime)}
        out = tmp_path / variant
        out.mkdir()
        return Context(
            lab=LAB.name,
            folder=FOLDER,
            variant=planned[variant],
            mapping={},
            seed=1,
            runtime=runtime,
            time_scale=LAB.time_scale(runtime),
            out=out,
            program=program,
            settings={**LAB.entry.settings, **settings},
        )

    return context


def ran(context: Context, metrics: dict[str, Measured]) -> Finished:
    return Finished(context.variant, 1, context.runtime, context.time_scale, context.out, metrics)


def verdicts(hooks: Hooks, runs: list[Finished]) -> dict[str, Check]:
    known = [planned.variant for planned in LAB.variants(runs[0].runtime)]
    table = Table(runs[0].runtime, runs[0].time_scale, runs, known)
    return {check.row: check for check in hooks.call("checks", table)}


def test_the_sources_slow_down_for_the_switchs_cnps(hooks: Hooks, context: Any) -> None:
    runs = []
    for variant in ("starter", "by-hand", "notification"):
        each = context(variant, Runtime.SIMULATOR, ms=1)
        runs.append(ran(each, hooks.call("measure_simulator", each)))
    told_nobody, told, read = (run.metrics for run in runs)
    # 2 x 10 Gb/s come and 10 leave: after 1 ms 1.25 MB wait, less what headers and gaps take.
    assert told_nobody["peak queue"].value == pytest.approx(1250 * 1082 / 1106, rel=0.02)
    assert told_nobody["rates, second half"].value == 20
    # At the threshold, and at most every 50 us a flow while the queue is above it: two at least,
    # since what was on its way still waits, and more as cuts in a row keep DCQCN's target.
    made = told["CNPs made"].value
    assert made is not None and made == told["CNPs taken"].value
    assert 2 * 2 <= made <= 2 * 1000 / 50
    assert told["of these as notifications"].value == 0
    assert read["of these as notifications"].value == read["CNPs made"].value
    # From the threshold over recirculation (1 us), the wire (1 us) and the data on its way.
    assert told["reaction"].value is not None and 2 <= told["reaction"].value <= 6
    assert all(check.verdict in (Verdict.PASS, Verdict.REPORTED)
               for check in verdicts(hooks, runs).values())  # fmt: skip
    frames = rdpcap(str(runs[1].folder / "cnps.pcap"))
    assert [int(frame[BTH].opcode) for frame in frames] == [0x81] * int(made)
    figures = list(hooks.call("figures", Table(Runtime.SIMULATOR, 1, runs, []), runs[0].folder))
    assert all(figure.path.is_file() for figure in figures)


def test_a_program_that_tells_nobody_fails_the_checks(hooks: Hooks, context: Any) -> None:
    starter = context("starter", Runtime.SIMULATOR, ms=1)
    metrics = hooks.call("measure_simulator", starter)
    by_hand = replace(starter, variant=Variant("by-hand"))
    found = verdicts(hooks, [ran(starter, metrics), ran(by_hand, metrics)])
    failed = {row for row, check in found.items() if check.verdict is Verdict.FAIL}
    assert failed == {
        "the program sends CNPs", "the sources' cards take them", "the sources' rates fall",
        "and the queue with them",
    }  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize(
    "runtime",
    [
        Runtime.SOFTSWITCH,
        pytest.param(Runtime.BMV2, marks=pytest.mark.reference("simple_switch_grpc")),
    ],
)
def test_live_endpoints_slow_down_too(hooks: Hooks, context: Any, runtime: Runtime) -> None:
    each = context("by-hand", runtime, ms=1)
    metrics = hooks.call("measure_live", each)
    assert metrics["CNPs made"].value >= 1
    assert metrics["CNPs taken"].value == metrics["CNPs made"].value
    assert metrics["CNPs with a wrong ICRC"].value == 0
    assert metrics["rates, second half"].value < 15
    assert metrics["goodput"].value > 0


# ---------------------------------------------------------------- the script of step 1


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("build_cnp", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_builds_a_cnp_that_the_card_takes_and_reads_it(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "cnp.pcap"
    run = [sys.executable, str(SCRIPT), "--write", str(capture)]
    built = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "its rate falls from 10 to 5 Gb/s" in built.stdout
    assert script.read(capture) == 0
    read = capsys.readouterr().out
    assert "10.0.3.1 tells 10.0.1.1, queue pair 0x000021" in read
    assert "right" in read and "1 of 1 packets are CNPs" in read
    assert script.read(Path("nowhere.pcap")) == 2
    assert capsys.readouterr().err == "nowhere.pcap: No such file or directory\n"


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda p: p[BTH].setfieldval("dqpn", 0x99), "no such queue pair"),
        (lambda p: p[IP].setfieldval("src", "10.0.9.9"), "its peer is another host"),
        (lambda p: p[IP].setfieldval("dst", "10.0.9.9"), "no RoCEv2 packet for this address"),
        (lambda p: p[UDP].setfieldval("dport", 4790), "no RoCEv2 packet"),
    ],
)
def test_the_card_says_why_it_does_not_take_a_cnp(script: Any, change: Any, why: str) -> None:
    card = script.sender()
    frame = script.build(Ether(card.transmit(0).frame), script.SOURCE_QP)
    packet = Ether(frame[:42]) / BTH(frame[42:54] + bytes(4)) / Raw(bytes(16))
    change(packet)
    del packet[IP].chksum
    packet[BTH].icrc = 0
    raw = bytes(packet)
    raw = raw[:-4] + script.icrc(raw).to_bytes(4, "little")
    said = script.try_it(raw, card)
    assert "does not take it" in said and why in said


def test_a_wrong_icrc_is_no_cnp(script: Any) -> None:
    card = script.sender()
    frame = script.build(Ether(card.transmit(0).frame), script.SOURCE_QP)
    assert "ICRC is wrong" in script.try_it(frame[:-4] + frame[:-5:-1], card)
    assert "its rate falls" in script.try_it(frame, card)


# ---------------------------------------------------------------- the same everywhere


def entry(table: str, match: dict[str, int], action: str, **params: int) -> dict[str, Any]:
    given = {name: hex(value) for name, value in params.items()}
    body = {"table": table, "action": {"name": action, "params": given}}
    exact = {name: {"exact": hex(value)} for name, value in match.items()}
    key = {"match": exact} if match else {"default": True}
    return {"type": "INSERT" if match else "MODIFY", "table_entry": {**body, **key}}


def told_at_once(random: Random) -> dict[str, Any]:
    """Return a vector file: a port where every packet is reported, and packets of all kinds to it.

    No queue and no clock decide then, so that all switches have to do the same.
    """
    grading = grade_worker.load(FOLDER)
    scenario, setup = grading.scenario, lab_network(grading)
    known, unknown = setup.connections
    mac = setup.router_mac
    session = {"id": 1, "replicas": [{"port": 510, "instance": 1}], "packet_length_bytes": 0}
    limits = {"threshold": 0, "interval": 0}
    identity = {"switch_id": 77, "rate": 0x9123, "validity": 3}
    hops = [
        entry("route", {"dst": h.ip}, "forward", port=h.port, src_mac=mac, dst_mac=h.mac)
        for h in setup.hosts
    ]
    pair = {"destination": known.sink.ip, "qp": known.sink_qp}
    packets = [scenario.data(random, known, mac, size) for size in (0, 1, 20, 21, 1000)]
    packets += [
        scenario.data(random, unknown, mac, 100),
        scenario.cnp(random, known, mac),
        scenario.other_udp(random, known, mac, 100),
    ]
    return {
        "program": "reference",
        "setup": [
            {"type": "INSERT", "clone_session": session},
            *hops,
            entry("congestion", {"port": setup.sink.port}, "watch", **limits),
            entry("source_qp", pair, "source_is", qp=known.source_qp),
            entry("identity", {}, "be", **identity),
        ],
        "cases": [{"in": {"port": 1, "hex": each.hex()}, "out": []} for each in packets],
    }


def lab_network(grading: Any) -> Any:
    """Hosts at ports 1 to 3 of the parity bench, and two connections of the first and third."""
    hosts = [grading.Host(10 << 24 | n, 0x0200 << 32 | n, n) for n in (1, 2, 3)]
    flows = [grading.Connection(hosts[0], 100 + n, hosts[2], 200 + n, 5000 + n) for n in (1, 2)]
    return grading.Setup((hosts[0], hosts[1]), hosts[2], 0x99, 0, 0, 77, 9, 3, flows)


@pytest.mark.root
@pytest.mark.reference
def test_the_reference_is_equal_on_all_four_pairings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, vectors = tmp_path / "reference.p4", tmp_path / "told.vectors.json"
    source.write_text(reference(FOLDER))
    vectors.write_text(json.dumps(told_at_once(Random(5))))
    command = ["parity", str(source), "--replay", str(vectors), "--json", "-o", str(tmp_path)]
    code = cli.main(command)
    report = json.loads(capsys.readouterr().out)
    names = ("missing", "different", "undefined", "cases")
    rows = [[row[name] for name in names] for row in report["pairings"]]
    assert rows == [["", 0, 0, 8]] * 4
    assert code == 0


def test_eight_packets_of_which_five_are_told(tmp_path: Path) -> None:
    """What the comparison above rests on: CNPs are really made there."""
    vectors = told_at_once(Random(5))
    (tmp_path / "reference.p4").write_text(reference(FOLDER))
    with Switch.from_p4(tmp_path / "reference.p4") as switch:
        named = NamedUpdates(switch.names)
        switch.write([named.update(update) for update in vectors["setup"]])
        for case in vectors["cases"]:
            switch.inject(1, bytes.fromhex(case["in"]["hex"]))
        outputs = switch.run_until(1_000_000)
    cnps = [output.packet for output in outputs if output.port == 1]
    assert len(cnps) == 5 and all(len(frame) == 74 and icrc_is_valid(frame) for frame in cnps)
    assert [output.port for output in outputs].count(3) == 8
