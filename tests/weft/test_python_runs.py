"""`weft.simulate` and `weft.sweep`: the numbers of the commands, and what is wrong said by keys."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import cli

RUN: dict[str, Any] = {
    "topology": {
        "generator": "single",
        "hosts": 3,
        "link": {"rate": "100Gbps", "delay": "500ns", "queue": "1MB"},
        "classes": {"roce": {"dscp": 26, "queue": 3}, "rest": {"queue": 0}},
    },
    "traffic": [{"incast": {"to": "h1", "from": ["h2", "h3"], "bytes": "100kB"}}],
}


@pytest.fixture(scope="module")
def result() -> weft.Result:
    return weft.simulate(RUN)


def test_numbers_are_those_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shipped run, cut short: summary.json is the same, digests of all files included."""
    asked = ["sim", "two-flows", "--until", "1ms", "--seed", "3", "--json"]
    assert cli.main([*asked, "--out", str(tmp_path / "command")]) == 0
    ours = weft.simulate("two-flows", until="1ms", seed=3, out=tmp_path / "python")
    theirs = json.loads(capsys.readouterr().out)
    assert {**ours.summary, "out": theirs["out"]} == theirs
    assert weft.Result.load(tmp_path / "python").summary == ours.summary


def test_a_dict_and_its_file_are_the_same_run(result: weft.Result, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(RUN))
    from_file = weft.simulate(path)
    assert from_file.flows.to_pylist() == result.flows.to_pylist()


def test_tables_are_attributes(result: weft.Result) -> None:
    assert result.flows.num_rows == 2
    assert result.flows.column("dst").to_pylist() == ["h1", "h1"]
    assert result.table("flows", ["src"], [("src", "==", "h2")]).to_pydict() == {"src": ["h2"]}
    assert set(result.tables) >= {"flows", "messages", "queues", "links", "jobs"}
    for name in result.tables:
        assert getattr(result, name).num_rows == result.table(name).num_rows
    with pytest.raises(weft.WeftError, match="has no table 'flow'; did you mean 'flows'"):
        result.table("flow")
    with pytest.raises(weft.WeftError, match="has no table 'planes': there is blocked"):
        result.planes  # noqa: B018


def test_what_users_ask_first(result: weft.Result) -> None:
    times = result.flow_completion_times()
    assert times.shape == (2,) and 8e-6 < times.min() <= times.max() < 30e-6
    assert (result.slowdowns() >= 1).all()
    assert result.metric("done") == 2
    peak = result.metric("peak_queue[s1:1]")
    assert peak == result.metric("peak_queue") and isinstance(peak, int) and peak > 50_000
    with pytest.raises(weft.WeftError, match="no switch port s1:9"):
        result.metric("peak_queue[s1:9]")
    assert "  2 of 2 done; p50 " in repr(result)
    assert "<td" in result._repr_html_()


def test_figures_are_pictures(result: weft.Result, tmp_path: Path) -> None:
    (queues,) = result.plot("queues")
    assert queues.save(tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"this picture is a \.png"):
        queues.save(tmp_path / "q.svg")
    with pytest.raises(weft.WeftError, match="no topic 'queue' to plot; did you mean 'queues'"):
        result.plot("queue")
    with pytest.raises(weft.WeftError, match="no pauses to plot"):
        result.plot("pauses")


def test_files_go_with_the_result() -> None:
    result = weft.simulate(RUN, progress=False)
    folder = result.folder
    assert folder.is_dir()
    del result
    gc.collect()
    assert not folder.exists() and not folder.parent.exists()


