"""The control loop of one fabric, for every runtime: what happens goes in, what to write comes out.

    loop = ControlLoop(model)
    loop.handle(LinkChanged(link, up=False), now)  -> Work: planned writes, and learned ones
    loop.heard(digests, now), loop.elapsed(now)    -> Work
    loop.due()                                     -> when `elapsed` next has something to do
    loop.written(work, failed, now)                -> Work: what follows from work that is written

Passive: it owns no clock, no session and no task, and every call says what time it is (ns of the
fabric's own clock). In real time `FabricController` drives it over P4Runtime sessions, in virtual
time `simulator.controller_link` by direct calls; delays are theirs. What mechanisms learn comes
from the model's parts, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.digests import DigestMessage
from controller.entries import Entry
from controller.fabric_state import (
    Event,
    FabricModel,
    LinkChanged,
    MechanismSwitched,
    Writes,
    step,
)
from controller.jobs import JobLearner, JobsEnded, JobsSubmitted, TakesOver
from controller.parts import Learned, Learner, Then


@dataclass(frozen=True)
class Work:
    """What is to be written, by switch: first `planned`, then each of `learned`.

    A planned write that fails is an error; a learned one gives way to what the switch really holds.
    `then`: learners that wait until what is learned has been written, for `ControlLoop.written`.
    """

    planned: Writes = field(default_factory=dict)
    learned: tuple[Writes, ...] = ()
    then: tuple[Then, ...] = field(default=(), compare=False)


class ControlLoop:
    """The model of a fabric and the learners of its mechanisms."""

    def __init__(self, model: FabricModel) -> None:
        """Make the learners that the model's parts have for its topology and its program.

        They get the first routes here, so what follows from them is there when switches are.
        """
        self.model = model
        found = (
            (part.name, part.learner(model.topology, model.facts, model.policy))
            for part in model.parts
            if all(table in model.p4info.tables for table in part.learned_tables)
        )
        self.learners: Mapping[str, Learner] = {
            name: learner for name, learner in found if learner is not None
        }
        if self.learners:
            self.model = self.model.with_routes()
            routes = self.model.routes()
            self._learn(lambda learner: learner.routed(routes, 0), 0)

    def handle(self, event: Event | JobsSubmitted | JobsEnded, now: int) -> Work:
        """Take an event; where links change, what was learned follows the paths."""
        if isinstance(event, JobsSubmitted | JobsEnded):
            return self._told(event, now)
        self.model, writes = step(self.model, event, now)
        match event:
            case LinkChanged() if self.learners:
                routes = self.model.routes()
                return self._learn(lambda learner: learner.routed(routes, now), now, writes)
            case MechanismSwitched(name, on) if name in self.learners:
                return self._work([self.learners[name].switched(on, now)], now, writes)
            case _:
                return Work(writes)

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Work:
        """Take digests of any kind; every learner hears all of them, and does what is due."""
        told = tuple(messages)
        return self._learn(lambda learner: learner.heard(told, now), now)

    def elapsed(self, now: int) -> Work:
        """Do what is due."""
        return self._learn(lambda learner: learner.elapsed(now), now)

    def written(self, work: Work, failed: Collection[str], now: int) -> Work:
        """Take notice that what is learned of `work` has been written, but to switches `failed`.

        To be called after each work with a `then`.
        """
        return self._work([then(frozenset(failed), now) for then in work.then], now)

    def left(self, there: Mapping[str, Iterable[Entry]]) -> None:
        """Take notice of what another controller left in switches, before jobs are submitted."""
        for learner in self.learners.values():
            if isinstance(learner, TakesOver):
                learner.left(there)

    def due(self) -> int | None:
        """Return when `elapsed` next has something to do; None: only after an event."""
        times = [learner.due() for learner in self.learners.values()]
        return min((time for time in times if time is not None), default=None)

    def totals(self) -> dict[str, int]:
        """Return what all learners have counted, by the names that results give it."""
        return {k: v for each in self.learners.values() for k, v in each.totals().items()}

    def ask(self, name: str, question: Callable[[Any], Any]) -> Any:
        """Return what `question` says of a mechanism's learner, which may be None."""
        return question(self.learners.get(name))

    def tell(self, name: str, saying: Callable[[Any], Learned | None], now: int) -> Work:
        """Pass an event to a mechanism's learner; nothing happens where there is none."""
        learner = self.learners.get(name)
        learned = None if learner is None else saying(learner)
        return self._work([learned], now)

    def _learn(
        self, what: Callable[[Learner], Learned | None], now: int, planned: Writes | None = None
    ) -> Work:
        return self._work([what(learner) for learner in self.learners.values()], now, planned)

    def _told(self, event: JobsSubmitted | JobsEnded, now: int) -> Work:
        planners = [each for each in self.learners.values() if isinstance(each, JobLearner)]
        if isinstance(event, JobsSubmitted):
            found = [each.submitted(event.jobs, now) for each in planners]
        else:
            found = [each.ended(event.names, now) for each in planners]
        return self._work(found, now)

    def _work(
        self, found: Iterable[Learned | None], now: int, planned: Writes | None = None
    ) -> Work:
        told = [learned for learned in found if learned is not None]
        then = tuple(learned.then for learned in told if learned.then is not None)
        return Work(planned or {}, tuple(self._step(each, now) for each in told), then)

    def _step(self, learned: Learned, now: int) -> Writes:
        self.model, writes = step(self.model, learned, now)
        return writes
