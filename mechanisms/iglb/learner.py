"""Keeps jobs and their plan while a fabric runs: passive, and never with half a plan in force.

    jobs, routes, time --> a plan (`planner`) --> its pins (`pins`) --> steps of entries

**Another plan** (jobs that come): all its pins are written under the next version while switches
follow this one; then each switch gets the version, in one write; then the old pins go. Behind
leaves the pins of both plans are there under both versions, so a packet finds its flow's pin at
every switch, whichever of them have changed over already. A step begins when every switch holds
what the step before it wrote. If one does not, all go back to what they had, and it is tried later.

**A repair** (a link fails, or is used again): only flows whose path changes get other pins, in
place: first behind their leaf, then at the leaf, whose one entry moves the flow; then the old pins
behind it go. No flow depends on another's: what is half written is each flow on its old or its new
path, and the old path is dead or as good.

What comes while steps are under way takes over from what is in force then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from controller.digests import DigestMessage
from controller.entries import Entry
from controller.errors import ControllerError
from controller.jobs import DeclaredJob, PlannedJob
from controller.leaf_routes import Routes
from controller.parts import Learned
from controller.policy import FabricPolicy
from controller.target_facts import TargetFacts
from mechanisms.iglb.followed import Followed, Follower
from mechanisms.iglb.in_force import HeldPins, InForce, Part
from mechanisms.iglb.pins import (
    NO_PINS,
    Flow,
    Pins,
    after,
    all_but,
    all_missing,
    different,
    follow,
    followed,
)
from mechanisms.iglb.plan import Plan
from mechanisms.iglb.room import pins_room
from mechanisms.iglb.settings import KEY, Iglb, Pinning
from mechanisms.iglb.told import planned_job
from topologies.model import PS_PER_NS, Link, Topology

GRACE_PS = 2_000_000_000
"""How long old pins stay for packets that are on their way."""

RETRY_NS = 1_000_000_000
MOST_RETRY_NS = 64 * RETRY_NS
GAIN = 0.05
"""Flows that run are moved for a plan that is better by this share."""


class Plans(Protocol):
    """What plans: `mechanisms.iglb.planner.Planner`."""

    def plan(self, jobs: Sequence[DeclaredJob], before: Plan | None = None) -> Plan:
        """Return a plan; flows keep the paths of `before` that are whole."""

    def better(self, than: Plan, by: float) -> Plan | None:
        """Return a plan of the same jobs that needs less time by a share, None if there is none."""

    def with_down(self, down: frozenset[Link]) -> Plans:
        """Return the same without these links."""


@dataclass(frozen=True)
class Goal:
    """What is being put in force: `turn` says which of all that was begun it is."""

    turn: int
    next: InForce
    avoided: frozenset[Link]


@dataclass
class Counts:
    """What it has done: plans in force, repairs, flows that they moved, and steps that failed."""

    plans: int = 0
    repairs: int = 0
    moved: int = 0
    failed: int = 0


class PlannedPaths:
    """Satisfies `controller.parts.Learner` and `controller.jobs.JobPlanner`."""

    def __init__(
        self,
        topology: Topology,
        setting: Iglb,
        facts: TargetFacts,
        policy: FabricPolicy,
        planner: Plans,
    ) -> None:
        self.counts = Counts()
        self.in_force = InForce()
        self.trouble = ""
        self.on = KEY not in policy.off
        self._switches = [switch.name for switch in topology.switches]
        self._room = pins_room(topology)
        self._hold_ns = setting.hold_down_ps * facts.time_scale // PS_PER_NS
        self._grace_ns = GRACE_PS * facts.time_scale // PS_PER_NS
        self._planner = planner
        self._follower = Follower(topology, setting.pinning is Pinning.PORTS)
        self._jobs: dict[str, DeclaredJob] = {}
        self._home: Plan | None = None
        self._held = HeldPins()
        self._version = 0
        self._down: frozenset[Link] | None = None
        self._back: dict[Link, int] = {}  # links that returned: when they are used again
        self._turn = 0  # counts what was begun; steps of what was begun earlier end
        self._busy = 0  # the turn whose steps are under way
        self._sweep_at: int | None = None
        self._retry_at: int | None = None
        self._retry_ns = RETRY_NS

    # ------------------------------------------------------------ what the controller says

    @property
    def avoided(self) -> frozenset[Link]:
        """Links that plans avoid: those that are down, and those that have just returned."""
        return (self._down or frozenset()) | frozenset(self._back)

    def left(self, there: Mapping[str, Iterable[Entry]]) -> None:
        """Take the version that most switches follow for the one that comes next.

        So a controller that plans what another one planned finds it in force.
        """
        told = Counter(version for each in there.values() if (version := followed(each)))
        for version, _ in told.most_common(1):
            self._version = version - 1

    def submitted(self, jobs: Iterable[DeclaredJob], now: int) -> Learned | None:
        """Plan jobs that start. Raises ControllerError, with all as before, where that can't be."""
        wanted = {**self._jobs, **{job.name: job for job in jobs}}
        found, before = self._planned(wanted.values(), self.in_force.plan), self.in_force.plan
        if before is not None and found.proof.quality < 1 - GAIN:
            found = self._planner_now().better(found, GAIN) or found
        new = self._followed(found)
        self._check_room(new.pins)
        self._jobs, self._home = wanted, found
        return self._renew(new) if self.on else None

    def ended(self, names: Iterable[str], now: int) -> Learned | None:
        """Forget jobs; others move if that makes the plan much better."""
        gone = set(names) & self._jobs.keys()
        if not gone:
            return None
        self._jobs = {name: job for name, job in self._jobs.items() if name not in gone}
        before = self.in_force.plan
        if not self._jobs:
            self._home = None
            return self._stop(now)
        if not self.on or before is None:
            return None
        kept = self._planned(self._jobs.values(), before)
        better = self._planner_now().better(kept, GAIN)
        self._home = better or self._planned(self._jobs.values(), self._home)
        return self._renew(self._followed(better)) if better else self._move(kept, now)

    def planned(self, name: str) -> PlannedJob | None:
        """Return what is planned for a job; None while nothing of it is in force."""
        found = self.in_force.followed
        if found is None:
            return None
        return planned_job(found.plan, name, found.udp_port, found.by_entry)

    def routed(self, routes: Routes, now: int) -> Learned | None:
        """Plan flows again whose path is broken; links that return are used after a time."""
        self._follower.routed(routes)
        before, self._down = self._down, routes.down
        if before is None:
            return Learned(self._told(0))
        self._back = {link: at for link, at in self._back.items() if link not in routes.down}
        self._back |= dict.fromkeys(before - routes.down, now + self._hold_ns)
        plan = self.in_force.plan
        return self._move(self._planned(plan.jobs, plan), now) if plan is not None else None

    def switched(self, on: bool, now: int) -> Learned | None:
        """Take all pins away, or plan again."""
        self.on = on
        return self._anew(now) if on else self._stop(now)

    def heard(self, messages: Iterable[DigestMessage], now: int) -> Learned | None:
        """Do what is due; switches report nothing."""
        return self.elapsed(now)

    def elapsed(self, now: int) -> Learned | None:
        """Use links again that have been up for long enough, try again, and sweep up."""
        usable = [link for link, at in self._back.items() if at <= now]
        for link in usable:
            del self._back[link]
        found: Learned | None = None
        if self._retry_at is not None and self._retry_at <= now:
            found = self._anew(now)
        elif usable:
            found = self._go_home(now)
        if self._sweep_at is not None and self._sweep_at <= now:
            self._sweep_at = now + self._grace_ns if self._busy else None
            found = found if self._busy else self._swept()
        return found

    def due(self) -> int | None:
        """Return when the next of these is."""
        times = (*self._back.values(), self._sweep_at, self._retry_at)
        return min((at for at in times if at is not None), default=None)

    def totals(self) -> Mapping[str, int]:
        """Return what it has done."""
        return {f"{KEY}_{name}": value for name, value in vars(self.counts).items()}

    # ------------------------------------------------------------ plans

    def _planner_now(self) -> Plans:
        return self._planner.with_down(self.avoided)

    def _planned(self, jobs: Iterable[DeclaredJob], before: Plan | None) -> Plan:
        try:
            return self._planner_now().plan(tuple(jobs), before)
        except ValueError as error:
            raise ControllerError(f"the job can't be planned: {error}") from None

    def _followed(self, plan: Plan) -> Followed:
        """Return how a plan is followed; jobs that run keep their queue pairs' ports."""
        old = self.in_force.followed
        kept = {} if old is None else old.ports()
        running = {job.name: job for job in self.in_force.jobs}
        same = [job.name for job in plan.jobs if running.get(job.name) is job]
        return self._follower.follow(plan, {name: kept[name] for name in same})

    def _check_room(self, pins: Pins) -> None:
        for switch in sorted(pins.switches):
            number = 2 * len(pins.at(switch))
            if number > self._room:
                raise ControllerError(
                    f"{switch} would hold {number} pins, while a plan follows another, and has "
                    f"room for {self._room}: say how many flows a host has, iglb: {{flows: ...}}"
                )

    def _anew(self, now: int) -> Learned | None:
        """Plan all jobs with what is in force, and put that in force, whatever switches hold."""
        self._retry_at = None
        if not self.on or not self._jobs:
            return None
        jobs = tuple(self._jobs.values())
        found = self._planned(jobs, self.in_force.plan or self._home)
        if self.in_force.version and self.in_force.jobs == jobs:
            return self._move(found, now, whole=True)
        return self._renew(self._followed(found))

    def _go_home(self, now: int) -> Learned | None:
        """Move flows back to where they were before links failed, if that is better."""
        plan = self.in_force.plan
        if plan is None or not self.on:
            return None
        home = self._planned(plan.jobs, self._home)
        better = home.proof.planned_s < plan.proof.planned_s
        return self._move(home, now) if better else None

    # ------------------------------------------------------------ another plan

    def _renew(self, new: Followed) -> Learned | None:
        """Begin to put a plan in force: first fill in its pins under the next version."""
        self._version = after(self._version)
        goal = Goal(self._begin(), InForce(self._version, new, new.pins), self.avoided)
        parts, keys = self.in_force.filled(goal.next)
        stale = self._held.leave(keys)
        self._held.add(keys)
        if stale:  # room for the new ones
            return Learned(gone=stale, then=partial(self._filled, goal, parts))
        return self._fill(goal, parts)

    def _fill(self, goal: Goal, parts: Sequence[Part]) -> Learned | None:
        part = parts[0] if parts else {}
        return Learned(part, then=partial(self._filled, goal, parts[1:]))

    def _filled(
        self, goal: Goal, parts: Sequence[Part], failed: frozenset[str], now: int
    ) -> Learned | None:
        """Go on with the pins; when all are there, have switches follow them."""
        if goal.turn != self._turn:
            return None
        without = failed & goal.next.pins.switches
        if without:
            self._fail("did not take the pins of a plan", without, now)
            return self._swept()
        if goal.avoided != self.avoided or goal.next.jobs != tuple(self._jobs.values()):
            return self._anew(now)
        if parts:
            return self._fill(goal, parts)
        before, self.in_force = self.in_force, goal.next
        then = partial(self._turned, goal, before)
        return Learned(self._told(goal.next.version), then=then)

    def _turned(
        self, goal: Goal, before: InForce, failed: frozenset[str], now: int
    ) -> Learned | None:
        """Switch all to the new plan, or all back to the one before."""
        without = failed & (goal.next.pins.switches | before.pins.switches)
        self._sweep_at = now + self._grace_ns
        if without:
            self.in_force = before
            self._fail("did not change over to a plan", without, now)
            return Learned(self._told(before.version))
        self.counts.plans += 1
        if before.version:
            self.counts.moved += different(before.pins, goal.next.pins)
        return self._done(goal, now)

    # ------------------------------------------------------------ repairs

    def _move(self, plan: Plan, now: int, whole: bool = False) -> Learned | None:
        """Move flows whose path is another; `whole`: write all pins, whatever is held."""
        if not self.on:
            return None
        there, new = self.in_force, self._followed(plan)
        pins = new.pins
        goal = replace(there, followed=new, pins=pins)
        old = NO_PINS if whole else there.pins
        further = all_missing(pins.further, old.further)
        first = all_missing(pins.first, old.first)
        if not further and not first:
            self.in_force = goal
            if there.pins != pins:
                self._sweep_at = now + self._grace_ns
            return None
        moved = 0 if whole else different(there.pins, pins)
        self.counts.repairs += bool(moved)
        self.counts.moved += moved
        step = Goal(self._begin(), goal, self.avoided)
        if not further:
            return self._move_first(step, first, {}, frozenset(), now)
        put = self._held.put(self.in_force.version, further)
        return Learned(put, then=partial(self._move_first, step, first, further))

    def _move_first(
        self,
        step: Goal,
        first: Mapping[str, Mapping[Flow, int]],
        further: Mapping[str, Mapping[Flow, int]],
        failed: frozenset[str],
        now: int,
    ) -> Learned | None:
        """Move flows at their leaf, but those that lack a pin behind it."""
        if step.turn != self._turn:
            return None
        stay = {flow for switch in failed & further.keys() for flow in further[switch]}
        goal, there = step.next, self.in_force
        if stay:
            first = {
                s: {f: p for f, p in each.items() if f not in stay} for s, each in first.items()
            }
            goal = replace(goal, pins=all_but(goal.pins, there.pins, stay))
        self.in_force = goal
        self._sweep_at = now + self._grace_ns
        then = partial(self._moved, step, failed if stay else frozenset())
        return Learned(self._held.put(goal.version, first), then=then)

    def _moved(
        self, step: Goal, before: frozenset[str], failed: frozenset[str], now: int
    ) -> Learned | None:
        without = failed | before
        if without:
            self._fail("did not take pins of flows that move", without, now)
            return None
        return self._done(step, now)

    # ------------------------------------------------------------ steps

    def _begin(self) -> int:
        self._turn += 1
        self._busy = self._turn
        return self._turn

    def _done(self, step: Goal, now: int) -> Learned | None:
        """Finish a goal whose steps are all written; go on with what came meanwhile."""
        if step.turn != self._turn:
            return None
        self._busy = 0
        self._retry_ns, self.trouble = RETRY_NS, ""
        if self.in_force.jobs != tuple(self._jobs.values()):
            return self._anew(now)
        return None

    def _fail(self, what: str, switches: Iterable[str], now: int) -> None:
        """Try again later."""
        self._begin()
        self._busy = 0
        self.counts.failed += 1
        self.trouble = f"{', '.join(sorted(switches))} {what}"
        self._retry_at = now + self._retry_ns
        self._retry_ns = min(2 * self._retry_ns, MOST_RETRY_NS)

    def _stop(self, now: int) -> Learned:
        """Have switches follow no plan."""
        self._begin()
        self._busy = 0
        self._retry_at = None
        self.in_force = InForce()
        self._sweep_at = now + self._grace_ns
        return Learned(self._told(0))

    def _told(self, version: int) -> Part:
        return {switch: (follow(version),) for switch in self._switches}

    def _swept(self) -> Learned | None:
        """Take away what is not in force."""
        gone = self._held.leave(self.in_force.keys())
        return Learned(gone=gone) if gone else None
