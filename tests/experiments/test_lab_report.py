"""The report's parts: README as HTML, parameters told once, numbers in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import wording
from experiments.report import rendered, split
from experiments.results import MetricResult
from experiments.statistics import Estimate

PIXEL = bytes.fromhex("89504e470d0a1a0a")


def test_readme_becomes_html_without_what_could_reach_out(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(PIXEL)
    page = rendered(
        "# Title\n\n![there](a%20b.png) ![far](https://example.org/x.png) ![none](no.png)\n\n"
        "`code` & <b>\n\n```\nmake lab\n```\n",
        tmp_path,
    )
    assert "<h3>Title</h3>" in page
    assert '<img src="data:image/png;base64,iVBORw0KGgo=" alt="there"' in page
    assert "example.org" not in page and 'alt="far"' in page and 'alt="none"' in page
    assert "<code>code</code> &amp; &lt;b&gt;" in page
    assert "<pre><code>make lab\n</code></pre>" in page


@pytest.mark.parametrize(
    ("contents", "common", "own"),
    [
        ([{"a": 1}, {"a": 1}], {"a": 1}, [{}, {}]),
        ([{"a": 1}, {"a": 2}], {}, [{"a": 1}, {"a": 2}]),
        ([{"a": 1, "b": 1}, {"a": 1}], {"a": 1}, [{"b": 1}, {}]),
        (
            [{"a": {"b": 1, "c": [1]}}, {"a": {"b": 1, "c": [2]}}],
            {"a": {"b": 1}},
            [{"a": {"c": [1]}}, {"a": {"c": [2]}}],
        ),
        ([{"a": {"b": 1}}, {"a": 1}], {}, [{"a": {"b": 1}}, {"a": 1}]),
        ([{"a": {"b": 1}}], {"a": {"b": 1}}, [{}]),
    ],
)
def test_parameters_in_common_are_told_once(
    contents: list[dict[str, object]], common: dict[str, object], own: list[dict[str, object]]
) -> None:
    assert split(contents) == (common, own)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([12.345678], "12.35"),
        ([1234567.0], "1234567"),
        ([0.0], "0"),
        ([0.000012], "1.2e-05"),
        ([None], "never"),
        ([2.0, 2.0, 2.0], "2 ±0"),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "3.5 [1, 6]"),
        ([1.0, None], "1 (1 of 2 never)"),
    ],
)
def test_metrics_in_words(values: list[float | None], text: str) -> None:
    assert wording.metric(MetricResult.of(Estimate.of(values, "us"))) == text
