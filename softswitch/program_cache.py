"""Compiling P4 programs once: results are kept by the content of all that they depend on.

The key covers the preprocessed source (so every included file and definition), the language, and
the text of the compiler and of the code generator themselves. A hit imports neither: it costs one
run of the preprocessor and some reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import softswitch
from compiler.syntax.cpp import preprocess

P4C = "p4c-bm2-ss"

_FORMAT = 1
_ROOT = Path(softswitch.__file__).parent.parent
_TOOL_SOURCES = ("compiler", "softswitch/codegen", "softswitch/core/pipeline_abi.h")
_TOOL_SUFFIXES = frozenset({".py", ".p4", ".h"})


class CompilerMissingError(Exception):
    """The compiler that was asked for is not installed."""

    def __init__(self) -> None:
        super().__init__(f"{P4C} is not on PATH")
        self.remedy = "leave --compiler away to use Weft's own, or install p4c"


class P4cError(Exception):
    """p4c refused the program; the message is its output."""


@dataclass(frozen=True)
class Job:
    """What to compile and how; `diagnostics` as p4c's options: "Werror=unused".

    Without `with_p4info` errors that only P4Info has are none.
    """

    source: Path
    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    std: str = "p4-16"
    compiler: str = "weft"
    diagnostics: tuple[str, ...] = ()
    with_p4info: bool = True


@dataclass
class Compiled:
    """A compiled program. `timings` are seconds by phase, of this call only.

    `p4info_text` is empty where none was wanted.
    """

    json_text: str
    p4info_text: str
    pipeline: Path
    warnings: list[str]
    from_cache: bool
    timings: dict[str, float] = field(default_factory=dict)


def cache_directory() -> Path:
    """Return where compiled programs are kept: $WEFT_CACHE_DIR, else the user's cache."""
    chosen = os.environ.get("WEFT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "weft"


def compile_program(job: Job) -> Compiled:
    """Compile a program, or take the result of the same compilation from the cache.

    Raises the compiler's CompileError, softswitch.codegen's BuildError, and, for p4c,
    CompilerMissingError or P4cError.
    """
    if job.compiler == "p4c" and shutil.which(P4C) is None:
        raise CompilerMissingError
    timings: dict[str, float] = {}
    with _timed(timings, "cpp"):
        text = preprocess(job.source, job.include_dirs, job.defines)
    with _timed(timings, "cache"):
        entry = cache_directory() / "programs" / _key(job, text)
        found = _read_entry(entry)
    if found is not None:
        found.timings = timings
        return found
    compiled = _compile_with_p4c(job) if job.compiler == "p4c" else _compile(job)
    _write_entry(entry, compiled)
    # The compiler ran its own preprocessor; the look into the cache is part of this call too.
    compiled.timings = {"key": sum(timings.values()), **compiled.timings}
    return compiled


@contextmanager
def _timed(timings: dict[str, float], phase: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    timings[phase] = time.perf_counter() - started


def _key(job: Job, preprocessed: str) -> str:
    digest = hashlib.sha256()
    options = " ".join(job.diagnostics)
    parts = (str(_FORMAT), job.compiler, job.std, options, job.source.name, preprocessed)
    for part in (*parts, *([] if job.with_p4info else ["JSON alone"])):
        digest.update(f"{len(part)}:{part}".encode())
    for path in _tool_files(job):
        state = path.stat()
        digest.update(f"{path}:{state.st_size}".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _tool_files(job: Job) -> list[Path]:
    """Return the files whose text decides the result: compiler and code generator."""
    files: list[Path] = []
    for name in _TOOL_SOURCES:
        path = _ROOT / name
        found = path.rglob("*") if path.is_dir() else iter([path])
        files.extend(file for file in found if file.suffix in _TOOL_SUFFIXES)
    if job.compiler == "p4c":
        binary = shutil.which(P4C)
        assert binary is not None
        files.append(Path(binary))
    return sorted(files)


def _compile(job: Job) -> Compiled:
    from compiler import compile_p4  # slow to load, and a program in the cache needs none of it

    result = compile_p4(
        job.source,
        include_dirs=job.include_dirs,
        defines=job.defines,
        std=job.std,
        diagnostics=job.diagnostics,
        with_p4info=job.with_p4info,
    )
    timings = dict(result.timings)
    pipeline = _build(result.json_text, timings)
    warnings = [str(warning) for warning in result.warnings]
    return Compiled(result.json_text, result.p4info_text, pipeline, warnings, False, timings)


def _compile_with_p4c(job: Job) -> Compiled:
    timings: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="weft-p4c-") as scratch:
        json_path = Path(scratch, "program.json")
        p4info_path = Path(scratch, "program.p4info.txtpb")
        command = [P4C, "--std", job.std, "-o", str(json_path)]
        if job.with_p4info:
            command += ["--p4runtime-files", str(p4info_path)]
        for directory in job.include_dirs:
            command += ["-I", str(directory)]
        command += [f"-D{define}" for define in job.defines]
        command += [f"--{option}" for option in job.diagnostics]
        with _timed(timings, "p4c"):
            done = subprocess.run(
                [*command, str(job.source)], capture_output=True, text=True, check=False
            )
        if done.returncode != 0:
            raise P4cError(done.stderr.strip() or f"{P4C} failed with code {done.returncode}")
        json_text = json_path.read_text()
        p4info_text = p4info_path.read_text() if job.with_p4info else ""
    pipeline = _build_of_p4c(json_text, timings)
    return Compiled(json_text, p4info_text, pipeline, done.stderr.splitlines(), False, timings)


def _build_of_p4c(json_text: str, timings: dict[str, float]) -> Path:
    """Build as `_build` does, but raise P4cError for p4c's JSON: the user is not at fault."""
    from softswitch.codegen.build import BuildError  # as in `_build`
    from softswitch.codegen.json_reader import JsonError

    try:
        return _build(json_text, timings)
    except (JsonError, BuildError) as error:
        raise P4cError(f"error: {P4C} wrote BMv2 JSON that can't be run: {error}") from error


def _build(json_text: str, timings: dict[str, float]) -> Path:
    """Turn BMv2 JSON into a shared object; adds the phases "codegen" and "gcc" to `timings`."""
    from softswitch.codegen.build import build_c  # a program in the cache needs none of these
    from softswitch.codegen.generate import generate_c
    from softswitch.codegen.model import Bmv2Program

    with _timed(timings, "codegen"):
        code = generate_c(Bmv2Program.from_json(json_text))
    with _timed(timings, "gcc"):
        return build_c(code)


def _read_entry(entry: Path) -> Compiled | None:
    """Read a result from the cache; None when it is not there or not whole."""
    try:
        about = json.loads((entry / "about.json").read_text())
        pipeline = Path(about["pipeline"])
        if not pipeline.exists():
            return None
        return Compiled(
            (entry / "program.json").read_text(),
            (entry / "program.p4info.txtpb").read_text(),
            pipeline,
            about["warnings"],
            from_cache=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_entry(entry: Path, compiled: Compiled) -> None:
    """Put a result into the cache, whole or not at all. A read-only cache is no error."""
    about = {"pipeline": str(compiled.pipeline), "warnings": compiled.warnings}
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".new-") as scratch:
            fresh = Path(scratch, "entry")
            fresh.mkdir()
            (fresh / "program.json").write_text(compiled.json_text)
            (fresh / "program.p4info.txtpb").write_text(compiled.p4info_text)
            (fresh / "about.json").write_text(json.dumps(about))
            shutil.rmtree(entry, ignore_errors=True)
            fresh.rename(entry)
    except OSError:
        return
