"""Matrices: a table of sizes in the run file, and htsim's connection matrices."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from simulator.runner import Simulation
from topologies import TopologyError
from workloads.htsim import read_htsim
from workloads.loader import read_run
from workloads.model import RunFile
from workloads.plan import plan

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
RUN = """\
topology:
  generator: leaf_spine
  leaves: 2
  spines: 2
  hosts_per_leaf: 2
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
traffic:
  - matrix: ENTRY
"""
CHAIN = """\
# who waits for whom
Nodes 4
Connections 4
Triggers 2

0->2 id 1 start 0 size 100000 recv_done_trigger 1
1->3 id 2 start 5000000.000 size 200000 send_done_trigger 1
2->0 id 3 trigger 1 size 300000 recv_done_trigger 2 prio 7
3->1 id 4 trigger 2 size 4096
trigger id 1 count 2 barrier
trigger id 2 oneshot
"""


def run_of(entry: str, directory: Path | None = None) -> RunFile:
    return read_run(RUN.replace("ENTRY", entry), directory=directory)


def sends(run: RunFile) -> list[tuple[int, int, int, int]]:
    """Return source, target, bytes and start (ps) of each message."""
    traffic = plan(run)
    messages = traffic.messages.messages
    flows = traffic.flows[messages["flow"]]
    columns = (flows["src"], flows["dst"], messages["bytes"], messages["start_ps"])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_table_says_who_sends_how_much_to_whom() -> None:
    run = run_of("{bytes: [[0, 1MB, 0], [2kB, 0, 0], [3kB, 4kB, 0]], hosts: [h4, h2, h1]}")
    assert sends(run) == [(3, 1, 10**6, 0), (1, 3, 2000, 0), (0, 3, 3000, 0), (0, 1, 4000, 0)]


def test_htsims_matrix_keeps_order_starts_and_triggers(tmp_path: Path) -> None:
    (tmp_path / "chain.cm").write_text(CHAIN)
    run = run_of("{htsim: chain.cm, start: 1us, hosts: all}", tmp_path)
    assert sends(run) == [
        (0, 2, 100000, 1_000_000),
        (1, 3, 200000, 6_000_000),
        (2, 0, 300000, 1_000_000),
        (3, 1, 4096, 1_000_000),
    ]
    messages = plan(run).messages
    assert messages.messages["waits"].tolist() == [0, 0, 2, 1]
    assert read_htsim(CHAIN, "chain.cm")["waits"] == [[2, 0], [2, 1], [3, 2]]


def test_connections_that_wait_begin_when_the_ones_before_have_arrived(tmp_path: Path) -> None:
    (tmp_path / "chain.cm").write_text(CHAIN)
    run = run_of("{htsim: chain.cm}", tmp_path)
    program = CompiledProgram.of(compile_p4(FABRIC))
    Simulation(run, program).run(tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "messages.parquet").to_pylist()
    done = [row["done_ps"] for row in rows]
    begun = [row["done_ps"] - row["completion_ps"] for row in rows]
    assert begun[2] >= max(done[0], done[1]) and begun[3] >= done[2]


def test_nodes_may_be_fewer_than_hosts_and_two_connections_of_a_pair_are_two_flows() -> None:
    text = "Nodes 2\nConnections 2\n0->1 start 0 size 10\n0->1 start 0 size 20\n"
    assert read_htsim(text, "x")["connections"] == [[0, 1, 10, 0], [0, 1, 20, 0]]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Nodes 4\n", "", "1:1: no connection matrix: 'Nodes'"),
        ("Connections 4", "Connections 5", "Connections says 5, but there are 4"),
        ("Triggers 2", "", "Triggers says 0, but there are 2"),
        ("0->2 id", "0->4 id", "6:1: 0->4: nodes are 0 to 3"),
        ("0->2 id", f"{'9' * 5000}->2 id", "begins no line"),
        ("0->2 id", "2->2 id", "6:1: 2->2: a node would send to itself"),
        ("size 4096", "size 0", "9:1: size 0 never ends"),
        ("size 4096", "", "9:1: size 0 never ends"),
        ("size 4096", "size many", "9:1: size: a whole number has to follow, not 'many'"),
        ("size 4096", "size -1", "a whole number has to follow, not '-1'"),
        ("size 4096", "size", "a whole number has to follow, not 'nothing'"),
        ("size 4096", "size 9000000000000", "is more than 1000000000000 bytes"),
        ("start 5000000.000", "start 5.5", "start: a whole number"),
        ("start 0 ", "", "6:1: give one of 'start' (picoseconds) and 'trigger'"),
        ("start 0 ", "start 0 trigger 2 ", "6:1: give one of 'start'"),
        ("prio 7", "addon", "8:1: 'addon' is not taken"),
        ("trigger 2 size", "trigger 3 size", "9:1: there is no trigger 3"),
        ("id 2 oneshot", "id 2 sometimes", "11:1: a trigger is one of oneshot, multishot, barrier"),
        ("id 2 oneshot", "id 1 oneshot", "11:1: the trigger's id is there twice"),
        ("id 2 oneshot", "oneshot", "11:1: the trigger's id has to be given"),
        ("count 2", "count 3", "10:1: trigger 1 waits for 3 and 2 connections fire it"),
        ("barrier", "oneshot", "10:1: trigger 1 waits for 1 and 2 connections fire it"),
        ("start 0 size 100000", "trigger 2 size 100000", "waits for what waits for it"),
        ("# who", "who", "1:1: 'who' begins no line"),
        ("# who", "failure switch_type TOR", "1:1: failures are not taken"),
    ],
)
def test_what_a_file_can_not_say_is_told_with_its_line(old: str, new: str, says: str) -> None:
    text = CHAIN.replace(old, new, 1)
    assert text != CHAIN
    with pytest.raises(TopologyError) as caught:
        read_htsim(text, "chain.cm")
    assert says in str(caught.value)
    assert "chain.cm:" in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{}", "a table of bytes, htsim: FILE, hpcc: FILE or csv"),
        ("{bytes: [[0, 1kB], [1kB]]}", "row 2 of bytes has 1 sizes, and there are 2 rows"),
        ("{bytes: [[1kB, 1kB], [0, 0]]}", "row 1 of bytes: sends to itself"),
        ("{bytes: [[0, 0], [0, 0]]}", "no host sends anything"),
        ("{bytes: [[0, x], [0, 0]]}", "'x'"),
        ("{bytes: [[0, 1kB], [0, 0]], hosts: [h1]}", "2 nodes, but there are 1 hosts"),
        ("{bytes: [[0, 1kB], [0, 0]], hosts: [h1, h1]}", "h1 would send to itself"),
        ("{bytes: [[0, 1kB], [0, 0]], htsim: a.cm}", "a table of bytes, htsim: FILE,"),
        ("{htsim: nothing.cm}", "nothing.cm: can't be read: No such file"),
        ("{htsim: 3}", "must be a file, not 3"),
        (
            "{htsim: b.cm, imported: {b.cm: {nodes: 2, connections: [[0, 9, 1, 0]], waits: []}}}",
            "connections join two of 2 nodes",
        ),
    ],
)
def test_what_an_entry_can_not_say_is_told_with_its_line(
    entry: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "a.cm").write_text(CHAIN)
    with pytest.raises(TopologyError) as caught:
        run_of(entry, tmp_path)
    assert says in str(caught.value)
    assert "<run>:8:" in str(caught.value)


def test_a_permutation_may_be_a_stride() -> None:
    text = RUN.replace("matrix: ENTRY", "permutation: {bytes: 1kB, shift: 3}")
    assert [(a, b) for a, b, *_ in sends(read_run(text))] == [(0, 3), (1, 0), (2, 1), (3, 2)]
    with pytest.raises(TopologyError, match="each would send to itself: 1 to 3"):
        read_run(text.replace("shift: 3", "shift: 8"))
