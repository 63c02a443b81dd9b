"""The lab find-the-fault: what is drawn, how it is answered, what the instruments show, marks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from controller.program import CompiledProgram
from experiments import grade, grade_worker
from experiments.api import Runtime
from experiments.loader import load
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from weft import cli

LAB = load("find-the-fault")
SEED = 7


@cache
def part(name: str) -> Any:
    """Return a module beside the lab's grading.py."""
    grading: ModuleType = grade_worker.load(LAB.folder)
    return __import__(f"{grading.__package__}.{name}", fromlist=[name])


def case(variant: str, seed: int) -> Any:
    mapping = LAB.variants(Runtime.SIMULATOR)[0].mapping
    return part("faults").draw(variant, seed, mapping, LAB.entry.settings, LAB.folder)


def topology() -> Any:
    return case("healthy", 1).run.topology


# --- what is drawn ----------------------------------------------------------------------------


def test_every_variant_is_a_run_file() -> None:
    LAB.check()
    names = [each.variant.name for each in LAB.variants(Runtime.SIMULATOR)]
    assert tuple(names) == part("faults").VARIANTS


@pytest.mark.parametrize(
    ("variant", "events"),
    [("healthy", 0), ("silent-drops", 1), ("faint-drops", 1), ("one-way", 1), ("mis-set-class", 0)],
)
def test_the_seed_draws_the_place(variant: str, events: int) -> None:
    found = [case(variant, seed) for seed in range(3)]
    strays = len(list(part("faults").between_switches(topology()))) // 2
    for each in found:
        assert len(each.run.topology.events) == strays + events
    if variant != "healthy":
        assert len({each.truth.place for each in found}) > 1
    assert case(variant, 1).run.topology.events == found[1].run.topology.events
    queues = {each.wrong_queue for each in found}
    assert 3 not in queues


def test_a_loss_is_that_of_the_port_that_the_truth_names() -> None:
    found = case("one-way", 4)
    event = next(e for e in found.run.topology.events if e.at_ps)
    switch, _, port = found.truth.place.partition(":")
    assert event.towards == topology().peer(switch, int(port)).node
    (link,) = (found.run.topology.links[n] for n in event.links)
    assert found.truth.place in (f"{link.a.node}:{link.a.port}", f"{link.b.node}:{link.b.port}")


def test_a_flapping_link_goes_down_and_comes_back() -> None:
    found = case("flapping", 1)
    does = [event.do.value for event in found.run.topology.events if event.at_ps]
    assert does == ["down", "up"] * (len(does) // 2)
    assert len(does) >= 6


def test_a_grading_asks_each_kind_and_cannot_be_foreseen() -> None:
    exam = part("faults").exam
    for seed in range(20):
        kinds = {"silent-drops" if name == "faint-drops" else name for name, _ in exam(seed, 8)}
        assert kinds == set(part("answers").KINDS)
        assert len(exam(seed, 8)) == 8
    assert exam(1, 8) == exam(1, 8) != exam(2, 8)


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "None is not an answer"),
        ("broken", "the kind is one of healthy, silent-drops"),
        ("healthy s1", "healthy has no place"),
        ("silent-drops", "say the port that sends what vanishes"),
        ("silent-drops h1:1", "say the port that sends what vanishes"),
        ("one-way s1:9", "s1 has ports 1 to 4"),
        ("mis-set-class s1:2", "say the switch: mis-set-class s9"),
        ("flapping s99:1", "say the port at either end"),
    ],
)
def test_an_answer_that_can_not_be_read_says_what_would_be_right(text: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        part("answers").read(text, topology())


def test_a_flapping_link_has_two_right_ends_and_a_loss_has_one() -> None:
    answers, fabric = part("answers"), topology()
    far = fabric.peer("s9", 3)
    for kind, both in (("flapping", True), ("one-way", False), ("silent-drops", False)):
        truth = answers.Answer(kind, "s9:3")
        assert answers.is_right(truth, truth, fabric)
        assert answers.is_right(answers.Answer(kind, f"{far}"), truth, fabric) is both
    assert not answers.is_right(answers.Answer("one-way", "s9:3"), truth, fabric)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.txt", "", "hand in a Python file"),
        ("a.py", "x = 1\n", r"there is no function diagnose\(seen\)"),
        ("a.py", "\ndef diagnose(seen)\n", "a.py:2: "),
        ("a.py", "x = 1\ny = x / 0\n", "a.py:2: ZeroDivisionError"),
        ("a.yaml", "answers: {1: healthy}\n", "write 'seed: 7'"),
        ("a.yaml", "seed: 7\nanswers: {a: healthy}\n", "answers: 'a'"),
        ("a.yaml", "seed: [\n", "a.yaml: while parsing"),
    ],
)
def test_a_file_that_can_not_be_read_is_refused(
    name: str, text: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=why):
        part("diagnosis").load(tmp_path / name)


