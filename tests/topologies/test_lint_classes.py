"""`weft lint` of topologies and run files: the class map against what the program really does.

h1, h2, h3 - s1        one switch; DSCP 26 is lossless in queue 3, CNPs (48) in queue 7
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from controller.lint_queues import LintError, queue_faults, queues_of_dscps
from controller.program import CompiledProgram
from mechanisms import registry
from softswitch.program_cache import Job, compile_program
from topologies import loads
from topologies.lint.classes import UNMAPPED_QUEUE
from topologies.lint.findings import Severity
from weft.cli import main
from workloads.lint_buffer import alone_bytes, buffer_faults
from workloads.loader import read_run

TOPOLOGY = """\
generator: single
time_scale: 10000
hosts: 3
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
classes:
  roce: {dscp: 26, queue: 3, lossless: true, ecn: 400KB}
  bulk: {dscp: [10, 11, 12], queue: 1}
  cnp: {dscp: 48, queue: 7}
  rest: {queue: 0}
"""
P4SRC = Path(__file__).resolve().parents[2] / "p4src"


def program(source: Path) -> CompiledProgram:
    result = compile_program(Job(source))
    return CompiledProgram.of(result)


@pytest.fixture(scope="module")
def fabric() -> CompiledProgram:
    return program(P4SRC / "fabric.p4")


@pytest.fixture(scope="module")
def upside_down(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the fabric with the queues' order reversed: class c waits in queue 7 - c."""
    folder = shutil.copytree(P4SRC, tmp_path_factory.mktemp("p4") / "p4src")
    module = folder / "modules" / "parameters.p4"
    text = module.read_text()
    changed = text.replace("= class_of_service;", "= 7 - class_of_service;")
    assert changed != text
    module.write_text(changed)
    return folder / "fabric.p4"


def findings(topology: str, queues: dict[int, int | None]) -> list[tuple[str, str]]:
    remarks = queue_faults(loads(topology), queues)
    return [(each.severity.value, f"{each.subject}: {each.message}") for each in remarks]


def test_the_fabric_does_what_the_class_map_says(fabric: CompiledProgram) -> None:
    queues = queues_of_dscps(loads(TOPOLOGY), fabric)
    special = {26: 3, 10: 1, 11: 1, 12: 1, 48: 7}
    assert queues == {dscp: special.get(dscp, UNMAPPED_QUEUE) for dscp in range(64)}
    assert findings(TOPOLOGY, queues) == []


def test_without_classes_notifications_come_first(fabric: CompiledProgram) -> None:
    plain = TOPOLOGY[: TOPOLOGY.index("classes")]
    queues = queues_of_dscps(loads(plain), fabric)
    assert queues == {dscp: 7 if dscp == 48 else 0 for dscp in range(64)}
    assert findings(plain, queues) == []
    assert findings(plain, dict.fromkeys(range(64), 0)) == [
        (
            "warning",
            "queues: the program serves congestion notifications (DSCP 48) in queue 0, not "
            "before DSCP 0-47, 49-63",
        )
    ]


