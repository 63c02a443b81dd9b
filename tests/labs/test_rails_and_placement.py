"""The lab rails-and-placement: bytes by tier, the least there can be, and what mistakes cost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments import grade, grade_worker
from experiments.grade import Graded
from experiments.loader import load
from tests.labs.answers_and_marks import assert_loses, earned, lost, rewritten
from weft import cli

LAB = load("rails-and-placement")
REFERENCE = grade.reference(LAB.folder)
IN_RUNS = {"time"}
SEED = 7


@cache
def part(name: str) -> Any:
    """Return a module beside the lab's grading.py."""
    grading: ModuleType = grade_worker.load(LAB.folder)
    return __import__(f"{grading.__package__}.{name}", fromlist=[name])


def judged(text: str, folder: Path, seed: int = SEED) -> Mapping[str, Graded]:
    """Return what a text earns, without the item that plays runs."""
    grading, path = part("grading"), folder / "mine.py"
    path.write_text(text)
    bench = grading.bench(grade.Submission(path, "", "", seed, grading.read(path)))
    return {
        item.name: grade.judged(item, item.judge(bench))
        for item in grading.items()
        if item.name not in IN_RUNS
    }


def job(groups: int, servers: int, rails: int, tp: int, ep: int = 1) -> Any:
    return part("job").Job(groups, servers, rails, tp, ep)


# --- what is true -----------------------------------------------------------------------------


def test_bytes_of_a_ring_by_hand() -> None:
    """Two servers with two rails, tp 1: a ring of four over NICs in order.

    Each hop carries 2 x 3/4 of 1000 B; (0,1) -> (1,0) and (1,1) -> (0,0) change rails.
    """
    two = job(1, 2, 2, 1)
    messages = two.data_messages(two.nics(), 1000)
    assert messages == {
        ((0, 0), (0, 1)): 1500, ((0, 1), (1, 0)): 1500,
        ((1, 0), (1, 1)): 1500, ((1, 1), (0, 0)): 1500,
    }  # fmt: skip
    assert two.tiers(messages) == part("job").Tiers(server=3000, leaf=0, spine=3000)


