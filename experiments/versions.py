"""What results depend on beside their input: this software, Python, the kernel."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE_S = 5.0


def versions() -> dict[str, str]:
    """Return versions by name: weft (git describe in a checkout, else the package's), python..."""
    return {
        "weft": weft_version(),
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
    }


def weft_version() -> str:
    """Return `git describe` of the checkout (with -dirty), or the installed package's version."""
    own = ["-c", f"safe.directory={ROOT}"]  # root may run a user's checkout
    command = ["git", *own, "-C", str(ROOT), "describe", "--always", "--dirty", "--tags"]
    if (ROOT / ".git").exists():
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
        else:
            if done.returncode == 0 and done.stdout.strip():
                return done.stdout.strip()
    try:
        return metadata.version("weft")
    except metadata.PackageNotFoundError:
        return "unknown"
