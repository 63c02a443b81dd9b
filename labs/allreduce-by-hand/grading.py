"""What there are marks for in the slot logic, and how a program is tried.

Each scenario is a script of single packets on a switch that has just started: every packet has one
right answer, which follows from what was sent (docs/allreduce.md). The last item lets whole
workers run over links that lose, duplicate and reorder packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from google.protobuf import text_format

from labs.grade import Detail, Finding, Item, Submission
from protocols.allreduce import ALLREDUCE_PORT, AllReduceKind
from softswitch.p4runtime.pipeline import Pipeline, prepare
from softswitch.p4runtime.protos import p4i

from .network import Faults, Network, Plan
from .star import (
    CELLS,
    CHUNKS,
    LANES,
    SLOTS,
    WORKERS,
    Came,
    Flood,
    Message,
    Star,
    Values,
    contribution,
    frame,
    started,
)

SMALL = 1000  # values are short where they are shown
MOST, LEAST = (1 << 31) - 1, -(1 << 31)
ALL = tuple(range(WORKERS))
NOTHING = "nothing"
OTHER_PORT = 53
AS_IT_SHOULD = "the right answer to every packet"
NO_RESULT = "no result leaves the switch: nothing to judge"
FIRST = "TODOs 1 to 3 make it send a first one"


@dataclass
class Bench:
    """The learner's program; every scenario starts a switch of its own and draws its own values."""

    pipeline: Pipeline
    seed: int

    def random(self, scenario: str) -> Random:
        """Return random values that are the same whatever the program does."""
        return Random(f"{self.seed} {scenario}")


def bench(submission: Submission) -> Bench:
    """Make the program ready. Raises PipelineError if the switch does not take it."""
    info = text_format.Parse(submission.p4info_text, p4i.P4Info())
    return Bench(prepare(info, submission.json_text.encode()), submission.seed)


# ---------------------------------------------------------------- scripts of packets


class Failed(Exception):
    """A packet had another answer than the right one: the script is over."""


class Script:
    """Sends packets one by one, and compares what comes of each with what has to come."""

    def __init__(self, star: Star, random: Random) -> None:
        self.star, self.random = star, random
        self.results = 0
        self.wrong: Detail | None = None
        self._sent: set[tuple[int, int]] = set()
        self._values: dict[tuple[int, int], Values] = {}
        self._packets = 0
        self._repeat = ""

    def draw(self, *workers: int) -> int:
        """Draw one of the workers (default: of all)."""
        return self.random.choice(workers or ALL)

    def shuffled(self, workers: Iterable[int] = ALL) -> list[int]:
        """Return workers in random order."""
        found = list(workers)
        self.random.shuffle(found)
        return found

    def values(self, worker: int, chunk: int) -> Values:
        """Return what a worker contributes to a chunk: always the same."""
        key = worker, chunk % CHUNKS
        if key not in self._values:
            self._values[key] = tuple(self.random.randint(-SMALL, SMALL) for _ in range(LANES))
        return self._values[key]

    def give(self, chunk: int, lane: int, *values: int) -> None:
        """Say what workers 0, 1, ... contribute to one lane of a chunk; the rest is small."""
        for worker, value in enumerate(values):
            lanes = list(self.values(worker, chunk))
            lanes[lane] = value
            self._values[worker, chunk % CHUNKS] = tuple(lanes)

    def sums(self, chunk: int) -> tuple[Values, bool]:
        """Return the result of a chunk: sums modulo 2^32, and whether one leaves int32."""
        exact = [sum(self.values(w, chunk)[lane] for w in ALL) for lane in range(LANES)]
        wrapped = tuple((each - LEAST) % CHUNKS + LEAST for each in exact)
        return wrapped, wrapped != tuple(exact)

    def send(self, worker: int, chunk: int, *to: int, or_nothing: bool = False) -> None:
        """Send a contribution; its result has to come to the workers `to`, and nothing else."""
        self._packets += 1
        again = ", again" if (worker, chunk % CHUNKS) in self._sent else ""
        self._sent.add((worker, chunk % CHUNKS))
        number = chunk % CHUNKS
        what = f"worker {worker} to chunk {number} (slot {number % SLOTS}){again}"
        message = contribution(self.star.job, chunk, self.values(worker, chunk))
        came = self._came(lambda: self.star.send(worker, message), what)
        sums, overflow = self.sums(chunk)
        right = result(number, sums, overflow, to)
        allowed = {right, NOTHING} if or_nothing else {right}
        if came not in allowed:
            self._fail(what, " or ".join(sorted(allowed)), came)
        if again:
            self._repeat = f"; the last repeat before it: worker {worker} to chunk {number}"

    def _came(self, send: Callable[[], list[Came]], what: str) -> str:
        try:
            came = send()
        except Flood as error:
            self._fail(what, f"{WORKERS} packets at most", str(error))
        self.results += len(came)
        return said(came, self.star.job)

    def _fail(self, what: str, right: str, came: str) -> None:
        packet = f"packet {self._packets}, {what}{self._repeat}"
        self.wrong = Detail(packet, right, came, False)
        raise Failed

    def round(self, chunk: int, workers: Iterable[int] | None = None) -> None:
        """Let workers contribute in random order, the last of which completes the round."""
        order = self.shuffled(ALL if workers is None else workers)
        for worker in order[:-1]:
            self.send(worker, chunk)
        self.send(order[-1], chunk, *ALL)

    def part(self, chunk: int, count: int) -> tuple[list[int], list[int]]:
        """Let so many workers contribute; return them, and those that are missing."""
        order = self.shuffled()
        for worker in order[:count]:
            self.send(worker, chunk)
        return order[:count], order[count:]


