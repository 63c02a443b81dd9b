"""`allreduce:` in topology files: what it means, and one clear error for each mistake."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

import topologies
from mechanisms.allreduce.mechanism import MECHANISM
from mechanisms.allreduce.plan_error import PlanError
from mechanisms.allreduce.settings import ALLREDUCE, AllReduce, Every
from mechanisms.allreduce.trees import plan_of
from mechanisms.allreduce.workers import Worker, first_epoch, worker_of
from topologies import Topology, TopologyError

FABRIC = """\
time_scale: 1
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 4
link: {rate: 100Gbps, delay: 1us, queue: 1MB}
"""


def said(allreduce: str, fabric: str = FABRIC) -> Topology:
    return topologies.loads(f"{fabric}allreduce: {allreduce}\n")


def setting(allreduce: str) -> AllReduce:
    found = said(allreduce).setting("allreduce")
    assert isinstance(found, AllReduce)
    return found


def test_true_is_the_defaults_without_jobs_and_false_is_nothing() -> None:
    assert setting("true") == AllReduce(32, 32, 256, None, ())
    assert said("false").setting("allreduce") is None
    assert plan_of(said("true")).jobs == {} == plan_of(topologies.loads(FABRIC)).jobs


def test_all_that_can_be_said() -> None:
    found = setting(
        "{lanes: 2, wire_lanes: 256, slots: 1024, class: sums, jobs: {a: {workers: all, slots: 64,"
        " trees: 4, level: pod, base: 128}, b: {workers: [h3, h1]}, c: , "
        "d: {workers: {first: h2, every: 3, count: 2}, start: false}}}"
    )
    assert (found.lanes, found.wire_lanes, found.slots) == (2, 256, 1024)
    assert found.traffic_class == "sums"
    a, b, c, d = found.jobs
    assert (a.workers, a.slots, a.trees, a.level, a.base, a.start) == ((), 64, 4, "pod", 128, True)
    assert (b.workers, b.slots, b.trees) == (("h3", "h1"), 256, 8)
    assert (c.workers, c.every, c.slots) == ((), None, 256)
    assert (d.every, d.start) == (Every("h2", 3, 2), False)


def test_a_record_of_a_running_fabric_has_it_all() -> None:
    """Other processes read the topology of a run as JSON."""
    topology = said("{jobs: {a: {workers: {every: 2}}, b: {workers: [h1, h3]}}}")
    adapter = TypeAdapter(Topology)
    again = adapter.validate_json(adapter.dump_json(topology))
    assert again.setting("allreduce") == topology.setting("allreduce")


JOBS = "{jobs: {a: {%s}}}"
MISTAKES = [
    ("{lanes: 1}", "allreduce.lanes: must be at least 2, not 1"),
    ("{lanes: 48}", "allreduce.lanes: has to be a power of two: 32 or 64, not 48"),
    ("{lanes: 2048}", "allreduce.lanes: must be at most 1024, not 2048"),
    ("{lanes: true}", "allreduce.lanes: must be a whole number, not True"),
    ("{lanes: 64, wire_lanes: 32}", "allreduce: packets of 32 lanes (wire_lanes) have no 64 to"),
    ("{slots: 0}", "allreduce.slots: must be at least 1, not 0"),
    ("{slots: 65536, lanes: 1024}", "allreduce: 65536 slots of 1024 lanes, twice, are 134217728"),
    ("{slot: 8}", "allreduce.slot: unknown key 'slot'; did you mean 'slots'?"),
    ("12", "allreduce: must be a mapping, not 12"),
    (JOBS % "slots: 100", "allreduce.jobs.a.slots: has to be a power of two: 64 or 128, not 100"),
    (JOBS % "slots: 65536", "allreduce.jobs.a.slots: must be at most 32768, not 65536"),
    (JOBS % "slots: 512", "allreduce: jobs.a takes 512 slots, and a switch has 256: slots: 512"),
    (JOBS % "base: 8", "allreduce: jobs.a takes 8 to 264, and a switch has 256: slots: 264"),
    (JOBS % "trees: 9", "allreduce.jobs.a.trees: must be at most 8, not 9"),
    (JOBS % "trees: 0", "allreduce.jobs.a.trees: must be at least 1, not 0"),
    (JOBS % "level: roof", "allreduce.jobs.a.level: must be 'leaf', 'pod' or 'core', not 'roof'"),
    (JOBS % "workers: [h1]", "allreduce.jobs.a.workers: a job has at least 2 workers, not 1"),
    (JOBS % "workers: [h1, h2, h1]", "allreduce.jobs.a.workers: host 'h1' is named twice"),
    (JOBS % "workers: some", "workers are all, a list of hosts, or {first: h1, every: 8}"),
    (JOBS % "worker: all", "allreduce.jobs.a.worker: unknown key 'worker'; did you mean 'workers'"),
    ("{jobs: {A: {}}}", "allreduce.jobs: 'A' is not a job's name: a small letter, then"),
    ("{jobs: [a]}", "allreduce.jobs: must be a mapping"),
    ("{slots: 1, jobs: {a: {}, b: {}}}", "allreduce: 2 jobs need a slot each, and slots: is 1"),
]


@pytest.mark.parametrize(("allreduce", "message"), MISTAKES)
def test_a_mistake_that_the_file_shows(allreduce: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        said(allreduce)
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert problem.line >= FABRIC.count("\n")


def test_too_many_jobs() -> None:
    names = {f"j{n}": {} for n in range(65_536)}
    with pytest.raises(ValidationError, match="at most 65535 jobs, not 65536"):
        TypeAdapter(ALLREDUCE.type).validate_python({"slots": 65_536, "jobs": names})


UNFIT = [
    (
        JOBS % "workers: [h1, h22]",
        "jobs.a.workers",
        "h22: no host of this name; did you mean 'h2'?",
    ),
    (JOBS % "workers: {first: h9, every: 2}", "jobs.a.workers.first", "h9: no host of this name"),
    (
        JOBS % "workers: {first: h2, every: 3, count: 4}",
        "jobs.a.workers.count",
        "job a: every 3 hosts from h2 there are 3, not 4; count: 3 or fewer",
    ),
    (JOBS % "workers: {first: h8}", "jobs.a.workers", "job a: has 1 worker; a job has at least 2"),
    (JOBS % "level: core", "jobs.a.level", "job a: no core switch reaches all its workers"),
    (
        "{lanes: 512, jobs: {a: {}}}",
        "lanes",
        "h1-s1:1: a packet of 512 lanes has 2092 bytes, and the link's MTU (job a) is 1500; "
        "364 lanes, or mtu: 2092B",
    ),
    ("{lanes: 2, wire_lanes: 365, jobs: {a: {}}}", "wire_lanes", "a packet of 365 lanes has 1504"),
    ("{class: sums, jobs: {a: {}}}", "class", "sums: no class of this name"),
    (
        "{jobs: {a: {slots: 128}, b: {slots: 128}, c: {slots: 1}}}",
        "jobs.c",
        "job c: 1 slots beside those of other jobs end at 257, and a switch has 256; slots: 257",
    ),
    (
        "{jobs: {a: {slots: 64, base: 32}, b: {slots: 64, base: 95}}}",
        "jobs.b.base",
        "job b: its slots 95 to 158 overlap those of job a, 32 to 95",
    ),
]


@pytest.mark.parametrize(("allreduce", "path", "message"), UNFIT)
def test_what_does_not_fit_the_fabric_is_one_remark(
    allreduce: str, path: str, message: str
) -> None:
    topology = said(allreduce)
    (remark,) = MECHANISM.remarks(topology, ("topology",))
    assert ".".join(map(str, remark.path)) == f"topology.allreduce.{path}"
    assert message in f"{remark.subject}: {remark.message}; {remark.right}"
    with pytest.raises(PlanError, match="allreduce: "):
        plan_of(topology)


def test_more_children_than_a_bitmap_has_bits() -> None:
    single = (
        "time_scale: 1\ngenerator: single\nhosts: %d\nlink: {rate: 1Gbps, delay: 1us, queue: 1MB}\n"
    )
    plan_of(said(JOBS % "", single % 64))
    with pytest.raises(PlanError, match="s1 would have 65 children, and a bitmap has 64 bits"):
        plan_of(said(JOBS % "", single % 65))


def test_workers_that_do_not_meet() -> None:
    apart = """\
