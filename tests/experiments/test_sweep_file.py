"""Sweep files: what they say, and where mistakes are told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from experiments.errors import LabError, LabFileError
from experiments.sweep import SweepSpec
from experiments.sweep_metrics import METRICS, Ended
from experiments.sweep_point import point_run
from topologies.document import Document

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "sweep.md"
RUN = """\
topology: net.yaml
until: 1ms
transport: {parameters: hpcc-dcqcn}
traffic:
  - incast: {to: h1, from: [h2], persistent: true}
"""
NET = """\
time_scale: 1
generator: single
hosts: 3
link: {rate: 100Gbps, delay: 1us, queue: 1MB}
"""
SWEEP = """\
description: the best gain
run: run.yaml
vary:
  transport.overrides.gain: [0.1, 0.5]
  traffic[0].incast.start: {from: 0us, to: 10us, steps: 3}
seeds: [3, 1]
metrics: [peak_queue, goodput]
objective: {maximise: goodput}
subject_to: ["peak_queue <= 16MB"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "net.yaml").write_text(NET)
    return tmp_path


def load(folder: Path, text: str, overrides: dict[str, object] | None = None) -> SweepSpec:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return SweepSpec.load(path, overrides)


def test_a_file_becomes_points(folder: Path) -> None:
    spec = load(folder, SWEEP)
    assert spec.name == "sweep"
    assert spec.parameters == ("transport.overrides.gain", "traffic.0.incast.start")
    assert len(spec.points) == 6
    assert spec.points[1] == {"transport.overrides.gain": 0.1, "traffic.0.incast.start": "5us"}
    assert spec.seeds == (3, 1)
    assert spec.metrics == ("peak_queue", "goodput")
    assert str(spec.objective) == "maximise goodput"
    assert [str(each) for each in spec.constraints] == ["peak_queue <= 16MB"]


def test_players_need_no_file(folder: Path) -> None:
    topology = load(folder, SWEEP).mapping["topology"]
    assert topology["generator"] == "single"
    assert topology["link"] == {"rate": "100Gbps", "delay": "1us", "queue": "1MB"}


def test_each_point_has_the_file_that_it_names(folder: Path) -> None:
    """Whoever runs it needs none of them: they are read before."""
    for name, size in (("a", 1000), ("b", 5000)):
        (folder / f"{name}.csv").write_text(f"src,dst,bytes\n0,1,{size}\n")
        (folder / f"{name}.txt").write_text(f"{size} 0\n{size + 1} 100\n")
    traffic = [
        {"matrix": {"csv": "a.csv"}},
        {"mix": {"sizes": "hadoop", "load": "10%", "stop": "1ms"}},
    ]
    (folder / "run.yaml").write_text(yaml.safe_dump({"topology": "net.yaml", "traffic": traffic}))
    vary = "{traffic.0.matrix.csv: [a.csv, b.csv], traffic.1.mix.sizes: [a.txt, hadoop, b.txt]}"
    spec = load(folder, f"run: run.yaml\nvary: {vary}\n")
    for path in folder.iterdir():
        path.unlink()
    found = []
    for point in spec.points:
        run = point_run(Document("<run>", dict(spec.mapping), {}), spec.name, point)
        matrix, mix = run.traffic[0].matrix, run.traffic[1].mix
        sizes = None if mix is None else mix.distribution()
        assert matrix is not None and sizes is not None
        found.append((matrix.matrix().connections[0][2], int(sizes.evenly.mean())))
    assert [size for size, _ in found] == [1000, 1000, 1000, 5000, 5000, 5000]
    assert [mean for _, mean in found[:3]] == [mean for _, mean in found[3:]]
    assert found[0][1] == 1000 and found[2][1] == 5000 and found[1][1] > 10_000


