"""Random fabrics with equal paths, links that fail two at a time, and all that hosts may be set to.

Whatever is drawn, all links are healed before a queue pair gives up, so every message has to
arrive, once, and every frame has to be accounted for. `WEFT_RANDOM_FAULTS=200` plays so many cases;
`WEFT_RANDOM_FAULTS_FROM=17` begins with that one.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import yaml

import topologies
from simulator.result_model import RunEnd
from simulator.runner import Simulation
from tests.simulator.fabric_program import fabric_program
from topologies.model import Topology
from workloads.loader import read_run

CASES = int(os.environ.get("WEFT_RANDOM_FAULTS", "12"))
FIRST = int(os.environ.get("WEFT_RANDOM_FAULTS_FROM", "0"))
FABRICS: tuple[dict[str, Any], ...] = (
    {"generator": "leaf_spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 2},
    {"generator": "leaf_spine", "leaves": 4, "spines": 3, "hosts_per_leaf": 2},
    {"generator": "fat_tree", "k": 4},
    {"generator": "rail", "groups": 2, "hosts_per_group": 2, "rails": 2, "spines": 2},
)
HEALED_US = 400


def topology(chance: random.Random) -> dict[str, Any]:
    """Return a fabric with some setting of its links and classes."""
    drawn = dict(chance.choice(FABRICS))
    drawn["link"] = {
        "rate": chance.choice(["25Gbps", "100Gbps", "400Gbps"]),
        "delay": chance.choice(["0ns", "200ns", "1us", "7us"]),
        "queue": chance.choice(["100kB", "4MB"]),
        "mtu": chance.choice(["1500B", "4200B"]),
    }
    if chance.random() < 0.5:
        drawn["latency"] = chance.choice(["1ns", "500ns", "5us"])
    roce: dict[str, Any] = {"dscp": 26, "queue": 3}
    if chance.random() < 0.4:
        roce["lossless"] = True
    if chance.random() < 0.5:
        roce["ecn"] = "hpcc-dcqcn"
    if chance.random() < 0.4:
        roce["fast_cnp"] = True
    classes = {"cnp": {"dscp": 48, "queue": 6}, "roce": roce, "acks": {"dscp": 40, "queue": 5}}
    drawn["classes"] = {**classes, "rest": {"queue": 0}}
    if chance.random() < 0.3:
        drawn["stock_nics"] = chance.sample(["h1", "h2", "h3", "h4"], chance.randint(1, 3))
    return drawn


def transport(chance: random.Random) -> dict[str, Any]:
    """Return queue pairs that try again soon enough, and for long enough."""
    said: dict[str, Any] = {
        "congestion_control": chance.choice(["dcqcn", "fast-cnp", "none"]),
        "timeout": chance.choice(["100us", "500us"]),
        "retries": 100,
    }
    if chance.random() < 0.6:
        said["retransmission"] = "selective-repeat"
        if chance.random() < 0.6:
            said["reorder"] = chance.choice(["1us", "20us"])
    if chance.random() < 0.4:
        said["ack_class"] = "acks"
    if chance.random() < 0.5:
        said["udp_ports"] = chance.choice([2, 8])
    return said


def faults(chance: random.Random, fabric: Topology) -> list[dict[str, Any]]:
    """Return links between switches that fail, two at a time or one after the other, and heal."""
    switches = {switch.name for switch in fabric.switches}
    between = [link for link in fabric.links if {link.a.node, link.b.node} <= switches]
    hosts = [link for link in fabric.links if link not in between]
    broken = chance.sample(between, min(len(between), chance.randint(1, 4)))
    broken += chance.sample(hosts, chance.choice([0, 0, 1]))
    events = []
    for link in broken:
        name = f"{link.a.node}-{link.b.node}"
        down = chance.choice([10, 30, 30, 31, 90])
        up = chance.choice([down + 1, down + 40, HEALED_US])
        events.append({"at": f"{down}us", "link": name, "do": "down"})
        events.append({"at": f"{up}us", "link": name, "do": "up"})
    return events


def traffic(chance: random.Random, hosts: list[str]) -> dict[str, Any]:
    """Return messages, each of which ends."""
    to, *others = chance.sample(hosts, len(hosts))
    some = others[: chance.randint(1, min(4, len(others)))]
    operation = chance.choice(["send", "write", "read"])
    if chance.random() < 0.5:
        size = chance.choice(["1B", "64kB", "300kB"])
        return {"incast": {"to": to, "from": some, "bytes": size, "operation": operation}}
    said = {"from": some[0], "to": to, "bytes": "20kB", "count": 7, "operation": operation}
    return {"message": said}


def draw(seed: int) -> dict[str, Any]:
    """Return a run file."""
    chance = random.Random(seed)
    drawn = topology(chance)
    fabric = topologies.loads(yaml.safe_dump({**drawn, "time_scale": 1}))
    hosts = [host.name for host in fabric.hosts]
    run: dict[str, Any] = {
        "topology": drawn,
        "seed": seed,
        "until": "30ms",  # all is done long before, and nothing is on its way any more
        "controller": {"delay": chance.choice(["0ns", "10us", "1ms"])},
        "transport": transport(chance),
        "traffic": [traffic(chance, hosts) for _ in range(chance.randint(1, 4))],
        "events": faults(chance, fabric),
    }
    if "read" in str(run["traffic"]):
        run["transport"].pop("ack_class", None)  # a READ's responses are its acknowledgements
    if drawn["classes"]["roce"].get("lossless"):
        run["buffer"] = {"shared": "16MB", "alpha": "1/8", "headroom": "formula"}
    if chance.random() < 0.5:
        run["clocks"] = chance.choice([{}, {"jitter": "50ns"}, {"ppm": 0}])
    if chance.random() < 0.4:
        run["receivers"] = {chance.choice(hosts): {"rate": chance.choice(["5Gbps", "20Gbps"])}}
    return run


def unaccounted(end: RunEnd) -> int:
    """Return the frames that hosts sent and switches made, without those that came or were lost."""
    made = end.totals["sent"]
    gone = end.totals["received"] + end.totals["lost_link"]
    for receiver in end.receivers.values():
        made -= receiver["pauses"] + receiver["resumes"]
        gone += receiver["dropped"]
    for switch in end.switches.values():
        made += int(switch.stats["replicated"])
        for counts in (switch.stats, *switch.ports.values(), *switch.pfc.values()):
            gone += sum(int(np.sum(n)) for name, n in counts.items() if "drop" in name)
    return int(made) - gone


@pytest.mark.long
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_what_was_asked_for_arrives_once(seed: int) -> None:
    text = yaml.safe_dump(draw(seed), sort_keys=False)
    simulation = Simulation(read_run(text), fabric_program())
    end = simulation.run().end
    assert end.totals["failed_flows"] == 0, text
    assert end.totals["messages_done"] == end.totals["messages"] > 0, text
    asked = int(simulation.traffic.messages.messages["bytes"].sum())
    assert int(end.flow_stats["received_bytes"].sum()) == asked, text
    assert unaccounted(end) == 0, text
