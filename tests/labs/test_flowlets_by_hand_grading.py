"""Flowlets by hand: the reference gets all marks, and each mistake loses those it is about."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from experiments import grade, grade_worker
from experiments.grade import Graded, Submission, judged
from tests.labs.answers_and_marks import earned, lost, rewritten

FOLDER = Path(__file__).parents[2] / "labs" / "flowlets-by-hand"
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}

KEPT = "kept = next != 0 && idle < meta.gap && meta.live & ((ways_t)1 << way) != 0;"
TIMES = "            last_times.write(cell, std.ingress_global_timestamp);\n"
WAYS = "            last_ways.write(cell, meta.way + 1);\n"
DRAW = "random(meta.slot, 0, SLOTS - 1);"
IDLE = "ticks_t idle = std.ingress_global_timestamp - last;         // wraps as the clock does\n"
FLOW = "        if (hdr.ports.isValid()) {\n"
NEXT = "way_t next;                 // the way's number and 1; 0: there was no packet yet\n"
KEY = "{ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst },\n"


def judge(json_text: str, p4info_text: str, seed: int) -> dict[str, Graded]:
    bench = GRADING.bench(Submission(Path("program.p4"), json_text, p4info_text, seed))
    return {item.name: judged(item, item.judge(bench)) for item in GRADING.items()}


@pytest.fixture
def graded(tmp_path: Path) -> Any:
    def graded(text: str, seed: int = 1) -> dict[str, Graded]:
        path = tmp_path / "program.p4"
        path.write_text(text)
        result = compile_p4(path)
        return judge(result.json_text, result.p4info_text, seed)

    return graded


changed = partial(rewritten, REFERENCE)


# ---------------------------------------------------------------- the lab's own files


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_reference_gets_all_marks_whatever_the_seed(graded: Any, seed: int) -> None:
    assert earned(graded(REFERENCE, seed)) == FULL
    assert sum(FULL.values()) == 20


def test_reference_compiles_without_warnings(tmp_path: Path) -> None:
    path = tmp_path / "reference.p4"
    path.write_text(REFERENCE)
    assert [str(each) for each in compile_p4(path, diagnostics=["Werror"]).warnings] == []


def test_starter_routes_and_no_more(graded: Any) -> None:
    found = graded(STARTER)
    routes = ("up", "down", "others")
    assert earned(found) == {**dict.fromkeys(FULL, 0), **dict.fromkeys(routes, 1)}
    assert found["within"].finding.reason == GRADING.NEVER


def test_every_todo_of_the_starter_has_marks() -> None:
    todos = set(re.findall(r"TODO \d", STARTER))
    titles = " ".join(item.title for item in GRADING.items())
    assert todos == set(re.findall(r"TODO \d", titles)) == {f"TODO {n}" for n in range(1, 5)}


@pytest.mark.reference("p4c-bm2-ss")
def test_p4c_compiles_the_reference_without_a_warning_and_it_does_the_same(tmp_path: Path) -> None:
    source, out, info = (tmp_path / name for name in ("r.p4", "r.json", "r.txtpb"))
    source.write_text(REFERENCE)
    command = ["p4c-bm2-ss", "--Werror", "--std", "p4-16", "-o", str(out)]
    subprocess.run([*command, "--p4runtime-files", str(info), str(source)], check=True)
    assert earned(judge(out.read_text(), info.read_text(), 3)) == FULL


# ---------------------------------------------------------------- what learners get wrong

UNJUDGED = {*FULL} - {"up", "down", "others"}
"""What there is to lose where nothing is a flowlet."""

MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str], tuple[str, str]]] = {
    "only a flowlet's first packet writes its time": (
        [(TIMES, f"            if (!kept) {{ {TIMES} }}\n")],
        {"refresh", "schedule"},
        ("refresh", "change their way; right would be: none"),
    ),
    "exactly the gap is within": (
        [("idle < meta.gap", "idle <= meta.gap")],
        {"at", "groups"},
        ("at", "the gap: none of 48 change their way"),
    ),
    "the end of the gap is compared with now": (
        [("idle < meta.gap", "std.ingress_global_timestamp < last + meta.gap"), (IDLE, "")],
        {"wrap"},
        ("wrap", "the third after the clock's end"),
    ),
    "times have 32 bits": (
        [("idle < meta.gap", "(bit<32>)idle < (bit<32>)meta.gap")],
        {"ages"},
        ("ages", "2^32 ticks"),
    ),
    "times have 16 bits": (
        [("idle < meta.gap", "(bit<16>)idle < (bit<16>)meta.gap")],
        {"ages"},
        ("ages", "2^16 ticks"),
    ),
    "a gap of the program's own": (
        [("idle < meta.gap", "idle < 400")],
        {"within", "below", "refresh", "wrap", "groups", "old", "schedule"},
        ("groups", "to a group with a gap of"),
    ),
    "a cell of zeros is a flowlet by way 0": (
        [("next != 0 && ", ""), ("way_t way = next - 1;", "way_t way = next;"),
         (WAYS, WAYS.replace(" + 1", ""))],
        {"start"},
        ("start", "48 x way 0"),
    ),
    "addresses alone tell flows apart": (
        [(KEY, "{ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol },\n")],
        {"apart"},
        ("apart", "one with another source port"),
    ),
    "one port alone tells flows apart": (
        [(KEY, "{ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.dst },\n")],
        {"apart"},
        ("apart", "one with another source port"),
    ),
    "the ECMP slot is the cell": (
        [("hash(cell, HashAlgorithm.crc32, 32w0,", "hash(cell, HashAlgorithm.crc16, 32w0,"),
         ("                 CELLS);", "                 (cell_t)12);")],
        {"busy", "schedule"},
        ("busy", "while 64 others go on"),
    ),
    "the way is kept though it is down": (
        [(" && meta.live & ((ways_t)1 << way) != 0", "")],
        {"old", "schedule"},
        ("old", "x nothing"),
    ),
    "a new flowlet's slot is the flow's hash": (
        [(DRAW, "")],
        UNJUDGED,
        ("at", "no flow ever changes its way"),
    ),
    "each packet draws": (
        [(KEPT, "kept = false;")],
        UNJUDGED,
        ("within", "take different ways"),
    ),
    "a slot too few": (
        [(DRAW, "random(meta.slot, 0, SLOTS - 3);")],
        {"spread", "again", "three"},
        ("spread", "400 to 600 by each of ways 0, 1, 2, 3"),
    ),
    "ICMP is a flow": (
        [(f"{FLOW}            hash(", "        if (true) {\n            hash("),
         (FLOW + TIMES, "        if (true) {\n" + TIMES)],
        {"others"},
        ("others", "several ways"),
    ),
    "ways that are taken again are not remembered": (
        [(WAYS, "            if (next == 0) { last_ways.write(cell, meta.way + 1); }\n"),
         (NEXT, ""),
         ("        bool kept = false;\n", "        bool kept = false;\n        way_t next = 0;\n")],
        {"within", "old", "schedule"},
        ("within", "behind one of"),
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_the_marks_that_it_is_about(graded: Any, name: str) -> None:
    changes, loses, (item, words) = MISTAKES[name]
    items = graded(changed(*changes), seed=11)
    assert lost(items) == loses
    assert all(items[each].finding.reason for each in loses)
    finding = items[item].finding
    rows = " ".join(f"{row.what} {row.came}" for row in finding.details if not row.right)
    assert words in f"{finding.reason} {finding.hint} {rows}"


@pytest.mark.long
def test_a_slot_too_many_loses_packets(graded: Any) -> None:
    found = graded(changed((DRAW, "random(meta.slot, 0, SLOTS);")))
    assert {"spread", "three"} <= lost(found)
    assert "x nothing" in found["spread"].finding.reason


@pytest.mark.long
def test_the_last_way_may_be_written_only_where_it_changes(graded: Any) -> None:
    new = WAYS.replace("last_ways", "if (!kept) { last_ways").replace(";\n", "; }\n")
    assert earned(graded(changed((WAYS, new)))) == FULL
