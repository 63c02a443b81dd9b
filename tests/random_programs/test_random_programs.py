"""Random programs do with random packets what P4 and v1model say.

Each seed is a program, its entries and its packets. Our compiler and switch run them; what must
come of it is told by an interpreter of the program's own model (oracle.py), which knows nothing of
the compiler. A seed that fails is made small and shown as P4 and STF. Search on with
`python -m tests.random_programs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.core.native import native
from tests.random_programs import __main__ as command
from tests.random_programs import printer, search, stf, values
from tests.random_programs.draw_packets import Case, moment_us
from tests.random_programs.draw_program import PORTABLE, PORTABLE_TRAFFIC, SMALL, TRAFFIC
from tests.random_programs.oracle import Oracle, Sent
from tests.random_programs.ours import Target
from tests.random_programs.shrink import shrink

SANITIZE = os.environ.get("WEFT_CORE_SANITIZE") == "1"
CHUNK = 3 if SANITIZE else 10
CHUNKS = 1 if SANITIZE else 11
TRAFFIC_CHUNKS = 1 if SANITIZE else 3
LIVE_CHUNKS, LIVE_SEEDS = 3, 5
SHRINK_SECONDS = 20.0


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Yield the build under test, with a cache of its own: these programs are compiled only
    once.
    """
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


@pytest.mark.parametrize("chunk", range(TRAFFIC_CHUNKS))
def test_random_programs_that_make_packets(chunk: int, target: Target) -> None:
    """Clones, multicast, resubmission and recirculation; digests and meters."""
    settings = search.Settings(TRAFFIC, shrink_seconds=SHRINK_SECONDS, target=target)
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        holds(seed, settings)


@pytest.mark.reference
@pytest.mark.parametrize("chunk", range(LIVE_CHUNKS))
def test_the_same_with_p4c_and_bmv2(chunk: int, target: Target) -> None:
    """Both compilers take a program or neither; all four pairings do what the oracle says."""
    size = PORTABLE_TRAFFIC if chunk == LIVE_CHUNKS - 1 else PORTABLE
    settings = search.Settings(size, 12, "bmv2", SHRINK_SECONDS, target)
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


def test_packets_are_cloned_sent_back_metered_and_told_of() -> None:
    """Each way to more packets is taken, and none without end; meters have all colors."""
    covered: set[str] = set()
    for seed in range(20):
        case = search.case_of(seed, TRAFFIC)
        oracle = Oracle(case.program, case.entries)
        for at, (port, data) in enumerate(case.packets):
            oracle.run(port, data, moment_us(at))
        covered |= oracle.covered
    assert {"ingress clone", "egress clone", "replica", "resubmit", "recirculate"} <= covered
    assert {"digest", "color 0", "color 1", "color 2"} <= covered


def saturation_matters(case: Case) -> bool:
    """Whether an oracle that forgets to saturate says something else of this case."""
    right = sent(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "saturate", values.wrap)
        return sent(case) != right


def sent(case: Case) -> list[list[Sent]]:
    oracle = Oracle(case.program, case.entries)
    return [oracle.run(port, data) for port, data in case.packets]


@pytest.fixture(scope="module")
def saturating() -> int:
    """Return a seed that shows whether the oracle saturates."""
    return next(seed for seed in range(100) if saturation_matters(search.case_of(seed)))


def test_a_difference_is_noticed_and_kept(
    saturating: int, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "saturate", values.wrap)
    settings = search.Settings(shrink_seconds=0, target=target)
    result = search.one(saturating, settings)
    assert result is not None and result.finding.kind == "output"
    path = search.keep(result, settings, tmp_path)
    assert path.read_text() == printer.program(result.case.program)
    assert path.with_suffix(".stf").read_text() == stf.script(result.case)
    assert path.with_suffix(".txt").read_text() == f"output\n{result.finding.text}\n"


def test_what_shows_a_difference_shrinks(saturating: int) -> None:
    """To a program of little else, and one packet."""
    case = search.case_of(saturating)
    small = shrink(case, saturation_matters, SHRINK_SECONDS)
    assert saturation_matters(small)
    text = printer.program(small.program)
    assert "|+|" in text or "|-|" in text
    assert len(text) < len(printer.program(case.program)) / 2
    assert len(small.packets) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--seeds 0", "--seeds 0: at least 1 is wanted"),
        ("--packets -3", "--packets -3: at least 1 is wanted"),
        ("-o FILE", "FILE: is a file; give a folder"),
        ("--against bmv3", "invalid choice: 'bmv3'"),
        ("--against p4c", "not on PATH: p4c-bm2-ss"),
    ],
)
def test_wrong_arguments_of_the_search(
    words: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without p4c
    assert search_main(words.split()) == 2
    assert says in capsys.readouterr().err


def test_a_search_that_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert search_main(["--seeds", "1", "--packets", "1"]) == 0
    assert capsys.readouterr().out.endswith("\n1 programs, 0 found\n")


def search_main(words: list[str]) -> int:
    """Return the exit code of `python -m tests.random_programs`."""
    try:
        return command.main(words)
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code
