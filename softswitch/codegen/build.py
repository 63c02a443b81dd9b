"""Generated C to a shared object, kept in a cache by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from softswitch.codegen.generate import generate_c
from softswitch.codegen.model import Bmv2Program

INCLUDE = Path(__file__).parent / "include"
ABI = Path(__file__).parent.parent / "core"
# No -Werror: a warning about what the user's program computes must not stop it. Tests add STRICT.
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fno-strict-aliasing")
STRICT = ("-Wall", "-Wextra", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g")
COMPILE_SECONDS = 120


class BuildError(Exception):
    """The C compiler is missing or refused the code; `detail` is its first message."""

    def __init__(self, problem: str, detail: str = "") -> None:
        super().__init__(f"{problem}: {detail}" if detail else problem)
        self.detail = detail


def default_cache() -> Path:
    """Return $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft."""
    own = os.environ.get("WEFT_CACHE_DIR")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "weft"


@cache
def compiler() -> tuple[str, str]:
    """Return the path and version of the C compiler."""
    path = shutil.which("gcc") or shutil.which("cc")
    if path is None:
        raise BuildError("no C compiler found", "gcc is needed (Debian: apt install gcc)")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return path, version.stdout.split("\n", 1)[0]


def _headers() -> list[Path]:
    return [*sorted(INCLUDE.glob("*.h")), ABI / "pipeline_abi.h"]


def build_c(code: str, *, cache_dir: Path | None = None, sanitize: bool = False) -> Path:
    """Compile the C text of a pipeline; return the shared object in the cache."""
    gcc, version = compiler()
    flags = FLAGS + (SANITIZE if sanitize else ())
    digest = hashlib.sha256()
    for part in (code, version, " ".join(flags), *(h.read_text() for h in _headers())):
        digest.update(part.encode())
        digest.update(b"\0")
    folder = (cache_dir if cache_dir is not None else default_cache()) / "pipelines"
    target = folder / f"{digest.hexdigest()[:32]}.so"
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            return _compile(gcc, flags, code, Path(work), target)
    except OSError as error:
        raise BuildError(
            f"can't write the build cache {folder}",
            f"{error.strerror}; WEFT_CACHE_DIR chooses another place",
        ) from None


def _compile(gcc: str, flags: tuple[str, ...], code: str, work: Path, target: Path) -> Path:
    source, made = work / "pipeline.c", work / "pipeline.so"
    source.write_text(code, encoding="utf-8")
    command = [gcc, *flags, f"-I{INCLUDE}", f"-I{ABI}", "-o", str(made), str(source)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise BuildError("the C compiler gave up", f"no result in {COMPILE_SECONDS} s") from None
    if done.returncode != 0:
        found = re.search(r"^.*\b(?:fatal )?error: .*$", done.stderr, re.MULTILINE)
        first = found.group(0) if found is not None else done.stderr.strip()[:400]
        kept = target.with_suffix(".failed.c")
        shutil.copyfile(source, kept)
        raise BuildError(
            f"generated C does not compile (kept as {kept})", first.replace(f"{work}{os.sep}", "")
        )
    source.replace(target.with_suffix(".c"))  # for the reader
    made.replace(target)
    return target


def build_pipeline(
    program: Bmv2Program,
    *,
    cache_dir: Path | None = None,
    sanitize: bool = False,
    trace: bool = False,
) -> Path:
    """Return the shared object of a program, building it unless it is cached.

    `trace` selects the traced variant.

    Raises JsonError for what the switch can't do, BuildError when the build fails.
    """
    return build_c(generate_c(program, trace=trace), cache_dir=cache_dir, sanitize=sanitize)
