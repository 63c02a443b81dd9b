"""`weft conformance` on a small testdata directory of our own, and on p4c's where it is.

$WEFT_P4C_SAMPLES names p4c's testdata/p4_16_samples; without it that test is skipped, saying so.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from compat.conformance import p4c, testdata
from compat.conformance.findings import Verdict
from compat.conformance.testdata import Architecture
from softswitch import jobs as pool
from weft.cli import main

V1 = "#include <core.p4>\n#include <v1model.p4>\n"
REST = """struct H { } struct M { }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { %s } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in H h) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
"""
CORE = "#include <core.p4>\n"


def v1model(body: str) -> str:
    return V1 + REST % body


SAMPLES = {
    "same.p4": v1model("bit<8> x;"),
    "extra.p4": v1model("bit<8> x;"),
    "missed.p4": v1model(""),
    "placeless.p4": v1model("bit<8> x;"),
    "wrongly-refused.p4": v1model("y = 1;"),
    "other.p4": "#include <psa.p4>\nnonsense\n",
    "core.p4": CORE + "const bit<8> K = 1;\n",
}
ERRORS = {
    "right.p4": v1model("\n\n    y = 1;\n"),
    "elsewhere.p4": v1model("\n\n    y = 1;\n"),
    "accepted.p4": v1model(""),
    "p4c-accepts.p4": v1model(""),
    "core.p4": CORE + "const bit<8> K = y;\n",
}
OUTPUTS = {
    "same.p4": "same.p4(8): [--Wwarn=unused] warning: 'x' is unused\n",
    "extra.p4": "",
    "missed.p4": "missed.p4(8): [--Wwarn=ordering] warning: something\n",
    "placeless.p4": "[--Wwarn=unused] warning: 'tmp' is unused\n",
    "wrongly-refused.p4": "",
    "core.p4": "core.p4(2): [--Wwarn=unused] warning: 'K' is unused\n"
    "[--Wwarn=missing] warning: Program does not contain a `main' module\n",
}
ERROR_OUTPUTS = {
    "right.p4": "right.p4(10): [--Werror=not-found] error: y: declaration not found\n    y = 1;\n",
    "elsewhere.p4": "elsewhere.p4(3):syntax error, unexpected y\n",
    "accepted.p4": "accepted.p4(3): [--Werror=type-error] error: no\n",
    "p4c-accepts.p4": "p4c-accepts.p4(3): [--Wwarn=unused] warning: something\n",
    "core.p4": "core.p4(2): [--Werror=not-found] error: y: declaration not found\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = tmp_path / "p4c" / "testdata"
    for suite, programs, outputs in (
        ("p4_16_samples", SAMPLES, OUTPUTS),
        ("p4_16_errors", ERRORS, ERROR_OUTPUTS),
    ):
        (top / suite).mkdir(parents=True)
        (top / f"{suite}_outputs").mkdir()
        for name, text in programs.items():
            (top / suite / name).write_text(text)
        for name, text in outputs.items():
            (top / f"{suite}_outputs" / f"{name}-stderr").write_text(text)
    (top.parent / "Version.txt").write_text("# p4c\n1.2.99\n")
    return top.parent


def conformance(*arguments: str | Path) -> int:
    return main(["conformance", "--outputs", "--no-stf", *map(str, arguments)])


def test_numbers(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(checkout, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["p4c_outputs"] == "1.2.99" and result["p4c_run"] == ""
    numbers = result["numbers"]
    assert numbers["refusals"] == pytest.approx(100 / 3)
    assert numbers["core-refusals"] == 100
    assert numbers["crashes"] == numbers["unsupported"] == 0
    # same and placeless of three; and of those two and what is missed
    assert numbers["warnings-precision"] == pytest.approx(200 / 3)
    assert numbers["warnings-recall"] == pytest.approx(200 / 3)
    verdicts = {
        f"{one['suite']}/{one['program']}": (one["ours"], one["p4c"]) for one in result["programs"]
    }
    assert verdicts["p4_16_samples/wrongly-refused.p4"] == ("refused", "accepted")
    assert verdicts["p4_16_errors/accepted.p4"] == ("accepted", "refused")
    assert verdicts["p4_16_errors/p4c-accepts.p4"] == ("accepted", "accepted")
    assert verdicts["p4_16_samples/other.p4"][1] is None


def test_page(checkout: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert conformance(checkout / "testdata", "--report", page) == 0
    text = page.read_text()
    assert "p4c 1.2.99 keeps" in text
    assert (
        "p4c refuses 3 of these programs of `p4_16_errors`. Ours: 1 refused at p4c's line" in text
    )
    assert "| elsewhere.p4 | refused at another line | elsewhere.p4:3: syntax error" in text
    assert "| accepted.p4 | accepted | accepted.p4:3: [type-error] no |" in text
    assert "p4c accepts 1 more; of them ours accepts 1." in text
    assert "| wrongly-refused.p4 | refused | accepted | wrongly-refused.p4:8: unknown name" in text
    assert "| unused | 2 | 1 | 0 |" in text and "| ordering | 0 | 0 | 1 |" in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ("refusals=33%,crashes=0", 0),
        ("refusals=34%", 1),
        ("unsupported=0%,core-refusals=100%", 0),
        ("warnings-recall=90%", 1),
        ("", 0),
    ],
)
def test_limits(limits: str, code: int, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(checkout, "--require", limits) == code
    assert ("FAILED" in capsys.readouterr().out) == (code == 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--require", "refusal=90%"),
        ("--require", "refusals=90"),
        ("--require", "crashes=0%"),
        ("--require", "stf=180"),
        ("--jobs", "0"),
        ("--require", "stf=1", "--no-stf"),
        ("--require", "refusals-json=1%", "--outputs"),
        ("--report", "."),
        ("--report", "nowhere/page.md"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], checkout: Path) -> None:
    assert conformance(checkout, *arguments) == 2


def test_no_testdata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(tmp_path) == 1
    assert "give p4c's testdata directory" in capsys.readouterr().err


def test_packets_count(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Path(__file__).with_name("stf")
    samples = checkout / "testdata" / "p4_16_samples"
    for name in ("frame.p4", "copies-bmv2.p4", "copies-bmv2.stf"):
        (samples / name).write_text((own / name).read_text())
    (samples / "same-bmv2.stf").write_text("packet 0 00\nexpect 9 00\n")
    (samples / "same-bmv2.p4").write_text(SAMPLES["same.p4"])
    command = ["conformance", str(checkout), "--outputs", "--json", "--require"]
    assert main([*command, "stf=1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["numbers"]["stf"] == 1
    assert main([*command, "stf=2"]) == 1


def test_architecture_through_files_beside(tmp_path: Path) -> None:
    (tmp_path / "top.p4").write_text('#include "inner.p4"\n')
    (tmp_path / "inner.p4").write_text("#include <core.p4>\n#include <v1model.p4>\n")
    (tmp_path / "core.p4").write_text("# include <core.p4>\n")
    (tmp_path / "psa.p4").write_text('#include "psa.p4"\n#include <bmv2/psa.p4>\n')
    found = {p.name: testdata.architecture_of(p) for p in sorted(tmp_path.glob("*.p4"))}
    assert found["top.p4"] is found["inner.p4"] is Architecture.V1MODEL
    assert found["core.p4"] is Architecture.CORE
    assert found["psa.p4"] is Architecture.OTHER


@pytest.mark.parametrize(
    ("text", "verdict", "errors", "warnings"),
    [
        ("", Verdict.ACCEPTED, [], []),
        ("a.p4(3): [--Winfo=removed] info: removing\n", Verdict.ACCEPTED, [], []),
        ("a.p4(3):syntax error, unexpected }\n  }\n", Verdict.REFUSED, [("a.p4", 3, "")], []),
        (
            "x/a.p4(3): [--Wwarn=unused] warning: w\na.p4(4): [--Werror=invalid] error: e\n"
            "a.p4(9)\n    here\n  ^\n",
            Verdict.REFUSED,
            [("a.p4", 4, "invalid")],
            [("a.p4", 3, "unused")],
        ),
        ("[--Werror=target-error] error: no\n", Verdict.REFUSED, [("", 0, "target-error")], []),
    ],
)
def test_p4c_messages(
    text: str,
    verdict: Verdict,
    errors: list[tuple[str, int, str]],
    warnings: list[tuple[str, int, str]],
) -> None:
    said = p4c.parse(text)
    assert said.verdict is verdict
    assert [(e.file, e.line, e.kind) for e in said.errors] == errors
    assert [(w.file, w.line, w.kind) for w in said.warnings] == warnings
    assert said.also == ({("a.p4", 9)} if "a.p4(9)" in text else set())


def _work(job: str) -> str:
    if job == "ends":
        os._exit(3)
    while job == "hangs":
        pass
    return job.upper()


def test_jobs_that_end_or_hang_are_lost_alone() -> None:
    jobs = ["a", "ends", "hangs", "b"]
    results = pool.run(
        jobs, _work, at_once=2, limit_s=2.0, lost=lambda job, loss: f"{job}: {loss.why}"
    )
    assert sorted(results) == [
        "A",
        "B",
        "ends: the process ended with code 3",
        "hangs: not done after 2 s",
    ]


LIMITS = (
    "stf=187,refusals=90%,core-refusals=95%,unsupported=5%,crashes=0,p4info=100%,"
    "warnings-precision=90%,warnings-recall=90%"
)
"""p4c's outputs lack what its middle end for BMv2 warns of: without p4c itself, we warn of more."""


