"""docs/python.md: its snippets run one after the other, as they stand; and docs/results.md's."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import weft

ROOT = Path(weft.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.long
def test_the_snippets_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, text in enumerate(SNIPPETS):
        exec(compile(text, f"docs/python.md, snippet {number}", "exec"), names)
    result, sweep, own = names["result"], names["sweep"], names["own"]
    assert isinstance(result, weft.Result)
    assert isinstance(sweep, weft.SweepResult)
    assert isinstance(own, weft.SweepResult)
    assert len(names["slowest"]) == 3  # type: ignore[arg-type]
    assert sweep.best is not None
    assert own.shown == ("slowest_us", "half_us")


def test_every_public_name_is_on_the_page() -> None:
    for name in weft.__all__:
        assert f"weft.{name}" in PAGE or f"`{name}" in PAGE, name


def test_it_names_every_notebook() -> None:
    there = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(re.findall(r"\.\./notebooks/(\S+\.ipynb)", PAGE)) == there


def test_the_snippet_of_the_results_page_runs_without_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = textwrap.dedent(page[page.index("    import pyarrow") :].split("\n\n")[0])
    assert "pandas" not in text
    weft.simulate("incast-32", until="100us", out=tmp_path / "build/sim/incast-32")
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    assert capsys.readouterr().out.count("goodput_bps") == 3