@pytest.mark.parametrize(
    ("groups", "servers", "rails", "tp"), [(1, 3, 2, 1), (2, 2, 2, 1), (3, 2, 1, 1), (2, 2, 2, 2)]
)
def test_no_order_of_all_needs_fewer_bytes_over_spines(
    groups: int, servers: int, rails: int, tp: int
) -> None:
    """Of all ways to place data ranks with their tensor ranks in order, none beats the formula."""
    small = job(groups, servers, rails, tp)
    slots = [
        [(server, slot * tp + tensor) for tensor in range(tp)]
        for server in range(groups * servers)
        for slot in range(rails // tp)
    ]
    first, *rest = slots  # a ring may begin anywhere
    least = min(
        small.tiers(small.data_messages([*first, *itertools.chain(*order)], 1000)).spine
        for order in itertools.permutations(rest)
    )
    assert least == small.least_spine_bytes(1000)
    best = part("job").best(small)
    assert not part("job").wrong_place(small, best)
    assert small.tiers(small.data_messages(best, 1000)).spine == least


def test_relayed_tokens_arrive_where_direct_ones_do() -> None:
    fabric = job(2, 2, 4, 1)
    direct = fabric.tokens(10, lambda source, target: source)
    relayed = fabric.tokens(10, lambda source, target: (source[0], target[1]))

    def received(messages: Any) -> dict[Any, int]:
        into: dict[Any, int] = {}
        for (a, b), size in messages.items():
            if a[0] != b[0]:
                into[b] = into.get(b, 0) + size
        return into

    assert received(direct) == received(relayed)
    assert fabric.tiers(direct).server == 0 < fabric.tiers(relayed).server


def test_switches_count_what_was_computed() -> None:
    fabric = job(1, 4, 8, 2, 2)
    mapping = LAB.variants(LAB.entry.runtimes[0])[0].mapping
    messages = fabric.step(part("job").linear(fabric), part("job").Bytes())
    run = part("network").played(mapping, fabric, messages, SEED)
    computed = fabric.tiers(messages).spine
    assert computed < run.spine_bytes < 1.03 * computed
    assert run.took_us > 8 * part("job").busiest(messages) / 1e5


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_reference_has_all_marks_and_the_starter_few(seed: int, tmp_path: Path) -> None:
    assert not lost(judged(REFERENCE, tmp_path, seed))
    starter = earned(judged((LAB.folder / "starter.py").read_text(), tmp_path, seed))
    assert sum(starter.values()) <= 6
    assert starter["relay"] == starter["groups"] == 0


SNAKE = "mine if slot % 2 == 0 else reversed(mine)"
RANKS = "places += [(server, slot * tp + tensor) for tensor in range(tp)]"
ALL = {"a-nic-each", "tensor", "rings", "experts", "groups"}
MISTAKES = {
    "always in the same direction": ((SNAKE, "mine"), {"rings", "groups"}, "rings", ","),
    "the rails before the groups": (
        ("    for group in range(groups):\n        mine = range(group * servers, (group + 1) * "
         "servers)\n", "    for group in range(1):\n        mine = range(groups * servers)\n"),
        {"groups"}, "groups", ",",
    ),
    "tensor ranks one server apart": (
        ("(server, slot * tp + tensor)", "((server + tensor) % (groups * servers), slot)"),
        ALL, "a-nic-each", "are both at",
    ),
    "one rail too far": (
        ("slot * tp + tensor)", "slot * tp + tensor + 1)"),
        ALL, "a-nic-each", "is no (server, rail)",
    ),
    "one server too few": (
        ("(group + 1) * servers)", "(group + 1) * servers - 1)"), ALL, "a-nic-each", "places for",
    ),
    "lists in the place of tuples": (
        (RANKS, RANKS.replace("(server, slot * tp + tensor)", "[server, slot * tp + tensor]")),
        ALL, "a-nic-each", "is no (server, rail)",
    ),
    "expert groups on other rails": (
        ("    return places\n", "    return places[tp:] + places[:tp]\n"),
        {"experts"}, "experts", ",",
    ),
    "the relay is in the target's server": (
        ("(source[0], target[1])", "(target[0], source[1])"),
        {"relay"}, "relay", "is no NIC of server",
    ),
    "the relay is the source": (("(source[0], target[1])", "source"), {"relay"}, "relay", ","),
    "the relay is not there": (
        ("(source[0], target[1])", "(source[0], target[1] + 1)"), {"relay"}, "relay", "is no NIC",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_loses_what_it_is_about(name: str, tmp_path: Path) -> None:
    change, loses, item, words = MISTAKES[name]
    assert_loses(judged(rewritten(REFERENCE, change), tmp_path), loses, item, words)


@pytest.mark.parametrize("value", ["None", "[([], 1)] * 8", "(1, [2])", "(True, False)", "'s1'"])
def test_answers_of_a_wrong_form_earn_nothing(value: str, tmp_path: Path) -> None:
    text = f"def place(*given):\n    return {value}\n\ndef relay(*given):\n    return {value}\n"
    assert not any(item.earned for item in judged(text, tmp_path).values())


def test_an_error_names_its_line(tmp_path: Path) -> None:
    broken = rewritten(REFERENCE, ("    places: list[Nic] = []\n", "    places = nothing\n"))
    found = judged(broken, tmp_path)
    line = broken.splitlines().index("    places = nothing") + 1
    assert f"mine.py:{line}: NameError" in found["rings"].finding.reason
    assert found["relay"].earned == 4


def test_a_step_of_the_reference_is_on_time_and_one_of_the_starter_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.main(["grade", "rails-and-placement", "--reference", "--json", "--seed", str(SEED)])
    report = json.loads(capsys.readouterr().out)
    assert (report["earned"], report["marks"]) == (20, 20)
    grading, starter = part("grading"), LAB.folder / "starter.py"
    bench = grading.bench(grade.Submission(starter, "", "", SEED, grading.read(starter)))
    assert not any(row.right for row in grading.on_time(bench))
