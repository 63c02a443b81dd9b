"""`weft parity` as a command: what it refuses, its JSON, its table, its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from weft.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = str(REPOSITORY / "p4src/base.p4")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuch.p4"], "nosuch.p4: no such file"),
        ([BASE, "--packets", "0"], "--packets: at least 1"),
        ([BASE, "--live-packets", "-1"], "--live-packets: at least 0"),
        ([BASE, "--entries", "nosuch.json"], "nosuch.json"),
        ([BASE, "--replay", BASE], "base.p4: not JSON"),
    ],
)
def test_what_can_not_be_run_is_refused_before_anything_is_compiled(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parity", *words]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "compile" not in told


@pytest.fixture
def without_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set a PATH without p4c and BMv2."""
    for tool in ("gcc", "cc", "as", "ld", "cpp"):
        found = Path("/usr/bin") / tool
        if found.exists():
            (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("without_reference")
def test_one_pairing_alone_says_that_nothing_was_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["parity", BASE, "--packets", "40", "--live-packets", "0", "-o", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["compared"], found["rounds"], found["seed"]) == (
        True,
        False,
        1,
        1,
    )
    rows = {(row["compiler"], row["target"]): row for row in found["pairings"]}
    assert rows["weft", "softswitch"]["cases"] == 40
    assert rows["p4c", "softswitch"]["missing"] == "no p4c on PATH"
    assert all(row["against"] == "" and row["examples"] == [] for row in rows.values())
    assert not (tmp_path / "out").exists()
    assert main(words) == 0
    table = capsys.readouterr().out
    assert "no p4c on PATH" in table
    assert "is the reference" in table


BROKEN_P4C = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
if "--version" in words:
    print("p4c-bm2-ss 1.2.5")
    sys.exit()
document = json.loads(pathlib.Path({json!r}).read_text())
document["pipelines"][0]["init_table"] = "no such node"
pathlib.Path(words[words.index("-o") + 1]).write_text(json.dumps(document))
info = pathlib.Path({p4info!r}).read_text()
pathlib.Path(words[words.index("--p4runtime-files") + 1]).write_text(info)
"""


@pytest.mark.usefixtures("without_reference")
def test_json_of_p4c_that_can_not_be_run_is_a_row_that_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    golden = REPOSITORY / "tests" / "golden"
    tool = tmp_path / "p4c-bm2-ss"
    document, p4info = golden / "l3.json", golden / "l3.p4info.txtpb"
    tool.write_text(
        BROKEN_P4C.format(python=sys.executable, json=str(document), p4info=str(p4info))
    )
    tool.chmod(0o755)
    words = ["parity", str(golden / "l3.p4"), "--packets", "20", "--live-packets", "0", "--json"]
    assert main(words) == 1  # p4c's program does not run where ours does: a difference
    rows = json.loads(capsys.readouterr().out)["pairings"]
    missing = {(row["compiler"], row["target"]): row["missing"] for row in rows}
    assert 'unknown control flow node "no such node"' in missing["p4c", "softswitch"]
    assert "p4c-bm2-ss wrote BMv2 JSON that can't be run" in missing["p4c", "softswitch"]
    assert missing["weft", "softswitch"] == ""


@pytest.mark.reference("p4c-bm2-ss")
def test_both_compilers_are_equal_on_our_switch(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["parity", BASE, "--packets", "100", "--live-packets", "0", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compared"]
    (row,) = [row for row in found["pairings"] if row["against"]]
    assert (row["compiler"], row["equal"], row["different"]) == ("weft", 100, 0)
