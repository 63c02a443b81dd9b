"""`weft topo`: what is found wrong decides the exit code, and pictures are pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import topologies
from topologies.layout import place
from weft import cli, topo_text

NARROW = """\
time_scale: 100000
generator: leaf_spine
spines: 1
leaves: 2
hosts_per_leaf: 2
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
"""


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    path = tmp_path / "narrow.yaml"
    path.write_text(NARROW)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["topo", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(("option", "code"), [("", 0), ("--strict", 1)])
def test_warnings_fail_only_when_strict(
    capsys: pytest.CaptureFixture[str], narrow: Path, option: str, code: int
) -> None:
    got, out, _ = run(capsys, "check", narrow, *([option] if option else []))
    assert got == code
    assert f"{narrow}:2:1: warning: s1, s2: oversubscribed 2:1 upwards" in out
    assert "narrow: 2 warnings" in out
    assert ("good enough to run" in out) is (code == 0)
    assert "oversubscription: leaf 2:1" in out


def test_errors_always_fail(capsys: pytest.CaptureFixture[str], narrow: Path) -> None:
    narrow.write_text(NARROW + "classes: {roce: {lossless: true, queue: 3}}\n")
    code, out, _ = run(capsys, "check", narrow)
    assert code == 1
    assert f"{narrow}:7:11: error: class roce: lossless, and no DSCP is mapped to it" in out
    assert "narrow: 1 error and 3 warnings" in out


def test_findings_as_data(capsys: pytest.CaptureFixture[str], narrow: Path) -> None:
    code, out, _ = run(capsys, "check", narrow, "--json")
    data = json.loads(out)
    assert (code, data["good"], data["oversubscription"]) == (0, True, {"leaf": 2.0})
    assert {
        "severity": "warning",
        "file": str(narrow),
        "line": 2,
        "column": 1,
        "message": "s1, s2: oversubscribed 2:1 upwards",
        "right": "more or faster links up, or fewer hosts, would make it 1:1",
    } in data["findings"]
    narrow.write_text(NARROW.replace("leaves: 2", "leafs: 2"))
    code, out, _ = run(capsys, "check", narrow, "--json")
    data = json.loads(out)
    assert (code, data["good"]) == (1, False)
    assert [(each["severity"], each["line"]) for each in data["findings"]] == [
        ("error", 1),
        ("error", 4),
    ]


@pytest.mark.parametrize("name", topologies.available())
def test_pictures_of_the_shipped_topologies(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    png, svg, again = tmp_path / "a.png", tmp_path / "a.svg", tmp_path / "b.svg"
    code, out, err = run(capsys, "show", name, "--png", png, "--svg", svg)
    assert (code, out) == (0, "")
    assert str(png) in err
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    drawn = svg.read_text()
    net = topologies.load(name)
    names = set(re.findall(r"<text [^>]*>([^<]*)</text>", drawn))
    assert {node.name for node in (*net.switches, *net.hosts)} <= names
    assert {box.name for box in place(net).boxes} <= names
    run(capsys, "show", name, "--svg", again)
    assert again.read_text() == drawn


def test_a_picture_has_its_ending(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "show", "single", "--png", tmp_path / "a.jpg")
    assert code == cli.EXIT_USAGE
    assert "a.png" in err


@pytest.mark.parametrize("name", topologies.available())
def test_a_terminal_shows_every_node_and_link(name: str) -> None:
    net = topologies.load(name)
    lines = list(topo_text.lines(net, 100))
    assert all(len(line) <= 100 for line in lines)
    words = re.findall(r"[a-z]+[0-9]*", "\n".join(lines))
    for node in (*net.switches, *net.hosts):
        assert words.count(node.name) == 1
    assert any("\u2800" < character <= "\u28ff" for line in lines for character in line)


def test_what_does_not_fit_is_summed_up() -> None:
    net = topologies.load("fattree4")
    lines = list(topo_text.lines(net, 60))
    assert [line.strip() for line in lines][:3] == [
        "4 cores  s17, s18, s19, s20",
        "| 16 links",
        "8 spines  s9, s10, s11, s12, s13, s14, s15, s16  (in pod 1 ... pod 4)",
    ]
    assert list(topo_text.lines(net, 100, utf8=False)) == lines
    assert all(line.isascii() for line in lines)
