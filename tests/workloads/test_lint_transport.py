"""`weft lint` of a run's transport: congestion control, retransmission and timers.

h1, h2, h3 - s1, or h1, h2 - s1 - s2 - h3: 100 Gb/s, queue 16 MB, DSCP 26 lossless and marked
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mechanisms import registry
from topologies.lint.findings import Remark, Severity
from weft.cli import main
from workloads.lint_transport import transport_faults
from workloads.loader import available_runs, load_run_file, read_run
from workloads.model import RunFile

RUN = """\
topology:
  generator: single
  hosts: 3
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
  classes:
    cnp: {dscp: 48, queue: 6}
    roce: {dscp: 26, queue: 3, lossless: true, ecn: hpcc-dcqcn}
    rest: {queue: 0}
until: 1ms
buffer: {shared: 32MB, alpha: 1/2, headroom: formula}
transport: {congestion_control: dcqcn, parameters: hpcc-dcqcn}
traffic:
  - message: {from: h1, to: h2, bytes: 4KB}
"""
LONG = RUN.replace(
    "  generator: single\n  hosts: 3\n",
    "  switches: [s1, s2]\n  hosts: [h1, h2, h3]\n  links:\n    - {a: h1, b: 's1:1'}\n"
    "    - {a: h2, b: 's1:2'}\n    - {a: 's1:3', b: 's2:1', delay: 500us}\n"
    "    - {a: 's2:2', b: h3}\n",
)
ROCE = "lossless: true, ecn: hpcc-dcqcn"
SET = "parameters: hpcc-dcqcn}"


def faults_of(run: RunFile) -> list[Remark]:
    return [*transport_faults(run), *registry.run_remarks(run, ("topology",))]


def faults(text: str) -> list[Remark]:
    return faults_of(read_run(text))


@pytest.mark.parametrize("text", [RUN, LONG, RUN.replace("transport: {cong", "# {cong")])
def test_good_ones_have_no_remark(text: str) -> None:
    assert faults(text) == []


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


@pytest.mark.parametrize(
    ("text", "severity", "subject", "message"),
    [
        (
            RUN.replace(ROCE, "lossless: true"),
            ERROR,
            "class roce",
            "it has no ecn: nothing is ever marked, and DCQCN never slows down",
        ),
        (
            RUN.replace("dscp: 26", "dscp: 27")
            .replace(SET, f"{SET[:-1]}, RETRY}}")
            .replace("RETRY", "retransmission: selective-repeat"),
            ERROR,
            "DSCP 26",
            "it is in no class: nothing is ever marked",
        ),
        (
            RUN.replace(ROCE, "ecn: hpcc-dcqcn"),
            WARNING,
            "class roce",
            "lossy, and go-back-N sends all again that followed a lost packet",
        ),
        (
            RUN.replace(ROCE, "ecn: hpcc-dcqcn").replace(
                SET, "retransmission: selective-repeat, operation: read}"
            ),
            WARNING,
            "class roce",
            "lossy, and READ asks for all again that followed a lost packet",
        ),
        (
            RUN.replace(ROCE, "lossless: true, ecn: ns3-rdma"),
            WARNING,
            "class roce",
            "marks for ns3-rdma, and senders use hpcc-dcqcn",
        ),
        (
            RUN.replace("shared: 32MB", "shared: 3MB"),
            WARNING,
            "class roce",
            "marking grows up to 1600kB, and the shared buffer ends it at 1MB",
        ),
        (
            LONG.replace(SET, "parameters: hpcc-dcqcn, udp_ports: 4}"),
            WARNING,
            "transport",
            "4 UDP ports take 4 ways, and go-back-N sends everything again",
        ),
        (
            RUN.replace("hpcc-dcqcn", "ns3-rdma"),
            WARNING,
            "transport",
            "ns3-rdma is for 40Gbps and does not scale: at 100Gbps it still grows by 40Mbps",
        ),
        (
            LONG.replace(SET, "parameters: hpcc-dcqcn, timeout: 900us}"),
            ERROR,
            "h1 to h3",
            "a time-out of 900us is over before an answer can be there, after 1005 us",
        ),
        (
            RUN.replace(SET, "parameters: hpcc-dcqcn, timeout: 100us}"),
            WARNING,
            "h1 to h2",
            "a time-out of 100us is over while packets wait in one full queue",
        ),
        (
            LONG.replace(SET, "parameters: hpcc-dcqcn, window: 256}"),
            INFO,
            "h1 to h3",
            "a window of 256 packets of 4096B lasts for 8 % of a round trip (1005 us)",
        ),
    ],
)
def test_each_fault_is_told(text: str, severity: Severity, subject: str, message: str) -> None:
    (found,) = faults(text)
    assert (found.severity, found.subject) == (severity, subject)
    assert found.message.startswith(message), found.message
    assert found.right


def test_one_port_does_not_reorder_and_one_switch_has_one_way() -> None:
    assert faults(RUN.replace(SET, "parameters: hpcc-dcqcn, udp_ports: 4}")) == []


def test_open_loop_traffic_asks_for_nothing() -> None:
    text = RUN.replace(ROCE, "lossless: true").replace("4KB}", "4KB, transport: none}")
    assert faults(text) == []
    cbr = RUN.replace(ROCE, "lossless: true").replace(
        "message: {from: h1, to: h2, bytes: 4KB}", "cbr: {from: h1, to: h2, rate: 1Gbps}"
    )
    assert faults(cbr) == []


def test_shipped_runs_have_good_transports() -> None:
    runs = [load_run_file(name) for name in available_runs() if "1024" not in name]
    assert any(run.transport for run in runs)
    for run in runs:
        assert faults_of(run) == [], run.name


def test_the_command_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(RUN.replace(ROCE, "lossless: true, ecn: ns3-rdma"))
    assert main(["lint", "--json", str(path)]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["line"], finding["severity"]) == (7, "warning")
    path.write_text(RUN.replace(ROCE, "lossless: true"))
    assert main(["lint", "--json", str(path)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["line"], finding["severity"]) == (11, "error")
