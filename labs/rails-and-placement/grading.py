"""Marks for rails-and-placement: bytes over the spines on fabrics that a seed draws, and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random

from experiments import loader
from experiments.api import Runtime
from labs.grade import Detail, Finding, Item, Submission
from labs.python_answers import AnswerError, PythonAnswer, load

from .job import Bytes, Job, Nic, best, busiest, is_nic, wrong_place
from .network import played

ITEM_S = 10.0
FUNCTIONS = ("place", "relay")
FOLDER = Path(__file__).parent
DRAWN = 5
RAILS_OF_TP = ((8, 2), (8, 4), (8, 8), (4, 2), (4, 4), (8, 1))
TOKEN = 1000
MOST_OVER = 1.1
"""A step's time over that of its busiest NIC: the links' delay and what packets wait at random."""


def read(path: Path) -> PythonAnswer:
    """Read what was handed in. Raises AnswerError."""
    return load(path, FUNCTIONS)


class Bench:
    """A learner's functions, and jobs of the grading's seed."""

    def __init__(self, submission: Submission) -> None:
        assert isinstance(submission.content, PythonAnswer)
        self.answer = submission.content
        self.seed = submission.seed

    @cached_property
    def one_group(self) -> list[Job]:
        """Jobs on fabrics of one group."""
        random = Random(f"{self.seed} one")
        return [self._job(random, 1, *RAILS_OF_TP[n % len(RAILS_OF_TP)]) for n in range(DRAWN + 1)]

    @cached_property
    def groups(self) -> list[Job]:
        """Jobs on fabrics of several groups, with more than one data rank a server."""
        random = Random(f"{self.seed} groups")
        return [self._job(random, random.choice((2, 3)), 8, tp) for tp in (1, 2, 4, 2, 4)]

    @staticmethod
    def _job(random: Random, groups: int, rails: int, tp: int) -> Job:
        ep = random.choice((2, 3, 4))
        return Job(groups, ep * random.choice((1, 2)), rails, tp, ep)

    def places(self, job: Job) -> list[Nic] | str:
        """Return where the answer places a job's ranks, or what is wrong with it as such."""
        came = self.answer.call("place", job.groups, job.servers, job.rails, job.tp)
        wrong = wrong_place(job, came)
        return wrong or list(came)


def bench(submission: Submission) -> Bench:
    """Make the jobs of the grading's seed."""
    return Bench(submission)


def _telling(hint: str, judge: Callable[[Bench], Sequence[Detail]]) -> Callable[[Bench], Finding]:
    """Make a judge of a function that compares; an error in the learner's file costs its marks."""

    def judged(bench: Bench) -> Finding:
        try:
            return Finding.of(judge(bench), hint)
        except AnswerError as error:
            return Finding.nothing(str(error), hint)

    return judged


def _name(job: Job) -> str:
    of = f"{job.groups} groups of {job.servers}" if job.groups > 1 else f"{job.servers}"
    return f"{of} servers, {job.rails} rails, tp {job.tp}"


def _of_places(
    bench: Bench, jobs: Sequence[Job], least: Callable[[Job], int],
    count: Callable[[Job, list[Nic]], int], unit: str,
) -> list[Detail]:  # fmt: skip
    rows = []
    for job in jobs:
        places = bench.places(job)
        expected = least(job)
        if isinstance(places, str):
            rows.append(Detail(_name(job), f"at most {expected:,} {unit}", places, False))
            continue
        came = count(job, places)
        rows.append(
            Detail(_name(job), f"at most {expected:,} {unit}", f"{came:,}", came <= expected)
        )
    return rows


def each_has_one(bench: Bench) -> list[Detail]:
    """Every rank has a NIC of its own."""
    rows = []
    for job in (*bench.one_group, *bench.groups):
        places = bench.places(job)
        said = places if isinstance(places, str) else "one each"
        rows.append(Detail(_name(job), "a NIC of its own for each rank", said, places is not said))
    return rows


def tensor_stays(bench: Bench) -> list[Detail]:
    """Judge what tensor groups send stays in servers."""

    def on_network(job: Job, places: list[Nic]) -> int:
        tiers = job.tiers(job.tensor_messages(places, Bytes().tp))
        return tiers.leaf + tiers.spine

    return _of_places(bench, (*bench.one_group, *bench.groups), lambda job: 0, on_network,
                      "bytes of tensor groups on the network")  # fmt: skip


