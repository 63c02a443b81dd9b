"""A virtual environment in build/ for programs that need other versions than Weft itself.

It is made on first use, from lock files in `setup/`, without resolving anything.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft import console

ROOT = Path(__file__).resolve().parent.parent
_PYTHON = "/usr/bin/python3"
_LINES_SHOWN = 10


class VenvError(Exception):
    """An environment could not be made; the message ends with what pip said."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class LockedVenv:
    """One environment.

    `name` is its folder's in build/, `locks` the files of setup/ with its packages, `what` says
    what is in it, `again` is the command that tries again. With `debian`, Debian's own modules
    (mininet) are seen too. `finish` completes a new one, given its folder of packages.
    """

    name: str
    locks: tuple[str, ...]
    what: str
    again: str
    debian: bool = False
    finish: Callable[[Path], None] | None = None

    @property
    def folder(self) -> Path:
        """Where it is."""
        return ROOT / "build" / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def is_ready(self) -> bool:
        """Say whether it is there in the versions of the lock files."""
        stamp = self.folder / ".installed"
        return stamp.exists() and stamp.read_text() == self._wanted()

    def ensure(self) -> Path:
        """Make it where it is not there yet; return its Python. Raises VenvError."""
        if not self.is_ready():
            with console.progress(f"install {self.what} (once)"):
                self._make()
                (self.folder / ".installed").write_text(self._wanted())
                self._give_back()
        return self.python

    def _wanted(self) -> str:
        texts = [self._lock(lock).read_bytes() for lock in self.locks]
        return hashlib.sha256(b"".join(texts)).hexdigest()

    def _lock(self, name: str) -> Path:
        return ROOT / "setup" / name

    def _make(self) -> None:
        site = ["--system-site-packages"] if self.debian else []
        self._do([_PYTHON, "-m", "venv", "--clear", *site, str(self.folder)])
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check"]
        wanted = [word for lock in self.locks for word in ("-r", str(self._lock(lock)))]
        self._do([*pip, "--no-input", "install", "-q", "--no-deps", *wanted])
        if self.finish is not None:
            self.finish(next(self.folder.glob("lib/python3*/site-packages")))

    def _do(self, command: list[str]) -> None:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            said = "\n".join(done.stdout.strip().splitlines()[-_LINES_SHOWN:])
            raise VenvError(
                f"{self.what} can't be installed: {said}",
                f"it needs a network with PyPI, once; {self.again} tries again",
            )

    def _give_back(self) -> None:
        """Give files in a user's tree that root made to the user, who can then remove them."""
        owner = ROOT.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:
            subprocess.run(
                ["chown", "-Rh", f"{owner.st_uid}:{owner.st_gid}", str(self.folder.parent)],
                check=False,
            )
