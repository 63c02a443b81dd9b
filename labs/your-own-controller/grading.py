"""Marks for your-own-controller: what switches hold after each thing that happens to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc
from finsy.proto import p4r

from labs.grade import Detail, Finding, Item, Submission
from labs.python_answers import AnswerError, PythonAnswer, load

from . import bed as beds
from .bed import ELECTION_ID, NAMES, Bed, Down, Other, Switch, plan

ITEM_S = 25.0
"""An item waits ten seconds at most for each of a few things."""

FUNCTIONS = ("Controller",)
_STRANGER = {"10.9.9.9": ("02:00:00:00:09:09", 2)}


def read(path: Path) -> PythonAnswer:
    """Read what was handed in. Raises AnswerError."""
    return load(path, FUNCTIONS)


class Driven:
    """A learner's controller on a bed; an error in one of its methods is an AnswerError."""

    def __init__(self, answer: PythonAnswer, bed: Bed) -> None:
        self._answer = answer
        self.controller = answer.call(
            "Controller", bed.addresses, beds.pipeline(), plan, ELECTION_ID
        )

    def call(self, method: str, *arguments: Any) -> Any:
        """Call one of its methods."""
        return self._answer.call_method(self.controller, method, *arguments)


class Bench:
    """A learner's file, and random values of the grading's seed."""

    def __init__(self, submission: Submission) -> None:
        assert isinstance(submission.content, PythonAnswer)
        self.answer = submission.content
        self.random = Random(submission.seed)

    @contextmanager
    def started(self, bed: Bed) -> Iterator[Driven]:
        """Start the controller."""
        driven = Driven(self.answer, bed)
        try:
            driven.call("start")
            yield driven
        finally:
            driven.call("stop")


def bench(submission: Submission) -> Bench:
    """Hand the learner's file to the items."""
    return Bench(submission)


def _telling(hint: str, judge: Callable[[Bench], Sequence[Detail]]) -> Callable[[Bench], Finding]:
    """Make a judge of a function that compares; an error in the learner's file costs its marks."""

    def judged(bench: Bench) -> Finding:
        try:
            return Finding.of(judge(bench), hint)
        except AnswerError as error:
            return Finding.nothing(str(error), hint)

    return judged


def _routes(bed: Bed, down: Down, names: Sequence[str] = NAMES) -> list[Detail]:
    """Compare what switches hold with the plan."""
    rows = []
    for name in names:
        wanted, came = plan(name, down), bed.entries(name)
        said = came if isinstance(came, str) else _differences(wanted, came)
        rows.append(Detail(f"entries of {name}", "as planned", said or "as planned", not said))
    return rows


def _differences(wanted: dict[str, Any], came: dict[str, Any]) -> str:
    words = [f"no {each}" for each in wanted if each not in came]
    words += [f"{each} to spare" for each in came if each not in wanted]
    words += [f"{each} by port {came[each][1]}" for each in wanted
              if each in came and came[each] != wanted[each]]  # fmt: skip
    return ", ".join(words)


def _traffic(bed: Bed, down: Down) -> Detail:
    lost = [
        f"{a} to {b}: {came}"
        for a in NAMES
        for b in NAMES
        if a != b and (came := bed.send(a, b, down)) != f"h{NAMES.index(b) + 1}"
    ]
    return Detail("frames between all hosts", "all arrive", "; ".join(lost[:2]) or "all arrive",
                  not lost)  # fmt: skip


def primary(bench: Bench) -> list[Detail]:
    """Each switch names the controller as its primary, also when another one asks for less."""
    rows = []
    with beds.bed() as bed, bench.started(bed):
        for name, switch in bed.switches.items():
            came = _primary_of(switch)
            rows.append(Detail.of(f"primary of {name}", f"election id {ELECTION_ID}",
                                  f"election id {came}"))  # fmt: skip
    return rows


def _primary_of(switch: Switch) -> int:
    """Return the election id of a switch's primary, by asking for less; 0 if there is none."""
    try:
        other = Other(switch, 1)
    except grpc.RpcError:  # no two may have the same
        return 1
    with closing(other):
        return int(other.answer.election_id.low) if other.answer.status.code else 0


def program(bench: Bench) -> list[Detail]:
    """Each switch has the program."""
    with beds.bed() as bed, bench.started(bed):
        return [
            Detail(f"program of {name}", "loaded", "none" if isinstance(came, str) else "loaded",
                   not isinstance(came, str))
            for name in NAMES
            for came in [bed.entries(name)]
        ]  # fmt: skip


def routes(bench: Bench) -> list[Detail]:
    """Fresh switches hold what is planned, and frames arrive."""
    with beds.bed() as bed, bench.started(bed):
        return [*_routes(bed, set()), _traffic(bed, set())]


def already_there(bench: Bench) -> list[Detail]:
    """Entries that another controller left: right, wrong and strange ones."""
    name = bench.random.choice(NAMES)
    wanted = plan(name, set())
    kept, moved = bench.random.sample(sorted(wanted), 2)
    mac, port = wanted[moved]
    left = {kept: wanted[kept], moved: (mac, port % 3 + 1), **_STRANGER}
    with beds.bed() as bed:
        switch = bed.switches[name]
        before = Other(switch, 1)
        before.take_over(beds.inserts(left))
        before.close()
        switch.service.updates.clear()
        with bench.started(bed):
            rows = _routes(bed, set())
            again = sum(kept in _addresses(update) for update in switch.service.updates)
            rows.append(Detail(f"writes to the right entry of {name}", "0", str(again), not again))
    return rows