def result(chunk: int, sums: Values, overflow: bool, to: Sequence[int]) -> str:
    """Say what comes, in the words of `said`."""
    if not to:
        return NOTHING
    flag = ", overflow flag set" if overflow else ""
    return f"result of chunk {chunk}, {list(sums)}{flag}, to {_workers(to)}"


def said(came: Sequence[Came], job: int) -> str:
    """Say what came to whom."""
    to: dict[str, list[int]] = {}
    strays = []
    for each in came:
        if each.worker is None:
            strays.append(f"a packet {each.wrong}")
        else:
            unusable = f"an unusable packet ({each.wrong})"
            words = unusable if each.message is None else _words(each.message, job)
            to.setdefault(words, []).append(each.worker)
    rows = [f"{words}, to {_workers(workers)}" for words, workers in sorted(to.items())]
    return "; ".join([*rows, *strays]) or NOTHING


def _words(message: Message, job: int) -> str:
    flag = ", overflow flag set" if message.overflow else ""
    kind = "result" if message.kind == AllReduceKind.RESULT else f"packet of kind {message.kind}"
    other = "" if message.job == job else f" of job {message.job}"
    cell = message.version << 3 | message.slot
    where = f" with slot {message.slot}, version {message.version}"
    where = "" if cell == message.chunk % CELLS else where
    return f"{kind}{other} of chunk {message.chunk}{where}, {list(message.lanes)}{flag}"


def _workers(workers: Iterable[int]) -> str:
    numbers = sorted(workers)
    if numbers == list(ALL):
        return "all workers"
    return f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


Scenario = tuple[str, Callable[[Script], None]]


def judged(bench: Bench, item: str, scenarios: Sequence[Scenario], hint: str) -> Finding:
    """Run the scenarios; each is right if every packet had its right answer."""
    details, wrongs, results = [], [], 0
    for title, scenario in scenarios:
        random = bench.random(f"{item} {title}")
        with started(bench.pipeline, random) as star:
            script = Script(star, random)
            with suppress(Failed):
                scenario(script)
            results += script.results
        if script.wrong is None:
            details.append(Detail.of(title, AS_IT_SHOULD, AS_IT_SHOULD))
        else:
            wrongs.append(title)
            details.append(replace(script.wrong, what=f"{title}: {script.wrong.what}"))
    if not results:
        return Finding.nothing(NO_RESULT, FIRST)
    reason = f"{len(wrongs)} of {len(details)} are wrong: {'; '.join(wrongs)}"
    return Finding.of(details, hint, reason)


