"""`weft topo`: what is found wrong decides the exit code, and pictures are pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import topologies
from topologies.generator_schema import GENERATORS
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


def test_a_topology_as_data_has_numbers(capsys: pytest.CaptureFixture[str], narrow: Path) -> None:
    narrow.write_text(NARROW + "classes: {roce: {dscp: [26, 27], queue: 3, lossless: true}}\n")
    code, out, _ = run(capsys, "show", narrow, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["links"][0] == {
        "a": "h1",
        "b": "s1:1",
        "rate": "400Gbps",
        "rate_bps": 400_000_000_000,
        "delay": "500ns",
        "delay_ps": 500_000,
        "queue": "1MB",
        "queue_bytes": 1_000_000,
        "mtu": 1500,
        "mtu_bytes": 1500,
    }
    assert (data["switches"][0]["device_id"], data["switches"][0]["ports"]) == (1, 3)
    (roce,) = (each for each in data["classes"] if each["name"] == "roce")
    assert (roce["dscp"], roce["queue"], roce["lossless"]) == ([26, 27], 3, True)
    _, shown, _ = run(capsys, "show", narrow, "--tables")
    assert "400Gbps" in shown and "400000000000" not in shown
    assert re.search(r"roce +26, 27 +3 .*yes", shown)


DRAWN = [
    name
    for name in topologies.available()
    if len(topologies.load(name).links) <= topo_text.MAX_DRAWN_LINKS
]
"""Those of which a drawing shows each node; larger ones are summed up."""


@pytest.mark.parametrize("name", DRAWN)
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


@pytest.mark.parametrize("name", DRAWN)
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


# --- new ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_new_file_is_good_and_its_switches_take_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, generator: str
) -> None:
    path = tmp_path / "new.yaml"
    assert run(capsys, "new", generator, "--out", path) == (0, "", "")
    topology = topologies.load(path)
    assert {switch.latency_ps for switch in topology.switches} == {500_000}
    code, out, _ = run(capsys, "check", path)
    assert code == 0
    assert "error" not in out
    assert run(capsys, "new", generator) == (0, path.read_text(), "")


def test_a_new_file_says_what_was_set(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("k=6", "link.rate=100Gbps", "core_link.length=2km", "classes.roce.lossless=true")
    words = [word for setting in settings for word in ("--set", setting)]
    code, out, _ = run(capsys, "new", "fat_tree", *words)
    assert code == 0
    topology = topologies.loads(out)
    assert len(topology.hosts) == 54
    assert {link.rate_bps for link in topology.links} == {100_000_000_000}
    assert max(link.delay_ps for link in topology.links) == 10_000_000
    assert [each.name for each in topology.classes if each.lossless] == ["roce"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["fattree"], 2, "there is no generator 'fattree'; did you mean 'fat_tree'?"),
        (["fat_tree", "--set", "k=3"], 1, "k must be even, not 3"),
        (["fat_tree", "--set", "k.x=3"], 2, "k.x: k is 4, which has no parts"),
        (["fat_tree", "--set", "k"], 2, "--set k: as in --set k=8"),
        (["fat_tree", "--set", "k=["], 2, "'[' is not a value in YAML"),
        (["fat_tree", "--set", "kk=4"], 1, "unknown key 'kk'"),
        ([], 2, "topo new: say which generator"),
    ],
)
def test_a_new_file_that_would_be_wrong_is_not_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    path = tmp_path / "new.yaml"
    got, out, err = run(capsys, "new", *words, "--out", path)
    assert (got, out, path.exists()) == (code, "", False)
    assert said in err


def test_a_file_that_is_there_stays(capsys: pytest.CaptureFixture[str], narrow: Path) -> None:
    code, _, err = run(capsys, "new", "single", "--out", narrow)
    assert (code, narrow.read_text()) == (2, NARROW)
    assert "is there already" in err


def test_others_topologies_become_files_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "topology.json", tmp_path / "net.yaml"
    (tmp_path / "lb.p4").write_text("")
    source.write_text(
        '{"hosts": {"h1": {"ip": "10.0.1.1/24"}}, "switches": {"s1": {}}, '
        '"links": [["h1", "s1-p1"]]}'
    )
    assert cli.main(["topo", "import", str(source), "--out", str(out)]) == 0
    assert cli.main(["topo", "check", str(out)]) == 0
    assert "program: lb.p4" in out.read_text()
    assert cli.main(["topo", "import", str(source), "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert cli.main(["topo", "import", str(source), "--p4", "no.p4"]) == 2
    assert "--p4 no.p4: no such file" in capsys.readouterr().err
    assert cli.main(["topo", "import"]) == 2
    assert "say which topology.json, p4app.json or topo.csv" in capsys.readouterr().err
    assert cli.main(["topo", "import", str(source), "--set", "spines=2"]) == 2
    assert "--set: for topo.csv" in capsys.readouterr().err


def test_a_cluster_of_the_lingjun_dataset_becomes_a_topology_and_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, net, jobs = (tmp_path / name for name in ("topo.csv", "net.yaml", "jobs.yaml"))
    source.write_text("ip,DSW,PSW,ASW\naa,G1,P1,S1\nbb,G1,P2,S1\n")
    (tmp_path / "job.csv").write_text(
        "job_name,gmt_job_submitted,gmt_job_finished\none,2023/8/1 00:00,2023/8/2 00:00\n"
    )
    (tmp_path / "worker.csv").write_text("job_name,host_ip\none,aa\none,bb\n")
    sizes = ["--set", "spines=2", "--set", "cores=1"]
    assert cli.main(["topo", "import", str(source), *sizes, "--out", str(net)]) == 0
    assert cli.main(["topo", "check", str(net)]) == 0
    assert cli.main(["topo", "import", str(source), "--set", "spine=2"]) == 2
    assert "did you mean 'spines'" in capsys.readouterr().err
    assert cli.main(["job", "import", str(tmp_path), "--out", str(jobs)]) == 0
    run = tmp_path / "run.yaml"
    run.write_text("topology: net.yaml\n" + jobs.read_text())
    assert cli.main(["lint", str(run)]) == 0
    assert cli.main(["job", "import", str(tmp_path), "--at", "2023/8/3 0:00"]) == 2
    assert "no job of several hosts runs at 2023/08/03 00:00" in capsys.readouterr().err