def test_without_pandas_it_says_what_to_install(
    result: weft.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(weft.MissingPackageError, match="make setup-notebook"):
        result.pandas("flows")


@pytest.mark.reference(module="pandas", names="make setup-notebook installs pandas")
def test_with_pandas_a_table_is_a_frame(result: weft.Result) -> None:
    assert list(result.pandas("flows", ["src", "dst"])["dst"]) == ["h1", "h1"]


def test_changes_by_dotted_paths(result: weft.Result) -> None:
    changed = weft.simulate(
        RUN, set={"traffic.0.incast.bytes": "200kB", "topology.link.rate": "400Gbps"}
    )
    assert [row["bytes"] for row in changed.messages.to_pylist()] == [200_000, 200_000]
    assert max(changed.flow_completion_times()) < max(result.flow_completion_times())
    assert RUN["traffic"][0]["incast"]["bytes"] == "100kB"


def test_values_may_be_numpys_tuples_and_topologies(result: weft.Result) -> None:
    fabric = weft.Topology(RUN["topology"])
    incast = {"to": "h1", "from": ("h2", "h3"), "bytes": "100kB"}
    run = {"topology": fabric, "traffic": ({"incast": incast},), "seed": np.int64(1)}
    same = weft.simulate(run)
    assert same.flows.to_pylist() == result.flows.to_pylist()


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        (
            {**RUN, "traffic": [{"incast": {"to": "h1", "sender": 2}}]},
            {},
            r"^traffic\[0\]\.incast\.sender: unknown key 'sender'; did you mean",
        ),
        ({**RUN, "topology": "leafspin"}, {}, "^topology: no topology 'leafspin'; did you mean"),
        ({**RUN, "until": {1, 2}}, {}, "^until: set can't stand in a run"),
        ("two-flow", {}, "did you mean 'two-flows'"),
        (7, {}, "^int is no run: give a dict"),
        (RUN, {"until": "5"}, "^until: 5 has no unit"),
        (RUN, {"set": {"topology.hostz": 4}}, r"^topology\.hostz: unknown key 'hostz'"),
        (RUN, {"set": {"traffic.3.incast.to": "h2"}}, "traffic is a list of 1"),
        ("two-flows", {"set": {"transport.windw": 4}}, r"^transport\.windw: .*'window'"),
        (RUN, {"p4": "no.p4"}, "^p4 no.p4: no such file"),
        (RUN, {"out": "/proc/weft"}, "^can't write results to /proc/weft"),
    ],
)
def test_what_is_wrong_is_said_by_its_keys(run: Any, options: Any, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.simulate(run, **options)
    assert "Traceback" not in "".join(caught.value._render_traceback_())


def test_mistakes_in_a_file_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("topology: leafspine\ntraffic:\n  - incast: {to: h1, sender: 2}\n")
    with pytest.raises(weft.InputError, match=r"run\.yaml:3:22: traffic\[0\]") as caught:
        weft.simulate(path)
    assert {problem.line for problem in caught.value.problems} == {3}


def test_an_interrupt_carries_what_was_simulated() -> None:
    def interrupt(share: float | None, text: str) -> None:
        if share is not None:
            raise KeyboardInterrupt

    with pytest.raises(weft.Interrupted, match="two-flows was simulated up to") as caught:
        weft.simulate("two-flows", progress=interrupt)
    result = caught.value.result
    assert 0 < result.now_ps < 10**11
    assert result.flows.num_rows == 2
    assert "Traceback" not in "".join(caught.value._render_traceback_())


def test_progress_comes_as_shares() -> None:
    seen: list[float | None] = []
    weft.simulate("two-flows", until="25ms", progress=lambda share, text: seen.append(share))
    assert seen[0] is None and len(seen) > 1
    assert all(share is not None and 0 < share <= 1 for share in seen[1:])


# --- sweeps --------------------------------------------------------------------------------------


def test_a_sweep_measures_by_a_closure() -> None:
    factor = 10

    def measure(result: weft.Result) -> dict[str, Any]:
        return {"slowest": max(result.flow_completion_times()) * factor, "rows": 2}

    found = weft.sweep(
        RUN, {"topology.link.rate": ["100Gbps", "400Gbps"]}, seeds=[1, 2], measure=measure
    )
    assert found.shown == ("slowest", "rows")
    table = found.table()
    assert table.column("slowest").type == "double"  # numpy's number, as a number
    assert table.column("topology.link.rate").to_pylist() == 2 * ["100Gbps"] + 2 * ["400Gbps"]
    alone = weft.simulate(RUN, seed=1)
    assert found.points[0].runs[0].metrics["slowest"] == max(alone.flow_completion_times()) * 10
    estimate = found.estimate("slowest", 1)
    assert estimate.n == 2 and estimate.median is not None and estimate.median < 2e-4
    assert "400Gbps" in repr(found) and "<td" in found._repr_html_()


@pytest.mark.long
def test_a_sweep_knows_its_best_and_draws_it(tmp_path: Path) -> None:
    found = weft.sweep(
        RUN,
        [{"topology.hosts": 3}, {"topology.hosts": 4, "traffic.0.incast.bytes": "10kB"}],
        measure=["goodput"],
        minimise="fct_max",
        until="1ms",
        processes=1,
    )
    assert found.best is not None and found.best.number == 1
    assert found.shown == ("goodput", "fct_max")
    assert found.plot("fct_max", x="topology.hosts").ending == "png"
    assert (found.write(tmp_path / "out") / "best.yaml").is_file()
    with pytest.raises(
        weft.WeftError, match=r"no parameter 'topology\.host' was varied; did you mean"
    ):
        found.plot(x="topology.host")
    with pytest.raises(weft.WeftError, match="no metric 'goodputs' was measured; did you mean"):
        found.estimate("goodputs")


@pytest.mark.long
def test_a_run_that_failed_is_in_the_table() -> None:
    found = weft.sweep(RUN, {"topology.hosts": [3, 2]}, measure=["goodput"], processes=1)
    first, second = found.table().column("failure").to_pylist()
    assert first == "" and "h3" in second
    assert "FAILED" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vary": {"topology.host": [1]}}, r"^topology\.host: unknown key 'host'; did you mean"),
        ({"vary": {"topology.hosts": 3}}, "write the values as a list"),
        ({"vary": "topology.hosts"}, "^vary: a dict of lists"),
        ({"measure": "goodputt"}, "no metric 'goodputt'; did you mean 'goodput'"),
        ({"measure": lambda result: 1 / 0}, r"test_python_runs\.py:\d+: ZeroDivisionError"),
        ({"measure": lambda result: 3}, "measure gave int"),
        ({"seeds": [1, 1]}, "^seeds: a seed stands here twice"),
        ({"maximise": "goodput", "minimise": "fct_max"}, "exclude each other"),
        ({"processes": 0}, "^0 workers"),
        ({"until": "0ms"}, "must be above 0"),
    ],
)
def test_a_wrong_sweep_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.sweep(RUN, **options)


def test_an_interrupted_sweep_keeps_what_is_done() -> None:
    def interrupt(share: float | None, text: str) -> None:
        if share:
            raise KeyboardInterrupt

    with pytest.raises(weft.Interrupted, match="1 of 3 runs are done") as caught:
        weft.sweep(RUN, seeds=[1, 2, 3], progress=interrupt, processes=1)
    assert caught.value.result.table().num_rows == 1


@pytest.mark.long
def test_callables_of_any_kind_measure() -> None:
    class Counts:
        def __call__(self, result: weft.Result) -> dict[str, int]:
            return {"flows": result.flows.num_rows}

    measure: Callable[[weft.Result], dict[str, int]] = Counts()
    assert weft.sweep(RUN, measure=measure, processes=1).table()["flows"].to_pylist() == [2]