def test_a_point_whose_file_is_not_there_is_told_before_anything_runs(folder: Path) -> None:
    (folder / "a.csv").write_text("src,dst,bytes\n0,1,1000\n")
    text = "topology: net.yaml\ntraffic: [matrix: {csv: a.csv}]\n"
    (folder / "run.yaml").write_text(text)
    with pytest.raises(LabFileError, match=r"b\.csv: can't be read"):
        load(folder, "run: run.yaml\nvary: {traffic.0.matrix.csv: [a.csv, b.csv]}\n")


@pytest.mark.parametrize(
    ("vary", "written_out"),
    [({"until": ["1ms"]}, False), ({"topology.link.rate": ["100Gbps", "200Gbps"]}, True)],
)
def test_a_shipped_topology_is_written_out_where_it_is_varied(
    vary: dict[str, object], written_out: bool
) -> None:
    message = {"message": {"from": "h1", "to": "h3", "bytes": "1kB"}}
    spec = SweepSpec.of({"run": {"topology": "leafspine", "traffic": [message]}, "vary": vary})
    assert isinstance(spec.mapping["topology"], dict) is written_out


def test_a_run_file_alone_is_swept_by_options(folder: Path) -> None:
    spec = SweepSpec.load(folder / "run.yaml", {"vary": {"until": ["1ms", "2ms"]}})
    assert spec.name == "run"
    assert [point["until"] for point in spec.points] == ["1ms", "2ms"]
    assert spec.seeds == (None,)
    assert spec.metrics == tuple(METRICS)


def test_options_join_what_is_varied_and_replace_the_rest(folder: Path) -> None:
    options: dict[str, object] = {"vary": {"until": ["1ms", "2ms"]}, "seeds": [7]}
    spec = load(folder, SWEEP, options)
    assert len(spec.points) == 12
    assert spec.seeds == (7,)


def test_points_may_be_a_list(folder: Path) -> None:
    text = "run: run.yaml\npoints: [{until: 1ms}, {until: 2ms, transport.window: 64}]\n"
    spec = load(folder, text)
    assert spec.parameters == ("until", "transport.window")
    assert spec.points == ({"until": "1ms"}, {"until": "2ms", "transport.window": 64})


def test_points_may_be_drawn(folder: Path) -> None:
    draw = "draw: {method: latin-hypercube, points: 5, seed: 2}\n"
    text = "run: run.yaml\nvary: {transport.overrides.gain: {from: 0.01, to: 1.0, scale: log}}\n"
    spec = load(folder, text + draw)
    assert len(spec.points) == 5
    assert spec.drawn is not None
    assert all(0.01 <= point["transport.overrides.gain"] <= 1 for point in spec.points)


