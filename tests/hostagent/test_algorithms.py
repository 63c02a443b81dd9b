"""The list of congestion-control algorithms: what Python and C make of it, and of one more."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hostagent import algorithms, pins
from hostagent.algorithms import AlgorithmError, pack
from hostagent.rnic import build
from hostagent.rnic.native import native
from mechanisms.dcqcn.parameters import parameters
from mechanisms.fast_cnp.parameters import fast_cnp_parameters
from softswitch.core.extension import WARNINGS

LINE = 10**9
DCQCN = parameters("hpcc-dcqcn", LINE).fields()
FAST = fast_cnp_parameters(LINE).fields()
ROOT = Path(__file__).parents[2]


def test_bits_of_algorithms_stay_as_they_are() -> None:
    assert algorithms.names()[:2] == ("dcqcn", "fast_cnp")
    assert algorithms.members(native().ffi, 0b11) == ("dcqcn", "fast_cnp")
    assert algorithms.members(native().ffi, 0b10) == ("fast_cnp",)


def test_what_each_hears() -> None:
    assert algorithms.hears("dcqcn") == {"CC_CNP", "CC_ACKED", "CC_TICK"}
    assert algorithms.hears("fast_cnp") == {"CC_NOTIFIED"}
    with pytest.raises(AlgorithmError, match="there is no congestion control 'vegas'"):
        algorithms.hears("vegas")


def test_parameters_cross_by_their_names() -> None:
    packed = pack(native().ffi, {"fast_cnp": FAST, "dcqcn": DCQCN})
    assert packed.algorithms == 3
    assert {name: getattr(packed.dcqcn, name) for name in DCQCN} == DCQCN
    assert {name: getattr(packed.fast_cnp, name) for name in FAST} == FAST
    for nothing in (None, {}):
        assert pack(native().ffi, nothing).algorithms == 0


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an algorithm": ({"vegas": {}}, "there is no congestion control 'vegas': dcqcn, fast_cnp"),
    "a field": (
        {"fast_cnp": {**FAST, "gain_q16": 1}},
        "fast_cnp has no field 'gain_q16': line_rate, min_rate, validity_unit_ns, rate_unit_q16$",
    ),
    "a field that is not there": ({"dcqcn": {"line_rate": 1}}, "dcqcn lacks min_rate, rate_ai, "),
    "no fields": ({"dcqcn": None}, "dcqcn: its fields are line_rate, .*, not None"),
    "a negative number": (
        {"fast_cnp": {**FAST, "rate_unit_q16": -1}},
        r"fast_cnp: rate_unit_q16 is an integer from 0 to 18446744073709551615, not -1",
    ),
    "a number that is too large": (
        {"dcqcn": {**DCQCN, "line_rate": 1 << 64}},
        r"dcqcn: line_rate is an integer from 0 to 18446744073709551615, not 184467440737095516",
    ),
    "a fraction": ({"dcqcn": {**DCQCN, "rate_ai": 1.5}}, "dcqcn: rate_ai is an integer .*1.5"),
}


@pytest.mark.parametrize(("given", "says"), WRONG.values(), ids=WRONG)
def test_parameters_that_c_does_not_know_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(AlgorithmError, match=says):
        pack(native().ffi, given)


def test_no_file_but_the_list_and_its_headers_names_an_algorithm() -> None:
    """However it is spelled, in C and in Python, in comments too."""
    spelled = "|".join(name.replace("_", "[ _-]?") for name in algorithms.names())
    allowed = {f"{name}.h" for name in algorithms.names()} | {"cc_algorithms.h"}
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ("hostagent", "simulator")
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in (".py", ".c", ".h") and path.name not in allowed | {"dcqcn_model.py"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(spelled, line, re.IGNORECASE)
    ]
    assert found == []


# --- one more, by a header and a line ------------------------------------------------------------

HALF = """
#ifndef HALF_H
#define HALF_H
#include "cc_event.h"
struct half_params { weft_u64 line_rate, min_rate; };
struct half { struct half_params params; weft_u64 rate; };
enum { half_HEARS = 1 << CC_CNP };
enum { half_WANTS = CC_WINDOW };
static inline const char *half_invalid(const struct half_params *p)
{
    return p->line_rate ? 0 : "line_rate is at least 1";
}
static inline void half_init(struct half *s, const struct half_params *params, weft_u64 now)
{
    (void)now;
    s->params = *params;
    s->rate = params->line_rate;
}
static inline void half_elapse(struct half *s, weft_u64 now) { (void)s; (void)now; }
static inline void half_on_event(struct half *s, const struct cc_event *event,
                                 const struct cc_telemetry *telemetry, weft_u64 now)
{
    (void)event; (void)telemetry; (void)now;
    s->rate /= 2;
}
static inline weft_u64 half_rate_at(const struct half *s, weft_u64 now)
{
    (void)now;
    return s->rate;
}
static inline weft_u64 half_window_at(const struct half *s, weft_u64 now)
{
    (void)now;
    return s->rate == s->params.line_rate ? CC_NO_LIMIT : s->rate;
}
static inline weft_u32 half_path_at(const struct half *s, const struct cc_choice *choice,
                                    weft_u64 now)
{
    (void)s; (void)now;
    return (weft_u32)(choice->packet % (choice->interfaces * choice->ports));
}
#endif
#ifdef CC_ALGORITHM
CC_ALGORITHM(half)
#endif
"""
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "cc.h"
int main(void)
{
    struct cc_params params = {.algorithms = CC_BIT(half) | CC_BIT(fast_cnp), .half = {0}};
    const struct cc_event cnp = {.kind = CC_CNP}, told = {.kind = CC_NOTIFIED, .rate = 62};
    struct cc_slot slot;
    const char *which;

    memset(&slot, 0, sizeof slot);
    params.fast_cnp = (struct fast_cnp_params){.line_rate = 1000, .min_rate = 1,
                                               .validity_unit_ns = 256, .rate_unit_q16 = 1 << 16};
    printf("%u %u: ", CC_BIT(half), CC_ALGORITHMS);
    printf("%s: ", cc_invalid(&params, &which));
    printf("%s\\n", which);
    params.half.line_rate = 800;
    cc_begin(&slot, &params, 0);
    printf("%llu ", (unsigned long long)cc_elapse(&slot, 1));
    cc_on_event(&slot, &cnp, NULL, 1);
    printf("%llu ", (unsigned long long)cc_rate_at(&slot, 1));
    cc_on_event(&slot, &told, NULL, 2);
    printf("%llu, ", (unsigned long long)cc_rate_now(&slot, 2));
    printf("%llu, ", (unsigned long long)slot.first_cut_at);
    const struct cc_choice choice = {.packet = 7, .interfaces = 2, .usable = 3, .ports = 2};
    printf("%llu %u, ", (unsigned long long)cc_window_at(&slot, 2), cc_path_at(&slot, &choice, 2));
    slot.algorithms = CC_BIT(fast_cnp);
    printf("%d ", cc_window_at(&slot, 2) == CC_NO_LIMIT);
    printf("%d\\n", cc_path_at(&slot, &choice, 2) == CC_NO_PATH);
    return 0;
}
"""


