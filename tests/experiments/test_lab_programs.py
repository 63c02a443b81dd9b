"""Programs and entries of lab.yaml: which variant runs what, and what is said of wrong ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments import loader, results
from experiments.api import Runtime
from experiments.errors import LabFileError
from experiments.runner import LabRun, Request
from mechanisms.program import FABRIC
from topologies.own_program import OwnProgram
from weft import cli

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "my-own-p4"
CHECKS = """\
from labs import Check, Measured


def measure(run):
    return {"done": Measured(run.summary["messages"]["done"])}


def checks(table):
    for variant in table.variants():
        yield Check.reported(variant.name, lambda: table.median(variant, "done"))
"""
LAB = """\
title: t
runtimes: [simulator]
{lab}
base:
  topology:
    switches: [s1, s2]
    hosts: [h1, h2]
    link: {{rate: 100Gbps, delay: 500ns, queue: 1MB}}
    links: [{{a: h1, b: "s1:1"}}, {{a: h2, b: "s2:1"}}, {{a: "s1:2", b: "s2:2"}}]
  until: 1ms
  traffic: [message: {{from: h1, to: h2, bytes: 100kB}}]
variants:
  usual:
{variants}
"""
BOTH = "program: forward.p4, entries: entries"


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    folder = tmp_path / "labs" / "small"
    (folder / "entries").mkdir(parents=True)
    shutil.copy(EXAMPLE / "forward.p4", folder)
    (folder / "checks.py").write_text(CHECKS)
    (folder / "entries" / "s1-commands.txt").write_text(
        "table_add route forward 10.0.2.0/24 => 02:01:00:00:00:02 2\n"
    )
    (folder / "entries" / "s2-commands.txt").write_text(
        "table_add route forward 10.0.2.1/32 => 02:00:0a:00:02:01 1\n"
    )
    return tmp_path / "labs"


def write(labs: Path, *variants: str, lab: str = "") -> loader.Lab:
    lines = "".join(f"  {each}\n" for each in variants)
    (labs / "small" / "lab.yaml").write_text(LAB.format(lab=lab, variants=lines))
    return loader.load("small", labs)


def own(lab: loader.Lab) -> dict[str, OwnProgram]:
    """Return the program and entries of each variant's switches."""
    there = lab.variants(Runtime.SIMULATOR)
    return {p.variant.name: p.run_file(lab.folder).topology.own for p in there}


def test_each_variant_runs_its_own(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        labs,
        f"mine: {{{BOTH}}}",
        "one: {program: {s2: forward.p4}, entries: {s2: entries/s2-commands.txt}}",
        "without: {program: forward.p4}",
    )
    where = ["--labs", str(labs), "--out", str(labs.parent / "out"), "--workers", "2"]
    assert cli.main(["lab", "run", "small", *where]) == 0
    err = capsys.readouterr().err
    for line in ("mine: controller: none for all switches, with forward.p4: the program has no",
                 "one: controller: none for s2, with forward.p4: the program has no table",
                 "without: controller: none for all switches"):  # fmt: skip
        assert line in err
    assert "usual: controller" not in err
    found = {each.name: each for each in results.read(labs.parent / "out").variants}
    done = {name: each.metrics["done"].values for name, each in found.items()}
    assert done == {"usual": (1.0,), "mine": (1.0,), "one": (1.0,), "without": (0.0,)}
    assert found["one"].parameters["program"] == {"s2": "forward.p4"}


def test_a_variants_stand_over_the_labs_and_both_over_the_topologys(labs: Path) -> None:
    folder = labs / "small"
    forward, fabric = str(folder / "forward.p4"), str(FABRIC)
    found = own(
        write(
            labs,
            "none: {entries: {}}",
            "back: {program: p4src/fabric.p4, entries: {}}",
            "half: {program: {s2: p4src/fabric.p4}, entries: {s1: entries/s1-commands.txt}}",
            lab="program: forward.p4\nentries: entries",
        )
    )
    files = {f"s{i}": str(folder / "entries" / f"s{i}-commands.txt") for i in (1, 2)}
    assert dict(found["usual"].programs) == {"": forward}
    assert dict(found["usual"].entries) == files
    assert (dict(found["none"].programs), found["none"].entries) == ({"": forward}, ())
    assert (dict(found["back"].programs), found["back"].entries) == ({"": fabric}, ())
    assert dict(found["half"].programs) == {"": forward, "s2": fabric}
    assert dict(found["half"].entries) == {"s1": files["s1"]}


def test_p4_of_the_command_line_stands_for_the_labs(labs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.p4"
    shutil.copy(EXAMPLE / "forward.p4", other)
    lab = write(labs, f"mine: {{{BOTH}}}")
    lab_run = LabRun(lab, Request(program=other, out=tmp_path / "out"))
    found = {each.variant.name: each.run_file(lab.folder).topology.own for each in lab_run.chosen}
    assert dict(found["usual"].programs) == {"": str(other)}
    assert dict(found["mine"].programs) == {"": str(labs / "small" / "forward.p4")}


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        ("{program: forwrd.p4}", "no such program: forwrd.p4"),
        ("{program: ../x.p4}", "must be a path in the lab's folder or in the repository"),
        ("{program: {s1: no.p4}}", "no.p4: no such file"),
        ("{program: {s3: forward.p4}}", "there is no switch 's3'"),
        ("{program: 3}", "program"),
        ("{program: forward.p4, entries: {s9: entries/s1-commands.txt}}", "no switch 's9'"),
        ("{program: forward.p4, entries: {s1: no.txt}}", "no.txt: no such file"),
        ("{program: forward.p4, entries: nowhere}", "no such folder"),
        ("{program: forward.p4, programm: x}", "programm"),
    ],
)
def test_what_is_not_there_is_said_with_its_line(labs: Path, variant: str, says: str) -> None:
    with pytest.raises(LabFileError) as caught:
        LabRun(write(labs, f"wrong: {variant}"), Request())
    first = str(caught.value).splitlines()[0]
    assert "lab.yaml:14:" in first
    assert says in first


@pytest.mark.parametrize(
    ("variant", "entry", "says"),
    [
        (f"{{{BOTH}}}", "table_add rout forward 10.0.2.0/24 => 1 2", "s1-commands.txt:1: "),
        (f"{{{BOTH}}}", "table_add route forward 10.0.2.0/24 => 1 7", "no link at port 7"),
        ("{entries: entries}", "", "for which the fabric's controller writes all entries"),
        (f"{{{BOTH}, set: {{topology.controller: fabric}}}}", "", "forward.p4 can't have it"),
        ("{program: broken.p4}", "", "broken.p4:1"),
    ],
)
def test_what_does_not_fit_its_program_is_said_before_anything_runs(
    labs: Path, capsys: pytest.CaptureFixture[str], variant: str, entry: str, says: str
) -> None:
    if entry:
        (labs / "small" / "entries" / "s1-commands.txt").write_text(entry + "\n")
    (labs / "small" / "broken.p4").write_text("control x {\n")
    write(labs, f"wrong: {variant}")
    out = labs.parent / "out"
    assert cli.main(["lab", "run", "small", "--labs", str(labs), "--out", str(out)]) != 0
    assert says in capsys.readouterr().err
    assert not out.exists()
