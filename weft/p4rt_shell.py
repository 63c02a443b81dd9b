"""p4runtime-shell, p4lang's interactive P4Runtime client, in a virtual environment of its own.

It is made on first use, from the versions in `setup/p4rt-shell.lock`: the shell pins an older
protobuf than the rest of Weft takes.
"""

from __future__ import annotations

from pathlib import Path

from weft.command_line import command as shell_command
from weft.locked_venv import LockedVenv

_VENV = LockedVenv(
    "p4rt-shell-venv", ("p4rt-shell.lock",), "p4runtime-shell", "make setup-p4rt-shell"
)


def is_ready() -> bool:
    """Say whether the shell is installed in the versions of the lock file."""
    return _VENV.is_ready()


def ensure() -> Path:
    """Install the shell where it is not there yet; return its Python. Raises VenvError."""
    return _VENV.ensure()


def command(
    python: Path, address: str, device_id: int, *, election_id: int = 1, role: str = ""
) -> list[str]:
    """Return the shell's command line for one switch; `address` is 'host:port'."""
    shell = [str(python), "-m", "p4runtime_sh", "--grpc-addr", address]
    shell += ["--device-id", str(device_id), "--election-id", f"0,{election_id}"]
    return shell + (["--role-name", role] if role else [])


@shell_command("""
    examples:
      weft setup-p4rt-shell
    """)
def setup() -> int:
    """Run `weft setup-p4rt-shell`; return the exit code."""
    there = is_ready()
    python = ensure()
    print(f"p4runtime-shell is {'there already' if there else 'installed'}: {python}")
    return 0
