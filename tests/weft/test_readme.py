"""Every command of the README, run as it stands there.

Commands are the indented lines and the `spans` that start with a program of ours; lines that start
with `weft>` are typed at the prompt of the run above them. Commands that go on until Ctrl-C get one
once they have said something.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation import run_state, teardown

pytestmark = pytest.mark.root

REPOSITORY = Path(run_state.__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text()
PROGRAMS = ("make ", ".venv/bin/", "weft ", "sudo ")
PROMPT = "weft> "
PATIENCE_S = 300.0

NOT_HERE = {
    "make test": "it is what runs this",
    "make test-long": "it is what `make test` leaves out",
    "make readme": "it measures this page; test_readme_numbers.py tests it",
    "weft uninstall": "it removes what runs this; test_uninstall.py tests it",
    "make bench": "it measures, which needs a machine of its own; tests/bench tests its parts",
}
# Commands about a run that is up, and those of them that go on until Ctrl-C.
LIVE = {"top", "trace", "metrics", "web", "exec", "link", "reload", "perf"}
ENDLESS = {"top", "trace", "metrics", "web"}
# What stands for the reader's own program.
PLACES = {"prog.p4": "p4src/base.p4"}
# What a command must say, besides ending well.
SAYS = {
    "make run-topo": (
        "all-pairs ping", "12 pairs, 0 % lost, the first packets included", "RoCEv2 h1 -> h3",
        "64 of 64 packets (32 flows) with right ICRC", "RDMA WRITE h1 -> h3",
        "TCP h1 -> h3", "port counters (P4Runtime)",
        "both ends of each link agree", "runtime softswitch, real time; time_scale 10000",
    ),
    "make doctor": ("`make run-topo` has all it needs",),
}  # fmt: skip
TYPED_SAYS = {
    "pingall": "pairs, 0 % lost",
    "exec h1 ip neigh": "10.0.1.254",
    "counters": "rx packets",
    "tables s1": "ipv4_route",
    "link s1 s3 down": "s1:3 - s3:1: down",
    "link s1 s3 up": "s1:3 - s3:1: up",
    "reload s1": "s1: fabric.p4",
    "perf write h1 h3 --bw -n 50": "BW average[Gb/sec]",
}


def _plain(line: str) -> str:
    """Return the line without its comment and with single blanks."""
    return " ".join(re.sub(r"\s#.*", "", line).split())


LINES = [
    _plain(line) for line in re.findall(r"^    (\S.*)$", README, re.MULTILINE)
]  # indented by four: code, in this README's Markdown
SPANS = [_plain(span) for span in re.findall(r"`([^`]+)`", README)]
TYPED = [line.removeprefix(PROMPT) for line in LINES if line.startswith(PROMPT)]
COMMANDS = list(
    dict.fromkeys(
        line
        for line in [*LINES, *SPANS]
        # One word names a program; with an ellipsis it is a pattern.
        if line.startswith(PROGRAMS) and " " in line and "…" not in line and line not in NOT_HERE
    )
)


def _subcommand(command: str) -> str:
    """Return the command of `weft` that a line gives, if it does."""
    found = re.match(r"(?:sudo )?(?:\.venv/bin/)?weft ([\w-]+)", command)
    return found[1] if found else ""


OWN = [c for c in COMMANDS if _subcommand(c) not in LIVE and "CLI=1" not in c]
ON_A_RUN = [c for c in COMMANDS if _subcommand(c) in LIVE]


def _arguments(command: str, scratch: Path) -> list[str]:
    """Return the words of a command as they run here: files it writes go to the test's folder."""
    words = shlex.split(command.removeprefix("sudo "))
    if words[0] == "weft":
        words[0] = ".venv/bin/weft"
    if words[0].startswith(".venv/bin/"):  # this very Python's
        words[0] = str(Path(sys.executable).parent / Path(words[0]).name)
    for i, word in enumerate(words):
        words[i] = PLACES.get(word, word)
        if i and words[i - 1] == "-o":
            words[i] = str(scratch / word)
    return words


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Keep records and logs of runs below the test's folder."""
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    yield dict(os.environ)
    teardown.stop()


def test_the_readme_has_what_this_file_looks_for() -> None:
    assert "make run-topo" in OWN
    assert "make run-topo CLI=1" in COMMANDS
    assert TYPED[-1] == "exit"
    assert set(NOT_HERE) <= {*LINES, *SPANS}


@pytest.mark.parametrize("command", OWN)
def test_command(command: str, environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        _arguments(command, tmp_path),
        cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for phrase in SAYS.get(command, ()):
        assert phrase in done.stdout


class Lab:
    """`make run-topo CLI=1`, with commands typed into its pipe one after the other."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            ["make", "run-topo", "CLI=1"],
            cwd=REPOSITORY, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        self._watchdog.start()

    def type(self, line: str) -> str:
        """Return what is shown for a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n# end\n")
        self.process.stdin.flush()
        shown = ""
        while not shown.endswith(f"{PROMPT}# end\n"):
            more = self.process.stdout.readline()
            assert more, f"it ended: {shown}"
            shown += more
        return shown

    def end(self, line: str) -> int:
        """Return the exit code after a last line."""
        self.process.communicate(f"{line}\n")
        self._watchdog.cancel()
        return self.process.returncode


def test_prompt_and_other_terminals(environment: dict[str, str], tmp_path: Path) -> None:
    lab = Lab(environment)
    for line in TYPED[:-1]:
        shown = lab.type(line)
        assert "error: " not in shown, line
        assert TYPED_SAYS.get(line, "") in shown
    # RoCEv2's UDP port, so that there is something to look at until the run's end.
    lab.type("exec h1 bash -c 'while sleep 0.1; do echo x >/dev/udp/10.0.2.1/4791; done' &")
    for command in ON_A_RUN:
        _run_beside(_arguments(command, tmp_path), environment, _subcommand(command) in ENDLESS)
    assert lab.end(TYPED[-1]) == 0


def _run_beside(arguments: list[str], environment: dict[str, str], endless: bool) -> None:
    process = subprocess.Popen(
        arguments,
        cwd=REPOSITORY, env={**environment, "PYTHONUNBUFFERED": "1"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        said = process.stdout.readline()
        assert said.strip(), f"{arguments} said nothing"
        assert "error" not in said
        if endless:
            process.send_signal(signal.SIGINT)
        said += process.communicate()[0]
        assert process.returncode in ((0, 130) if endless else (0,)), said
        assert "Traceback" not in said
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def test_python(tmp_path: Path) -> None:
    block = re.search(
        r"^    from softswitch import Switch\n(?:(?:    .*)?\n)+", README, re.MULTILINE
    )
    assert block is not None
    lines = [line[4:] for line in block[0].splitlines()]
    script = tmp_path / "readme.py"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("["), "a list of outputs"


def test_the_daemon_has_its_own_help() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "softswitch"), "--help"],
        capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert "--grpc-server-addr" in done.stdout
