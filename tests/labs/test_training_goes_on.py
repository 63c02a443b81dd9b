"""The lab training-goes-on: its variants, what it needs, and what its checks make of weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topologies
from experiments import runner
from experiments.api import Runtime
from experiments.errors import RuntimeMissingError
from experiments.lab_code import Hooks
from experiments.loader import load
from experiments.training import faults
from experiments.training.job import Transport
from weft import cli

LAB = Path(__file__).parents[2] / "labs" / "training-goes-on"


def test_every_variant_names_what_there_is() -> None:
    lab = load("training-goes-on")
    lab.check()
    settings = lab.entry.settings
    topology = topologies.load(settings["topology"])
    variants = [each.variant for each in lab.variants(Runtime.SOFTSWITCH)]
    assert len(variants) == 9
    assert {each.labels["fault"] for each in variants} == {"none", "kill", "blackout"}
    assert {Transport(each.labels["adds"]) for each in variants} == set(Transport)
    for text in (settings["kill"], *settings["blackout"]):
        assert faults.fault(text, topology).step < settings["steps"]
    checks = Hooks.of(LAB).get("checks")
    assert checks is not None


def test_on_bmv2_one_leaf_adds_what_our_switch_and_the_ring_add() -> None:
    lab = load("training-goes-on")
    variants = [each.variant for each in lab.variants(Runtime.BMV2)]
    assert [(each.labels["switch"], each.labels["adds"]) for each in variants] == [
        ("bmv2", "in-network"),
        ("softswitch", "in-network"),
        ("bmv2", "ring"),
    ]
    leaf = topologies.load(lab.entry.settings["leaf"])
    assert (len(leaf.switches), len(leaf.hosts)) == (1, 4)


def test_a_lab_whose_module_is_missing_says_what_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeMissingError, match="no_such_thing, which mine needs"):
        runner.require_modules("mine", {"no_such_thing": "make it"})
    runner.require_modules("mine", {"json": "nothing"})
    folder = tmp_path / "labs" / "mine"
    folder.mkdir(parents=True)
    for file in LAB.iterdir():
        if file.is_file():
            text = file.read_text().replace("{torch: make setup-torch}", "{no_such_thing: make it}")
            (folder / file.name).write_text(text)
    words = ["lab", "run", "mine", "--labs", str(tmp_path / "labs"), "--runtime", "softswitch"]
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().err
    assert "no_such_thing, which mine needs, is not on this machine" in said
    assert "make it" in said


def test_weights_are_read_from_what_runs_left(tmp_path: Path) -> None:
    """The check compares the whole hash, of every seed."""
    same = Hooks.of(LAB).get("checks").__globals__["_same"]  # type: ignore[union-attr]

    class Runs:
        def runs(self, name: str) -> list[object]:
            folder = tmp_path / name
            return [type("Run", (), {"seed": 1, "failure": "", "folder": folder})()]

    for name, digest in (("a", "12"), ("b", "12"), ("c", "13")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").write_text(json.dumps({"ranks": [{"sha256": digest}]}))
    assert same(Runs(), "a", "b")
    assert not same(Runs(), "a", "c")
