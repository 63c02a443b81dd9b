"""ECMP by hand: the reference gets all marks, each mistake loses its own, polarisation shows."""

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

FOLDER = Path(__file__).parents[2] / "labs" / "ecmp-by-hand"
LAB = loader.load("ecmp-by-hand")
GRADING = grade_worker.load(FOLDER)
REFERENCE = grade.reference(FOLDER)
STARTER = (FOLDER / grade.STARTER).read_text()
FULL = {item.name: item.marks for item in GRADING.items()}

FIELDS = "hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.src_port, meta.dst_port,"
MIX = "        meta.hash = meta.hash * (meta.seed | 1);\n"
PAIR = "if (meta.use_queue_pair == 1 && hdr.bth.isValid()) {"
DOWN = "if (meta.live & ((members_t)1 << (bit<8>)meta.member) == 0) {"
MEMBER = "(member_t)(((bit<32>)meta.hash[31:16] * (bit<32>)meta.count) >> 16)"
AGAIN = "meta.hash[15:0] * (bit<32>)meta.live_count"


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
    assert found["spread"].finding.reason == GRADING.ONE


def test_every_todo_of_the_starter_has_marks() -> None:
    todos = set(re.findall(r"TODO \d", STARTER))
    titles = " ".join(item.title for item in GRADING.items())
    assert todos == set(re.findall(r"TODO \d", titles)) == {f"TODO {n}" for n in range(1, 5)}


def test_shifting_the_hash_by_the_seed_is_right_too(graded: Any) -> None:
    shift = "        meta.hash = meta.hash >> (bit<8>)(meta.seed & 15);\n"
    rotate = (
        "        bit<8> by = (bit<8>)(meta.seed & 31);\n"
        "        meta.hash = (meta.hash << by) | (meta.hash >> (32 - by));\n"
    )
    assert earned(graded(changed((MIX, rotate)))) == FULL
    assert "spread" in {n for n, item in graded(changed((MIX, shift))).items() if not item.earned}


JUDGED = {*FULL} - {"routes", "untouched"}
TIERS = {"tiers-4", "tiers-3"}

MISTAKES: dict[str, tuple[list[tuple[str, str]], set[str], tuple[str, str]]] = {
    "the seed is not used": (
        [(MIX, "")],
        {"seeds", *TIERS},
        ("tiers-4", "at the second: "),
    ),
    "the seed is hashed along": (
        [(MIX, ""), ("hash(meta.hash, HashAlgorithm.crc32, 32w0,\n             { ",
                     "hash(meta.hash, HashAlgorithm.crc32, 32w0,\n             { meta.seed, ")],
        {*TIERS},
        ("tiers-4", "at the second: "),
    ),
    "the seed is added to the hash": (
        [(MIX, "        meta.hash = meta.hash + meta.seed;\n")],
        {"seeds", *TIERS},
        ("tiers-4", "at the second: "),
    ),
    "source ports are forgotten": (
        [(FIELDS, FIELDS.replace("meta.src_port, ", ""))],
        {"fields"},
        ("fields", "another source port: none of 60"),
    ),
    "addresses alone are hashed": (
        [(FIELDS, "hdr.ipv4.src, hdr.ipv4.dst,")],
        {"fields"},
        ("fields", "another protocol: none of 60"),
    ),
    "the source address is forgotten": (
        [(FIELDS, FIELDS.replace("hdr.ipv4.src, ", ""))],
        {"fields"},
        ("fields", "another source address: none of 60"),
    ),
    "the packet's identification is hashed, too": (
        [(FIELDS, FIELDS + " hdr.ipv4.id,")],
        JUDGED,
        ("kept", "packets of one flow take different members"),
    ),
    "a group always has four members": (
        [(MEMBER, "(member_t)(meta.hash[31:30])")],
        {"sizes"},
        ("sizes", "over 8 members"),
    ),
    "two bits of the hash, bounded by the group's size": (
        [(MEMBER, "(member_t)meta.hash[31:28] & (meta.count - 1)")],
        {"sizes", "tiers-3"},
        ("sizes", "over 3 members"),
    ),
    "queue pairs are not hashed": (
        [(PAIR, "if (false) {")],
        {"pairs"},
        ("pairs", "800 x member"),
    ),
    "queue pairs are always hashed": (
        [("meta.use_queue_pair == 1 && ", "")],
        {"pairs-off"},
        ("pairs-off", "changed"),
    ),
    "the sequence number is taken for the queue pair": (
        [("queue_pair = hdr.bth.queue_pair", "queue_pair = hdr.bth.sequence")],
        {"pairs-kept"},
        ("pairs-kept", "changed"),
    ),
    "members that are down are taken": (
        [(DOWN, "if (meta.live == 0) {")],
        {"down", "down-many", "heirs"},
        ("down", "960 flows over 8 members"),
    ),
    "all flows choose again when one is down": (
        [(DOWN, "if (meta.live_count != meta.count) {")],
        {"stay"},
        ("stay", "changed"),
    ),
    "the same bits choose again": (
        [(AGAIN, "meta.hash[31:16] * (bit<32>)meta.live_count")],
        {"heirs"},
        ("heirs", "which is down"),
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_costs_the_marks_that_it_is_about(graded: Any, name: str) -> None:
    changes, loses, (item, words) = MISTAKES[name]
    assert_loses(graded(changed(*changes), seed=11), loses, item, words)


# ---------------------------------------------------------------- the lab as it runs


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


def verdicts(hooks: Hooks, runs: list[Finished]) -> dict[str, Verdict]:
    known = [planned.variant for planned in LAB.variants(Runtime.SIMULATOR)]
    table = Table(Runtime.SIMULATOR, 1, runs, known)
    figures = list(hooks.call("figures", table, runs[0].folder))
    assert all(figure.path.is_file() for figure in figures)
    return {check.row: check.verdict for check in hooks.call("checks", table)}


def test_half_of_the_links_are_idle_with_one_seed(hooks: Hooks, ran: Any) -> None:
    runs = [ran("one-seed"), ran("own-seeds")]
    assert [run.metrics["links used"].value for run in runs] == [50, 100]
    found = verdicts(hooks, runs)
    assert found["links used, one-seed"] is found["links used, own-seeds"] is Verdict.PASS


@pytest.mark.long
def test_a_seed_that_is_hashed_along_leaves_links_idle(hooks: Hooks, ran: Any) -> None:
    name = "the seed is hashed along"
    run = ran("own-seeds", changed(*MISTAKES[name][0]))
    assert run.metrics["links used"].value < 100
    assert verdicts(hooks, [run])["links used, own-seeds"] is Verdict.FAIL


@pytest.mark.long
def test_queue_pairs_spread_what_has_one_udp_port(hooks: Hooks, ran: Any) -> None:
    runs = [ran(name) for name in ("five-fields", "queue-pairs", "few-large")]
    five, pairs, few = (run.metrics["links used"].value for run in runs)
    assert five < 90 and few < 90 and pairs == 100
    assert Verdict.FAIL not in verdicts(hooks, runs).values()
