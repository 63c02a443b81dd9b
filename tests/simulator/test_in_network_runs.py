"""Jobs whose collectives switches carry out, end to end: worker, program, trees, virtual time.

Each worker checks each sum and each block: a wrong one ends the run.
"""

from __future__ import annotations

from functools import cache

import pytest

from controller.program import CompiledProgram
from hostagent.programs.program import ProgramError
from mechanisms.allreduce.trees import plan_of
from mechanisms.program import FABRIC
from mechanisms.switch_programs import compile_for
from simulator.runner import Outcome, Simulation
from topologies.errors import TopologyError
from workloads.loader import read_run
from workloads.model import RunFile

TOPOLOGY = """\
topology:
  time_scale: 1
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 4
  link: {rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
"""
JOB = TOPOLOGY + "job:\n  ranks: 8\n  phases:\n"
ONE = JOB + "    - allreduce: {bytes: 512KB, algorithm: in-network}\n"
PACKET_NS = (1024 + 66 + 16) * 8 / 400
US = 1_000_000


@cache
def program(defines: str) -> CompiledProgram:
    run = read_run(defines if defines else ONE)
    return CompiledProgram.of(compile_for(run.topology)(FABRIC), FABRIC)


def play(text: str, *, of: str = "", **settings: int) -> tuple[RunFile, Outcome]:
    run = read_run(text)
    return run, Simulation(run, program(of), **settings).run()


def counted(outcome: Outcome, name: str) -> int:
    return sum(int(each["counters"].get(name, 0)) for each in outcome.end.programs)  # type: ignore[union-attr]


def took_us(outcome: Outcome) -> float:
    return float(outcome.end.message_times["done"].max()) / US


def test_allreduce_takes_what_the_line_needs() -> None:
    _, outcome = play(ONE)
    chunks = 512_000 / 1024
    bound_us = (chunks * PACKET_NS + 4 * (500 + PACKET_NS)) / 1000
    assert took_us(outcome) == pytest.approx(bound_us, rel=0.02)
    assert counted(outcome, "results") == 8 * 500
    assert counted(outcome, "sent") == 8 * 500
    for name in ("repeated", "late", "malformed", "wrong", "overflowed", "moves"):
        assert counted(outcome, name) == 0, name


def test_result_is_the_same_each_time() -> None:
    ends = [play(ONE)[1] for _ in range(2)]
    assert ends[0].end.programs == ends[1].end.programs
    assert ends[0].end.now_ps == ends[1].end.now_ps


def test_phases_wait_for_each_other_among_rings_and_computing() -> None:
    mixed = (
        JOB
        + """\
    - compute: 5us
    - allreduce: {bytes: 64KB, algorithm: in-network, repeat: 2, compute: 3us}
    - allreduce: {bytes: 64KB, algorithm: ring}
    - parallel: [{allreduce: {bytes: 100B, algorithm: in-network}}, {compute: 7us}]
"""
    )
    run, outcome = play(mixed)
    simulation = Simulation(run, program(""))
    spans = {each.name: each for each in simulation.traffic.spans}
    times = outcome.end.message_times

    def ends(name: str) -> tuple[int, int]:
        span = spans[f"job {name}"]
        rows = times[span.first : span.stop]
        return int(rows["ready"].min()), int(rows["done"].max())

    first = ends("phase 1 allreduce")
    ring = ends("phase 2 allreduce")
    last = ends("phase 3 parallel")
    assert first[0] >= 5 * US
    assert ring[0] >= first[1] - 3 * US  # ranks go on by themselves
    assert last[1] - last[0] >= 7 * US
    assert counted(outcome, "calls") == 3 * 8
    ideal = next(span.ideal_ps for span in simulation.traffic.spans if span.name == "job")
    assert ideal <= outcome.end.now_ps <= 1.05 * ideal


def test_several_groups_have_trees_and_slots_of_their_own() -> None:
    two = (
        TOPOLOGY
        + """\
job:
  ranks: 8
  tp: 2
  dp: 4
  phases:
    - allreduce: {bytes: 128KB, over: dp, algorithm: in-network}
"""
    )
    run, outcome = play(two, of=two)
    assert [[each.host for each in group.members] for group in run.groups] == [
        ["h1", "h3", "h5", "h7"],
        ["h2", "h4", "h6", "h8"],
    ]
    jobs = plan_of(run.topology).jobs.values()
    assert [(job.base, job.slots) for job in jobs] == [(0, 256), (256, 256)]
    assert counted(outcome, "calls") == 8


