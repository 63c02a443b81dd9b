"""`weft sim` as a user meets it: runs, results, progress, and what is said of wrong input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.free_port import free_port
from tests.simulator import test_lock_step as lock_step
from weft import cli

SMALL = """\
description: one message
topology: leafspine
traffic:
  - message: {from: h1, to: h3, bytes: 1MB}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_a_run_says_what_happened(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sim", str(small), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    for phrase in ("runtime simulator", "time_scale 1", "1 of 1 done", "0 packets", "weft plot"):
        assert phrase in shown, phrase
    assert (tmp_path / "out" / "flows.parquet").exists()
    assert "reordered" not in shown


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("h3", "uplinks p50 2, p99 2, in windows of 50 us; 0 of"),  # one of two spines
        ("h2", "packets reordered; no switch had uplinks to compare"),  # on the same leaf
    ],
)
def test_a_run_that_records_paths_says_how_even_they_were(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str, says: str
) -> None:
    small.write_text(SMALL.replace("h3", to) + "record: {paths: {window: 50us}}\n")
    assert cli.main(["sim", str(small), "--out", str(tmp_path / "out")]) == 0
    assert says in " ".join(capsys.readouterr().out.split())


def test_goodput_is_over_the_time_that_flows_ran(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 1 MB takes 20 us; the run goes on for 80 us more, in which nothing is there to be sent.
    small.write_text(SMALL + "until: 100us\n")
    assert cli.main(["sim", str(small), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    found = re.search(r"1 flows, 1.0 MB, ([0-9.]+) Gb/s in ([0-9.]+) us \(80.0 Gb/s over", shown)
    assert found, shown
    assert float(found[1]) == pytest.approx(8e3 / float(found[2]), rel=1e-3)
    assert 300 < float(found[1]) < 400


def test_the_documentation_s_snippet_runs_with_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(cli.__file__).parents[1] / "docs" / "results.md"
    snippet = page.read_text().partition("    import ")[2].partition("\n\n")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)  # not with Weft, even if it is here
    assert cli.main(["sim", "incast-32", "--until", "20us"]) == 0
    found: dict[str, Any] = {}
    exec(textwrap.dedent(f"    import {snippet}"), found)
    assert len(found["slowest"]) == 3
    rates = [row["goodput_bps"] for row in found["slowest"]]
    assert rates == sorted(rates) and set(found["slowest"][0]) == {"src", "dst", "goodput_bps"}


FAST = """\
description: two to one
topology:
  switches: [s1]
  hosts: [h1, h2, h3]
  link: {rate: 100Gbps, delay: 500ns, queue: 16MB}
  links: [{a: h1, b: "s1:1"}, {a: h2, b: "s1:2"}, {a: h3, b: "s1:3"}]
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, fast_cnp: true}
    rest: {queue: 0}
transport: {congestion_control: fast-cnp}
traffic:
  - incast: {to: h3, from: [h1, h2], bytes: 1MB}
"""


def test_fast_cnps_are_told_by_what_became_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "fast.yaml", tmp_path / "out"
    path.write_text(FAST)
    assert cli.main(["sim", str(path), "--out", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    summary = json.loads((out / "summary.json").read_text())
    counts = summary["fast_cnps"]
    assert counts["sent"] == summary["transport"]["fast_cnps"] > 0
    assert counts["interval"] > 0
    assert {"already_told", "ambiguous_qp"} <= set(counts)
    assert f"fast CNPs {counts['sent']} sent, {counts['interval']} within the interval" in shown
    assert f"0 CNPs reached senders, {counts['sent']} fast CNPs" in shown

    # where no packet meets a long queue there is no row, and without the feature nothing at all
    path.write_text(FAST.replace("[h1, h2], bytes: 1MB", "[h1], bytes: 1kB"))
    assert cli.main(["sim", str(path), "--out", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "0 fast CNPs" in shown and "fast CNPs 0 sent" not in shown
    assert not any(json.loads((out / "summary.json").read_text())["fast_cnps"].values())
    path.write_text(FAST.replace(", fast_cnp: true", "").replace("fast-cnp}", "dcqcn}"))
    assert cli.main(["sim", str(path), "--out", str(out)]) == 0
    assert "fast CNP" not in capsys.readouterr().out
    assert "fast_cnps" not in json.loads((out / "summary.json").read_text())


def test_a_transport_is_told_with_its_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reliable.yaml"
    path.write_text(SMALL + "transport: {parameters: hpcc-dcqcn-paper}\n")
    assert cli.main(["sim", str(path), "--out", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for phrase in ("RC WRITE, go-back-n, MTU 1024 B", "1 of 1 done", "hpcc-dcqcn-paper at 400Gbps"):
        assert phrase in shown, phrase


def test_json_is_the_summary(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["sim", str(small), "--out", str(out), "--json", "--seed", "5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    written = json.loads((out / "summary.json").read_text())
    assert shown.pop("out") == str(out)
    assert shown == written
    assert shown["run"]["seed"] == 5
    assert shown["messages"]["done"] == 1


def test_a_capture_is_a_pcap_that_scapy_reads(small: Path, tmp_path: Path) -> None:
    from scapy.contrib.roce import BTH
    from scapy.utils import rdpcap

    out = tmp_path / "out"
    assert cli.main(["sim", str(small), "--out", str(out), "--pcap", "h3"]) == 0
    [file] = tmp_path.glob("*.pcap")
    packets = rdpcap(str(file))
    assert [packet[BTH].psn for packet in packets] == list(range(len(packets)))
    assert sum(len(packet[BTH].payload) for packet in packets) >= 1_000_000


def test_the_time_is_an_option(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["sim", str(small), "--out", str(out), "--until", "5us"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["end"]["now_ps"] == 5_000_000
    assert summary["messages"]["done"] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topology: leafspine\ntrafic: []\n", "2:1: trafic: unknown key 'trafic'"),
        ("topology: leafspine\ntraffic: [{cbr: {from: h1, to: h3, rate: 0Gbps}}]\n", "2:"),
        ("topology: leafspine\njob: {ranks: 5, phases: [{allreduce: {bytes: 1MB}}]}\n", "2:"),
        ("topology: nowhere\ntraffic: []\n", "no topology 'nowhere'"),
        ("topology: leafspine\n", "traffic"),
        ("- 1\n", "mapping"),
    ],
)
def test_wrong_files_get_one_clear_error(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert cli.main(["sim", str(path), "--out", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().err
    assert "bad.yaml:" in shown
    assert says in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "no run given"),
        (["nowhere"], 1, "no such run file"),
        (["leafspine"], 1, "this is a topology"),
        (["incast-32", "--until", "5"], 2, "--until 5"),
        (["incast-32", "--until", "0us"], 2, "above 0"),
        (["incast-32", "--time-scale", "0"], 2, "at least 1"),
        (["incast-32", "--pcap", "s9:1"], 1, "s9"),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sim", *arguments]) == code
    assert says in capsys.readouterr().err


def test_a_folder_with_other_things_is_left_alone(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    assert cli.main(["sim", str(small), "--out", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_leaves_a_whole_result(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = tmp_path / "long.yaml"
    run.write_text(SMALL.replace("bytes: 1MB", "bytes: 999GB"))
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "weft"), "sim", str(run), "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (out / "queues.parquet").exists():
        assert process.poll() is None
        time.sleep(0.05)
    begun = cpu_s(process.pid)
    while cpu_s(process.pid) < begun + 0.3:  # it runs
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "interrupted" in shown
    assert "Traceback" not in errors
    summary = json.loads((out / "summary.json").read_text())
    assert summary["end"]["interrupted"] is True
    assert summary["flows"]["received_packets"] > 0


def test_shipped_runs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sim", "--list"]) == 0
    assert "incast-32" in capsys.readouterr().out


def test_a_slow_host_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "slow.yaml", tmp_path / "out"
    slow = (
        "topology:\n  {generator: single, hosts: 3, "
        "link: {rate: 100Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}}\n"
        "until: 200us\nreceivers: {h3: {rate: 40Gbps, buffer: 20kB}}\n"
        "traffic: [{incast: {to: h3, from: h1, persistent: true}}]\n"
    )
    path.write_text(slow)
    assert cli.main(["sim", str(path), "--out", str(out)]) == 0
    found = json.loads((out / "summary.json").read_text())["receivers"]["h3"]
    assert found["dropped"] > 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{found['taken']} frames taken, {found['dropped']} lost, 0 pauses" in shown
    path.write_text(slow.replace("receivers: {h3: {rate: 40Gbps, buffer: 20kB}}\n", ""))
    assert cli.main(["sim", str(path), "--out", str(out)]) == 0
    assert "receivers" not in json.loads((out / "summary.json").read_text())
    assert "slow host" not in capsys.readouterr().out


def test_what_a_transport_allows_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "apart.yaml"
    path.write_text(
        "topology: leafspine\n"
        "transport: {retransmission: selective-repeat, reorder: 12us, ack_class: cnp}\n"
        "traffic: [{message: {from: h1, to: h3, bytes: 64kB}}]\n"
    )
    assert cli.main(["sim", str(path), "--out", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "an ACK in class cnp for 8" in shown
    assert "packets may overtake each other by 12us" in shown


def test_a_controller_of_ones_own_is_waited_for_and_answers_in_virtual_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.lock_step.SETTLE_S", lock_step.PATIENT_S)
    path = tmp_path / "learn.yaml"
    path.write_text(lock_step.RUN + lock_step.lines("1ms", "2ms", "3ms"))
    names, port = lock_step.names_of(lock_step.simulation("1ms")), free_port()
    learners: list[lock_step.Learner] = []

    def connect() -> None:
        learners.append(lock_step.Learner(f"127.0.0.1:{port}", names, wait=True))

    threading.Thread(target=connect, daemon=True).start()
    arguments = ["sim", str(path), "--p4runtime", str(port), "--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    assert f"P4Runtime: s1 127.0.0.1:{port} (device 1); waiting" in shown.out + shown.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["totals"]["received"] == 3
    (learner,) = learners
    assert len(learner.asked) == 1


def test_p4runtime_is_for_switches_that_nobody_plans_for(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sim", str(small), "--p4runtime", "0"]) == 2
    assert (
        "--p4runtime is for switches that Weft's controller does not manage"
        in capsys.readouterr().err
    )
