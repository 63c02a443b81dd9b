"""p4runtime-shell, p4lang's interactive P4Runtime client, in a virtual environment of its own.

It is made on first use, from the versions in `setup/p4rt-shell.lock`: the shell pins an older
protobuf than the rest of Weft takes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
from pathlib import Path

from weft import console

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "setup" / "p4rt-shell.lock"
VENV = ROOT / "build" / "p4rt-shell-venv"
_PYTHON = "/usr/bin/python3"
_LINES_SHOWN = 10


class ShellSetupError(Exception):
    """The shell could not be installed; the message ends with what pip said."""

    remedy = "it needs a network with PyPI, once; make setup-p4rt-shell tries again"


def is_ready() -> bool:
    """Say whether the shell is installed in the versions of the lock file."""
    stamp = VENV / ".installed"
    return stamp.exists() and stamp.read_text() == _wanted()


def _wanted() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def ensure() -> Path:
    """Install the shell where it is not there yet; return its Python. Raises ShellSetupError."""
    if not is_ready():
        with console.progress("install p4runtime-shell (once)"):
            _do([_PYTHON, "-m", "venv", "--clear", str(VENV)])
            pip = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
            _do([*pip, "--no-input", "install", "-q", "--no-deps", "-r", str(LOCK)])
            (VENV / ".installed").write_text(_wanted())
            _give_back()
    return VENV / "bin" / "python"


def _do(command: list[str]) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-_LINES_SHOWN:])
        raise ShellSetupError(f"p4runtime-shell can't be installed: {said}")


def _give_back() -> None:
    """Root in a user's tree leaves nothing that the user can't remove."""
    owner = ROOT.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        subprocess.run(
            ["chown", "-Rh", f"{owner.st_uid}:{owner.st_gid}", str(VENV.parent)], check=False
        )


def command(
    python: Path, address: str, device_id: int, *, election_id: int = 1, role: str = ""
) -> list[str]:
    """Return the shell's command line for one switch; `address` is 'host:port'."""
    shell = [str(python), "-m", "p4runtime_sh", "--grpc-addr", address]
    shell += ["--device-id", str(device_id), "--election-id", f"0,{election_id}"]
    return shell + (["--role-name", role] if role else [])


def setup(arguments: argparse.Namespace) -> int:
    """`weft setup-p4rt-shell`; returns the exit code."""
    del arguments
    there = is_ready()
    python = ensure()
    print(f"p4runtime-shell is {'there already' if there else 'installed'}: {python}")
    return 0
