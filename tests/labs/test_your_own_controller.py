"""The lab your-own-controller: its plan and switches, what mistakes cost, a run in virtual time."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments import grade, grade_worker
from experiments.grade import Graded
from experiments.loader import load
from tests.labs.answers_and_marks import assert_loses, lost, rewritten
from weft import cli

LAB = load("your-own-controller")
REFERENCE = grade.reference(LAB.folder)
SEED = 7


@cache
def grading_module() -> ModuleType:
    return grade_worker.load(LAB.folder)


def part(name: str) -> Any:
    """Return a module beside the lab's grading.py, of one and the same package."""
    return __import__(f"{grading_module().__package__}.{name}", fromlist=[name])


def judged(text: str, folder: Path, only: Collection[str] = ()) -> Mapping[str, Graded]:
    """Return what a text earns, by item; `only`: these."""
    grading, path = part("grading"), folder / "mine.py"
    path.write_text(text)
    bench = grading.bench(grade.Submission(path, "", "", SEED, grading.read(path)))
    return {
        item.name: grade.judged(item, item.judge(bench))
        for item in grading.items()
        if not only or item.name in only
    }


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bed wait only a little for what is not going to happen."""
    monkeypatch.setattr(part("bed"), "WAIT_S", 0.5)


# --- the bed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("down", [[], [("s1", "s2")], [("s2", "s3")], [("s1", "s3")]])
def test_planned_routes_lead_to_each_host(down: list[tuple[str, str]]) -> None:
    beds = part("bed")
    dead = {frozenset(each) for each in down}
    with beds.bed() as bed:
        for name, switch in bed.switches.items():
            other = beds.Other(switch, 1)
            other.take_over(beds.inserts(beds.plan(name, dead)))
            other.close()
            assert bed.entries(name) == beds.plan(name, dead)
        for a in beds.NAMES:
            for b in beds.NAMES:
                if a != b:
                    assert bed.send(a, b, dead) == f"h{b[1]}"
        if not down:
            assert bed.send("s1", "s2", {frozenset(("s1", "s2"))}) == "lost on the link s1-s2"


# --- answers ----------------------------------------------------------------------------------


def test_the_reference_has_all_marks_and_the_starter_none(
    tmp_path: Path, hasty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["grade", "your-own-controller", "--reference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["earned"] == 20
    starter = judged((LAB.folder / "starter.py").read_text(), tmp_path)
    assert all(item.earned == 0 for item in starter.values())
    assert all(item.finding.hint for item in starter.values())


MISTAKES = {
    "the wrong election id": (
        ("self.election_id = p4r.Uint128(low=election_id)",
         "self.election_id = p4r.Uint128(low=1)"),
        {"primary"}, "primary", "election id 1", ("primary", "program", "routes"),
    ),
    "the program is loaded each time": (
        ("answer.config.cookie == pipeline.cookie", "False"),
        {"already-there", "links"}, "already-there", "writes", ("routes", "already-there", "links"),
    ),
    "what exists is inserted": (
        ("if address not in there:", "if True:"),
        {"already-there", "links"}, "already-there", "to spare",
        ("routes", "already-there", "links"),
    ),
    "strangers stay": (
        ("there.keys() - wanted.keys()", "()"),
        {"already-there"}, "already-there", "10.9.9.9 to spare",
        ("routes", "already-there", "links"),
    ),
    "all is written each time": (
        ("elif there[address] != entry:", "else:"),
        {"already-there", "links"}, "links", "entries written",
        ("routes", "already-there", "links"),
    ),
    "bytes in the place of packets": (
        ("each.data.packet_count", "each.data.byte_count"), {"counters"}, "counters", "counters of",
        ("counters", "routes"),
    ),
    "a link that is up again stays down": (
        ("self.down -= {frozenset((a, b))}", "pass"), {"links"}, "links", "up: ",
        ("links", "routes"),
    ),
    "links are not remembered": (
        ("self.down |= {frozenset((a, b))}", "pass"),
        {"links", "lost-session", "backup"}, "links", "down: ",
        ("routes", "links", "lost-session", "backup"),
    ),
    "lost sessions stay lost": (
        ("if not session.is_open:\n                session.close()",
         "if False:\n                session.close()"),
        {"lost-session"}, "lost-session", "no pipeline", ("links", "lost-session", "backup"),
    ),
    "a backup for ever": (
        ("elif session.is_vacant:", "elif False:"), {"backup"}, "backup", "afterwards",
        ("links", "lost-session", "backup"),
    ),
    "half of the updates": (
        ("session.write(updates)", "session.write(updates[:1])"),
        {"routes", "already-there"}, "routes", "no 10.0.", ("program", "routes", "already-there"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_loses_what_it_is_about(name: str, tmp_path: Path, hasty: None) -> None:
    change, loses, item, words, looked_at = MISTAKES[name]
    found = judged(rewritten(REFERENCE, change), tmp_path, looked_at)
    rows = [
        grade.Detail(row.what, row.expected, f"{row.what}: {row.came}", row.right)
        for row in found[item].finding.details
    ]
    assert any(words in row.came for row in rows if not row.right)
    assert_loses(found, loses, item, "")


def test_an_error_in_a_method_names_its_line(tmp_path: Path) -> None:
    broken = rewritten(REFERENCE, ("self.down -= {frozenset((a, b))}", "self.gone -= {a}"))
    found = judged(broken, tmp_path, ("links", "routes"))
    line = broken.splitlines().index("        self.gone -= {a}") + 1
    assert lost(found) == {"links"}
    assert f"mine.py:{line}: AttributeError" in found["links"].finding.reason


def test_a_file_without_a_controller_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no function Controller"):
        judged("x = 1\n", tmp_path)


@pytest.mark.long
def test_quick_run_passes(tmp_path: Path) -> None:
    where = ["--out", str(tmp_path / "out")]
    assert cli.main(["lab", "run", "your-own-controller", "--quick", *where]) == 0
