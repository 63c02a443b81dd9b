"""The command line: help, arguments, messages and exit codes, as processes see them."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from weft import cli

REPOSITORY = Path(cli.__file__).resolve().parent.parent
COMMANDS = (
    *("run-topo", "stop", "clean", "compile", "topo", "top", "web", "metrics"),
    *("bench", "doctor"),
)


def weft(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "weft.cli", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=300,
    )


def test_help_names_every_command() -> None:
    done = weft("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)


def test_nothing_asked_for_is_help() -> None:
    done, told = weft(), weft("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == told.stdout
    begin = done.stdout.partition("Getting started:\n")[2].partition("\n\n")[0]
    named = re.findall(r"^  (\S+)", begin, re.MULTILINE)
    assert named == ["doctor", "topo", "run-topo", "sim", "lab"]


def test_the_version_says_which_installation_it_is() -> None:
    done = weft("--version")
    assert done.returncode == 0
    assert (
        done.stdout == f"weft {version('weft')}, Python {platform.python_version()}, {REPOSITORY}\n"
    )


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys; from weft import cli\n"
        "assert cli.main([]) == 0\n"
        "assert cli.main(['run-topo', '--help']) == 0\n"
        "heavy = {'rich', 'pydantic', 'google.protobuf', 'grpc', 'scapy', 'mininet', 'finsy'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str) -> None:
    done = weft(command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert f"weft {command}" in done.stdout.partition("examples:")[2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fly"], "invalid choice"),
        (["compile", "x.p4"], "-o"),
        (["compile", "x.p4", "-o", "out", "--std", "p4-14"], "p4-16"),
        (["run-topo", "--target", "tofino"], "softswitch"),
        (["topo", "show"], "say which topology"),
        (["topo", "check"], "say which topology"),
    ],
    ids=" ".join,
)
def test_wrong_arguments_end_with_2(arguments: list[str], says: str) -> None:
    done = weft(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("generator: leaf_spine", "time_scale"),
        ("time_scale: 1\nswitches: [s1]\nhosts: [h1]\nlink: {rate: 400}\n", "no unit"),
        ("time_scale: 1\nswitches: [s1, s1]\n", "s1"),
        ("time_scale: 1\nswitchs: [s1]\nswitches: [s1]\n", "did you mean 'switches'"),
        ("time_scale: [", "topo.yaml:"),
    ],
    ids=["missing key", "unitless rate", "duplicate", "unknown key", "no yaml"],
)
@pytest.mark.parametrize(
    "command",
    [["topo", "check"], pytest.param(["run-topo"], marks=pytest.mark.root)],
    ids=["check", "run"],
)
def test_a_bad_topology_is_told_with_its_place(
    tmp_path: Path, command: list[str], text: str, says: str
) -> None:
    path = tmp_path / "topo.yaml"
    path.write_text(text)
    done = weft(*command, path)
    assert done.returncode == 1
    assert says in done.stderr
    assert f"{path}:" in done.stderr
    assert "Traceback" not in done.stderr


def test_topo_show_tells_what_is_in_a_topology() -> None:
    done = weft("topo", "show", "leafspine", "--json")
    data = json.loads(done.stdout)
    assert [host["name"] for host in data["hosts"]] == ["h1", "h2", "h3", "h4"]
    assert len(data["links"]) == 8
    shown = weft("topo", "show", "leafspine").stdout
    assert "10.0.1.1/24" in shown
    assert "time_scale" in shown
    assert "leafspine" in weft("topo", "list").stdout.split()
    assert "good" in weft("topo", "check", "leafspine").stdout


@pytest.mark.parametrize("command", ["run-topo", "stop", "clean"])
def test_without_root_nothing_is_touched_and_the_remedy_is_said(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("WEFT_RUN_DIR", str(tmp_path / "run"))
    assert cli.main([command]) == 1
    said = capsys.readouterr().err
    assert "needs root" in said
    assert f"remedy: run it as: sudo weft {command}" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.root
def test_nothing_to_stop_is_no_error(tmp_path: Path) -> None:
    for command, says in (("stop", "no run is up"), ("clean", "nothing to remove")):
        done = weft(command, WEFT_RUN_DIR=str(tmp_path / "run"))
        assert (done.returncode, done.stdout) == (0, f"{says}\n")


def test_too_little_memory_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy(_name: str) -> None:
        raise MemoryError

    monkeypatch.setattr("topologies.load", greedy)
    monkeypatch.delenv("WEFT_DEBUG", raising=False)
    assert cli.main(["topo", "show", "leafspine"]) == cli.EXIT_FAILED
    assert capsys.readouterr().err.startswith("error: out of memory\nremedy: ")


def test_a_bug_is_one_line_and_a_log_with_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_name: str) -> None:
        raise ZeroDivisionError("it broke")

    monkeypatch.setattr("topologies.load", broken)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("WEFT_DEBUG", raising=False)
    assert cli.main(["topo", "show", "leafspine"]) == cli.EXIT_BUG
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: this is a bug in Weft (ZeroDivisionError: it broke)"
    (log,) = (tmp_path / "weft").iterdir()
    assert str(log) in said[1]
    assert "in broken" in log.read_text()
    monkeypatch.setenv("WEFT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["topo", "show", "leafspine"])


def test_a_reader_that_goes_away_is_no_crash() -> None:
    done = subprocess.run(
        f"{sys.executable} -m weft.cli topo show leafspine | head -n 1",
        shell=True,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("leafspine")
    assert done.stderr == ""
