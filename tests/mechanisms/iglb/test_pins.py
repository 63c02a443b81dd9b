"""Pins of plans: never half a plan, whatever fails and in whichever order updates arrive."""

from __future__ import annotations

import random

import pytest

from controller.errors import ControllerError
from controller.fabric_state import MechanismSwitched
from mechanisms.iglb import in_force as in_force_module
from mechanisms.iglb.learner import GRACE_PS
from mechanisms.iglb.settings import Iglb, Pinning
from tests.mechanisms.iglb.held import Held, Path, planned, renamed, ring
from topologies.loader import loads
from topologies.model import Link, Topology

TWO_TIERS = "generator: leaf_spine\nspines: 3\nleaves: 4\nhosts_per_leaf: 2"
LINK = "time_scale: 1\nlink: {rate: 100Gbps, delay: 500ns, queue: 1MB}"
THREE_TIERS = "generator: fat_tree\nk: 4"
HOLD = 1_000_000
"""Nanoseconds that links are held down by default."""


@pytest.fixture(params=[TWO_TIERS, THREE_TIERS], ids=["two tiers", "three tiers"])
def topology(request: pytest.FixtureRequest) -> Topology:
    return loads(f"{request.param}\niglb: true\n{LINK}")


def inner_links(topology: Topology) -> list[Link]:
    ends = ((link, (link.a.node, link.b.node)) for link in topology.links)
    return [link for link, both in ends if all(map(topology.is_switch, both))]


def arcs_of(topology: Topology, link: Link) -> set[int]:
    number = topology.links.index(link)
    return {2 * number, 2 * number + 1}


def in_force(held: Held, name: str) -> list[Path]:
    followed = held.learner.in_force.followed
    assert followed is not None
    return planned(followed.plan, name)


