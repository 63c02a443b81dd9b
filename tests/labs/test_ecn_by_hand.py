"""ECN by hand: the reference gets all marks, each mistake loses its own, queues fit theory."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from experiments import grade, grade_worker, loader
from experiments.api import Context, Finished, Runtime, Table, Verdict
from experiments.grade import Graded, Submission, judged
from experiments.lab_code import Hooks
from tests.labs.answers_and_marks import assert_loses, earned, rewritten

FOLDER = Path(__file__).parents[2] / "labs" / "ecn-by-hand"
LAB = loader.load("ecn-by-hand")
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}

ABOVE = "if (depth > meta.kmax) {"
BETWEEN = "} else if (depth > meta.kmin) {"
PRODUCT = "bit<43> probability = (bit<43>)(depth - meta.kmin) * (bit<43>)meta.step;"
DRAW = "random(drawn, 0, 0xffffff);"
LESS = "marks = (bit<43>)drawn < probability;"
FIELD = "marks && hdr.ipv4.ecn != NOT_ECT && hdr.ipv4.ecn != CE"
MARK = "                hdr.ipv4.ecn = CE;\n"
COUNT = "                marked.count((bit<32>)std.egress_port);\n"


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    def graded(text: str, seed: int = 1) -> dict[str, Graded]:
        path = tmp_path / "program.p4"
        path.write_text(text)
        made = compile_p4(path)
        bench = GRADING.bench(Submission(path, made.json_text, made.p4info_text, seed))
        return {item.name: judged(item, item.judge(bench)) for item in GRADING.items()}

    return graded


changed = partial(rewritten, REFERENCE)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_reference_gets_all_marks_whatever_the_seed(graded: Any, seed: int) -> None:
    assert earned(graded(REFERENCE, seed)) == FULL
    assert sum(FULL.values()) == 20


def test_reference_compiles_without_warnings(tmp_path: Path) -> None:
    path = tmp_path / "reference.p4"
    path.write_text(REFERENCE)
    assert [str(each) for each in compile_p4(path, diagnostics=["Werror"]).warnings] == []


def test_starter_routes_and_earns_no_more(graded: Any) -> None:
    found = graded(STARTER)
    assert earned(found) == {**dict.fromkeys(FULL, 0), "routes": 1, "untouched": 1}
    assert found["above"].finding.reason == GRADING.NEVER


def test_every_todo_of_the_starter_has_marks() -> None:
    todos = set(re.findall(r"TODO \d", STARTER))
    titles = " ".join(item.title for item in GRADING.items())
    assert todos == set(re.findall(r"TODO \d", titles)) == {f"TODO {n}" for n in range(1, 5)}


MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str], tuple[str, str]]] = {
    "exactly kmax is above it": (
        [(ABOVE, "if (depth >= meta.kmax) {")],
        {"border"},
        ("border", "1 of 1 marked"),
    ),
    "a mark from kmin on": (
        [(ABOVE, "if (depth > meta.kmin) {")],
        {"slope", "gentle", "bounds"},
        ("bounds", "step 0"),
    ),
    "nothing above kmax but by chance": (
        [(ABOVE, "if (depth > meta.kmax && meta.step == 0) {")],
        {"above"},
        ("above", "marked"),
    ),
    "the depth on arrival": (
        [("std.deq_qdepth", "std.enq_qdepth")],
        {"leaving"},
        ("leaving", "more than 30 behind"),
    ),
    "thresholds of the program's own": (
        [(ABOVE, "if (depth > 30) {")],
        {"above", "border", "ports", "slope", "gentle", "bounds", "both"},
        ("border", "of 1 marked"),
    ),
    "ports without an entry mark, too": (
        [("if (marking.apply().hit) {", "{\n            marking.apply();")],
        {"ports"},
        ("ports", "without an entry"),
    ),
    "the product has 24 bits": (
        [(PRODUCT, "chance_t product = (chance_t)(depth - meta.kmin) * meta.step;\n"
                   "                bit<43> probability = (bit<43>)product;")],
        {"bounds"},
        ("bounds", "a certain mark"),
    ),
    "a constant probability": (
        [(PRODUCT, "bit<43> probability = 43w20 * (bit<43>)meta.step;")],
        {"slope", "gentle"},
        ("slope", "kmin 8, kmax 48"),
    ),
    "the slope begins at 0 instead of kmin": (
        [("(bit<43>)(depth - meta.kmin)", "(bit<43>)depth")],
        {"slope", "gentle"},
        ("gentle", "kmin 20, kmax 52"),
    ),
    "the draw is half as wide": (
        [(DRAW, "random(drawn, 0, 0x7fffff);")],
        {"slope", "gentle"},
        ("slope", "kmin 8, kmax 48"),
    ),
    "a mark where the draw is above": (
        [(LESS, "marks = (bit<43>)drawn > probability;")],
        {"slope", "gentle", "bounds"},
        ("bounds", "step 0"),
    ),
    "no probability": (
        [(LESS, "marks = false;")],
        {"slope", "gentle", "bounds"},
        ("slope", "0"),
    ),
    "senders that do not know ECN get marks": (
        [(FIELD, "marks && hdr.ipv4.ecn != CE")],
        {"not-ect"},
        ("not-ect", "ECN 11"),
    ),
    "ECT(1) gets no mark": (
        [(FIELD, "marks && hdr.ipv4.ecn == 2")],
        {"both"},
        ("both", "ECN 01"),
    ),
    "marks of other switches are taken back": (
        [("            if (" + FIELD, "            if (!marks && hdr.ipv4.ecn == CE) {\n"
          "                hdr.ipv4.ecn = 2;\n            }\n            if (" + FIELD)],
        {"kept", "routes"},
        ("kept", "with CE"),
    ),
    "the mark takes DSCP along": (
        [(MARK, MARK + "                hdr.ipv4.dscp = 0;\n")],
        {"whole"},
        ("whole", "TOS"),
    ),
    "the checksum knows no ECN": (
        [("hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length", "hdr.ipv4.dscp, 2w0, hdr.ipv4.length")],
        {"routes", "whole"},
        ("whole", "the IPv4 checksum"),
    ),
    "marks of other switches are counted": (
        [(FIELD, "marks && hdr.ipv4.ecn != NOT_ECT")],
        {"counter"},
        ("counter", "the counter `marked`"),
    ),
    "every packet is counted": (
        [(COUNT, ""), ("            bool marks = false;\n",
                       "            bool marks = false;\n" + COUNT)],
        {"counter"},
        ("counter", "60"),
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_the_marks_that_it_is_about(graded: Any, name: str) -> None:
    changes, loses, (item, words) = MISTAKES[name]
    assert_loses(graded(changed(*changes), seed=11), loses, item, words)


# ---------------------------------------------------------------- theory, and the lab as it runs


@pytest.fixture(scope="module")
def hooks() -> Hooks:
    return Hooks.of(FOLDER)


@pytest.fixture
def ran(hooks: Hooks, tmp_path: Path) -> Any:
    """Run a variant, with the lab's own program or this text."""

    def ran(variant: str, text: str = "") -> Finished:
        planned = {each.variant.name: each.variant for each in LAB.variants(Runtime.SIMULATOR)}
        path = tmp_path / "program.p4"
        path.write_text(text or STARTER)
        out = tmp_path / variant
        out.mkdir()
        program = CompiledProgram.of(compile_p4(path), path, given=bool(text))
        context = Context(
            LAB.name, FOLDER, planned[variant], {}, 1, Runtime.SIMULATOR, 1, out, program,
            settings=LAB.entry.settings,
        )  # fmt: skip
        metrics = hooks.call("measure_simulator", context)
        return Finished(context.variant, 1, Runtime.SIMULATOR, 1, out, metrics)

    return ran


def failed(hooks: Hooks, runs: list[Finished]) -> set[str]:
    known = [planned.variant for planned in LAB.variants(Runtime.SIMULATOR)]
    table = Table(Runtime.SIMULATOR, 1, runs, known)
    figures = list(hooks.call("figures", table, runs[0].folder))
    assert figures and all(figure.path.is_file() for figure in figures)
    return {each.row for each in hooks.call("checks", table) if each.verdict is Verdict.FAIL}


def test_queue_and_marks_are_those_of_theory(hooks: Hooks, ran: Any) -> None:
    assert failed(hooks, [ran("load-80"), ran("middle")]) == set()


@pytest.mark.long
def test_lab_finds_a_program_that_marks_one_packet_too_early(hooks: Hooks, ran: Any) -> None:
    early = changed((ABOVE, "if (depth >= meta.kmax) {"))
    assert failed(hooks, [ran("load-80", early)]) == {"marked over theory, load-80"}


@pytest.mark.long
def test_low_thresholds_cost_goodput_and_high_ones_time(hooks: Hooks, ran: Any) -> None:
    assert failed(hooks, [ran(name) for name in ("unmarked", "low", "high")]) == set()
