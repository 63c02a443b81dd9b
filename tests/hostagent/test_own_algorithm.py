"""Algorithms of one's own: what is refused and where, and that card, engine and kernel run them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from hostagent import own_algorithm
from hostagent.agent import VerifierRefusal, load_and_attach
from hostagent.algorithms import names
from hostagent.own_algorithm import (
    Alone,
    ApartError,
    Built,
    OwnAlgorithm,
    OwnAlgorithmError,
    apart,
    kernel,
)
from hostagent.own_algorithm.make import KEPT
from hostagent.rnic.build import SHARED
from simulator.core import binding
from simulator.core.own_algorithm import engine_in_place
from tests.hostagent import more_algorithms
from tests.hostagent.more_algorithms import windowed
from tests.hostagent.own_algorithm_cache import own_algorithm_cache
from tests.hostagent.virtual_links import Link, Pair, tolerant

__all__ = ["own_algorithm_cache"]

HERE = Path(__file__).resolve().parent / "algorithms_for_tests"
WINDOWED = (HERE / "windowed.h").read_text()
SHIPPED = [SHARED / f"{name}.h" for name in names()]
EVENT = "    (void)telemetry, (void)now;\n"
WHERE = WINDOWED[: WINDOWED.index(EVENT)].count("\n") + 1


def header(folder: Path, *changes: tuple[str, str], text: str = WINDOWED) -> Path:
    """Return the windowed header with other text in some places; each place is there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "mine.h"
    path.write_text(text)
    return path


def built_of(folder: Path, *changes: tuple[str, str]) -> Built:
    return own_algorithm.built(own_algorithm.read(header(folder, *changes)))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "name", [*(path.name for path in HERE.glob("*.h")), "dcqcn.h", "fast_cnp.h"]
)
def test_headers_that_are_algorithms_are_taken(name: str) -> None:
    path = next(folder / name for folder in (HERE, SHARED) if (folder / name).is_file())
    assert own_algorithm.read(path).name == path.stem


def line(code: str) -> tuple[str, str]:
    return EVENT, f"    {code}\n{EVENT}"


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        (line("double x = 1;"), WHERE, "uses double; an algorithm counts in whole numbers"),
        (line("if (now > 1e9) return;"), WHERE, "uses 1e9"),
        (line("int d = (int)now; s->bytes += d / 3;"), WHERE, "divides signed numbers"),
        (line("long d = (long)now; d %= 3; if (d) return;"), WHERE, "divides signed numbers"),
        (line("s->bytes += (weft_u64)(((int)now - 5) * 2 % (int)s->bytes);"), WHERE, "signed"),
        (line("static int d; d++;"), WHERE, "d is a variable outside the state"),
        (line("extern void abort(void); if (!now) abort();"), WHERE, "calls abort"),
        (line("int d;"), WHERE, "unused variable"),
        (line("nonsense;"), WHERE, "nonsense"),
        (('#include "cc_event.h"', "#include <stdio.h>"), 5, "includes <stdio.h>; include"),
        (("windowed_window_at", "windowed_win"), 72, "there is no windowed_window_at"),
        (("weft_u32 windowed_path_at", "weft_u64 windowed_path_at"), 1, "is static inline weft_u"),
        (("weft_u64 rate;", "long rate;"), 15, "params (line_rate, min_rate: weft_u64) and rate"),
        (("CC_ALGORITHM(windowed)", ""), 73, "the header names no algorithm"),
    ],
)  # fmt: skip
def test_refusal_names_file_line_and_what_is_right(
    tmp_path: Path, change: tuple[str, str], at: int, words: str
) -> None:
    path = header(tmp_path, change)
    with pytest.raises(OwnAlgorithmError) as caught:
        own_algorithm.read(path)
    assert str(caught.value).startswith(f"{path}:{at}: ")
    assert words in str(caught.value)


def test_what_stands_in_comments_and_strings_is_no_code(tmp_path: Path) -> None:
    comment = line('/* a float of 1.5 */ // #include <x>, double\n    (void)"2.5";')
    assert own_algorithm.read(header(tmp_path, comment)).name == "windowed"


def test_divisions_of_unsigned_numbers_are_taken(tmp_path: Path) -> None:
    code = "int d = (int)(now / 5 % s->rate) + 1; s->bytes += (weft_u64)d / 3;"
    own_algorithm.read(header(tmp_path, line(code)))


def test_name_of_a_shared_header_is_refused(tmp_path: Path) -> None:
    own = own_algorithm.read(header(tmp_path, ("windowed", "telemetry")))
    with pytest.raises(OwnAlgorithmError, match=r"mine.h:72: telemetry.h is a shared header"):
        own_algorithm.built(own)


def test_two_headers_of_one_name_are_refused(tmp_path: Path) -> None:
    own = own_algorithm.read(header(tmp_path))
    with pytest.raises(OwnAlgorithmError, match="a second header is called windowed"):
        own_algorithm.built(own, own)


# ---------------------------------------------------------------- what is built


def test_own_name_comes_last_and_an_entrys_name_takes_its_place(tmp_path: Path) -> None:
    shipped = names()
    assert names(Alone(built_of(tmp_path)).ffi) == (*shipped, "windowed")
    instead = Alone(built_of(tmp_path, ("windowed", shipped[0])))
    assert names(instead.ffi) == shipped
    fields = {**windowed(7000)}
    assert instead.slot(fields, 0).window(0) == 7000