def test_flows_go_as_planned(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    assert held.paths(job) == in_force(held, "ring") == planned(held.planner.plan([job]), "ring")
    assert held.learner.counts.plans == 1
    before = held.number_of_pins()
    held.settle()
    assert held.number_of_pins() == before


@pytest.mark.parametrize("seed", range(2))
def test_every_flow_is_on_its_old_or_new_path_after_every_write(
    topology: Topology, seed: int
) -> None:
    held, job = Held(topology, seed=seed), ring(topology, pairs=1)
    held.submit(job)
    held.settle()
    old = held.paths(job)
    held.planner.keeps, held.planner.shift = False, 1
    new = planned(held.planner.plan([job]), "ring")
    mixed = [0]

    def check() -> None:
        now = held.paths(job)
        for path, a, b in zip(now, old, new, strict=True):
            # Behind its leaf a packet may find either plan's pin; it finds one.
            assert path is not None
            assert a is not None and path[0] in (a[0], b[0])
        mixed[0] += now not in (old, new)

    held.check = check
    held.submit(renamed(job, "more"))
    assert held.paths(job) == new != old
    assert held.paths(renamed(job, "more")) == in_force(held, "more")
    # Only while each switch is told the version; before and behind that all follow one plan.
    assert mixed[0] < len(topology.switches)
    held.settle()
    followed = held.learner.in_force.pins
    assert held.number_of_pins() == sum(map(len, followed.of_all().values()))
    assert held.paths(job) == new


@pytest.mark.parametrize("at_once", [3, 1000])
def test_no_pin_of_a_new_plan_counts_before_all_are_there(
    topology: Topology, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_force_module, "AT_ONCE", at_once)
    held, job = Held(topology), ring(topology)
    held.submit(job)
    old = held.paths(job)
    held.planner.keeps, held.planner.shift = False, 1
    steps = []
    held.between = lambda: steps.append((held.paths(job) == old, dict(held.version)))
    held.submit(renamed(job, "more"))
    assert [same for same, _ in steps] == [True] * (len(steps) - 1) + [False]
    assert {len(set(versions.values())) for _, versions in steps} == {1}
    assert (len(steps) > 2) == (at_once == 3)


@pytest.mark.parametrize("number", range(0, 32, 5))
def test_a_failure_moves_only_what_it_touches(topology: Topology, number: int) -> None:
    links = inner_links(topology)
    link = links[number % len(links)]
    held, job = Held(topology), ring(topology, pairs=1)
    held.submit(job)
    held.settle()
    before, dead = held.paths(job), arcs_of(topology, link)
    touched = [n for n, path in enumerate(before) if path is not None and dead & set(path)]

    def check() -> None:
        now = held.paths(job)
        assert all(now[n] == before[n] for n in range(len(now)) if n not in touched)

    held.check, held.checks = check, 0
    held.link(link, up=False)
    after = held.paths(job)
    assert None not in after and not any(dead & set(path or ()) for path in after)
    assert held.checks <= 2 * len(touched)
    assert held.learner.counts.moved == len(touched)
    held.settle()
    assert held.paths(job) == after


def test_flows_go_back_after_the_hold_down_and_not_while_a_link_flaps(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.planner.seconds = {frozenset(): 0.5}
    held.submit(job)
    home = held.paths(job)
    link = next(each for each in inner_links(topology)
                if any(arcs_of(topology, each) & set(path or ()) for path in home))  # fmt: skip
    held.link(link, up=False)
    away = held.paths(job)
    assert away != home
    for _ in range(4):  # flaps faster than the hold-down: it stays avoided
        held.link(link, up=True)
        held.wait(held.now + HOLD - 1)
        held.link(link, up=False)
        held.wait(held.now + 10)
        assert held.paths(job) == away
    moved = held.learner.counts.moved
    held.link(link, up=True)
    held.wait(held.now + HOLD - 1)
    assert held.paths(job) == away
    held.wait(held.now + 2)
    assert held.paths(job) == home
    assert held.learner.counts.moved == 2 * moved
    held.settle()
    assert held.paths(job) == home


def test_flows_stay_where_a_link_that_returns_gains_nothing(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    link = inner_links(topology)[0]
    held.link(link, up=False)
    away, writes = held.paths(job), held.checks
    held.settle()
    held.link(link, up=True)
    writes = held.checks
    held.wait(held.now + 10 * HOLD)
    assert held.paths(job) == away and held.checks == writes


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
def test_a_switch_that_is_lost_leaves_the_plan_before_in_force(
    topology: Topology, cut: int
) -> None:
    rng = random.Random(7 + cut)
    held, job = Held(topology, seed=cut), ring(topology)
    held.submit(job)
    held.settle()
    old, pins = held.paths(job), held.number_of_pins()
    held.planner.keeps, held.planner.shift = False, 1
    with_pins = sorted(held.learner.in_force.pins.switches)
    lost = rng.choice(with_pins)
    held.cut_after = {lost: cut}

    def check() -> None:
        if set(held.version.values()) == {1}:
            assert held.paths(job) == old

    held.check = check
    held.submit(renamed(job, "more"))
    assert lost in held.lost
    assert held.paths(job) == old and held.learner.trouble
    assert held.learner.planned("more") is None
    held.settle()
    assert held.number_of_pins() - len(held.pins[lost]) <= pins
    held.cut_after = {}
    held.found(lost)
    assert held.paths(job) == old
    held.check = lambda: None
    held.wait(held.now + 3_000_000_000)
    assert held.paths(job) == planned(held.planner.plan([job]), "ring") != old
    assert held.paths(renamed(job, "more")) == in_force(held, "more")
    assert not held.learner.trouble


def test_all_go_back_when_one_does_not_change_over(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    old = held.paths(job)
    held.planner.keeps, held.planner.shift = False, 1
    lost = topology.switches[0].name
    # Lost as soon as all pins are there: what it does not take is the version.
    turn = held.loop.written

    def written(work, failed, now):  # type: ignore[no-untyped-def]
        found = turn(work, failed, now)
        if any(len(each) == 1 for writes in found.learned for each in writes.values()):
            held.lost.add(lost)
        return found

    held.loop.written = written  # type: ignore[method-assign]
    held.submit(renamed(job, "more"))
    assert held.paths(job) == old
    assert set(held.version.values()) == {1}
    held.loop.written = turn  # type: ignore[method-assign]
    held.found(lost)
    held.wait(held.now + 3_000_000_000)
    assert held.paths(job) == planned(held.planner.plan([job]), "ring") != old
    assert len(set(held.version.values())) == 1


def test_a_link_that_fails_while_a_plan_is_filled_in_is_avoided_by_both(
    topology: Topology,
) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    old = held.paths(job)
    link = next(each for each in inner_links(topology)
                if any(arcs_of(topology, each) & set(path or ()) for path in old))  # fmt: skip
    dead = arcs_of(topology, link)
    done = []

    def between() -> None:
        if not done:
            done.append(True)
            held.link(link, up=False)
            assert not any(dead & set(path or ()) for path in held.paths(job))

    held.between = between
    more = renamed(job, "more")
    held.submit(more)
    for each in (job, more):
        paths = held.paths(each)
        assert None not in paths and not any(dead & set(path or ()) for path in paths)
    held.settle()
    assert held.paths(more) == in_force(held, "more")


def test_a_link_that_fails_while_flows_move_off_another_is_avoided_too(topology: Topology) -> None:
    job, links = ring(topology), inner_links(topology)
    first = links[0]
    alone = Held(topology)
    alone.submit(job)
    alone.link(first, up=False)
    used = set().union(*(set(path or ()) for path in alone.paths(job)))
    leaf = first.a.node
    seconds = [each for each in links if arcs_of(topology, each) & used and each.a.node != leaf]
    for second in seconds[:: max(1, len(seconds) // 4)]:
        held = Held(topology)
        held.submit(job)
        todo = [second]
        held.between = lambda held=held, todo=todo: todo and held.link(todo.pop(), up=False)
        held.link(first, up=False)
        assert not todo
        paths = held.paths(job)
        assert paths == in_force(held, "ring")
        dead = arcs_of(topology, first) | arcs_of(topology, second)
        assert not any(dead & set(path or ()) for path in paths)


def test_pins_of_the_plan_before_stay_for_packets_on_their_way(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    held.settle()
    held.planner.keeps, held.planner.shift = False, 1
    held.submit(renamed(job, "more"))
    both, stay = held.number_of_pins(), sum(map(len, held.learner.in_force.pins.of_all().values()))
    held.wait(held.now + GRACE_PS // 1000 - 1)
    assert held.number_of_pins() == both > stay
    held.wait(held.now + 1)
    assert held.number_of_pins() == stay


def test_a_switch_behind_leaves_that_is_lost_keeps_flows_from_moving_to_it() -> None:
    topology = loads(f"{THREE_TIERS}\niglb: true\n{LINK}")
    held, job = Held(topology), ring(topology)
    held.submit(job)
    before = held.paths(job)
    link = topology.link_at("s1", topology.ports_of("s1")[-1].number)
    other = next(p.peer.node for p in topology.ports_of("s1")
                 if topology.is_switch(p.peer.node) and p.link is not link)  # fmt: skip
    held.lost.add(other)
    pins, dead = dict(held.pins["s1"]), arcs_of(topology, link)
    stay = [n for n, path in enumerate(before) if path and path[0] in dead and len(path) > 2]
    held.link(link, up=False)
    # What is left of its old path is the reflex's; the entry would send it where no pin is.
    ports = {key[3] for key, port in held.pins["s1"].items() if port == pins[key]}
    assert stay and {job.udp_port[n] for n in stay} <= ports
    held.found(other)
    held.wait(held.now + 3_000_000_000)
    assert not any(dead & set(path or ()) for path in held.paths(job))


def test_jobs_that_end_leave_nothing(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    more = renamed(job, "more")
    held.submit(job, more)
    held.end("more", "nobody's")
    held.settle()
    assert held.paths(job) == in_force(held, "ring")
    assert set(held.paths(more)) == {None}
    held.end("ring")
    assert set(held.version.values()) == {0}
    held.settle()
    assert held.number_of_pins() == 0
    held.submit(job)
    assert None not in held.paths(job)


def test_off_takes_pins_away_and_on_brings_them_back(topology: Topology) -> None:
    held, job = Held(topology), ring(topology)
    held.submit(job)
    was = held.paths(job)
    held.take(held.loop.handle(MechanismSwitched("iglb", on=False), held.now))
    assert set(held.version.values()) == {0}
    held.settle()
    assert held.number_of_pins() == 0
    more = renamed(job, "more")
    held.submit(more)
    assert held.number_of_pins() == 0
    held.take(held.loop.handle(MechanismSwitched("iglb", on=True), held.now))
    assert held.paths(job) == was and None not in held.paths(more)


def test_a_job_without_room_changes_nothing() -> None:
    text = "generator: leaf_spine\nspines: 2\nleaves: 2\nhosts_per_leaf: 2"
    topology = loads(f"{text}\niglb: {{flows: 1}}\n{LINK}")
    held = Held(topology, Iglb(flows=1))
    first = ring(topology, by=2)
    held.submit(first)
    was = held.paths(first)
    with pytest.raises(ControllerError, match=r"s1 would hold \d+ pins.*flows"):
        held.submit(ring(topology, "huge", pairs=5000, by=2))
    held.settle()
    assert held.paths(first) == was


@pytest.mark.parametrize("seed", range(2))
def test_random_histories_never_leave_a_flow_without_a_pin(topology: Topology, seed: int) -> None:
    rng = random.Random(seed)
    held = Held(topology, seed=seed)
    job = ring(topology, pairs=1)
    held.submit(job)
    links, others = inner_links(topology), 0
    down: list[Link] = []
    held.check = lambda: None if not held.unpinned(job, down) else pytest.fail("no pin")
    held.planner.per_link = 0.1
    for _ in range(12):
        what = rng.randrange(4)
        if what == 0 and len(down) < 2:
            down.append(rng.choice([each for each in links if each not in down]))
            held.link(down[-1], up=False)
        elif what == 1 and down:
            held.link(down.pop(), up=True)
        elif what == 2:
            held.planner.keeps, held.planner.shift = rng.random() < 0.5, rng.randrange(5)
            others += 1
            held.submit(renamed(job, f"more{others}"))
        else:
            held.wait(held.now + rng.choice((10, HOLD, 3 * HOLD)))
    held.wait(held.now + 10 * HOLD)
    assert held.paths(job) == in_force(held, "ring")
    dead = set().union(*(arcs_of(topology, link) for link in down))
    assert not any(dead & set(path or ()) for path in held.paths(job))


def test_source_ports_need_no_entries_until_a_link_fails(topology: Topology) -> None:
    held, job = Held(topology, Iglb(Pinning.PORTS)), ring(topology, pairs=1)
    held.submit(job)
    first = held.learner.planned("ring")
    assert first is not None and not first.by_entry.any() and held.number_of_pins() == 0
    link = inner_links(topology)[0]
    held.link(link, up=False)
    second = held.learner.planned("ring")
    assert second is not None and (second.udp_port == first.udp_port).all()
    followed = held.learner.in_force.followed
    assert followed is not None
    ends = {link.a.node, link.b.node}
    leaf = next(iter(ends & {each.switch for each in topology.interfaces()}))
    for n, place in enumerate(job.source.tolist()):
        if list(topology.interfaces())[place].switch == leaf and followed.plan.arcs[n, 0] >= 0:
            assert second.by_entry[n]  # its leaf hashes over other members now
    assert held.number_of_pins() > 0
