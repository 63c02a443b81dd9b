"""A case: what is broken where, and what the fabric carries meanwhile, all drawn by a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from topologies.document import Document
from topologies.model import Endpoint, Link, Topology
from workloads.loader import run_of
from workloads.model import RunFile

from .answers import FLAPPING, HEALTHY, KINDS, MIS_SET_CLASS, ONE_WAY, SILENT_DROPS, Answer

FAINT = "faint-drops"
"""Silent drops again, so few that DPFR goes on to use the link."""

VARIANTS = (HEALTHY, SILENT_DROPS, FAINT, ONE_WAY, FLAPPING, MIS_SET_CLASS)
ROCE_DSCP = 26
WRONG_QUEUES = (0, 1, 2)
PARTS = PS_PER_US = 10**6
FIRST_PORT = 49152
_PHASE_NS = 1000
_SENDERS = 4


@dataclass(frozen=True)
class Case:
    """A fabric in which one thing is broken, or nothing.

    `truth`: what it is. `run`: the run file, with the fault's events. `begins_us`: when it begins;
    a class is set wrong from the start. `wrong_queue`: where RoCE's packets then go.
    """

    truth: Answer
    run: RunFile
    seed: int
    begins_us: int = 0
    wrong_queue: int = 0


def exam(seed: int, count: int) -> tuple[tuple[str, int], ...]:
    """Return a grading's cases in order, each by variant and seed: each kind at least once."""
    random = Random(f"exam {seed}")
    kinds = [*KINDS, *random.choices(KINDS, k=max(0, count - len(KINDS)))]
    random.shuffle(kinds)
    return tuple(
        (random.choice((SILENT_DROPS, FAINT)) if kind == SILENT_DROPS else kind,
         random.randrange(10**9))
        for kind in kinds
    )  # fmt: skip


def draw(
    variant: str, seed: int, mapping: Mapping[str, Any], settings: Mapping[str, Any], folder: Path
) -> Case:
    """Make the case of a seed. `mapping`: lab.yaml's run file, with one flow to be like."""
    made = json.loads(json.dumps(mapping))
    bare = run_of(Document("lab.yaml", made, {}), variant, folder)
    topology = bare.topology
    random = Random(f"{variant} {seed}")
    assert bare.until_ps is not None, "lab.yaml says how long it takes"
    until_us = bare.until_ps // PS_PER_US
    like = {**made["traffic"][0]["cbr"], "stop": f"{until_us - settings['quiet_us']}us"}
    made["traffic"] = list(_traffic(topology, like, settings, random))
    directions = list(between_switches(topology))
    begins_us = random.randint(*settings["begins_us"])
    sender, receiver = random.choice(directions)
    events: list[dict[str, Any]] = [
        {"at": "0ns", "link": _name(link), "loss": settings["stray"]}
        for link in topology.links
        if all(topology.is_switch(end.node) for end in (link.a, link.b))
    ]
    truth, wrong_queue = Answer(HEALTHY), 0
    there = {"at": f"{begins_us}us", "link": f"{_end(sender)}-{_end(receiver)}"}
    if variant in (SILENT_DROPS, FAINT):
        shares = settings["gray" if variant == SILENT_DROPS else "faint"]
        truth = Answer(SILENT_DROPS, _end(sender))
        events.append({**there, "towards": receiver.node, "loss": _share(shares, random)})
    elif variant == ONE_WAY:
        truth = Answer(ONE_WAY, _end(sender))
        events.append({**there, "towards": receiver.node, "loss": "100%"})
    elif variant == FLAPPING:
        truth = Answer(FLAPPING, _end(sender))
        period_us = random.randint(*settings["flap_us"])
        count = (until_us - begins_us) // period_us
        events.append({**there, "flap": {"period": f"{period_us}us", "count": count}})
    elif variant == MIS_SET_CLASS:
        truth = Answer(MIS_SET_CLASS, random.choice(topology.switches).name)
        wrong_queue = random.choice(WRONG_QUEUES)
    made["events"] = events
    run = run_of(Document("lab.yaml", made, {}), variant, folder)
    return Case(truth, run, seed, begins_us, wrong_queue)


def between_switches(topology: Topology) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Yield each direction of each link between switches: who sends, who receives."""
    for link in topology.links:
        if all(topology.is_switch(end.node) for end in (link.a, link.b)):
            yield link.a, link.b
            yield link.b, link.a


def _traffic(
    topology: Topology, like: Mapping[str, Any], settings: Mapping[str, Any], random: Random
) -> Iterator[dict[str, Any]]:
    """Yield flows from every host to drawn others, and bursts: congestion is no fault."""
    hosts = [host.name for host in topology.hosts]
    for host in hosts:
        for _ in range(settings["flows"]):
            yield {"cbr": {
                **like,
                "from": host,
                "to": random.choice([each for each in hosts if each != host]),
                "udp_port": random.randrange(FIRST_PORT, 1 << 16),
                "start": f"{random.randrange(_PHASE_NS)}ns",
            }}  # fmt: skip
    for dscp, size in settings["bursts"]:
        target, *sources = random.sample(hosts, 1 + _SENDERS)
        every_us = settings["bursts_every_us"]
        yield {"incast": {
            "to": target, "from": sources, "bytes": size, "dscp": dscp, "rounds": 3,
            "every": f"{every_us}us", "start": f"{random.randrange(every_us)}us",
        }}  # fmt: skip


def _share(shares: tuple[str, str], random: Random) -> str:
    least, most = (Fraction(each.rstrip("%")) / 100 for each in shares)
    drawn = random.randint(int(least * PARTS), int(most * PARTS))
    return f"{100 * drawn / PARTS:g}%"


def _name(link: Link) -> str:
    return f"{_end(link.a)}-{_end(link.b)}"


def _end(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"
