"""Packages that Weft's own environment gets on demand, from a lock file, without resolving."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from weft import console
from weft.doctor import parse_lock

_LINES_SHOWN = 10


class PackagesError(Exception):
    """They could not be installed; the message ends with what pip said."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class LockedPackages:
    """`lock`: the file in setup/; `what`: their common name; `again`: the command that retries."""

    lock: Path
    what: str
    again: str

    def pins(self) -> dict[str, str]:
        """Return the packages of the lock file and their versions."""
        return parse_lock(self.lock.read_text())

    def is_ready(self) -> bool:
        """Say whether they are installed in the versions of the lock file."""
        return all(_version(name) == version for name, version in self.pins().items())

    def ensure(self) -> None:
        """Install them where they are not there yet. Raises PackagesError."""
        if self.is_ready():
            return
        with console.progress(f"install {self.what} (once)"):
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
            done = subprocess.run(
                [*pip, "install", "-q", "--no-deps", "-r", str(self.lock)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            said = "\n".join(done.stdout.strip().splitlines()[-_LINES_SHOWN:])
            raise PackagesError(
                f"{self.what} can't be installed: {said}",
                f"it needs a network with PyPI, once; {self.again} tries again",
            )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
