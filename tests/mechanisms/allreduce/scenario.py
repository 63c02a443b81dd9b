"""Packets of AllReduce, one after the other, for all switches and compilers to be compared on.

    job 7, slots 4-7    tree 0: root of ports 1 and 2        tree 1: ports 1 and 2, parent at port 3
    job 9, 2 cells      best effort: workers 0 and 1 at port 1, 2 and 3 at port 2, server at port 3

    .venv/bin/python -m tests.mechanisms.allreduce.scenario     records what our switch answers

Ports 1 and 2 lead to hosts, port 3 to a switch. test_allreduce_packets.py says of each kind of case
why it has to be so; here the bytes count, with all 32 lanes of fabric.p4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compat.parity import cases
from compat.parity.cases import Answer, Json, Round
from compat.parity.targets import InProcess, prepare
from compiler import compile_p4
from protocols.allreduce import AllReduceKind
from tests.mechanisms.allreduce import wire
from tests.mechanisms.allreduce.wire import (
    AGAIN,
    CONGESTED,
    EXPONENT_ONLY,
    FROM_ROOT,
    Message,
    frame,
    packed,
)

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "p4src" / "fabric.p4"
RECORDED = ROOT / "tests" / "golden" / "allreduce.vectors.json"
LANES, JOB, SLOTS, PARENT = 32, 7, 4, 3
POOLED, CELLS = 9, 2
CONTRIBUTION, RESULT, MOVE, BLOCK, PARTIAL = AllReduceKind
TOP = (1 << 31) - 1


@dataclass(frozen=True)
class Case:
    """A frame that comes by a port; `leaves`: by which ports copies go on."""

    name: str
    port: int
    frame: bytes
    leaves: tuple[int, ...] = ()


def entry(table: str, action: str, params: dict[str, int], **match: int) -> Json:
    keys = {name: {"exact": hex(value)} for name, value in match.items()}
    call = {"name": action, "params": {name: hex(value) for name, value in params.items()}}
    return {"type": "INSERT", "table_entry": {"table": table, "match": keys, "action": call}}


def group(number: int, *ports: int) -> Json:
    replicas = [{"port": port, "instance": 1} for port in ports]
    return {"type": "INSERT", "multicast_group": {"id": number, "replicas": replicas}}


def setup() -> Iterator[Json]:
    """Yield what the controller would have written."""
    yield group(1, 1, 2)
    yield group(2, 1, 2, PARENT)
    for tree, (root, parent, flood) in enumerate(((1, 0, 1), (0, PARENT, 2))):
        where = {"job": JOB, "tree": tree}
        for index, port in enumerate((1, 2)):
            yield entry("allreduce_edge", "join_from_child", {"index": index}, port=port, **where)
        if parent:
            yield entry("allreduce_edge", "join_from_parent", {}, port=parent, **where)
        values = {
            "base": 4, "slots": SLOTS, "children": 3, "root": root, "parent": parent,
            "children_group": 1, "flood_group": flood, "class_of_service": 0,
        }  # fmt: skip
        yield entry("allreduce_tree", "set_allreduce_tree", values, **where)
    where = {"job": POOLED, "tree": 0}
    for port, workers in ((1, 0b0011), (2, 0b1100)):
        join = {"workers": workers}
        yield entry("allreduce_edge", "join_pool_from_child", join, port=port, **where)
    yield entry("allreduce_edge", "join_from_parent", {}, port=PARENT, **where)
    pool = {
        "cells": CELLS, "stride": 1, "offset": 0, "slots": SLOTS, "workers": 0b1111,
        "parent": PARENT, "children_group": 1, "flood_group": 2, "class_of_service": 0,
        "patience": (1 << 16) - 1,
    }  # fmt: skip
    yield entry("allreduce_tree", "set_allreduce_pool", pool, **where)
    for host in (1, 2):
        macs = {
            "src_mac": int.from_bytes(wire.gateway_mac(host), "big"),
            "dst_mac": int.from_bytes(wire.mac(host), "big"),
        }
        to = {**macs, "address": 10 << 24 | host}
        yield entry("allreduce_port", "address_allreduce_to_host", to, port=host)
    neighbour = {"src_mac": 0x020100000003}
    yield entry("allreduce_port", "address_allreduce_to_neighbour", neighbour, port=PARENT)


def part(host: int, chunk: int, **more: Any) -> Message:
    lanes = tuple(host * 1000003 * lane - chunk for lane in range(LANES))
    said = Message(CONTRIBUTION, JOB, 0, lanes=lanes, exponent=90 + host)
    return replace(said.of_chunk(chunk, SLOTS), **more)


def of(workers: int, chunk: int, **more: Any) -> Message:
    """Return a partial of job 9."""
    return replace(part(workers, chunk, kind=PARTIAL, job=POOLED, workers=workers), **more)


def scenario() -> Iterator[Case]:
    """Yield all cases, in order: slots remember the ones before."""
    yield from with_slots()
    yield from best_effort()


def best_effort() -> Iterator[Case]:
    """Yield those of the job with a server. Even chunks have cell 0, odd ones cell 1."""
    up = (PARENT,)
    yield Case("claims", 1, frame(of(0b0001, 0), 1))
    yield Case("seen-before", 1, frame(of(0b0001, 0), 1))
    yield Case("in-part-seen-before", 1, frame(of(0b0011, 0), 1), up)
    yield Case("joins", 2, frame(of(0b0100, 0), 2))
    yield Case("cell-of-another-chunk", 1, frame(of(0b0001, 2), 1), up)
    yield Case("a-repeat-takes-it-along", 1, frame(of(0b0010, 0, flags=AGAIN), 1), up)
    yield Case("a-repeat-of-what-is-gone", 2, frame(of(0b1000, 0, flags=AGAIN), 2), up)
    yield Case("claims-the-freed-cell", 1, frame(of(0b0011, 2), 1))
    yield Case("all-beneath", 2, frame(of(0b1100, 2), 2), up)
    yield Case("repeated-sum", 2, frame(of(0b0100, 2, flags=AGAIN), 2), up)
    yield Case("claims-once-more", 2, frame(of(0b0100, 2), 2))
    yield Case("a-result-frees", 3, frame(of(0, 2, kind=RESULT), 3), (1, 2))
    yield Case("free-again", 1, frame(of(0b0001, 4), 1))
    yield Case("later-chunk-of-another-slot", 1, frame(of(0b0001, 6), 1), up)
    yield Case("later-chunk-of-the-slot", 1, frame(of(0b0001, 8), 1))
    yield Case("a-result-of-another", 3, frame(of(0, 4, kind=RESULT), 3), (1, 2))
    yield Case("in-part-beneath", 1, frame(of(0b0011, 8, flags=AGAIN), 1), up)
    yield Case("largest", 1, frame(of(0b0001, 1, lanes=(TOP,) * LANES, exponent=200), 1))
    yield Case("leaves-int32", 2, frame(of(0b1100, 1, ecn=CONGESTED), 2))
    yield Case("told", 1, frame(of(0b0010, 1, lanes=(1,) * LANES), 1), up)
    bare = {"lanes": (), "flags": EXPONENT_ONLY}
    yield Case("without-lanes", 1, frame(of(0b0001, 3, **bare), 1), up)
    yield Case("a-worker-of-elsewhere", 1, frame(of(0b0100, 5), 1))
    yield Case("nobody-s", 1, frame(of(0, 5), 1))
    yield Case("no-partial", 1, frame(part(1, 5, job=POOLED), 1))
    yield Case("no-pool", 1, frame(of(0b0001, 8, job=JOB), 1))
    yield Case("partial-from-the-server", 3, frame(of(0b0001, 5), 3))
    short = of(0b0001, 5, lanes=tuple(range(LANES - 1)))
    yield Case("shorter-than-it-says", 1, frame(short, 1, packed(short, LANES)))


def with_slots() -> Iterator[Case]:
    """Yield those of the job that has slots."""
    yield Case("first", 1, frame(part(1, 0), 1))
    yield Case("duplicate", 1, frame(part(1, 0), 1))
    yield Case("last", 2, frame(part(2, 0), 2), (1, 2))
    yield Case("answered", 2, frame(part(2, 0), 2), (2,))
    yield Case("other-version", 2, frame(part(2, 4), 2))
    yield Case("newer-chunk", 1, frame(part(1, 8), 1))
    yield Case("late", 2, frame(part(2, 0), 2))
    yield Case("congested", 2, frame(part(2, 8, ecn=CONGESTED), 2), (1, 2))
    extremes = tuple((TOP, -TOP - 1, -1, 1)[lane % 4] for lane in range(LANES))
    yield Case("extremes", 1, frame(part(1, 1, lanes=extremes), 1))
    yield Case("overflow", 2, frame(part(2, 1, lanes=extremes), 2), (1, 2))
    long = part(1, 2, lanes=tuple(range(40)))
    yield Case("more-lanes-than-are-added", 1, frame(long, 1))
    yield Case("their-sum", 2, frame(replace(long, exponent=255), 2), (1, 2))
    bare = {"lanes": (), "flags": EXPONENT_ONLY}
    yield Case("bare", 1, frame(part(1, 3, **bare), 1))
    yield Case("bare-and-lanes", 2, frame(part(2, 3), 2))
    yield Case("bare-sum", 2, frame(part(2, 3, **bare), 2), (1, 2))

    # tree 1: the sum goes up, the result comes down
    yield Case("move-up", 1, frame(Message(MOVE, JOB, 1), 1), (PARENT,))
    yield Case("move-down", 3, frame(Message(MOVE, JOB, 1, flags=FROM_ROOT), 3), (1, 2))
    yield Case("new-epoch", 1, frame(part(1, 8, epoch=1), 1))
    yield Case("stale", 2, frame(part(2, 8), 2), (2,))
    yield Case("no-round-for-it", 3, frame(part(3, 8, epoch=1, kind=RESULT), 3))
    yield Case("up", 2, frame(part(2, 8, epoch=1), 2), (PARENT,))
    yield Case("repeated", 1, frame(part(1, 8, epoch=1), 1), (PARENT,))
    yield Case("result", 3, frame(part(3, 8, epoch=1, kind=RESULT), 3), (1, 2))
    yield Case("result-again", 3, frame(part(3, 8, epoch=1, kind=RESULT), 3))
    yield Case("stored-result", 1, frame(part(1, 8, epoch=1), 1), (1,))
    block = Message(BLOCK, JOB, 1, chunk=9, slot=5, lanes=(1, 2, 3))
    yield Case("block-from-below", 1, frame(block, 1), (2, PARENT))
    yield Case("block-from-above", 3, frame(block, 3), (1, 2))

    # refused
    yield Case("contribution-from-the-parent", 3, frame(part(3, 8, epoch=1), 3))
    yield Case("result-from-a-host", 1, frame(part(1, 8, kind=RESULT), 1))
    yield Case("port-of-nobody", 4, frame(part(1, 8), 4))
    yield Case("wrong-job", 1, frame(part(1, 8, job=8), 1))
    yield Case("wrong-slot", 1, frame(part(1, 8, slot=1), 1))
    yield Case("wrong-version", 1, frame(part(1, 8, version=1), 1))
    short = part(1, 8, lanes=tuple(range(LANES - 1)))
    yield Case("too-few-lanes", 1, frame(short, 1))
    yield Case("fewer-than-it-says", 1, frame(short, 1, packed(short, LANES)))
    yield Case("cut-short", 1, frame(part(1, 8), 1)[:60])
    yield Case("still-as-before", 1, frame(part(1, 8, epoch=1), 1), (1,))


def recorded_round() -> Round:
    """Return the scenario as parity runs have it."""
    packets = (cases.Packet(case.port, case.frame) for case in scenario())
    return Round(tuple(setup()), tuple(packets))


def write(round_: Round, answer: Answer) -> None:
    """Write the vectors, a line for each update and case."""
    answers = zip(scenario(), round_.packets, answer.seen, strict=True)
    document: dict[str, Any] = {
        "program": "fabric",
        "recorded_with": "Weft's compiler and softswitch",
        "note": "written by tests/mechanisms/allreduce/scenario.py, which says what each is about",
        "ports": list(cases.PORTS),
        "cpu_port": cases.CPU_PORT,
        "setup": list(round_.setup),
        "cases": [
            {"name": case.name, "in": packet.as_json(), **cases.seen_as_json(seen)}
            for case, packet, seen in answers
        ],
        "counters": [],
    }
    parts = []
    for name, value in document.items():
        rows = isinstance(value, list) and value and isinstance(value[0], dict)
        inner = ",\n".join(f"  {json.dumps(row)}" for row in value) if rows else ""
        parts.append(f" {json.dumps(name)}: " + (f"[\n{inner}\n ]" if rows else json.dumps(value)))
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    """Write what our switch answers to tests/golden."""
    result = compile_p4(PROGRAM)
    round_ = recorded_round()
    answer = InProcess(prepare(result.json_text, result.p4info_text)).run(round_)
    assert not any(answer.refused), answer.refused
    write(round_, answer)
    print(f"{RECORDED}: {len(answer.seen)} cases")


if __name__ == "__main__":
    main()
