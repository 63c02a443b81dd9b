"""Chakra traces: read as written by another encoder, refused with the node's name, and run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from compiler import compile_p4
from controller.program import CompiledProgram
from mechanisms.program import FABRIC
from mechanisms.registry import defines
from simulator.runner import Simulation
from topologies.errors import TopologyError
from workloads.chakra import read_chakra
from workloads.loader import read_run
from workloads.model import RunFile, SpanKind
from workloads.plan import plan

COMP, SEND, RECV, COLL = 4, 5, 6, 7
ALLREDUCE, REDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, BARRIER = 0, 1, 2, 5, 6, 7, 9
US = 10**6
HEADERS = (
    78  # of a RoCE packet with its FCS, preamble and gap: 82 with the four bytes of RETH's like
)


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    """Return a field: a varint, or bytes behind their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name: str, value: int | str | list[bool]) -> bytes:
    """Return an AttributeProto: int64_val, string_val or bool_list."""
    if isinstance(value, int):
        body = field(9, value)
    elif isinstance(value, str):
        body = field(29, value.encode())
    else:
        body = field(28, field(1, bytes(map(int, value))))
    return field(10, field(1, name.encode()) + body)


def node(
    number: int, kind: int, after: Iterable[int] = (), us: int = 0, **attributes: Any
) -> bytes:
    """Return a Node whose dependences are split over ctrl_deps, unpacked, and data_deps, packed."""
    needed = [*after]
    out = field(1, number) + field(2, f"n{number}".encode()) + field(3, kind)
    out += b"".join(field(4, each) for each in needed[:1])
    out += field(5, b"".join(map(varint, needed[1:]))) if needed[1:] else b""
    out += field(7, us) if us else b""
    return out + b"".join(attribute(*each) for each in attributes.items())


def write(folder: Path, *ranks: list[bytes], name: str = "step") -> Path:
    """Write a file a rank, each with its GlobalMetadata."""
    for rank, nodes in enumerate(ranks):
        messages = [field(1, b"0.0.4"), *nodes]
        (folder / f"{name}.{rank}.et").write_bytes(b"".join(varint(len(m)) + m for m in messages))
    return folder


def collective(number: int, kind: int, size: int, after: Iterable[int] = (), **more: Any) -> bytes:
    """Return a collective of `size` bytes a rank."""
    return node(number, COLL, after, comm_type=kind, comm_size=size, **more)


def ring_of(hosts: int, folder: Path, **trace: Any) -> RunFile:
    """Return a run of the trace over hosts at one switch."""
    given = json.dumps({"chakra": "step", **trace})
    return read_run(
        f"""
topology:
  generator: single
  hosts: {hosts}
  time_scale: 1
  link: {{rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}}
traffic: [trace: {given}]
""",
        directory=folder,
    )


def took_us(run: RunFile) -> float:
    """Return how long the trace takes."""
    program = CompiledProgram.of(compile_p4(FABRIC, defines=defines(run.topology)))
    done = Simulation(run, program, seed=1).run().end.message_times["done"]
    assert (done >= 0).all(), "a node never ended"
    return float(done.max()) / US


def test_a_graph_is_read_whichever_way_its_dependences_are_written(tmp_path: Path) -> None:
    send = node(9, SEND, [3, 5, 7], comm_dst=1, comm_size=4096, comm_tag=2)
    first = [node(3, COMP, us=4), node(5, COMP, [3], us=5), node(7, 1, [5]), send]
    receive = node(1, RECV, comm_src=0, comm_size=4096, comm_tag=2)
    found = read_chakra("step", write(tmp_path, first, [receive]))
    nodes: list[Any] = found["nodes"]  # type: ignore[assignment]
    assert found["ranks"] == 2
    assert [each["after"] for each in nodes] == [[], [0], [1], [0, 1, 2], []]
    assert [each.get("ps", 0) for each in nodes] == [4 * US, 5 * US, 0, 0, 0]
    assert nodes[4]["send"] == 3 and nodes[3]["bytes"] == 4096 and nodes[3]["peer"] == 1


def test_a_chain_takes_the_sum_of_its_parts(tmp_path: Path) -> None:
    """Rank 0 computes 7 us, sends 1 MB; rank 1 receives it and computes 11 us more."""
    first = [node(1, COMP, us=7), node(2, SEND, [1], comm_dst=1, comm_size=1_000_000)]
    second = [node(1, RECV, comm_src=0, comm_size=1_000_000), node(2, COMP, [1], us=11)]
    alone = took_us(ring_of(2, write(tmp_path, first, second)))
    assert alone == pytest.approx(7 + 11 + 1_000_000 * 8 / 100e3 * 1.02 + 2.4, rel=0.01)