def test_an_error_in_diagnose_names_its_line() -> None:
    diagnosis = part("diagnosis")
    diagnose = diagnosis.from_text("def diagnose(seen):\n    return seen.port\n", Path("a.py"))
    with pytest.raises(ValueError, match=r"a\.py:2: AttributeError"):
        diagnosis.answer_of(diagnose, object(), topology(), Path("a.py"))


# --- a case that runs -------------------------------------------------------------------------


def test_instruments_see_a_gray_link_and_the_reference_finds_it() -> None:
    drawn = case("silent-drops", 2)
    made = CompiledProgram.of(compile_for(drawn.run.topology)(FABRIC))
    reference = part("diagnosis").from_text(grade.reference(LAB.folder), Path("reference.py"))
    starter = part("diagnosis").from_text((LAB.folder / "starter.py").read_text(), Path("x.py"))

    def look(fabric: Any) -> Any:
        seen = fabric.observations()
        heard = str(fabric.topology.peer(*_port(drawn.truth.place)))
        sent, received = seen.ports[drawn.truth.place].sent, seen.ports[heard].received
        flow = seen.flows[0]
        path = seen.path(flow.source, flow.target, flow.udp_port, count=2)
        again = seen.path(flow.source, flow.target, flow.udp_port, count=2)
        return {
            "answers": [reference(seen), starter(seen)],
            "missing": sent[-1] - received[-1],
            "lossy": seen.heartbeats[heard]["lossy"][-1],
            "noticed": fabric.first_us["lossy"],
            "path": (path.arrived, path.ports == again.ports, path.hops[-1].left[0].towards),
            "target": flow.target,
            "samples": len(seen.times_us),
        }

    seen = part("play").played(drawn, made, 100, look)
    assert seen["answers"] == [str(drawn.truth), "healthy"]
    assert seen["missing"] > 5
    assert seen["lossy"] == 1
    assert 0 < seen["noticed"] < 2000
    assert seen["path"] == (2, True, seen["target"])
    assert seen["samples"] == 61


def _port(text: str) -> tuple[str, int]:
    switch, _, port = text.partition(":")
    return switch, int(port)


# --- grading ----------------------------------------------------------------------------------


def graded(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = cli.main(["grade", "find-the-fault", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_answers_that_were_written_down_are_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = part("grading").Exam(SEED).cases
    right = {n: str(each.truth) for n, each in enumerate(cases, 1)}
    sheet = tmp_path / "answers.yaml"
    sheet.write_text(yaml.safe_dump({"seed": SEED, "answers": right}))
    asked = ["--answer", str(sheet), "--seed", str(SEED)]
    code, report = graded(capsys, *asked)
    assert (code, report["earned"], report["marks"]) == (0, 20, 20)

    guess = dict.fromkeys(right, "healthy")
    sheet.write_text(yaml.safe_dump({"seed": SEED, "answers": guess}))
    code, report = graded(capsys, *asked)
    assert (code, report["earned"]) == (1, 4)
    wrong = [row for item in report["items"] for row in item["details"] if not row["right"]]
    assert wrong
    assert all("not shown" in row["expected"] for row in wrong), "the truth is not given away"

    ways = {n: text if text == "healthy" else "one-way s1:3" for n, text in right.items()}
    sheet.write_text(yaml.safe_dump({"seed": SEED, "answers": ways}))
    code, report = graded(capsys, *asked)
    halves = {item["name"]: item["earned"] for item in report["items"]}
    assert halves["one-way"] == 2  # of 4: the right kind at a wrong place
    assert halves["silent-drops"] == 0

    code, report = graded(capsys, "--answer", str(sheet), "--seed", "8")
    assert report["earned"] == 0
    assert "answers to seed 7" in report["items"][0]["reason"]


def test_a_missing_answer_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "answers.yaml"
    sheet.write_text("seed: 7\nanswers: {1: lost}\n")
    _, report = graded(capsys, "--answer", str(sheet), "--seed", str(SEED))
    reasons = {item["reason"] for item in report["items"]}
    assert any(reason.startswith("no answer to case") for reason in reasons)
    assert any("the kind is one of" in reason for reason in reasons)


@pytest.mark.long
def test_the_reference_has_full_marks(capsys: pytest.CaptureFixture[str]) -> None:
    code, report = graded(capsys, "--reference", "--seed", "3")
    assert (code, report["earned"]) == (0, 20)
