"""How much a shaper may hold: the sending half of a port, exactly, with no clock and no root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from softswitch.core import build

HERE = Path(__file__).resolve().parent


def test_the_window_follows_the_rate_and_nothing_is_lost(tmp_path: Path) -> None:
    """pipelines/send_window.c, under the sanitizers: each step says what it expects."""
    program = tmp_path / "send_window"
    command = ["gcc", *build.WARNINGS, *build.SANITIZE, f"-I{build.HERE}"]
    command += [str(build.HERE / "daemon_send.c"), str(HERE / "pipelines" / "send_window.c")]
    subprocess.run([*command, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
