"""Programs that each show a part of the language, with packets whose bytes P4_16 defines.

`tests/language/NAME.p4` and `NAME.stf` belong together. The comments at a program's head say what
it shows, with the section of the P4_16 specification 1.2.5 (or `v1model`), and, where p4c's own
output can't do it, why:

    // feature: what (section)
    // not with p4c: why
    // ends bmv2: where one that was built with assertions ends

Recorded against p4c-bm2-ss 1.2.5.16 and BMv2 1.15.0: with both on PATH all pairings run.
docs/LANGUAGE.md is the table that these comments make, and
`python tests/compiler/test_language.py` writes it anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.cli import main

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "tests/language"
PAGE = ROOT / "docs/LANGUAGE.md"
_FEATURE = re.compile(r"// feature: (?P<what>.*) \((?P<section>[^()]*)\)(?P<more>.*)")
_NOT_WITH_P4C = "// not with p4c: "
_ENDS_BMV2 = "// ends bmv2: "

ELSEWHERE = [
    ("value sets: exact, masks, several keys, ranges", "13.11", "",
     "p4runtime/test_value_sets.py::test_keys_of_several_parts_with_masks"),
    ("action profiles and selectors, weights, one-shot", "v1model", "yes",
     "softswitch/test_vectors.py::test_case_is_as_recorded"),
    ("direct and indirect meters, digests, idle time-outs", "v1model", "yes",
     "softswitch/test_vectors.py::test_case_is_as_recorded"),
    ("packet-in and packet-out by `@controller_header`", "v1model", "yes",
     "softswitch/test_vectors.py::test_case_is_as_recorded"),
    ("`@p4runtime_translation` to bits and to strings", "P4Runtime", "",
     "compiler/test_p4info.py::test_translated_types"),
    ("`@name`, `@id`, `@brief`, `@description`", "18.3, 20.3", "",
     "compiler/test_p4info.py::test_annotations_and_documentation"),
    ("`@hidden`", "18.3", "",
     "compiler/test_p4info.py::test_hidden_and_unused_objects_are_left_out"),
]  # fmt: skip
"""Features that other tests show: what, section, whether BMv2 was compared, test."""


@dataclass(frozen=True)
class Program:
    """One program of `tests/language`: (feature, section) as its head has them."""

    name: str
    features: tuple[tuple[str, str], ...]
    not_with_p4c: str
    ends_bmv2: str

    @property
    def source(self) -> Path:
        return HOME / f"{self.name}.p4"

    @property
    def test(self) -> Path:
        return HOME / f"{self.name}.stf"


def read(test: Path) -> Program:
    lines = test.with_suffix(".p4").read_text().splitlines()
    features = [
        (_cell(found["what"] + found["more"]), found["section"])
        for line in lines
        if (found := _FEATURE.fullmatch(line))
    ]
    return Program(
        test.stem, tuple(features), _said(lines, _NOT_WITH_P4C), _said(lines, _ENDS_BMV2)
    )


def _said(lines: list[str], key: str) -> str:
    return " ".join(line.removeprefix(key) for line in lines if line.startswith(key))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PROGRAMS = [read(test) for test in sorted(HOME.glob("*.stf"))]


def page() -> str:
    """Return the text of docs/LANGUAGE.md."""
    rows: list[str] = []
    notes: list[str] = []
    endings: list[str] = []
    for program in PROGRAMS:
        mark = ""
        if program.ends_bmv2:
            endings.append(f"- {program.name}: {program.ends_bmv2}.")
        if program.not_with_p4c:
            notes.append(f"{len(notes) + 1}. {program.name}: {program.not_with_p4c}.")
            mark = f"no ({len(notes)})"
        for what, section in program.features:
            link = f"[{program.name}](../tests/language/{program.name}.p4)"
            rows.append(f"| {what} | {section} | yes | yes | {mark or 'yes'} | {link} |")
    for what, section, bmv2, test in ELSEWHERE:
        path, _, name = test.partition("::")
        rows.append(f"| {what} | {section} | yes | {bmv2} | {bmv2} | [{name}](../tests/{path}) |")
    return (
        "".join(
            (
                _HEAD,
                "\n".join(rows),
                "\n",
                _TAIL,
                "\n".join(notes),
                "\n",
                _ENDINGS,
                "\n".join(endings),
            )
        )
        + "\n"
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_packets_are_as_the_language_says(program: Program) -> None:
    assert program.features, f"{program.name}.p4 does not say what it shows"
    assert main(["stf", str(program.source), str(program.test), "--json"]) == 0


@pytest.mark.reference("simple_switch_grpc")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_our_json_on_bmv2(program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["stf", str(program.source), str(program.test), "--json", "--target", "bmv2"]
    assert main(arguments) == 0 or _ended(program, capfd)


def _ended(program: Program, capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether BMv2 ended by the assertion that the program's head names."""
    return bool(program.ends_bmv2) and "Assertion `" in capfd.readouterr().err


@pytest.mark.reference("p4c-bm2-ss", "simple_switch_grpc")
@pytest.mark.parametrize("target", ["softswitch", "bmv2"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_json_of_p4c(program: Program, target: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["stf", str(program.source), str(program.test), "--json", "--target", target]
    passes = main([*arguments, "--compiler", "p4c"]) == 0
    if not passes and target == "bmv2" and _ended(program, capfd):
        return
    assert passes is not bool(program.not_with_p4c)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tests/compiler/test_language.py"


@pytest.mark.parametrize("test", sorted({test for _, _, _, test in ELSEWHERE}))
def test_tests_named_in_the_page_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text()


_HEAD = """# The language: what is supported, and the test that shows it

P4_16 for v1model, feature by feature. A program of ours with packets shows each row; the bytes
that it expects follow from the P4_16 specification (1.2.5, whose sections are named) and are what
p4c-bm2-ss 1.2.5.16 with BMv2 1.15.0 sends, unless a note says why not. The table is made from the
comments at the head of those programs, and a test fails when it is out of date:

    pytest tests/compiler/test_language.py   # all four pairings, where p4c and BMv2 are on PATH
    python tests/compiler/test_language.py   # writes this page

The simulator runs the same machine code as `softswitch`, so one column stands for both; an empty
cell was not compared. Programs of others are compared by `weft stf` and `weft parity`
([conformance](CONFORMANCE.md)).

| feature | section | softswitch, simulator | BMv2, our JSON | BMv2, p4c's JSON | shown by |
|---|---|---|---|---|---|
"""

_TAIL = """
Where p4c and BMv2 differ from the specification, and we do as they do: a `select` that no case
matches ends the parser without an error, and so does `transition reject`; after recirculation and
resubmission `instance_type` is that of a normal packet in egress. Not there: run-time indices into
arrays and into stacks of header unions, arrays in headers, externs that v1model does not have.
Refused though p4c takes them: run-time values as `int`, which p4c-bm2-ss masks with 0, and whole
header stacks, unions and varbits in digests (the first two in hashes too), which BMv2 does not
load.

## Notes

"""

_ENDINGS = """
A BMv2 that was built with assertions (without `-DNDEBUG`) ends where another one goes on:

"""

if __name__ == "__main__":
    PAGE.write_text(page())
