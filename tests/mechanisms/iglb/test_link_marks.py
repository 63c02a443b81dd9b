"""Whose flows take which links: what the plan in force says, and what a run tells other terminals.

h1 h2 - s1 =< s3, s4 >= s2 - h3 h4
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import topologies
from mechanisms.iglb.learner import PlannedPaths
from mechanisms.iglb.mechanism import MECHANISM
from observe.link_marks import marks_json
from tests.mechanisms.iglb.held import Held, ring
from tests.weft.prompt_lab import opened
from topologies.model import Topology

FABRIC = """\
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 100Gbps, delay: 500ns, queue: 4MB}
iglb: true
classes:
  roce: {dscp: 26, queue: 3}
  rest: {queue: 0}
"""


def told(topology: Topology, learner: PlannedPaths | None) -> Any:
    return json.loads(marks_json(topology, lambda name, question: question(learner)))


def test_each_hop_of_each_flow_counts_where_it_is_sent() -> None:
    topology = topologies.loads(FABRIC)
    held = Held(topology)
    assert told(topology, held.learner) == [{"title": "job", "flows": {}}]
    one, other = ring(topology, "one", pairs=2, by=2), ring(topology, "other", pairs=1, by=1)
    held.submit(one, other)
    held.settle()
    ((title, flows),) = [(each["title"], each["flows"]) for each in told(topology, held.learner)]
    assert title == "job" and set(flows) == {"one", "other"}
    for job in (one, other):
        expected: Counter[str] = Counter()
        interfaces = list(topology.interfaces())
        for n, path in enumerate(held.paths(job)):
            assert path is not None
            source, target = (interfaces[ends[n]].end for ends in (job.source, job.target))
            expected[str(source)] += 1
            expected[str(topology.link_at(target.node, target.port).other(target))] += 1
            for direction in path:
                link = topology.links[direction // 2]
                expected[str(link.b if direction % 2 else link.a)] += 1
        assert flows[job.name] == expected
    held.end("one")
    assert set(told(topology, held.learner)[0]["flows"]) == {"other"}


def test_fabrics_that_plan_nothing_say_nothing() -> None:
    topology = topologies.loads(FABRIC.replace("iglb: true\n", ""))
    assert told(topology, None) == []
    assert MECHANISM.link_marks(topology, None) is None


@pytest.mark.root
@pytest.mark.long
def test_a_run_tells_other_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emulation import run_state
    from observe.link_marks import read_marks

    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    assert read_marks() == []
    net, file = tmp_path / "net.yaml", tmp_path / "ring.yaml"
    net.write_text(FABRIC)
    file.write_text("job: {ranks: 4, placement: stride, phases: [{allreduce: {bytes: 64MB}}]}")
    with opened(tmp_path, "softswitch", str(net)) as lab:
        lab.do(f"job submit {file}")
        ((title, flows),) = [(each["title"], each["flows"]) for each in read_marks()]
        assert title == "job" and set(flows) == {"ring"}
        assert [flows["ring"][f"s1:{port}"] for port in (3, 4)] == [1, 1]
        lab.do("job end ring")
        assert read_marks() == [{"title": "job", "flows": {}}]