time_scale: 1
generator: rail
groups: 2
rails: 2
hosts_per_group: 2
spines: 0
link: {rate: 100Gbps, delay: 1us, queue: 1MB}
"""
    with pytest.raises(PlanError, match="no tree reaches both s1 and s3"):
        plan_of(said(JOBS % "", apart))
    assert len(plan_of(said(JOBS % "workers: [h1, h2]", apart)).jobs["a"].workers) == 2


def test_jobs_that_meet_nowhere_share_slots_and_others_do_not() -> None:
    jobs = plan_of(
        said(
            "{jobs: {a: {workers: [h1, h2]}, b: {workers: [h5, h6]}, c: {slots: 128}, "
            "d: {slots: 64}}}"
        )
    ).jobs
    assert {name: (job.base, job.slots) for name, job in jobs.items()} == {
        "a": (0, 64),
        "b": (0, 64),
        "c": (64, 128),
        "d": (192, 64),
    }


@pytest.mark.parametrize(
    ("classes", "named", "dscp", "queue"),
    [
        ("", "", 0, 0),
        ("classes: {roce: {dscp: [26, 27], queue: 3}, rest: {queue: 0}}\n", "", 26, 3),
        ("classes: {top: {dscp: 0, queue: 5}, rest: {queue: 1}}\n", "", 1, 1),
        (
            "classes: {roce: {dscp: 26, queue: 3}, sums: {dscp: 9, queue: 2}}\n",
            "class: sums,",
            9,
            2,
        ),
    ],
)
def test_the_class_of_its_packets(classes: str, named: str, dscp: int, queue: int) -> None:
    plan = plan_of(said(f"{{{named} jobs: {{a: {{}}}}}}", FABRIC + classes))
    assert (plan.dscp, plan.queue) == (dscp, queue)


def test_what_a_worker_knows() -> None:
    topology = said("{lanes: 2, wire_lanes: 256, jobs: {a: , b: {workers: [h7, h2], slots: 8}}}")
    expected = Worker(job=2, rank=1, ranks=2, epoch=128, slots=8, lanes=2, wire_lanes=256, dscp=0)
    assert worker_of(topology, "b", "h2", start=2) == expected
    with pytest.raises(PlanError, match="h1: no worker of job b"):
        worker_of(topology, "b", "h1")
    with pytest.raises(PlanError, match="c: no job of this name; one of a, b"):
        worker_of(topology, "c", "h1")


def test_each_start_begins_at_an_epoch_that_is_newer_than_all_of_the_last() -> None:
    for start in range(2000):
        assert 0 < (first_epoch(start + 1) - first_epoch(start)) % (1 << 16) < 1 << 15
        assert first_epoch(start) % 8 == 0  # and at the first tree


# ---------------------------------------------------------------- best effort


def test_what_can_be_said_of_best_effort() -> None:
    found = setting(
        "{slots: 8, jobs: {a: {workers: [h1, h3], server: h6, slots: 32}, b: {workers: [h2, h4]}},"
        " best_effort: {pool: 256, servers: [h7, h8], window: 16}}"
    )
    a, b = found.jobs
    assert (a.server, a.slots, b.server, b.slots) == ("h6", 32, None, 8)
    assert (found.best_effort.pool, found.best_effort.window) == (256, 16)
    assert found.best_effort.servers == ("h7", "h8")
    assert found.cells == 256


def test_the_program_has_a_pool_only_where_a_job_has_a_server() -> None:
    without = said("{jobs: {a: {workers: [h1, h3]}}, best_effort: {pool: 256}}")
    assert (list(MECHANISM.features(without)), MECHANISM.sizes(without)) == ([], {})
    for pool, size in ((0, {}), (64, {}), (256, {"ALLREDUCE_POOL": 256})):
        pooled = said(f"{{jobs: {{a: {{workers: [h1, h3], server: h6}}}}, "
                      f"best_effort: {{pool: {pool}}}}}")  # fmt: skip
        assert list(MECHANISM.features(pooled)) == ["BEST_EFFORT"]
        assert MECHANISM.sizes(pooled) == size


def test_a_best_effort_job_has_no_slots_and_its_root_is_at_its_server() -> None:
    plan = plan_of(
        said("{slots: 4, jobs: {a: {workers: [h1, h2], server: h6, slots: 64}, b: {slots: 4}}}"
             .replace("b: {", "b: {workers: [h3, h4], "))
    )  # fmt: skip
    a, b = plan.jobs.values()
    assert (a.base, b.base) == (0, 0)
    assert {tree.root for tree in a.trees} == {"s2"}
    assert all(tree.nodes["s2"].parent == 2 for tree in a.all_trees)
    assert worker_of(said("{jobs: {a: {workers: [h1, h2], server: h6}}}"), "a", "h2").best_effort


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobs: {a: {workers: [h1, h2], server: h1}}", "server: h1 is a worker of the job"),
        ("jobs: {a: {workers: [h1, h2], server: h6, base: 0}}", "leave base out"),
        ("jobs: {a: {workers: [h1, h2], server: h6, level: leaf}}", "leave level out"),
        ("best_effort: {pool: 3}", "has to be a power of two: 2 or 4, not 3"),
        ("best_effort: {servers: [h1, h1]}", "host 'h1' is named twice"),
        ("best_effort: {servers: h1}", "servers are a list of hosts"),
        ("best_effort: {window: 5}", "has to be a power of two: 4 or 8, not 5"),
        ("lanes: 1024, best_effort: {pool: 131072}", "a pool of 131072 cells beside 256 slots"),
    ],
)
def test_best_effort_that_makes_no_sense(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        said(f"{{{text}}}")


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ("a: {workers: [h1, h2], server: h66}", "h66: no host of this name"),
        ("a: {server: h6}", "h6: it is a worker of job a"),
        ("a: {workers: [h1, h2], server: h6}, b: {workers: [h3, h4], server: h6}",
         "h6: it is the server of job a, too"),
        ("a: {workers: [h1, h2], server: h3}, b: {workers: [h3, h4]}",
         "h3: it has a worker of job b"),
    ],
)  # fmt: skip
def test_servers_that_the_fabric_has_no_place_for(jobs: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        plan_of(said(f"{{slots: 4, jobs: {{{jobs}}}}}"))


def test_a_best_effort_job_has_at_most_64_workers() -> None:
    fabric = FABRIC.replace("hosts_per_leaf: 4", "hosts_per_leaf: 33")
    workers = ", ".join(f"h{n}" for n in range(1, 66))
    with pytest.raises(PlanError, match="has 65 workers, and best effort has a bit for 64"):
        plan_of(said(f"{{jobs: {{a: {{workers: [{workers}], server: h66}}}}}}", fabric))


def test_a_partial_is_eight_bytes_longer() -> None:
    fabric = FABRIC.replace("queue: 1MB", "queue: 1MB, mtu: 576B")
    plan_of(said("{wire_lanes: 133, jobs: {a: {workers: [h1, h2]}}}", fabric))
    with pytest.raises(PlanError, match="131 lanes, or mtu: 584B"):
        plan_of(said("{wire_lanes: 133, jobs: {a: {workers: [h1, h2], server: h6}}}", fabric))