# ---------------------------------------------------------------- what there are marks for


def strangers(bench: Bench) -> Finding:
    """Check that packets that are no contribution of the job are dropped."""
    random = bench.random("strangers")
    details = []
    with started(bench.pipeline, random) as star:
        ports = [host.port for host in star.hosts]
        free = next(port for port in range(1, 300) if port not in ports)
        good = contribution(star.job, random.randrange(CHUNKS), [1] * LANES)
        job, kind, version = star.job ^ 1, AllReduceKind, good.version ^ 1
        packets = [
            ("of another job", ports, replace(good, job=job), ALLREDUCE_PORT),
            ("results", ports, replace(good, kind=kind.RESULT), ALLREDUCE_PORT),
            ("moves", ports, replace(good, kind=kind.MOVE), ALLREDUCE_PORT),
            ("slot 8 of 8", ports, replace(good, slot=SLOTS), ALLREDUCE_PORT),
            ("of another slot", ports, replace(good, slot=good.slot ^ 1), ALLREDUCE_PORT),
            ("of another version", ports, replace(good, version=version), ALLREDUCE_PORT),
            ("with 4 lanes", ports, replace(good, lanes=(1,) * 4), ALLREDUCE_PORT),
            ("to another UDP port", ports, good, OTHER_PORT),
            ("three good ones, and some by a port without a worker", [*ports[:-1], free, free],
             good, ALLREDUCE_PORT),
        ]  # fmt: skip
        for what, by, message, udp_port in packets:
            # From all four: a program that takes them would send a result.
            data = frame(message, star.hosts[0], udp_port)
            try:
                came = said([each for port in by for each in star.send_frame(port, data)], star.job)
            except Flood as error:
                came = str(error)
            details.append(Detail.of(what, NOTHING, came))
    return Finding.of(details, "the starter does this: what has changed?")


def one_round(bench: Bench) -> Finding:
    """Four contributions: nothing leaves before the last, which goes to all with the sums."""
    early, came_to, came_sums = [], [], []
    right_to, right_sums = [], []
    for chunk in (0, bench.random("one-round").randrange(SLOTS + 1, 1 << 20)):
        random = bench.random(f"one-round {chunk}")
        with started(bench.pipeline, random) as star:
            script = Script(star, random)
            came: list[Came] = []
            for worker in script.shuffled():
                early += [said(came, star.job)] if came else []
                message = contribution(star.job, chunk, script.values(worker, chunk))
                try:
                    came = star.send(worker, message)
                except Flood as error:
                    return Finding.nothing(str(error), "a result leaves once to each worker")
            readable = [each.message for each in came if each.message is not None]
            results = [each for each in readable if _is_result(each, star.job, chunk)]
            whom = [each.worker for each in came if each.message in results]
            came_to.append(_workers([each for each in whom if each is not None])
                           if results else said(came, star.job))  # fmt: skip
            right_to.append(_workers(ALL))
            came_sums += [list(lanes) for lanes in {each.lanes for each in results}]
            right_sums.append(list(script.sums(chunk)[0]))
    if not early and came_to == [NOTHING, NOTHING]:
        return Finding.nothing(NO_RESULT, FIRST)
    return Finding.of(
        [
            Detail.of("what leaves on the first three contributions", [], early),
            Detail.of("on the last one, results of the chunk go to", right_to, came_to),
            Detail.of("their sums", right_sums, came_sums),
        ],
        "TODO 2: store the first, add the others; TODO 3: send_to_all on the last",
    )


def _is_result(message: Message, job: int, chunk: int) -> bool:
    return (message.kind, message.job, message.chunk) == (AllReduceKind.RESULT, job, chunk)


