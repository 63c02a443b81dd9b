"""Random programs do with random packets what P4 and v1model say.

Each seed is a program, its entries and its packets. Our compiler and switch run them; what must
come of it is told by an interpreter of the program's own model (oracle.py), which knows nothing of
the compiler. A seed that fails is made small and shown as P4 and STF. Search on with
`python -m tests.random_programs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from softswitch.core.native import native
from tests.random_programs import printer, search, stf, values
from tests.random_programs.draw_program import PORTABLE, SMALL
from tests.random_programs.oracle import Oracle
from tests.random_programs.ours import Target

SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
CHUNK = 3 if SANITIZE else 10
CHUNKS = 1 if SANITIZE else 14
LIVE_CHUNKS, LIVE_SEEDS = 3, 5
SHRINK_SECONDS = 20.0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The build under test, and a cache of its own: these programs are compiled only once."""
    cache = tmp_path_factory.mktemp("cache")
    module = native(sanitize=True) if SANITIZE else None
    yield Target(module, SANITIZE, cache)


def holds(seed: int, settings: search.Settings) -> None:
    """Fails with the smallest program, its test and the finding."""
    result = search.one(seed, settings)
    if result is None:
        return
    small = search.smallest(result, settings)
    pytest.fail(
        f"seed {seed}: {small.finding.kind}: {small.finding.text}\n"
        f"{printer.program(small.case.program)}\n{stf.script(small.case)}",
        pytrace=False,
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk: int, target: Target) -> None:
    settings = search.Settings(SMALL, shrink_seconds=SHRINK_SECONDS, target=target)
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        holds(seed, settings)


@pytest.mark.reference
@pytest.mark.parametrize("chunk", range(LIVE_CHUNKS))
def test_the_same_with_p4c_and_bmv2(chunk: int, target: Target) -> None:
    """Both compilers take a program or neither; all four pairings do what the oracle says."""
    settings = search.Settings(PORTABLE, 12, "bmv2", SHRINK_SECONDS, target)
    for seed in range(chunk * LIVE_SEEDS, (chunk + 1) * LIVE_SEEDS):
        holds(seed, settings)


def test_packets_meet_tables_and_errors() -> None:
    """The search is not blind: entries are hit and missed, parsers fail, packets come out."""
    covered: set[str] = set()
    sent = 0
    for seed in range(30):
        case = search.case_of(seed)
        oracle = Oracle(case.program, case.entries)
        sent += sum(len(oracle.run(port, data)) for port, data in case.packets)
        covered |= oracle.covered
    assert sent > 200
    assert any(line.endswith(" True") for line in covered)
    assert any(line.endswith(" False") for line in covered)
    assert {"parser PacketTooShort", "parser NoMatch"} <= covered


def test_a_difference_is_noticed_and_shrinks(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle that forgets to saturate is contradicted, by a program of little else."""
    monkeypatch.setattr(values, "saturate", values.wrap)
    settings = search.Settings(shrink_seconds=8, target=target)
    results = (search.one(seed, settings) for seed in range(100))
    result = next(result for result in results if result is not None)
    assert result.finding.kind == "output"
    small = search.smallest(result, settings)
    text = printer.program(small.case.program)
    assert "|+|" in text or "|-|" in text
    assert len(text) < len(printer.program(result.case.program)) * 2 / 3
    assert len(small.case.packets) == 1