def rings_on_rails(bench: Bench) -> list[Detail]:
    """Judge what data groups send crosses no spine, in one group."""
    return _of_places(bench, bench.one_group, lambda job: 0, _data_over_spines,
                      "bytes of data groups over spines")  # fmt: skip


def rings_of_groups(bench: Bench) -> list[Detail]:
    """Judge what data groups send crosses the spines as often as it must, with several groups."""
    return _of_places(bench, bench.groups, lambda job: job.least_spine_bytes(Bytes().dp),
                      _data_over_spines, "bytes of data groups over spines")  # fmt: skip


def _data_over_spines(job: Job, places: list[Nic]) -> int:
    return job.tiers(job.data_messages(places, Bytes().dp)).spine


def experts(bench: Bench) -> list[Detail]:
    """Judge what expert groups send crosses no spine."""

    def over_spines(job: Job, places: list[Nic]) -> int:
        return job.tiers(job.expert_messages(places, Bytes().ep)).spine

    return _of_places(bench, (*bench.one_group, *bench.groups), lambda job: 0, over_spines,
                      "bytes of expert groups over spines")  # fmt: skip


def relays(bench: Bench) -> list[Detail]:
    """Check that a relay is in the source's server and meets the target at a leaf if one can."""
    rows = []
    for job in (*bench.one_group[:2], *bench.groups[:2]):
        wrong: list[str] = []
        nics = frozenset(job.nics())

        def relay(
            source: Nic, target: Nic, wrong: list[str] = wrong, nics: frozenset[Nic] = nics
        ) -> Nic:
            by = bench.answer.call("relay", source, target)
            known = is_nic(by) and by in nics
            if not known or by[0] != source[0]:
                wrong.append(f"{source} to {target}: {by!r} is no NIC of server {source[0]}")
                return source
            found: Nic = by
            return found

        came = job.tiers(job.tokens(TOKEN, relay)).spine
        least = job.tiers(job.tokens(TOKEN, lambda s, t: (s[0], t[1]))).spine
        rows.append(
            Detail(_name(job), f"at most {least:,} bytes over spines",
                   wrong[0] if wrong else f"{came:,}", not wrong and came <= least)
        )  # fmt: skip
    return rows


def on_time(bench: Bench) -> list[Detail]:
    """Check that a step in virtual time is as fast as the NICs allow, for one group and for two."""
    lab = loader.load(FOLDER.name, FOLDER.parent)
    mapping = lab.variants(Runtime.SIMULATOR)[0].mapping
    rows = []
    for job in (Job(1, 4, 8, 2, 2), Job(2, 2, 8, 2, 2)):
        places = bench.places(job)
        what = f"{_name(job)}: time of a step"
        least = 8 * busiest(job.step(best(job), Bytes())) / 1e5
        expected = f"at most {MOST_OVER * least:.0f} us"
        if isinstance(places, str):
            rows.append(Detail(what, expected, places, False))
            continue
        took = played(mapping, job, job.step(places, Bytes()), bench.seed).took_us
        rows.append(Detail(what, expected, f"{took:.0f} us", took <= MOST_OVER * least))
    return rows


def items() -> Sequence[Item]:
    """Return what there are marks for."""
    rows = (
        ("a-nic-each", "a NIC for each rank", 1, "no NIC twice, none that is not there",
         "rank r is at place r of the list", each_has_one),
        ("tensor", "TODO 1: tensor groups stay in servers", 2, "no bytes on the network",
         "TODO 1: the ranks of a data rank are neighbours in the list", tensor_stays),
        ("rings", "TODO 1, 2: data rings stay on rails", 5, "no bytes over the spines",
         "TODO 2: a ring may change rails inside a server only; so may its end", rings_on_rails),
        ("experts", "TODO 1: expert groups stay on rails", 2, "no bytes over the spines",
         "TODO 1: consecutive data ranks are on one rail of one group", experts),
        ("groups", "TODO 3: rings cross between groups once each way", 3,
         "as few bytes over the spines as there can be",
         "TODO 3: fill all of a group before the next one", rings_of_groups),
        ("relay", "TODO 4: relays", 4, "spines carry what goes to other groups, and no more",
         "TODO 4: NICs of one rail and group meet at a leaf", relays),
        ("time", "a step in virtual time", 3, "within a tenth of what the busiest NIC takes",
         "what crosses the spines shares two links a leaf with all that others send", on_time),
    )  # fmt: skip
    return [
        Item(name, title, marks, expected, _telling(hint, judge))
        for name, title, marks, expected, hint, judge in rows
    ]
