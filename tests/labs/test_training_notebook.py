"""The notebook of the lab training-goes-on: its cells run, or the first says what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from emulation import run_state

NOTEBOOK = Path(__file__).parents[2] / "labs" / "training-goes-on" / "training.ipynb"


def cells() -> list[tuple[str, str]]:
    """Return the notebook's cells: what kind each is, and its text."""
    document = json.loads(NOTEBOOK.read_text())
    return [(each["cell_type"], "".join(each["source"])) for each in document["cells"]]


def execute(text: str, names: dict[str, Any]) -> None:
    """Do what a kernel does with a cell of code."""
    exec(compile(text, str(NOTEBOOK), "exec"), names)


def test_it_is_a_notebook_without_outputs() -> None:
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    identities = [each["id"] for each in document["cells"]]
    assert len(set(identities)) == len(identities)
    assert [each for each in document["cells"] if each.get("outputs")] == []
    first = cells()[0][1]
    assert "**What it needs:** root" in first and "make setup-torch" in first


def test_without_root_or_torch_the_first_cell_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    without = lambda name: None if name == "torch" else found(name)  # noqa: E731
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(importlib.util, "find_spec", without)
    code = next(text for kind, text in cells() if kind == "code")
    with pytest.raises(RuntimeError, match=r"lacks root: .*; PyTorch: make setup-torch$"):
        execute(code, {})


@pytest.mark.long
@pytest.mark.root
@pytest.mark.reference(module="torch", names="make setup-torch installs PyTorch")
def test_every_cell_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As shipped: three jobs on three fabrics, by one kernel that shows no windows."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(NOTEBOOK.parent)  # as Jupyter does
    names: dict[str, Any] = {"__name__": "__main__"}
    for kind, text in cells():
        if kind == "code":
            execute(text, names)
    said = capsys.readouterr().out
    runs = names["runs"]
    assert {len(run["steps"]) for run in runs.values()} == {names["STEPS"]}
    by_tree = {name: run["ranks"][0]["calls"]["by_tree"] for name, run in runs.items()}
    assert by_tree["switches"] == by_tree["switches, faults"] > names["STEPS"]
    assert by_tree["ring"] == 0
    assert "s3: killed" in said
    assert "1 different set of weights" in said
    below, above = names["below"], names["above"]
    assert [len(line.get_ydata()) for line in above.lines + below.lines] == 6 * [names["STEPS"]]
