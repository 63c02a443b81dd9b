"""`make readme`: that it finds the README's numbers, tells other ones, and writes those alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from observe import errors

SOURCE = Path(errors.__file__).resolve().parent.parent / "tests" / "readme.py"


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme_numbers", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PAGE = "runs: 12 sent, 1 007 us late,\nand 35.7 Mb/s; not these: 12, 1 007, 35.7\n"


def test_exact_numbers_are_told_apart_and_only_they_are_written(readme: ModuleType) -> None:
    claim = readme.same("it", r"runs: (\d+) sent, ([\d ]+) us", lambda: "runs: 12 sent, 1 008 us")
    (found,) = readme.differences(claim, PAGE)
    assert (found.said, found.is_now) == ("1 007", "1 008")
    assert readme.written(PAGE, [found]) == PAGE.replace("1 007 us", "1 008 us")
    other = readme.same("it", r"runs: (\d+) sent, ([\d ]+) us", lambda: "runs: 9 sent, 12 345 us")
    both = readme.differences(other, PAGE)
    assert readme.written(PAGE, both).startswith("runs: 9 sent, 12 345 us late,\nand 35.7 Mb/s")


@pytest.mark.parametrize(("now", "differs"), [("30.0", False), ("45.0", False), ("20", True)])
def test_numbers_of_real_time_may_differ_by_their_share(
    readme: ModuleType, now: str, differs: bool
) -> None:
    claim = readme.same("it", r"and ([\d.]+) Mb/s", lambda: f"and {now} Mb/s", 0.3)
    assert bool(readme.differences(claim, PAGE)) is differs


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"nothing (\d+)", "0 places"),
        (r"(\d+), 1 007|(12) sent", "2 places"),
        (r"(12) s", "prints"),
    ],
)
def test_what_can_not_be_compared_is_an_error(readme: ModuleType, pattern: str, said: str) -> None:
    with pytest.raises(readme.ReadmeError, match=said):
        readme.differences(readme.same("it", pattern, lambda: "something else"), PAGE)


def test_every_claim_is_found_once_in_the_readme(readme: ModuleType) -> None:
    page = (SOURCE.parent.parent / "README.md").read_text()
    for claim in readme.CLAIMS:
        # What the source says is left out: only the README's side is looked at.
        sides = readme.Claim(claim.what, claim.in_readme, str, lambda _: ["-1"] * 9)
        with pytest.raises(readme.ReadmeError, match="numbers in the README, 9 printed"):
            readme.differences(sides, page)
    assert all(path.exists() for path in readme.FIGURES)


def test_medians_and_sizes_are_read_from_json(readme: ModuleType) -> None:
    reaction = {"median": 1007.4, "low": 1004.6, "high": 1010.2}
    text = json.dumps({"variants": [{"name": "dcqcn", "metrics": {"reaction": reaction}}]})
    alone, whole = (readme.Wanted("dcqcn", "reaction", ",.0f", each) for each in (False, True))
    assert readme.found_in_lab(alone)(text) == ["1,007"]
    assert readme.found_in_lab(whole, alone)(text) == ["1,007", "1,005", "1,010", "1,007"]
    summary = {"messages": {"done": 5, "count": 5}, "topology": {"hosts": 1024, "switches": 320}}
    assert readme.sizes(json.dumps(summary)) == ["1,024", "320"]
    summary["messages"]["done"] = 4
    with pytest.raises(readme.ReadmeError, match="not finished"):
        readme.sizes(json.dumps(summary))


def test_the_incast_s_numbers_are_the_readme_s(
    readme: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = [claim for claim in readme.CLAIMS if claim.source is readme.incast]
    assert len(claims) == 4
    assert readme.check(claims, readme.PAGE.read_text()) == [], capsys.readouterr().out
