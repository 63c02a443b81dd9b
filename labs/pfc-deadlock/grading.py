"""Marks for pfc-deadlock: dependencies and cycles of random routes, pauses, classes, real runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from labs.grade import Detail, Finding, Item, Submission
from labs.python_answers import AnswerError, PythonAnswer, load

from . import cases, fabric

ITEM_S = 10.0
FUNCTIONS = ("dependencies", "cycle", "deadlocked", "classes")
DRAWN = 6
RINGS = (5, 7)
LEAST_PACKETS = 100
"""Of a flow in 0.3 ms, in which a link carries 890: classes without a cycle leave 225 and more."""


def read(path: Path) -> PythonAnswer:
    """Read what was handed in. Raises AnswerError."""
    return load(path, FUNCTIONS)


class Bench:
    """A learner's functions, and cases of the grading's seed."""

    def __init__(self, submission: Submission) -> None:
        assert isinstance(submission.content, PythonAnswer)
        self.answer = submission.content
        self.seed = submission.seed

    def random(self, item: str) -> Random:
        """Return random values of an item's own."""
        return Random(f"{self.seed} {item}")

    def routes(self, item: str) -> dict[str, list[cases.Route]]:
        """Return routes by what they are: some have a cycle, some have none."""
        random = self.random(item)
        count = random.randrange(5, 10)
        found = {
            f"a ring of {count}, two hops": cases.ring(count, 2),
            f"a ring of {count}, one route less": cases.ring(count, 2)[1:],
            f"a ring of {count}, one hop": cases.ring(count, 1),
            "leaves and spines": cases.clos(random, 8, 4, 60),
            "leaves and spines with detours": cases.detour(random),
            "leaves and spines with one detour": cases.detour(random)[:-1],
        }
        for number in range(DRAWN):
            found[f"random routes {number + 1}"] = cases.wandering(random, random.randrange(4, 14))
        return found


def bench(submission: Submission) -> Bench:
    """Make the cases of the grading's seed."""
    return Bench(submission)


Judge = Callable[[Bench], Finding]


Cases = list[tuple[bool, Detail]]
"""What was compared, and whether there was something to be found in it."""


def _telling(hint: str, judge: Callable[[Bench], Cases]) -> Judge:
    """Make a judge of a function that compares; an error in the learner's file costs its marks.

    The share is that of the kind of case that was answered worse: always to say no earns nothing.
    """

    def judged(bench: Bench) -> Finding:
        try:
            rows = judge(bench)
        except AnswerError as error:
            return Finding.nothing(str(error), hint)
        kinds = [[d for here, d in rows if here is kind] for kind in (True, False)]
        share = min(Finding.of(kind).share for kind in kinds if kind)
        return replace(Finding.of([detail for _, detail in rows], hint), share=share)

    return judged


def dependencies(bench: Bench) -> Cases:
    """Each pair of neighbours on a route, and no other."""
    rows: Cases = []
    for what, routes in bench.routes("dependencies").items():
        came = bench.answer.call("dependencies", [list(route) for route in routes])
        rows.append((True, _of_sets(what, cases.waits_of(routes), came)))
    return rows


def cycles(bench: Bench) -> Cases:
    """Check a cycle where there is one; both kinds are drawn."""
    rows: Cases = []
    for what, routes in bench.routes("cycle").items():
        waits = cases.waits_of(routes)
        came = bench.answer.call("cycle", set(waits))
        if cases.has_cycle(waits):
            right = cases.is_cycle(came, waits)
            rows.append((True, Detail(what, "a cycle of its dependencies", _short(came), right)))
        else:
            rows.append((False, Detail(what, "[]", _short(came), came in ([], ()))))
    return rows


def large(bench: Bench) -> Cases:
    """Check a ladder with 2^40 ways through it: a search that follows each way does not end."""
    rungs = range(40)
    waits = {(f"s{n}:{a}", f"s{n + 1}:{b}") for n in rungs for a in (1, 2) for b in (1, 2)}
    came = bench.answer.call("cycle", set(waits))
    open_row = Detail("many ways, no cycle", "[]", _short(came), came in ([], ()))
    closed = waits | {("s40:1", "s0:1")}
    came = bench.answer.call("cycle", set(closed))
    right = cases.is_cycle(came, closed)
    return [
        (False, open_row),
        (True, Detail("the same, closed", "a cycle of its dependencies", _short(came), right)),
    ]


def recorded(bench: Bench) -> Cases:
    """Pauses with and without a way out."""
    random = bench.random("deadlocked")
    shapes: dict[str, cases.Waits] = {
        "nothing is paused": {},
        "a cycle": {"s1:2": ["s2:2"], "s2:2": ["s3:2"], "s3:2": ["s1:2"]},
        "a cycle that drains at one switch": {
            "s1:2": ["s2:2"], "s2:2": ["s3:2", "s3:1"], "s3:2": ["s1:2"],
        },
        "a cycle, and one that waits for it": {
            "s4:1": ["s1:2"], "s1:2": ["s2:2"], "s2:2": ["s1:2"],
        },
        "paused by a host": {"s1:1": [], "s2:2": ["s1:1"]},
    }  # fmt: skip
    for number in range(DRAWN):
        shapes[f"random pauses {number + 1}"] = cases.paused(random, random.randrange(6, 16))
    rows: Cases = []
    for what, waits in shapes.items():
        came = bench.answer.call("deadlocked", {q: list(others) for q, others in waits.items()})
        stuck = cases.stuck(waits)
        rows.append((bool(stuck), _of_sets(what, stuck, came)))
    return rows