def test_loss_on_all_links_leaves_sums_exact() -> None:
    links = read_run(ONE).topology.links
    events = "".join(f"  - {{at: 0us, link: '{e.a}-{e.b}', loss: 1%}}\n" for e in links)
    _, outcome = play(f"{ONE}events:\n{events}")
    assert counted(outcome, "calls") == 8
    assert counted(outcome, "repeated") > 100


@pytest.mark.parametrize("what", ["switch", "link"])
def test_part_of_the_tree_dies_and_the_job_moves(what: str) -> None:
    tree = next(iter(plan_of(read_run(ONE).topology).jobs.values())).trees[0]
    link = min(tree.links, key=str)
    event = f"switch: {tree.root}, do: kill" if what == "switch" else (
        f"link: '{link.a}-{link.b}', do: down"
    )  # fmt: skip
    _, outcome = play(f"{ONE}events:\n  - {{at: 5us, {event}}}\n")
    assert counted(outcome, "calls") == 8
    assert counted(outcome, "moves") >= 1
    stall = max(each["counters"]["longest gap, ns"] for each in outcome.end.programs)  # type: ignore[index]
    assert stall < 1_000_000 + 100_000


def test_no_tree_is_left_and_the_run_says_so() -> None:
    spines = [s.name for s in read_run(ONE).topology.switches if s.role.name == "SPINE"]
    events = "".join(f"  - {{at: 5us, switch: {name}, do: kill}}\n" for name in spines)
    with pytest.raises(ProgramError, match=r"no result came for 100000000 ns: a worker is missing"):
        play(f"{ONE}events:\n{events}")


