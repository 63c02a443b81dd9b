"""A variant's run: its slow links, if it has them, and how long its flows or its job took."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from labs import Context, LabError, Measured
from labs.fabric_program import program_of
from simulator.runner import Outcome, Simulation
from topologies.document import Document
from topologies.model import Role, Topology
from workloads.bound import bound
from workloads.loader import run_of
from workloads.model import RunFile

from .beside import beside_incast, slowest_pair

PS_PER_US = 1_000_000
PPM = 1_000_000
SLOWDOWN = 1.5
"""A flow that takes so many times its time alone is one that collisions have hurt."""

SLOW_LINKS = "slow-links"
WITH_SLOW_LINKS = (SLOW_LINKS, "slow-pauses")
BOUNDED = (SLOW_LINKS, "permutation", "unequal-spines", "unequal-paced", "dead-links", "mixed-nics")
"""Loads whose messages all start at once: what no way to split them can beat is known."""

BESIDE_INCAST = ("incast-beside", "without-incast")
REUSED = "reused-ports"
OF_PAIRS = ("fresh-ports", REUSED, "reused-soon", "slow-pauses")
"""Loads in which a host sends many messages to the same other one."""

FIRST_PORT = 49152
"""The seed's port is so many behind it."""


def run_file(context: Context) -> RunFile:
    """Return the variant's run, with what is for code to say: links that are slow, one port."""
    mapping = json.loads(json.dumps(context.mapping))
    load = context.variant.labels.get("load")
    if load in WITH_SLOW_LINKS:
        plain = _read(mapping, context)
        mapping["events"] = list(_slow(plain.topology, context.settings["slow"]))
    elif load == "mixed-nics":
        plain = _read(mapping, context)
        slower = list(_slower_hosts(plain.topology, context.settings["slower"]))
        mapping["topology"]["overrides"] = slower
    elif load == REUSED:
        for entry in mapping["traffic"]:
            entry["permutation"]["udp_port"] = FIRST_PORT + context.seed
    return _read(mapping, context)


def _read(mapping: dict[str, Any], context: Context) -> RunFile:
    return run_of(Document("lab.yaml", mapping, {}), context.variant.name, context.folder)


def _slow(topology: Topology, share: str) -> Iterator[dict[str, Any]]:
    """Yield that each core's link into the first spine is slow, in this direction alone."""
    spine = next(each.name for each in topology.switches if each.role is Role.SPINE)
    for port in topology.ports_of(spine):
        if topology.is_switch(port.peer.node) and _is_core(topology, port.peer.node):
            link = f"{port.link.a}-{port.link.b}"
            yield {"at": "0us", "link": link, "degraded": share, "towards": spine}


def _slower_hosts(topology: Topology, rate: str) -> Iterator[dict[str, Any]]:
    """Yield what makes the link of every second host a slower one."""
    for host in topology.hosts[1::2]:
        leaf = topology.ports_of(host.name)[0].peer.node
        yield {"between": [leaf, host.name], "rate": rate}


def _is_core(topology: Topology, name: str) -> bool:
    return topology.switch(name).role is Role.CORE


def measure(context: Context) -> dict[str, Measured]:
    """Run it and return what it took."""
    run = run_file(context)
    try:
        simulation = Simulation(run, program_of(context, run.topology), seed=context.seed)
        outcome = simulation.run(context.out)
        if run.jobs:
            return _job(context, outcome)
        found = _flows(context, outcome)
        labels = context.variant.labels
        if labels.get("load") in BESIDE_INCAST:
            victim = str(context.settings["victim"])
            found |= beside_incast(simulation.traffic, _took_us(outcome), victim)
        if labels.get("load") in OF_PAIRS:
            found |= slowest_pair(simulation.traffic, _took_us(outcome))
        if labels.get("load") in BOUNDED or "spines" in labels or "all" in labels:
            slowest = found["slowest flow"].value
            assert slowest is not None
            least = bound(run, simulation.traffic).lower_ps / PS_PER_US
            found["bound"] = Measured(least, "us")
            found["bound over slowest"] = Measured(least / slowest)
        return found
    finally:
        gc.collect()  # an engine is in a cycle, and holds more than Python knows of


def _job(context: Context, outcome: Outcome) -> dict[str, Measured]:
    took = [row["duration_ps"] for row in outcome.summary["jobs"] if row["kind"] == "job"]
    if min(took) < 0:
        raise LabError(f"{context.variant.name}: the job did not end")
    return {"job": Measured(max(took) / PS_PER_US, "us"), **_order(outcome)}


def _flows(context: Context, outcome: Outcome) -> dict[str, Measured]:
    done = outcome.end.message_times["done"].astype(np.int64)
    if (done < 0).any():
        raise LabError(f"{context.variant.name}: {(done < 0).sum()} flows did not end")
    took = _took_us(outcome)
    alone = took.min()
    slowdown = outcome.summary["messages"]["slowdown_ppm"]
    return {
        "slowest flow": Measured(float(took.max()), "us"),
        "median flow": Measured(float(np.median(took)), "us"),
        "fastest flow": Measured(float(alone), "us"),
        "flows of 1.5 x": Measured(100 * float((took >= SLOWDOWN * alone).mean()), "%"),
        "mean slowdown": Measured(slowdown["mean"] / PPM),
        "p99 slowdown": Measured(slowdown["p99"] / PPM),
        **_order(outcome),
    }


def _took_us(outcome: Outcome) -> npt.NDArray[np.float64]:
    """Return how long each message took."""
    times = outcome.end.message_times
    took: npt.NDArray[np.float64] = (
        times["done"].astype(np.int64) - times["ready"].astype(np.int64)
    ) / PS_PER_US
    return took


def _order(outcome: Outcome) -> dict[str, Measured]:
    flows = outcome.end.flow_stats
    received = int(flows["received_packets"].sum())
    reordered = 100 * int(flows["out_of_order"].sum()) / received
    return {"out of order": Measured(reordered, "%")}