def _addresses(update: p4r.Update) -> str:
    match = update.entity.table_entry.match
    return ".".join(str(b) for b in match[0].lpm.value.rjust(4, b"\0")) if match else ""


def links(bench: Bench) -> list[Detail]:
    """Check a link that goes down and comes back: two switches change an entry each, no more."""
    a, b = bench.random.sample(NAMES, 2)
    rows = []
    with beds.bed() as bed, bench.started(bed) as driven:
        down: Down = set()
        for up in (False, True):
            for switch in bed.switches.values():
                switch.service.updates.clear()
            driven.call("link", a, b, up)
            down = set() if up else {frozenset((a, b))}
            when = f"{a}-{b} {'up' if up else 'down'}"
            for row in (*_routes(bed, down), _traffic(bed, down)):
                rows.append(Detail(f"{when}: {row.what}", row.expected, row.came, row.right))
            writes = sum(len(switch.service.updates) for switch in bed.switches.values())
            rows.append(Detail.of(f"{when}: entries written", 2, writes))
    return rows


def counted(bench: Bench) -> list[Detail]:
    """Packets by port, as the program counts them."""
    rows = []
    with beds.bed() as bed, bench.started(bed) as driven:
        expected: dict[str, dict[int, int]] = {name: {} for name in NAMES}
        for _ in range(bench.random.randrange(5, 15)):
            a, b = bench.random.sample(NAMES, 2)
            bed.send(a, b, set())
            for name, target in ((a, b), (b, b)):
                port = plan(name, set())[beds.HOSTS[NAMES.index(target)]][1]
                expected[name][port] = expected[name].get(port, 0) + 1
        for name in NAMES:
            came = driven.call("counters", name)
            right = isinstance(came, dict) and came == expected[name]
            rows.append(Detail(f"counters of {name}", str(_sorted(expected[name])),
                               str(_sorted(came)), right))  # fmt: skip
    return rows


def _sorted(counts: object) -> object:
    return dict(sorted(counts.items(), key=str)) if isinstance(counts, dict) else counts


def lost_session(bench: Bench) -> list[Detail]:
    """Check a switch that dies and comes back empty, while a link has gone down."""
    name, other = bench.random.sample(NAMES, 2)
    down = {frozenset((name, other))}
    with beds.bed() as bed, bench.started(bed) as driven:
        if nothing := _nothing_kept(bed):
            return nothing
        switch = bed.switches[name]
        switch.halt()
        driven.call("link", name, other, False)
        driven.call("check")
        switch.boot()
        beds.wait_for(lambda: bed.entries(name) == plan(name, down), lambda: driven.call("check"))
        return [*_routes(bed, down), _traffic(bed, down)]


def _nothing_kept(bed: Bed) -> list[Detail]:
    """Return what is wrong before anything happened; what was not there can't be lost."""
    return [row for row in _routes(bed, set()) if not row.right]


def backup(bench: Bench) -> list[Detail]:
    """Another controller takes a switch; it is left alone until that one is gone."""
    name, other = bench.random.sample(NAMES, 2)
    down = {frozenset((name, other))}
    with beds.bed() as bed, bench.started(bed) as driven:
        switch = bed.switches[name]
        if nothing := _nothing_kept(bed):
            return nothing
        theirs = Other(switch, ELECTION_ID + 1)
        driven.call("link", name, other, False)
        driven.call("check")
        rows = [
            Detail(f"{name} of another controller: {row.what}", row.expected, row.came, row.right)
            for row in _routes(bed, set(), [name])
        ]
        rows += _routes(bed, down, [each for each in NAMES if each != name])
        theirs.close()
        beds.wait_for(lambda: bed.entries(name) == plan(name, down), lambda: driven.call("check"))
        rows += [
            Detail(f"afterwards: {row.what}", row.expected, row.came, row.right)
            for row in _routes(bed, down, [name])
        ]
    return rows


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    rows = (
        ("primary", "TODO 1: to be primary", 3, "every switch has this controller as its primary",
         "TODO 1: the first message of a stream is your arbitration; its answer comes by the "
         "stream, too", primary),
        ("program", "TODO 2: the program", 2, "every switch has it",
         "TODO 2: SetForwardingPipelineConfig wants device id, election id, action and config",
         program),
        ("routes", "TODO 3: routes", 3, "entries as planned, and frames arrive",
         "TODO 3: an INSERT for each entry that is not there", routes),
        ("already-there", "TODO 2, 3: entries that are there already", 3,
         "what is right stays, what differs is modified, what is strange is deleted",
         "TODO 2, 3: loading the program again deletes all; one INSERT of what exists fails all of "
         "a call", already_there),
        ("counters", "TODO 4: counters", 2, "packets by port",
         "TODO 4: a CounterEntry without an index reads all cells", counted),
        ("links", "TODO 5: links go down and up", 3, "new entries where they differ, no others",
         "TODO 5: compare the new plan with what is there", links),
        ("lost-session", "TODO 6: a switch that comes back empty", 2, "entries as planned",
         "TODO 6: a stream that ends is a lost session: make a new one, program and entries too",
         lost_session),
        ("backup", "TODO 6: as a backup", 2, "nothing is written, and the plan is kept afterwards",
         "TODO 1, 6: an arbitration may come at any time; its status says what you are now",
         backup),
    )  # fmt: skip
    return [
        Item(name, title, marks, expected, _telling(hint, judge))
        for name, title, marks, expected, hint, judge in rows
    ]