def test_same_text_is_built_once_and_other_text_elsewhere(tmp_path: Path) -> None:
    one, again = built_of(tmp_path), built_of(tmp_path)
    assert one.folder == again.folder
    assert built_of(tmp_path, line("s->bytes++;")).folder != one.folder
    assert len(list(one.folder.parent.iterdir())) <= KEPT


def test_card_runs_it_and_the_installed_one_is_untouched() -> None:
    shipped = names()
    built = more_algorithms.built()  # whose card others need, too

    def acknowledged() -> tuple[int, int]:
        pair = Pair([Link()])
        pair.join(tolerant(interfaces=1), windowed=windowed(8192))
        pair.post(1 << 20)
        pair.run()
        return pair.a.queue_pair_stats(1).acked_bytes, pair.done_at()

    with built.card_in_place():
        assert names() == (*shipped, *more_algorithms.NAMES)
        bytes_, narrow = acknowledged()
    assert bytes_ == 1 << 20
    assert narrow > 128 * 2 * 10**6  # two packets of 4096 bytes a round trip of 2 us and more
    assert names() == shipped
    with pytest.raises(ValueError, match="there is no congestion control 'windowed'"):
        acknowledged()


@pytest.mark.long
def test_engine_has_it(tmp_path: Path) -> None:
    with engine_in_place(built_of(tmp_path)):
        assert names(binding.native().ffi)[-1] == "windowed"
        assert names()[-1] == "windowed"
    assert "windowed" not in names(binding.native().ffi)


# ---------------------------------------------------------------- in the kernel


def replayed(built: Built) -> None:
    alone = Alone(built)
    random = np.random.default_rng(1)
    params = alone.params(windowed(int(w)) for w in random.integers(1, 1 << 20, 500))
    states = alone.fresh(params, 10**9)
    steps = np.zeros(20_000, kernel.step_type(alone))
    steps["now"] = 10**9 + np.cumsum(random.integers(0, 10**6, len(steps)))
    steps["kind"] = 1
    steps["bytes"] = random.integers(0, 1 << 30, len(steps))
    steps["state"] = random.integers(0, len(states), len(steps))
    steps["asks"] = random.random(len(steps)) < 0.2
    with kernel.in_kernel(built, alone) as loaded:
        there, here = states.copy(), states.copy()
        rates = loaded.replayed(steps, there)
        assert (alone.replayed(steps, here) == rates).all()
    assert (there == here).all() and (here != states).any()


@pytest.mark.root
def test_kernel_comes_to_the_same(tmp_path: Path) -> None:
    replayed(built_of(tmp_path))


@pytest.mark.long
@pytest.mark.root
def test_verifier_refuses_an_endless_loop(tmp_path: Path) -> None:
    loop = "for (weft_u64 i = 0; i < now; i++) s->window = s->window * 31 + i;"
    built = built_of(tmp_path, line(loop))
    with (
        pytest.raises(VerifierRefusal, match="the kernel refuses it: "),
        kernel.in_kernel(built, Alone(built)),
    ):
        pass


@pytest.mark.long
@pytest.mark.root
def test_agent_loads_the_xdp_program_with_it(tmp_path: Path) -> None:
    built = built_of(tmp_path)
    pins = Path(f"/sys/fs/bpf/weft-own-{os.getpid()}")
    report = load_and_attach(pins, [], None, include=built.include)
    try:
        assert report.error is None
        slots = Alone(built).ffi.sizeof("struct cc_slot")
        assert slots > Alone(built).state_bytes() > 0
    finally:
        from hostagent import pins as pinned

        pinned.remove(pins)


# ---------------------------------------------------------------- apart


def test_apart_returns_what_the_work_does() -> None:
    assert apart(lambda: {"a": [1, 2]}, seconds=5) == {"a": [1, 2]}


def test_apart_says_what_the_work_raises() -> None:
    with pytest.raises(ApartError, match="KeyError: 'nothing'"):
        apart(lambda: {}["nothing"], seconds=5)


def slot_of(built: Built) -> int:
    slot = Alone(built).slot(windowed(1), 0)
    slot.event(1, kind=1, bytes=5)
    return slot.window(1)


def test_crash_of_a_header_has_a_reason(tmp_path: Path) -> None:
    built = built_of(tmp_path, line("*(volatile weft_u64 *)(s->bytes) = 1;"))
    with pytest.raises(ApartError, match="the header died: SIGSEGV"):
        apart(lambda: slot_of(built), seconds=20)


def test_endless_loop_of_a_header_is_stopped(tmp_path: Path) -> None:
    built = built_of(tmp_path, line("for (;;) s->bytes++;"))
    Alone(built)
    before = time.monotonic()
    with pytest.raises(ApartError, match=r"the header was still busy after 0\.5 s"):
        apart(lambda: slot_of(built), seconds=0.5)
    assert time.monotonic() - before < 10


def test_own_algorithm_says_where_it_is(tmp_path: Path) -> None:
    own = own_algorithm.read(header(tmp_path))
    assert isinstance(own, OwnAlgorithm)
    assert own.line_of("struct windowed {") > own.line_of("struct windowed_params {") > 1
    assert own.line_of("nowhere") == 1