def real_pauses(bench: Bench) -> Cases:
    """Judge what two runs recorded: one that stands still, and one that goes on."""
    rows: Cases = []
    for what, chosen in (("one class", [0] * 5), ("two classes", [0, 0, 0, 0, 1])):
        run = fabric.played(5, chosen, bench.seed)
        came = bench.answer.call("deadlocked", {q: list(o) for q, o in run.waits.items()})
        rows.append((bool(run.stuck), _of_sets(f"a ring of 5, {what}", run.stuck, came)))
    return rows


def chosen(bench: Bench) -> Cases:
    """No class has a cycle, and there are no more classes than first fit takes."""
    rows: Cases = []
    for what, routes in bench.routes("classes").items():
        came = bench.answer.call("classes", [list(route) for route in routes])
        most = cases.first_fit(routes)
        said = _wrong_classes(came, routes, most)
        expected = f"at most {most}, none with a cycle"
        rows.append((most > 1, Detail(what, expected, said or "as expected", not said)))
    return rows


def rings_move(bench: Bench) -> Cases:
    """Every flow of a ring goes on, in the classes that were chosen."""
    rows: Cases = []
    for count in RINGS:
        routes = cases.ring(count, 2)
        came = bench.answer.call("classes", [list(route) for route in routes])
        what = f"a ring of {count}: packets of the slowest flow"
        expected = f"at least {LEAST_PACKETS}"
        said = _wrong_form(came, count, fabric.PLAYED_CLASSES)
        if said:
            rows.append((True, Detail(what, expected, said, False)))
            continue
        least = min(fabric.played(count, list(came), bench.seed).received)
        rows.append((True, Detail(what, expected, str(least), least >= LEAST_PACKETS)))
    return rows


def _wrong_classes(came: object, routes: Sequence[cases.Route], most: int) -> str:
    said = _wrong_form(came, len(routes), cases.MOST_CLASSES)
    if said:
        return said
    assert isinstance(came, list | tuple)
    for each in sorted(set(came)):
        mine = [route for route, number in zip(routes, came, strict=True) if number == each]
        if cases.has_cycle(cases.waits_of(mine)):
            return f"class {each} has a cycle"
    taken = len(set(came))
    return f"{taken} classes" if taken > most else ""


def _wrong_form(came: object, count: int, most: int) -> str:
    if not isinstance(came, list | tuple) or len(came) != count:
        return f"{_short(came)}, which is no list of {count} classes"
    for each in came:
        if type(each) is not int or not 0 <= each < most:
            return f"class {each!r}: classes are 0 to {most - 1}"
    return ""


def _of_sets(what: str, expected: set[Any], came: object) -> Detail:
    """Compare two sets, and name what is missing or too much."""
    if not isinstance(came, set | frozenset):
        return Detail(what, f"a set of {len(expected)}", f"{_short(came)}, which is no set", False)
    missing, extra = sorted(expected - came), sorted(came - expected, key=str)
    words = [f"{name}: {_short(found[0])}" + (f" and {len(found) - 1} more" if found[1:] else "")
             for name, found in (("missing", missing), ("too much", extra)) if found]  # fmt: skip
    return Detail(what, f"{len(expected)}", "; ".join(words) or f"{len(expected)}", not words)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    rows: tuple[tuple[str, str, int, str, str, Callable[[Bench], Cases]], ...] = (
        ("dependencies", "TODO 1: who can wait for whom", 3,
         "the pairs of neighbours on each route",
         "TODO 1: a packet waits in one queue of its route after the other", dependencies),
        ("cycle", "TODO 2: a cycle, or none", 4, "a cycle exactly where there is one",
         "TODO 2: of the queues with no way on, none is in a cycle: leave them out, again and "
         "again", cycles),
        ("many-ways", "TODO 2: in a large fabric", 2, "an answer in seconds",
         "TODO 2: remember which queues have been followed to their ends", large),
        ("deadlocked", "TODO 3: deadlocks in recorded pauses", 4, "the queues that nothing opens",
         "TODO 3: begin with all paused queues, and take away those that can open", recorded),
        ("real-pauses", "TODO 3: deadlocks in two runs", 2, "the queues that nothing opens",
         "TODO 3: what a run records has queues that are paused and still open", real_pauses),
        ("classes", "TODO 4: classes without a cycle", 3,
         "no class has a cycle, and no more classes than first fit takes",
         "TODO 4: check the dependencies of a class together with those of the route", chosen),
        ("rings-move", "TODO 4: two rings go on", 2, "every flow moves in the second half",
         "TODO 4: a class whose routes make a cycle stands still", rings_move),
    )  # fmt: skip
    return [
        Item(name, title, marks, expected, _telling(hint, judge))
        for name, title, marks, expected, hint, judge in rows
    ]
