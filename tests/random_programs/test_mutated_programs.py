"""Broken programs and broken JSON: one clear error each, never an exception of Python's.

Programs are our own and random ones, with tokens and bytes changed. JSON is what our compiler
writes of them, with values taken out or replaced. What still compiles or loads must generate C, and
some of it gets packets, also under the sanitizers (test_random_programs_sanitized.py).
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler import CompileError
from softswitch import Switch
from softswitch.codegen import Bmv2Program, BuildError, JsonError, build_pipeline, generate_c
from softswitch.core.native import native
from softswitch.core.records import CoreError
from tests.random_programs import printer, search
from tests.random_programs.mutate import mutate
from tests.random_programs.ours import compile_text

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE.parent / "compiler" / "programs").glob("*.p4"))
SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
BATCHES = 4
MUTATIONS = 120
JSON_MUTATIONS = 250
BUILDS = 2 if SANITIZE else 4
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 70, 1.5, "", "x", [], {}, [[]], [None], {"type": "x"}, "0xzz", 999_999,
    "0xffffffffffff", "hexstr", "field", "header", "+", "<<", "valid", "last", [0], ["a", "b"],
)  # fmt: skip
A_PLACE = re.compile(r"^\S*program\.p4:\d+:\d+: error: .")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_broken_program_is_an_error_with_its_line(batch: int) -> None:
    for seed in range(batch * MUTATIONS, (batch + 1) * MUTATIONS):
        chance = random.Random(seed)
        text = mutate(_program(chance), chance)
        try:
            compiled = compile_text(text)
        except CompileError as error:
            first = str(error).split("\n", 1)[0]
            whole = "program.p4: error: " in first  # of no line: no `main`, a missing include
            assert A_PLACE.match(first) or whole, f"seed {seed}: {first}"
            continue
        except Exception as error:  # the test is that there is none
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{text}")
        generate_c(Bmv2Program.from_json(compiled.json_text.encode()))


def _program(chance: random.Random) -> str:
    if chance.randrange(2):
        return chance.choice(PROGRAMS).read_text()
    return printer.program(search.case_of(chance.randrange(40), packets=1).program)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_broken_json_is_an_error_with_its_path(batch: int) -> None:
    for seed, document in _documents(batch):
        try:
            program = Bmv2Program.from_json(json.dumps(document).encode())
            generate_c(program)
        except JsonError as error:
            assert error.problem and "\n" not in str(error), f"seed {seed}: {error}"
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")


def test_json_that_still_loads_runs(tmp_path: Path) -> None:
    """Whatever it computes, it ends and touches nothing that is not its own."""
    built = 0
    for seed, document in _documents(0):
        if built == BUILDS:
            break
        text = json.dumps(document).encode()
        try:
            program = Bmv2Program.from_json(text)
            library = build_pipeline(program, cache_dir=tmp_path, sanitize=SANITIZE)
        except (JsonError, BuildError):
            continue
        built += 1
        with Switch(module=native(sanitize=SANITIZE)) as switch:
            try:
                switch.core.load(library)
            except CoreError:
                continue  # refused, with its reason
            chance = random.Random(seed)
            for size in (0, 1, 14, 60, 200):
                switch.core.inject(1, chance.randbytes(size), 0)
            switch.core.advance(10**9)
            switch.core.take_output(10**9)
    assert built == BUILDS


def _documents(batch: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Documents with one value changed or taken out."""
    chance = random.Random(batch)
    base = compile_text(PROGRAMS[batch % len(PROGRAMS)].read_text()).json
    base.pop("__meta__", None)
    paths = [path for path in _paths(base) if path and "source_info" not in path]
    for seed in range(JSON_MUTATIONS):
        document = copy.deepcopy(base)
        *way, last = chance.choice(paths)
        holder: Any = document
        for step in way:
            holder = holder[step]
        if chance.randrange(3):
            holder[last] = chance.choice(ODD_VALUES)
        else:
            del holder[last]
        yield seed, document


def _paths(node: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _paths(value, (*path, key))
    elif isinstance(node, list):
        for at, value in enumerate(node):
            yield from _paths(value, (*path, at))
