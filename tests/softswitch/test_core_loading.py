"""What loading pipelines leaves behind: nothing; and which pipelines a core doesn't take."""

from __future__ import annotations

import gc
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import CoreError, PortState, SwitchCore, build

HERE = Path(__file__).resolve().parent
LIVES = 300
PORTS = 512
US = 1_000_000
EMPTY = (
    '#include "pipeline_abi.h"\n'
    "const struct wp_pipeline weft_pipeline = {.abi_version = WP_ABI_VERSION, .phv_size = 512};"
)


def test_nothing_is_left_of_three_hundred_lives(
    make_core: Callable[..., SwitchCore],
    compile_c: Callable[..., Path],
    frame: Callable[..., bytes],
    tmp_path: Path,
) -> None:
    """Switches with many ports, each with a program of its own; loads fail before and after; a
    switch is closed or just forgotten."""
    good = compile_c(HERE / "pipelines" / "toy.c", tmp_path / "good.so")
    bad = compile_c(HERE / "pipelines" / "refused.c", tmp_path / "bad.so")
    for life in range(LIVES):
        core = make_core()
        for path in (bad, tmp_path / "absent.so"):
            with pytest.raises(CoreError, match=r"of 1024 bytes is above|no such file"):
                core.load(path)
        if life % 3:
            program = tmp_path / f"{life}.so"
            shutil.copyfile(good, program)
            core.load(program)
            program.unlink()
            with pytest.raises(CoreError, match="of 1024 bytes is above"):
                core.load(bad)
        for port in range(PORTS):
            core.set_port(port, PortState.UP)
        core.inject(1, frame(out=2), US)
        assert [output.port for output in core.take_output()] == ([2] if life % 3 else [])
        if life % 2:
            core.close()
    del core
    gc.collect()
    mapped = Path("/proc/self/maps").read_text().splitlines()
    assert [line for line in mapped if str(tmp_path) in line] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("struct wp_table_desc {", "struct wp_table_desc {\n    uint64_t more;"),
        ("    uint32_t abi_version;", "    uint32_t abi_version;\n    const char *more;"),
    ],
)
def test_a_pipeline_of_another_layout_is_refused(
    toy: Any, tmp_path: Path, old: str, new: str
) -> None:
    """As when a switch runs on while its sources change, and nobody counts the ABI's number up."""
    header = (build.HERE / "pipeline_abi.h").read_text()
    assert header.count(old) == 1
    (tmp_path / "pipeline.c").write_text(EMPTY)
    command = ["gcc", "-shared", "-fPIC", str(tmp_path / "pipeline.c"), f"-I{tmp_path}", "-o"]
    for name, text in (("same.so", header), ("other.so", header.replace(old, new))):
        (tmp_path / "pipeline_abi.h").write_text(text)
        subprocess.run([*command, str(tmp_path / name)], check=True)
    toy.core.load(tmp_path / "same.so")
    with pytest.raises(CoreError, match=r"pipeline ABI \d+\.\d+, this switch has \d+\.\d+"):
        toy.core.load(tmp_path / "other.so")