def test_what_does_not_wait_goes_at_once(tmp_path: Path) -> None:
    """Computing of 50 us beside a send that does not need it: the longer of both."""
    first = [node(1, COMP, us=50), node(2, SEND, comm_dst=1, comm_size=100_000)]
    second = [node(1, RECV, comm_src=0, comm_size=100_000)]
    assert took_us(ring_of(2, write(tmp_path, first, second))) == pytest.approx(50, abs=0.01)


@pytest.mark.parametrize(
    ("kind", "bytes_carried"),
    [
        (ALLREDUCE, 2 * 7 * 800_000 // 8),
        (ALLGATHER, 7 * 800_000),
        (REDUCESCATTER, 7 * 800_000 // 8),
        (ALLTOALL, 7 * 800_000 // 8),
    ],
)
def test_collectives_carry_what_astra_sim_says(
    tmp_path: Path, kind: int, bytes_carried: int
) -> None:
    """`comm_size` is what a rank begins with; what one rank sends over eight ranks."""
    run = ring_of(8, write(tmp_path, *[[collective(1, kind, 800_000)]] * 8))
    traffic = plan(run)
    messages, flows = traffic.messages.messages, traffic.flows
    sent = messages["bytes"][flows["src"][messages["flow"]] == 0].sum()
    assert sent == bytes_carried
    (span,) = [each for each in traffic.spans if each.kind is SpanKind.COLLECTIVE]
    assert span.ranks == 8 and span.bytes_per_rank == 800_000
    wire_us = bytes_carried * 8 / 100e3
    assert wire_us < span.ideal_ps / US < 1.05 * wire_us + 30
    assert took_us(run) >= span.ideal_ps / US


def test_a_broadcast_ends_at_every_rank(tmp_path: Path) -> None:
    run = ring_of(4, write(tmp_path, *[[collective(1, BROADCAST, 500_000, root_rank=2)]] * 4))
    traffic = plan(run)
    rows = traffic.messages.messages
    into = traffic.flows["dst"][rows["flow"][rows["bytes"] > 0]]
    assert sorted(set(into.tolist())) == [0, 1, 3]
    assert took_us(run) > 500_000 * 8 / 100e3


def test_groups_meet_in_the_order_of_their_files(tmp_path: Path) -> None:
    """Two groups of two reduce, then all meet; rank 3 comes 30 us late, and all wait for it."""
    (tmp_path / "groups.json").write_text('{"a": [0, 1], "b": [2, 3]}')
    ranks = []
    for rank in range(4):
        late = 30 if rank == 3 else 0
        ranks.append(
            [
                node(1, COMP, us=late),
                collective(2, ALLREDUCE, 10_000, [1], pg_name="ab"[rank // 2]),
                collective(3, BARRIER, 0, [2]),
            ]
        )
    run = ring_of(4, write(tmp_path, *ranks), groups="groups.json")
    assert 30 < took_us(run) < 40
    spans = [each for each in plan(run).spans if each.kind is SpanKind.COLLECTIVE]
    assert [each.ranks for each in spans] == [2, 2]


def test_operations_take_their_time_at_a_stated_speed(tmp_path: Path) -> None:
    """3.12e9 operations at 312 teraflop/s: 10 us."""
    ranks = [
        [node(1, COMP, num_ops=3_120_000_000), node(2, SEND, comm_dst=1, comm_size=1)],
        [node(1, RECV, comm_src=0, comm_size=1)],
    ]
    run = ring_of(2, write(tmp_path, *ranks), teraflops=312)
    assert took_us(run) == pytest.approx(10, abs=0.001)


def refused(folder: Path, **trace: Any) -> str:
    """Return what is said of a trace that can't be run; one line a problem."""
    with pytest.raises(TopologyError) as error:
        ring_of(4, folder, **trace)
    return str(error.value)


Ranks = Callable[[], list[list[bytes]]]


@pytest.mark.parametrize(
    ("ranks", "says"),
    [
        (lambda: [[node(1, COMP)]], "step.1.et: no such file"),
        (lambda: [[node(1, COMP), node(1, COMP)], []], "node 1 is there twice"),
        (lambda: [[node(1, COMP, [4])], []], "node 1 (n1) waits for node 4, which is not there"),
        (lambda: [[node(1, 8)], []], "node 1 (n1): type 8 is not supported"),
        (lambda: [[node(1, COMP, us=1 << 60)], []], "us: at most 10000 s"),
        (lambda: [[collective(1, ALLREDUCE, 10**13)], []], "bytes, at most 1000000000000"),
        (lambda: [[collective(1, ALLREDUCE, (1 << 64) - 5)], []], "comm_size is -5"),
        (lambda: [[collective(1, REDUCE, 8)], []], "collective REDUCE is not supported"),
        (lambda: [[node(1, COMP, num_ops=5)], []], "say how fast a rank is"),
        (lambda: [[node(1, SEND, comm_dst=5)], []], "comm_dst is 5: another rank, 0 to 1"),
        (lambda: [[node(1, SEND, comm_dst=1, comm_src=1)], []], "in the file of rank 0"),
        (
            lambda: [[node(1, SEND, comm_dst=1, comm_tag=3)], []],
            "rank 0 sends 1 messages with tag 3 to rank 1, which receives 0",
        ),
        (
            lambda: [
                [node(1, SEND, comm_dst=1, comm_size=4)],
                [node(2, RECV, comm_src=0, comm_size=5)],
            ],
            "has 4 bytes, its receive in rank 1 5",
        ),
        (
            lambda: [[collective(1, ALLREDUCE, 8)], []],
            "group of all ranks: rank 1 has 0 collectives, rank 0 1",
        ),
        (
            lambda: [[collective(1, ALLREDUCE, 8)], [collective(1, ALLREDUCE, 9)]],
            "is allreduce of 9 bytes, root 0, but in rank 0 allreduce of 8 bytes",
        ),
        (
            lambda: [[collective(1, ALLREDUCE, 8, pg_name="x")], []],
            "no process group 'x': give groups",
        ),
        (
            lambda: [[collective(1, ALLREDUCE, 8, involved_dim=[True, False])], []],
            "involved_dim leaves out dimensions",
        ),
        (lambda: [[collective(1, BROADCAST, 8, root_rank=2)]] * 2, "root 2 is none of 2 ranks"),
        (lambda: [[node(1, COMP, [2]), node(2, COMP, [1])], []], "never ends: node"),
        (
            lambda: [
                [node(1, RECV, comm_src=1), node(2, SEND, [1], comm_dst=1)],
                [node(1, RECV, comm_src=0), node(2, SEND, [1], comm_dst=0)],
            ],
            "in a circle",
        ),
        (lambda: [[node(1, COMP), collective(2, BARRIER, 0)]] * 2, "no node sends anything"),
        (lambda: [[node(1, COMP)]] * 5, "5 ranks, but there are 4 hosts"),
    ],
)
def test_refusals(tmp_path: Path, ranks: Ranks, says: str) -> None:
    said = refused(write(tmp_path, *ranks()))
    assert says in said and len(said.splitlines()) <= 3


def test_a_file_between_others_is_missed(tmp_path: Path) -> None:
    write(tmp_path, *[[node(1, COMP)]] * 4)
    (tmp_path / "step.2.et").unlink()
    assert "step.2.et: no such file, though there is step.3.et" in refused(tmp_path)


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    assert "step.0.et: no such file" in refused(tmp_path)
    write(tmp_path, [node(1, COMP)], [])
    whole = (tmp_path / "step.0.et").read_bytes()
    for bad in (b"", whole[:-3], b"\xff" * 9, b"\x05hello", whole + b"\x7f"):
        (tmp_path / "step.0.et").write_bytes(bad)
        assert "step.0.et: not a Chakra trace: " in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "groups.json: can't be read"),
        ("[]", "not an object of groups"),
        ('{"a": [0, 9]}', "group 'a': ranks are 0 to 1"),
        ('{"a": [0, 0]}', "group 'a': a list of ranks, each once"),
        ('{"a": [1]}', "rank 0 is not in group 'a'"),
    ],
)
def test_groups_that_make_no_sense(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "groups.json").write_text(text)
    write(tmp_path, *[[collective(1, ALLREDUCE, 8, pg_name="a")]] * 2)
    assert says in refused(tmp_path, groups="groups.json")


def test_wrong_types_are_the_forms_to_refuse(tmp_path: Path) -> None:
    write(tmp_path, [node(1, COMP)], [])
    assert "teraflops" in refused(tmp_path, teraflops=-1)
    assert "allreduce" in refused(tmp_path, allreduce="double")
    assert "teraflops" in refused(tmp_path, teraflops=True)
    assert "chakra" in refused(tmp_path, chakra=5)


def test_messages_of_a_trace_are_not_cut_into_equal_stripes(tmp_path: Path) -> None:
    write(tmp_path, *[[collective(1, ALLREDUCE, 80_000)]] * 4)
    given = "traffic: [trace: {chakra: step}]\ntransport: {congestion_control: none, queue_pairs: 4"
    topology = (
        "topology: {generator: single, hosts: 4, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}\n"
    )
    with pytest.raises(TopologyError, match="striped as queue pairs drain"):
        read_run(topology + given + "}", directory=tmp_path)
    run = read_run(topology + given + ", striping: as-drained}", directory=tmp_path)
    assert len(plan(run).flows) == 4 * 4
