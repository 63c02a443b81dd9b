"""Every shipped run and lab gives what it gave when its golden was recorded, byte for byte."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("goldens", Path(__file__).with_name("goldens.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


goldens = _load()


@pytest.mark.parametrize("name", goldens.names())
def test_shipped_run_is_as_recorded(name: str, tmp_path: Path) -> None:
    found = goldens.play(name, tmp_path)
    assert list(goldens.differences(goldens.recorded()[name], found)) == []


def test_every_shipped_run_and_lab_has_a_golden() -> None:
    root = goldens.ROOT
    shipped = {path.stem for path in root.glob("**/workloads/*.yaml") if ".venv" not in path.parts}
    files = [
        (path, yaml.safe_load(path.read_text())) for path in (root / "labs").glob("*/lab.yaml")
    ]
    labs = {path.parent.name for path, lab in files if "simulator" in lab["runtimes"]}
    assert shipped == set(goldens.RUNS)
    assert labs == set(goldens.LABS)
    assert set(goldens.names()) <= set(goldens.recorded())


def test_a_difference_names_its_column() -> None:
    table = {"sha256": "a", "rows": 1, "columns": {"x": "1", "y": "2"}}
    other = {"sha256": "b", "rows": 1, "columns": {"x": "1", "y": "3", "z": "4"}}
    golden = {"summary": {"k": "1"}, "tables": {"t.parquet": table}}
    found = {"summary": {"k": "2"}, "tables": {"t.parquet": other}}
    assert list(goldens.differences(golden, found)) == [
        "summary k differs",
        "t.parquet: column y differs",
        "t.parquet: column z is new",
    ]
