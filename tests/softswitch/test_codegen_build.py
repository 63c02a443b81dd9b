"""The build of generated C: cached by content, errors as one message, strict and sanitized."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from softswitch.codegen import Bmv2Program, BuildError, build, build_pipeline, generate_c

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="module")
def l3() -> Bmv2Program:
    return Bmv2Program.from_json(GOLDEN / "l3.json")


def test_the_shared_object_exports_the_pipeline(l3: Bmv2Program, tmp_path: Path) -> None:
    made = build_pipeline(l3, cache_dir=tmp_path)
    library = ctypes.CDLL(str(made))
    version = ctypes.c_uint32.in_dll(library, "weft_pipeline")
    declared = re.search(r"WP_ABI_RELEASE (\d+)u", (build.ABI / "pipeline_abi.h").read_text())
    assert declared is not None and version.value & 0xFFFF == int(declared.group(1))
    assert made.with_suffix(".c").read_text() == generate_c(l3)


def test_equal_content_is_built_once(l3: Bmv2Program, tmp_path: Path) -> None:
    made = build_pipeline(l3, cache_dir=tmp_path)
    before = made.stat().st_mtime_ns
    assert build_pipeline(l3, cache_dir=tmp_path) == made
    assert made.stat().st_mtime_ns == before
    assert sorted(p.suffix for p in made.parent.iterdir()) == [".c", ".so"]


def test_other_content_is_another_object(l3: Bmv2Program, tmp_path: Path) -> None:
    first = build.build_c(generate_c(l3), cache_dir=tmp_path)
    second = build.build_c(generate_c(l3) + "\n", cache_dir=tmp_path)
    third = build.build_c(generate_c(l3), cache_dir=tmp_path, sanitize=True)
    assert len({first, second, third}) == 3


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", "/one")
    assert build.default_cache() == Path("/one")
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert build.default_cache() == Path("/two/weft")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert build.default_cache() == Path.home() / ".cache" / "weft"


def test_the_first_error_is_reported_and_the_source_kept(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"pipeline\.c:2:1: error: .*nonsense") as caught:
        build.build_c("int x;\nnonsense y;\nmore z;\n", cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
    kept = list((tmp_path / "pipelines").iterdir())
    assert [p.name.split(".", 1)[1] for p in kept] == ["failed.c"]


def test_a_cache_that_can_not_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BuildError, match="WEFT_CACHE_DIR"):
        build.build_c("int x;", cache_dir=blocked)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    build.compiler.cache_clear()
    try:
        with pytest.raises(BuildError, match="gcc"):
            build.build_c("int x;", cache_dir=tmp_path)
    finally:
        build.compiler.cache_clear()


@pytest.mark.parametrize("name", ["l3", "features"])
def test_the_golden_programs_compile_without_warnings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "FLAGS", build.FLAGS + build.STRICT)
    program = Bmv2Program.from_json(GOLDEN / f"{name}.json")
    assert build_pipeline(program, cache_dir=tmp_path).is_file()