def test_lanes_and_slots_of_the_topology_are_used() -> None:
    text = ONE.replace("mtu: 4200B}\n", "mtu: 4200B}\n  allreduce: {lanes: 32, slots: 64}\n")
    _, outcome = play(text, of=text)
    assert counted(outcome, "results") == 8 * (512_000 // 128)


BLOCKS = (
    JOB
    + """\
    - allgather: {bytes: 100001B, algorithm: in-network}
    - broadcast: {bytes: 50001B, root: 5, algorithm: in-network, repeat: 2}
    - allreduce: {bytes: 10KB, algorithm: in-network}
"""
)


def test_each_link_carries_each_block_once() -> None:
    run, outcome = play(BLOCKS)
    gathered, sent = 4, 13  # blocks of 4096 bytes: of 12501 of each rank, and of the root's
    assert counted(outcome, "blocks sent") == 8 * gathered + 2 * sent
    assert counted(outcome, "blocks taken") == 8 * 7 * gathered + 2 * 7 * sent
    assert counted(outcome, "block calls") == 3 * 8
    assert counted(outcome, "calls") == 8
    for name in ("repeated", "requests sent", "blocks doubled", "blocks late", "blocks malformed"):
        assert counted(outcome, name) == 0, name
    ideal = next(s.ideal_ps for s in Simulation(run, program("")).traffic.spans if s.name == "job")
    round_trip_us = 4 * (0.5 + PACKET_NS / 1000)
    assert ideal / US <= took_us(outcome) <= 1.05 * ideal / US + 7 * round_trip_us


def test_blocks_are_as_fast_and_as_long_as_the_narrowest_link_allows() -> None:
    text = JOB + "    - broadcast: {bytes: 512KB, algorithm: in-network}\n"
    narrow = "link: {rate: 100Gbps, delay: 500ns, queue: 32KB, mtu: 2000B}"
    text = text.replace("  link: {rate: 400Gbps", "  host_link: {rate: 400Gbps")
    text = text.replace("  host_link:", f"  {narrow}\n  host_link:")
    _, outcome = play(text)
    assert counted(outcome, "blocks sent") == 512_000 // 1024
    assert counted(outcome, "requests sent") == 0
    assert took_us(outcome) == pytest.approx(500 * 4 * PACKET_NS / 1000, rel=0.2)


def test_lost_blocks_are_asked_for() -> None:
    links = read_run(BLOCKS).topology.links
    events = "".join(f"  - {{at: 0us, link: '{e.a}-{e.b}', loss: 3%}}\n" for e in links)
    _, outcome = play(f"{BLOCKS}events:\n{events}")
    assert counted(outcome, "block calls") == 3 * 8
    assert counted(outcome, "blocks taken") == 8 * 7 * 4 + 2 * 7 * 13
    assert counted(outcome, "requests sent") > 0
    assert counted(outcome, "blocks sent to one") > 0


def test_broadcast_survives_the_death_of_its_trees_root() -> None:
    text = JOB + "    - broadcast: {bytes: 512KB, algorithm: in-network}\n"
    root = next(iter(plan_of(read_run(text).topology).jobs.values())).trees[0].root
    _, outcome = play(f"{text}events:\n  - {{at: 8us, switch: {root}, do: kill}}\n")
    assert counted(outcome, "blocks taken") == 7 * 125
    assert counted(outcome, "blocks flooded again") > 0
    assert took_us(outcome) < 2000


def test_blocks_that_never_come_end_the_run() -> None:
    text = JOB + "    - allgather: {bytes: 512KB, algorithm: in-network}\n"
    with pytest.raises(ProgramError, match=r"blocks of rank \d are missing, and none came for"):
        play(f"{text}events:\n  - {{at: 6us, link: 'h3-s1', do: down}}\n")


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("broadcast: {bytes: 1KB, root: 8, algorithm: in-network}", "root 8: the groups have"),
        ("broadcast: {bytes: 1KB, chunk: 1KB, algorithm: in-network}", "chunk are of rings and"),
        ("allgather: {bytes: 1KB, channels: 2, algorithm: in-network}", "channels and chunk are"),
        ("allgather: {bytes: 1KB, algorithm: tree}", "must be 'ring' or 'in-network', no"),
        ("parallel: [{allgather: {bytes: 1KB, algorithm: in-network}}, "
         "{broadcast: {bytes: 1KB, algorithm: in-network}}]", "go one after the other"),
    ],
)  # fmt: skip
def test_wrong_phase_of_blocks_says_what_would_be_right(phase: str, message: str) -> None:
    with pytest.raises(TopologyError) as told:
        read_run(f"{JOB}    - {phase}\n")
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ONE.replace("mtu: 4200B", "mtu: 1000B"),
            "a packet of 256 lanes has 1068 bytes",
        ),
        (
            ONE.replace("4200B}\n", "4200B}\n  allreduce: {slots: 4, jobs: {mine: {}}}\n"),
            "1 groups need a slot each, and of allreduce: slots: 4 0 are free",
        ),
        (ONE.replace("ranks: 8", "ranks: 8\n  placement: random"), "trees that are known before"),
        (ONE.replace("ranks: 8", "ranks: 9"), "9 ranks"),
        (
            JOB + "    - {background: true, allreduce: {bytes: 1KB, algorithm: in-network}}\n",
            "go one after the other",
        ),
        (
            JOB + "    - parallel:\n"
            + 2 * "        - allreduce: {bytes: 1KB, algorithm: in-network}\n",
            "go one after the other",
        ),
        (
            JOB + "    - allreduce: {bytes: 1KB, channels: 2, algorithm: in-network}\n",
            "channels and chunk are of rings and trees",
        ),
        (
            TOPOLOGY + "job:\n  ranks: 8\n  tp: 2\n  dp: 4\n  phases:\n"
            + "".join(f"    - allreduce: {{bytes: 1KB, over: {o}, algorithm: in-network}}\n"
                      for o in ("tp", "dp")),
            "is in another group of in-network collectives already",
        ),
    ],
)  # fmt: skip
def test_wrong_run_says_where_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as told:
        read_run(text)
    assert message in str(told.value)
    assert "<run>:" in str(told.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("rank: 4, ranks: 4", "rank: from 0 to ranks - 1"),
        ("slots: 100", "slots: a power of two, from 1 to 32768"),
        ("lanes: 2000", "wire_lanes: packets of as many lanes are longer than the interface's MTU"),
        ("lanes: 64, wire_lanes: 32", "wire_lanes: from lanes to 2044"),
        ("block_bytes: 9, block_lanes: 1200", "block_lanes: packets of as many lanes are longer"),
        ("block_bytes: 9, ranks: 1", "ranks: 2 or more, where blocks are sent"),
        ("repeat: 1", "bytes: from 1 to 2^40, where calls are repeated"),
    ],
)
def test_wrong_settings_of_the_program_end_the_run(settings: str, message: str) -> None:
    text = TOPOLOGY + f"programs: [{{program: allreduce, hosts: [h1], settings: {{{settings}}}}}]\n"
    with pytest.raises(ProgramError) as told:
        play(text)
    assert message in str(told.value)