def rounds(bench: Bench) -> Finding:
    """Slots, versions and rounds are apart from each other."""

    def in_turn(script: Script) -> None:
        for chunk in range(2 * CELLS):
            script.round(chunk)

    def interleaved(script: Script) -> None:
        for window in range(4):
            chunks = range(window * SLOTS, (window + 1) * SLOTS)
            left = {chunk: set(ALL) for chunk in chunks}
            packets = [(worker, chunk) for chunk in chunks for worker in ALL]
            script.random.shuffle(packets)
            for worker, chunk in packets:
                left[chunk].discard(worker)
                script.send(worker, chunk, *(() if left[chunk] else ALL))

    def one_slot(script: Script) -> None:
        chunk = script.random.randrange(1 << 30)
        for turn in range(8):
            script.round(chunk + turn * SLOTS)

    return judged(
        bench,
        "rounds",
        [
            ("chunks 0 to 31 in turn", in_turn),
            ("eight chunks at a time, their packets mixed", interleaved),
            ("eight chunks of one slot", one_slot),
        ],
        "TODO 2: a cell that holds an older chunk begins anew, with the packet's lanes alone",
    )


def duplicates(bench: Bench) -> Finding:
    """Check that a contribution repeated before its round is complete adds nothing."""

    def first(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        (worker,), missing = script.part(chunk, 1)
        for _ in range(WORKERS + 1):
            script.send(worker, chunk)
        script.round(chunk, missing)

    def each(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        for _ in range(3):
            order = script.shuffled()
            for worker in order[:-1]:
                script.send(worker, chunk)
                script.send(worker, chunk)
            script.send(order[-1], chunk, *ALL)
            chunk += SLOTS

    return judged(
        bench,
        "duplicates",
        [("the first one, five times more", first), ("each but the last, twice", each)],
        "TODO 3: add only if the worker's bit is not set",
    )


def repeats(bench: Bench) -> Finding:
    """Check that a worker that lost a result and repeats its contribution gets it again, alone."""

    def at_once(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        script.round(chunk)
        for worker in [*script.shuffled(), *script.shuffled()]:
            script.send(worker, chunk, worker)

    def others_go_on(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        script.round(chunk)
        went, behind = script.part(chunk + SLOTS, 2)
        for worker in behind:
            script.send(worker, chunk, worker)
            script.send(worker, chunk, worker)
        script.round(chunk + SLOTS, behind)
        for worker in went:
            script.send(worker, chunk + SLOTS, worker)

    def then_the_next(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        for turn in range(4):
            script.round(chunk + turn * SLOTS)
            worker = script.draw()
            script.send(worker, chunk + turn * SLOTS, worker)

    return judged(
        bench,
        "repeats",
        [
            ("right after the result", at_once),
            ("while others send the slot's next chunk", others_go_on),
            ("in each of four rounds", then_the_next),
        ],
        "TODO 4: bit set and round complete: Use.READ, then answer()",
    )


def late(bench: Bench) -> Finding:
    """Check that a late copy of an old chunk does not get into a newer round."""

    def before_the_next(script: Script) -> None:
        # What SwitchML's versions and bitmaps alone let through: the worker's bit of the old
        # version was cleared when it contributed to the other one.
        old = script.random.randrange(1 << 16)
        script.round(old)
        script.round(old + SLOTS)
        worker = script.draw()
        script.send(worker, old, worker, or_nothing=True)
        script.round(old + CELLS)

    def into_the_next(script: Script) -> None:
        old = script.random.randrange(1 << 16)
        script.round(old)
        script.round(old + SLOTS)
        there, missing = script.part(old + CELLS, 2)
        for worker in (missing[0], there[0]):
            script.send(worker, old)
        script.round(old + CELLS, missing)

    def after_the_next(script: Script) -> None:
        old = script.random.randrange(1 << 16)
        for chunk in (old, old + SLOTS, old + CELLS):
            script.round(chunk)
        worker = script.draw()
        script.send(worker, old)
        script.send(worker, old + CELLS, worker)

    return judged(
        bench,
        "late",
        [
            ("a late copy before the version's next round (SwitchML's trap)", before_the_next),
            ("in the middle of the version's next round", into_the_next),
            ("after it", after_the_next),
        ],
        "TODO 1: the cell's chunk, not its bits, says whether a packet belongs to its round",
    )


def overflow(bench: Bench) -> Finding:
    """Check that the flag reports int32 overflow in any lane, and that the next round clears it."""

    def limits(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        lane = script.random.randrange(LANES)
        for values in (
            (MOST - 3, 1, 1, 1), (MOST, 1, 0, 0), (LEAST + 3, -1, -1, -1), (LEAST, -1, 0, 0),
            (1 << 29, 1 << 29, 1 << 29, 1 << 29), (1, 2, 3, 4),
        ):  # fmt: skip
            script.give(chunk, lane, *values)
            script.round(chunk)
            chunk += SLOTS

    def lanes(script: Script) -> None:
        for lane in range(LANES):
            script.give(lane, lane, MOST, MOST, 0, 0)
            script.round(lane)

    def again(script: Script) -> None:
        chunk = script.random.randrange(1 << 16)
        script.give(chunk, 0, LEAST, LEAST, -1, -1)
        for each in (chunk, chunk + SLOTS, chunk + CELLS):
            script.round(each)
            worker = script.draw()
            script.send(worker, each, worker)

    return judged(
        bench,
        "overflow",
        [
            ("sums at int32's limits, and beyond", limits),
            ("each lane alone", lanes),
            ("the flag in stored results, and the next round without it", again),
        ],
        "TODO 5: set it by the signs, keep it in `overflows`, clear it when a round begins",
    )


def wrap(bench: Bench) -> Finding:
    """After chunk 2^32 - 1 comes chunk 0."""

    def over(script: Script) -> None:
        for chunk in range(CHUNKS - CELLS, CHUNKS + CELLS, SLOTS):
            script.round(chunk)

    return judged(
        bench,
        "wrap",
        [("chunks 4294967280, 4294967288, 0 and 8", over)],
        "TODO 1: the sign of the 32-bit difference says which chunk is later, not `<`",
    )


SCHEDULES = (
    ("no faults", Faults()),
    ("20 % of packets lost", Faults(loss=0.2)),
    ("30 % come twice, in any order", Faults(twice=0.3, jitter_ns=10_000, late_ns=40_000)),
    ("lost, twice, and in any order",
     Faults(loss=0.1, twice=0.2, jitter_ns=30_000, late_ns=120_000)),
)  # fmt: skip


def schedules(bench: Bench) -> Finding:
    """Whole workers, with windows and timers: every sum is numpy's."""
    details, results = [], 0
    for title, faults in SCHEDULES:
        random = bench.random(f"schedule {title}")
        with started(bench.pipeline, random) as star:
            plan = Plan(chunks=80, first=random.randrange(CHUNKS), faults=faults)
            network = Network(star, plan, random)
            outcome = network.run()
        results += outcome.results
        wrong = outcome.flood or next(iter([*outcome.wrong, *outcome.unreadable]), "")
        if not wrong and outcome.ended_ns is None:
            wrong = f"after {plan.until_ns / 1e6:g} ms {network.waiting()}"
        right = f"{plan.chunks} right results at each worker"
        details.append(Detail.of(f"random schedule, {title}", right, wrong or right))
    if not results:
        return Finding.nothing(NO_RESULT, FIRST)
    return Finding.of(details, "one of the items above names it packet by packet")


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    return [
        Item("strangers", "packets that are no contribution", 2, "it is dropped", strangers),
        Item("one-round", "TODOs 2 and 3: one round", 3, "the last one goes to all, with the sums",
             one_round),
        Item("rounds", "TODOs 1 and 2: slots, versions, rounds", 2, "each has its own sums",
             rounds),
        Item("duplicates", "TODO 3: duplicates", 2, "no worker counts twice", duplicates),
        Item("repeats", "TODO 4: lost results", 3, "a repeat gets the result again, alone",
             repeats),
        Item("late", "TODO 1: late duplicates of old chunks", 3, "they get into no newer round",
             late),
        Item("overflow", "TODO 5: the overflow flag", 2, "set where a sum leaves int32",
             overflow),
        Item("wrap", "TODO 1: chunk numbers wrap", 1, "chunk 0 is later than 2^32 - 1", wrap),
        Item("schedules", "random loss, duplicates and order", 2, "every sum is numpy's",
             schedules),
    ]  # fmt: skip