def test_a_wrong_value_is_its_own_points_affair(folder: Path) -> None:
    spec = load(folder, "run: run.yaml\nvary: {transport.overrides.gain: [7, 0.5]}\n")
    assert len(spec.points) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run: run.yaml\nvaried: {}\n", "sweep.yaml:2:1: varied: unknown key 'varied'"),
        ("run: run.yml\n", "sweep.yaml:1:1: run: no run file 'run.yml'; available by name"),
        ("run: two-flow\n", "did you mean 'two-flows'"),
        ("run: 5\n", "sweep.yaml:1:1: run: a run is a file"),
        ("run: run.yaml\nvary: {until: 1ms}\n", "sweep.yaml:2:8: vary.until: write the values"),
        ("run: run.yaml\nvary: {until: []}\n", "at least one value"),
        ("run: run.yaml\nvary: {until: {from: 1ms, to: 2ms}}\n", "how many values a grid takes"),
        ("run: run.yaml\nvary: {a..b: [1]}\n", "'a..b' is not a path"),
        ("run: run.yaml\ndraw: {method: random, points: 3}\n", "takes its points from 'vary'"),
        ("run: run.yaml\nvary: {until: [1ms]}\npoints: [{}]\n", "'points' is the whole list"),
        ("run: run.yaml\nseeds: [1, 1]\n", "sweep.yaml:2:1: seeds: a seed stands here twice"),
        ("run: run.yaml\nseeds: [-1]\n", "sweep.yaml:2:9: seeds[0]: must be at least 0"),
        ("run: run.yaml\nobjective: {maximise: a, minimise: b}\n", "{maximise: NAME} or"),
        ("run: run.yaml\nsubject_to: [loss]\n", "sweep.yaml:2:14: subject_to[0]: 'loss' is no"),
        ("run: run.yaml\nprogram: no.p4\n", "sweep.yaml:2:1: program: no P4 program 'no.p4'"),
        # A key that no run has is told where it is varied, at once and not once a point.
        (
            "run: run.yaml\nvary:\n  transport.overides.gain: [1]\n",
            "sweep.yaml:3:3: transport.overides.gain: unknown key 'overides'; did you mean",
        ),
        (
            "run: run.yaml\nvary:\n  topology.link.speed: [1]\n",
            "sweep.yaml:3:3: topology.link.speed: unknown key 'speed'",
        ),
        ("run: run.yaml\nvary: {traffic.4.incast.to: [h3]}\n", "sweep.yaml:2:8: traffic.4"),
        ("run: run.yaml\npoints: [{transport.wndow: 1}]\n", "sweep.yaml:2:11: transport.wndow"),
        # What is wrong with the run is told there.
        ("run:\n  topology: net.yaml\n  trafic: []\n", "sweep.yaml:3:3: trafic: unknown key"),
        ("run: broken.yaml\n", "broken.yaml:2:1: trafic: unknown key 'trafic'"),
        ("run: elsewhere.yaml\n", "no topology 'nonet.yaml'"),
        ("run: {topology: wrong.yaml}\n", "wrong.yaml:1:1: generator: no generator 'singel'"),
        ("run: [\n", "sweep.yaml:2:1: not valid YAML"),
    ],
)
def test_mistakes_are_told_at_their_lines(folder: Path, text: str, says: str) -> None:
    (folder / "broken.yaml").write_text("topology: net.yaml\ntrafic: []\n")
    (folder / "elsewhere.yaml").write_text("topology: nonet.yaml\ntraffic: []\n")
    (folder / "wrong.yaml").write_text("generator: singel\n")
    with pytest.raises(LabFileError) as caught:
        load(folder, text)
    assert says in str(caught.value)


@pytest.mark.parametrize("flows", [(10**10, 4 * 10**10), (0, 8), None])
def test_least_and_most_are_rates_of_single_flows(flows: tuple[int, int] | None) -> None:
    ended = Ended({"end": {"now_ps": 1_000_000}}, {}, flows=flows)
    found = tuple(METRICS[name].of(ended, None) for name in ("least_flow", "most_flow"))
    assert found == (flows or (None, None))


@pytest.mark.parametrize(
    ("now_ps", "rate"), [(1_000_000, 10**10), (3, 8 * 1250 * 10**12 // 3), (0, None)]
)
def test_the_rate_of_a_run_is_over_all_of_it(now_ps: int, rate: int | None) -> None:
    summary = {"end": {"now_ps": now_ps}, "flows": {"received_bytes": 1250}}
    ended = Ended(summary, {}, goodput_bps=2 * 10**10)
    assert METRICS["run_rate"].of(ended, None) == rate
    assert METRICS["goodput"].of(ended, None) == 2 * 10**10


def test_the_documentation_has_a_sweep_file_and_all_metrics() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    [file] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    spec = SweepSpec.of(yaml.safe_load(file))
    assert (len(spec.points), len(spec.seeds)) == (18, 3)
    table = text.partition("| metric |")[2].partition("\n\n")[0]
    named = {name.partition("[")[0] for name in re.findall(r"`([a-z0-9_]+(?:\[.*?\])?)`", table)}
    assert named == set(METRICS)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such sweep or run file; did you mean 'two-flows'"):
        SweepSpec.load("two-flow")
    with pytest.raises(LabError, match="can't be read"):
        SweepSpec.load(tmp_path)