@pytest.mark.reference(variable="WEFT_P4C_SAMPLES", names="p4c's testdata/p4_16_samples")
def test_p4cs_own_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["conformance", os.environ["WEFT_P4C_SAMPLES"], "--require", LIMITS])
    assert code == 0, capsys.readouterr().out


@pytest.mark.reference("p4c-bm2-ss")
def test_refused_for_p4info_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p4_16_samples").mkdir()
    (tmp_path / "p4_16_errors").mkdir()
    text = v1model("t.apply(); u.apply();").replace(
        "I(inout H h, inout M m, inout standard_metadata_t s) {",
        'I(inout H h, inout M m, inout standard_metadata_t s) { @name(".a") action a() { }'
        ' table t { actions = { a; } default_action = a; } @name(".a") action b() { }'
        " table u { actions = { b; } default_action = b; }",
    )
    (tmp_path / "p4_16_errors" / "names.p4").write_text(text)
    assert main(["conformance", str(tmp_path), "--no-stf", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (one,) = result["programs"]
    assert (one["ours"], one["p4c"]) == ("refused", "refused")
    report = tmp_path / "page.md"
    assert main(["conformance", str(tmp_path), "--no-stf", "--report", str(report)]) == 0
    _, with_it, without, *_ = report.read_text().split("## Refusals")
    assert "p4c refuses 1 of these" in with_it
    assert "p4c refuses 0 of these" in without
    assert "p4c accepts 1 more; of them ours accepts 1." in without
