"""What a run in real time needs to be allowed: refused at once where it is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

WEFT = [sys.executable, "-m", "weft.cli"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("kept", "lacking"),
    [
        ("-all", "CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN"),
        ("-sys_admin", "CAP_SYS_ADMIN"),
    ],
)
def test_root_without_its_capabilities_is_refused(kept: str, lacking: str) -> None:
    """As in a container without --privileged, where nothing would ever come up."""
    without = ["setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}", "--no-new-privs"]
    done = subprocess.run([*without, *WEFT, "run-topo"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert f"root lacks {lacking} here" in done.stderr and "--privileged" in done.stderr
    assert "Traceback" not in done.stderr
