"""Congestion control's headers: ns an event, in the kernel and natively.

    python tests/bench/bench_algorithms.py [--json] [--rounds 101]

The same events by BPF_PROG_TEST_RUN and by a call (root; without it natively alone). What a step
costs in which nothing happens (a number is read and written) is measured beside, and taken off for
the ratios, so that the test's own work makes no algorithm look cheaper than it is. CPU time; the
least of short rounds in turns, which others' work disturbs least.

DCQCN: random events as its test has them, and CNPs alone. ENCC: acknowledgements with records of
five ports that go on, one or all of them with a queue, and with one word for the whole path.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import command_line
import numpy as np
import numpy.typing as npt

from mechanisms.dcqcn.parameters import BANDWIDTH_SCALED, parameters
from mechanisms.encc.parameters import encc_parameters

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the tests' own package is not installed
LINE_BPS, TRIP_NS = 400 * 10**9, 8000
STATES, EVENTS = 1024, 12  # and of each of them
EVENT, USUAL = "DCQCN, random events", "ENCC, 5 hops, one queue"
RATIO_GOAL = 3.0
"""An acknowledgement with five hops, of which one is congested, against DCQCN's event."""

Array = npt.NDArray[Any]


def tests(name: str) -> ModuleType:
    """Return a module of tests/hostagent."""
    return importlib.import_module(f"tests.hostagent.{name}")


@dataclass(frozen=True)
class Case:
    """An algorithm, the parameters of many states, what happens to them, and what comes with it."""

    algorithm: str
    params: Array
    steps: Array
    told: Array | None = None


def cases() -> dict[str, Case]:
    """Return what is timed, by name."""
    header, replay = tests("native_replay").header, tests("kernel_replay")
    random = np.random.default_rng(1)
    params, steps = tests("test_dcqcn_kernel").sequences(random, STATES)
    dcqcn = parameters(BANDWIDTH_SCALED, LINE_BPS).fields()
    encc = encc_parameters(LINE_BPS, TRIP_NS).fields()
    rows = {
        name: header(name).params([fields]).repeat(STATES, 0)
        for name, fields in (("dcqcn", dcqcn), ("encc", encc))
    }
    nothing = happens(replay, random, "CC_ACKED")
    nothing["asks"] = 1
    acked = happens(replay, random, "CC_ACKED")
    told = {form: answers(replay, random, acked, form) for form in (1, 2)}
    one_queue = told[1].copy()
    for hop in range(1, 5):
        one_queue["data"][:, 12 * hop + 10 : 12 * hop + 12] = 0
    return {
        EVENT: Case("dcqcn", params, steps),
        "DCQCN, a CNP": Case("dcqcn", rows["dcqcn"], happens(replay, random, "CC_CNP")),
        USUAL: Case("encc", rows["encc"], acked, one_queue),
        "ENCC, 5 hops, five queues": Case("encc", rows["encc"], acked, told[1]),
        "ENCC, one word": Case("encc", rows["encc"], acked, told[2]),
        "nothing happens": Case("encc", rows["encc"], nothing, told[1]),
    }


def happens(replay: ModuleType, random: np.random.Generator, kind: str) -> Array:
    """Return events of that kind, some 2 us apart: those of a state, then of the next one."""
    steps = np.zeros((STATES, EVENTS), replay.STEP)
    gaps = random.integers(1000, 3000, steps.shape)
    steps["now"] = np.cumsum(gaps, axis=1) + 10**12
    steps["kind"] = getattr(tests("native_replay").native().lib, kind)
    steps["bytes"] = 4096
    steps["rtt_ns"] = random.integers(TRIP_NS, 2 * TRIP_NS, steps.shape)
    steps["state"] = np.arange(STATES)[:, None]
    return steps.reshape(-1)


def answers(replay: ModuleType, random: np.random.Generator, steps: Array, form: int) -> Array:
    """Return what comes with each step: five ports' records (`form` 1), or one word (2)."""
    told = np.zeros(len(steps), replay.TELEMETRY)
    told["format"], told["hops"], told["bytes"] = form, 5, 60 if form == 1 else 4
    at = steps["now"].astype(np.int64).reshape(-1, EVENTS, 1)
    if form == 2:
        used = random.integers(0, 3 << 13, at.shape)
        words = [np.full(at.shape, 77) >> 8, np.full(at.shape, 77), used >> 8, used]
        data = np.concatenate(words, axis=-1)
    else:
        shape = (*at.shape[:2], 5)
        port = np.broadcast_to(np.arange(1, 6) * 257, shape)
        rate = np.full(shape, 11 << 12 | LINE_BPS >> 27)
        share = random.uniform(0.5, 1, shape)
        sent = np.cumsum(np.diff(at, axis=1, prepend=at[:, :1]) * share * LINE_BPS / 512e9, axis=1)
        queue = random.integers(0, 400, shape)
        widths = ((port, 2), (rate, 2), (at + 0 * port, 3), (sent.astype(np.int64), 3), (queue, 2))
        columns = [v.astype(np.int64) >> 8 * i for v, n in widths for i in reversed(range(n))]
        data = np.stack(columns, axis=-1).reshape(*at.shape[:2], 60)
    told["data"][:, : data.shape[-1]] = (data & 0xFF).astype(np.uint8).reshape(len(steps), -1)
    return told


def in_kernel(stack: ExitStack, all_cases: dict[str, Case]) -> dict[str, Any]:
    """Load a replay program for each case; the algorithm's own, with or without telemetry."""
    replay, header = tests("kernel_replay"), tests("native_replay").header
    loaded: dict[tuple[str, bool], Any] = {}
    for each in all_cases.values():
        key = (each.algorithm, each.told is not None)
        if key not in loaded:
            size = header(each.algorithm).state_bytes()
            loaded[key] = stack.enter_context(replay.replay(key[0], size, telemetry=key[1]))
    return {n: loaded[each.algorithm, each.told is not None] for n, each in all_cases.items()}


def measure(rounds: int, *, kernel: bool) -> dict[str, Any]:
    """Return ns a step by case, the least of rounds in turns, and what that is without the test."""
    native_replay = tests("native_replay")
    todo = cases()
    took: dict[str, dict[str, list[float]]] = {n: {"kernel": [], "native": []} for n in todo}
    with ExitStack() as stack:
        loaded = in_kernel(stack, todo) if kernel else {}
        for _ in range(rounds):
            for name, each in todo.items():
                header = native_replay.header(each.algorithm)
                begin = header.fresh(each.params, native_replay.BEGINS)
                if kernel:
                    loaded[name].give(each.steps, begin, each.told)
                    started = time.thread_time()
                    loaded[name].run(len(each.steps))
                    spent = time.thread_time() - started
                    took[name]["kernel"].append(spent * 1e9 / len(each.steps))
                started = time.thread_time()
                header.replayed(each.steps, begin, each.told)
                spent = time.thread_time() - started
                took[name]["native"].append(spent * 1e9 / len(each.steps))
    least = {n: {w: min(ns) for w, ns in each.items() if ns} for n, each in took.items()}
    where = "kernel" if kernel else "native"
    net = {name: each[where] - least["nothing happens"][where] for name, each in least.items()}
    found: dict[str, Any] = {
        "ns": least,
        "net_ns": net,
        "where": where,
        "goal": RATIO_GOAL,
    }
    found["ratio"] = {n: net[n] / net[EVENT] for n in todo if n.startswith("ENCC")}
    found["judged"] = [USUAL]
    return found


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=command_line.count, default=101)
    arguments = parser.parse_args()
    result = measure(arguments.rounds, kernel=os.geteuid() == 0)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    command_line.run(main)
