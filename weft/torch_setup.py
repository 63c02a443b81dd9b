"""PyTorch, which the ranks of `weft train` run.

It is installed into Weft's own environment on demand, in the versions of `setup/torch.lock`. Many
package indexes have a build for graphics processors under the same name: it is several times as
large and needs libraries that are not installed here, so what was installed is also imported.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from weft import console
from weft.command_line import command
from weft.doctor import TORCH_LOCK, parse_lock

_LINES_SHOWN = 10
_CPU_INDEX = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"


class TorchSetupError(Exception):
    """PyTorch could not be installed; the message ends with what pip or Python said."""

    remedy = f"it needs PyTorch's CPU build, once: {_CPU_INDEX} make setup-torch"


def pins() -> dict[str, str]:
    """Return the packages of the lock file and their versions."""
    return parse_lock(TORCH_LOCK.read_text())


def is_ready() -> bool:
    """Say whether PyTorch is installed in the versions of the lock file."""
    return all(_version(name) == version for name, version in pins().items())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name).partition("+")[0]  # the CPU index calls it 2.13.0+cpu
    except metadata.PackageNotFoundError:
        return None


def ensure() -> None:
    """Install PyTorch where it is not there yet. Raises TorchSetupError."""
    if is_ready():
        return
    with console.progress("install PyTorch (once, some 200 MB)"):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "install", "-q", "--no-deps", "-r", str(TORCH_LOCK)], "installed")
        _run([sys.executable, "-c", "import torch"], "imported")


def _run(words: list[str], done_to_it: str) -> None:
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-_LINES_SHOWN:])
        raise TorchSetupError(f"PyTorch can't be {done_to_it}: {said}")


@command("""
    examples:
      weft setup-torch
    """)
def setup() -> int:
    """Run `weft setup-torch`; return the exit code."""
    there = is_ready()
    ensure()
    print(f"PyTorch {pins()['torch']} is {'there already' if there else 'installed'}")
    return 0
