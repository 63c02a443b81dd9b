"""The eBPF proof: it runs real programs, says why where it cannot, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emulation import kernel_features
from hostagent import bpf_probe


def devices_of_the_probe() -> list[str]:
    """Devices outside the probe's namespace that have its names."""
    return [path.name for path in Path("/sys/class/net").glob("probe[01]")]


@pytest.mark.root
def test_both_programs_run_and_nothing_stays() -> None:
    works = kernel_features.probe()
    lacking = [name for name in ("XDP native on veth", "clsact") if not works[name].works]
    if lacking:
        pytest.skip(f"this kernel lacks {', '.join(lacking)}")
    result = bpf_probe.prove()
    assert result.proved, result.detail
    assert devices_of_the_probe() == []


@pytest.mark.root
def test_a_program_that_does_not_compile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.bpf.c"
    broken.write_text("int probe_xdp(struct xdp_md *context) { return NO_SUCH_VERDICT; }\n")
    script = (
        "import pathlib, hostagent.bpf_probe as probe;"
        f"probe.PROGRAM = pathlib.Path({str(broken)!r});"
        "print(probe._probe_here().detail)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert "bcc cannot compile broken.bpf.c" in run.stdout


def test_an_interpreter_that_is_not_there_is_a_result_not_an_exception() -> None:
    result = bpf_probe.prove(python="/no/such/python")
    assert not result.proved
    assert result.detail
