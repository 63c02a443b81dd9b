"""Dask, which `weft sweep --scheduler` and the workers on other machines need.

It is installed into Weft's own environment on demand, from the versions in `setup/dask.lock`:
scheduler, workers and we have to have the same Python packages.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from weft import console
from weft.doctor import DASK_LOCK, parse_lock

_LINES_SHOWN = 10


class DaskSetupError(Exception):
    """Dask could not be installed; the message ends with what pip said."""

    remedy = "it needs a network with PyPI, once; make setup-dask tries again"


def pins() -> dict[str, str]:
    """Return the packages of the lock file and their versions."""
    return parse_lock(DASK_LOCK.read_text())


def is_ready() -> bool:
    """Say whether Dask is installed in the versions of the lock file."""
    return all(_version(name) == version for name, version in pins().items())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def ensure() -> None:
    """Install Dask where it is not there yet. Raises DaskSetupError."""
    if is_ready():
        return
    with console.progress("install Dask (once)"):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        done = subprocess.run(
            [*pip, "install", "-q", "--no-deps", "-r", str(DASK_LOCK)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-_LINES_SHOWN:])
        raise DaskSetupError(f"Dask can't be installed: {said}")