# ---------------------------------------------------------------- best effort

BEST_EFFORT = """\
topology:
  time_scale: 1
  generator: leaf_spine
  spines: 1
  leaves: 2
  hosts_per_leaf: 5
  link: {rate: 400Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  allreduce:
    lanes: 2
    wire_lanes: 256
    slots: 4
    best_effort: {pool: POOL, window: 64, servers: [h5, h10]}
jobs:
  - name: a
    ranks: 4
    placement: [h1, h2, h6, h7]
    phases: [{allreduce: {bytes: 512KB, algorithm: in-network}}]
  - name: b
    ranks: 4
    placement: [h3, h4, h8, h9]
    phases: [{allreduce: {bytes: 512KB, algorithm: in-network}}]
"""
CHUNKS = 2 * 500
ROOM = 4096


def best_effort(pool: int, *more: str) -> tuple[Outcome, dict[str, int]]:
    text = BEST_EFFORT.replace("POOL", str(pool)) + "".join(more)
    _, outcome = play(text, of=BEST_EFFORT.replace("POOL", str(ROOM)))
    total: dict[str, int] = {}
    for each in outcome.end.programs:
        if each["program"] == "allreduce_server":
            for name, value in each["counters"].items():  # type: ignore[union-attr]
                total[name] = total.get(name, 0) + int(value)
    return outcome, total


def test_best_effort_with_room_sends_each_server_the_sums() -> None:
    outcome, server = best_effort(ROOM)
    assert server["results"] == CHUNKS
    assert server["whole"] > 0.95 * CHUNKS
    assert counted(outcome, "wrong") == 0
    assert took_us(outcome) < took_us(best_effort(0)[0])


def test_best_effort_without_a_pool_is_a_allreduce_server() -> None:
    outcome, server = best_effort(0)
    assert (server["whole"], server["taken"]) == (0, 4 * CHUNKS)
    assert took_us(outcome) == pytest.approx(4 * 500 * PACKET_NS / 1000, rel=0.1)


def test_best_effort_with_too_few_cells_adds_up_what_finds_one() -> None:
    roomy, few, none = (best_effort(pool)[1] for pool in (ROOM, 32, 0))
    assert roomy["taken"] < few["taken"] < none["taken"]
    assert 0 < few["whole"] < CHUNKS
    assert few["results"] == CHUNKS


def test_best_effort_under_loss_and_beside_a_dead_spine_link_has_exact_sums() -> None:
    lossy = [f"  - {{at: 0us, link: {leaf}:{port}-{leaf[0]}3:{leaf[1]}, loss: 1%}}\n"
             for leaf, port in (("s1", 6), ("s2", 6))]  # fmt: skip
    text = BEST_EFFORT.replace("POOL", "64") + "events:\n" + "".join(lossy)
    _, outcome = play(text, of=BEST_EFFORT.replace("POOL", str(ROOM)))
    assert counted(outcome, "wrong") == 0 == counted(outcome, "calls open")
    assert counted(outcome, "repeated") > 0
    assert counted(outcome, "answered") > 0


def test_groups_need_a_server_each() -> None:
    with pytest.raises(TopologyError, match="2 groups need a server each"):
        read_run(BEST_EFFORT.replace("POOL", "64").replace("[h5, h10]", "[h5]"))


def test_a_server_is_no_worker() -> None:
    with pytest.raises(TopologyError, match="h1: it is a worker of job run-0"):
        read_run(BEST_EFFORT.replace("POOL", "64").replace("[h5, h10]", "[h1, h10]"))