@pytest.fixture
def one_more(tmp_path: Path) -> Path:
    """Return the headers, with an algorithm `half` that halves its rate at each CNP."""
    include = tmp_path / "include"
    shutil.copytree(build.SHARED, include)
    (include / "half.h").write_text(HALF)
    with (include / "cc_algorithms.h").open("a") as file:
        file.write('#include "half.h"\n')
    return include


def test_one_more_algorithm_is_a_header_and_a_line(one_more: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "one_more.c", tmp_path / "one_more"
    source.write_text(PROGRAM)
    command = ["gcc", *WARNINGS, f"-I{one_more}", f"-I{build.CORE}", str(source)]
    subprocess.run([*command, str(build.CORE / "cc.c"), "-o", str(program)], check=True)
    said = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    # The smaller of two; a CNP is for one of them, a switch's notification for the other. A window
    # and a path are those of the one that says something.
    refused, told = said.splitlines()
    place = len(algorithms.names())
    assert refused == f"{1 << place} {place + 1}: line_rate is at least 1: half"
    assert told == "800 400 62, 1, 400 3, 1 1"


def test_one_more_algorithm_makes_another_layout(
    one_more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pins.digest()
    monkeypatch.setattr(pins, "_HERE", one_more.parent)
    shutil.copytree(build.SHARED.parent / "bpf", one_more.parent / "bpf")
    with_list = pins.digest()
    header = one_more / "half.h"
    header.write_text(header.read_text().replace("weft_u64 rate; }", "weft_u64 rate, more; }"))
    assert len({before, with_list, pins.digest()}) == 3
