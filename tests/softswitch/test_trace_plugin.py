"""A failing test shows what its packets met."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CONFTEST = 'pytest_plugins = ["softswitch.tracing.pytest_plugin"]\n'
TESTS = f"""
from softswitch import Switch

def send(switch):
    ip = bytes.fromhex("450000140000000040110000") + bytes(8)
    switch.inject(1, bytes(12) + b"\\x08\\x00" + ip)
    return switch.run_until(1000)

def test_fails(explained):
    with_trace = explained(Switch.from_json("{GOLDEN}/l3.json", "{GOLDEN}/l3.p4info.txtpb"))
    assert send(with_trace)

def test_passes(explained):
    with_trace = explained(Switch.from_json("{GOLDEN}/l3.json", "{GOLDEN}/l3.p4info.txtpb"))
    assert not send(with_trace)
"""


def test_a_failing_test_shows_its_packets(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("packets of switch 0") == 1
    assert "table       I.route: miss" in done.stdout
    assert "dropped     in ingress: egress_spec was set to the drop port by" in done.stdout