def test_a_program_that_serves_other_queues(
    upside_down: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(TOPOLOGY)
    assert main(["lint", str(path), "--p4", str(upside_down), "--json"]) == 1
    errors = [
        f for f in json.loads(capsys.readouterr().out)["findings"] if f["severity"] == "error"
    ]
    said = [(each["line"], each["message"]) for each in errors]
    assert (6, "class roce: the program puts DSCP 26 into queue 4, not 3") in said
    assert (7, "class bulk: the program puts DSCP 10-12 into queue 6, not 1") in said
    assert (8, "class cnp: the program puts DSCP 48 into queue 0, not 7") in said
    (roce,) = (each for each in errors if each["line"] == 6)
    assert "PFC would pause queue 3" in roce["right"]
    # The same file is right for the program that it is for.
    assert main(["lint", str(path)]) == 0


ROCE, BULK, NONE = "class roce: the program ", "class bulk: the program ", "which have no class"


@pytest.mark.parametrize(
    ("changed", "severity", "message"),
    [
        ({26: None}, "error", f"{ROCE}drops packets of DSCP 26"),
        ({10: 0, 12: 0}, "error", f"{BULK}puts DSCP 10, 12 into queue 0, not 1"),
        ({5: 3}, "error", f"{ROCE}puts DSCP 5, {NONE}, into its queue too"),
        ({5: None}, "warning", f"classes: the program drops packets of DSCP 5, {NONE}"),
        ({5: 1}, None, ""),
    ],
)
def test_every_difference(
    fabric: CompiledProgram, changed: dict[int, int | None], severity: str | None, message: str
) -> None:
    queues = queues_of_dscps(loads(TOPOLOGY), fabric)
    expected = [] if severity is None else [(severity, message)]
    assert findings(TOPOLOGY, queues | changed) == expected


def test_a_program_that_the_controller_can_not_use(tmp_path: Path) -> None:
    path = tmp_path / "tiny.p4"
    path.write_text(
        "#include <core.p4>\n#include <v1model.p4>\nstruct h_t { }\nstruct m_t { }\n"
        "parser P(packet_in b, out h_t h, inout m_t m, inout standard_metadata_t s) "
        "{ state start { transition accept; } }\n"
        "control V(inout h_t h, inout m_t m) { apply { } }\n"
        "control I(inout h_t h, inout m_t m, inout standard_metadata_t s) "
        "{ apply { s.egress_spec = 1; } }\n"
        "control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply { } }\n"
        "control D(packet_out b, in h_t h) { apply { } }\n"
        "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    )
    with pytest.raises(LintError, match="the program has no") as caught:
        queues_of_dscps(loads(TOPOLOGY), program(path))
    assert "fabric.p4" in caught.value.remedy


RUN = """\
topology:
  generator: single
  hosts: 4
  link: {{rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}}
  classes:
    roce: {{dscp: 26, queue: 3, lossless: {lossless}, ecn: {ecn}}}
    cnp: {{dscp: 48, queue: 7}}
    rest: {{queue: 0}}
until: 1ms
{buffer}
traffic:
  - message: {{from: h1, to: h2, bytes: 4KB}}
"""


def run_text(buffer: str, *, lossless: str = "true", ecn: str = "400KB") -> str:
    return RUN.format(buffer=f"buffer: {buffer}" if buffer else "", lossless=lossless, ecn=ecn)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (run_text("{shared: 16MB, alpha: 1/8, headroom: formula}"), None),
        (run_text(""), (Severity.WARNING, "the run has no buffer")),
        (run_text("{shared: 16MB, headroom: none}"), (Severity.WARNING, "no headroom")),
        (
            run_text("{shared: 16MB, headroom: 20KB}"),
            (Severity.ERROR, "still arrives after a pause"),
        ),
        (run_text("{shared: 16MB, headroom: 60KB}"), None),
        (
            run_text("{shared: 3MB, alpha: 1/8, headroom: formula}"),
            (Severity.ERROR, "PFC pauses senders at"),
        ),
        (
            run_text("{shared: 3MB, alpha: 1/8, headroom: none}", lossless="false"),
            (Severity.ERROR, "the buffer drops at"),
        ),
        (
            run_text("{shared: 16MB, headroom: 1MB}", lossless="false"),
            (Severity.INFO, "no class is lossless"),
        ),
    ],
)
def test_buffers(text: str, expected: tuple[Severity, str] | None) -> None:
    run = read_run(text)
    remarks = [*buffer_faults(run), *registry.run_remarks(run, ("topology",))]
    if expected is None:
        assert remarks == []
    else:
        assert {each.severity for each in remarks} == {expected[0]}
        assert all(expected[1] in each.message for each in remarks)


def test_a_class_alone_fills_a_share_of_the_buffer() -> None:
    run = read_run(run_text("{shared: 9MB, alpha: 1/8, headroom: formula}"))
    # q = (9 MB - q) / 8
    assert run.buffer is not None and alone_bytes(run.buffer) == 10**6


def lint_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["lint", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_run_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(run_text("{shared: 16MB, headroom: 20KB}"))
    code, found = lint_json(capsys, str(path))
    assert code == 1
    (finding,) = found["findings"]
    assert (finding["line"], finding["severity"]) == (10, "error")
    path.write_text(run_text("{shared: 16MB, headroom: none}"))
    assert lint_json(capsys, str(path))[0] == 0
    assert lint_json(capsys, str(path), "--strict")[0] == 1
    path.write_text(run_text("").replace("rest", "roce"))
    assert lint_json(capsys, str(path))[0] == 1


def test_shipped_files_have_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["leafspine", "rail", "two-dc", "incast-32", "allreduce-small", "websearch"]
    assert lint_json(capsys, *names)[0] == 0


OWN = Path(__file__).resolve().parents[2] / "docs" / "my-own-p4"


@pytest.mark.parametrize(
    ("said", "warned"), [("iglb: true", 1), ("iglb: false", 0), ("dpfr: true", 1)]
)
def test_an_own_program_that_lacks_a_mechanism(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, warned: int
) -> None:
    folder = shutil.copytree(OWN, tmp_path / "own")
    net = folder / "net.yaml"
    net.write_text(f"{said}\n{net.read_text()}")
    _, found = lint_json(capsys, str(net))
    told = [each for each in found["findings"] if "the program has nothing of" in each["message"]]
    assert [(each["severity"], each["line"]) for each in told] == [("warning", 1)] * warned
    # fabric.p4 has it.
    net.write_text(net.read_text().replace("program: forward.p4", ""))
    _, found = lint_json(capsys, str(net))
    assert not any("has nothing of" in each["message"] for each in found["findings"])
