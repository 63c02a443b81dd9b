"""Builds the C core into the extension module `softswitch.core._core` (cffi, API mode).

    python -m softswitch.core.build [--sanitize] [--force]

The module carries the hash of the sources that it was made from: `ensure()` compiles only when that
hash changed. `--sanitize` makes a second module, `_core_sanitized`, under AddressSanitizer and
UndefinedBehaviorSanitizer for the tests.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cffi
from cffi.recompiler import make_c_source

HERE = Path(__file__).resolve().parent
HEADERS = ("pipeline_abi.h", "weft_switch.h")
WARNINGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
OPTIMISE = ("-O2", "-g")
SANITIZE = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
)
STAMPS = HERE / "_build"


class CoreBuildError(Exception):
    """The C core can't be compiled; the message holds the compiler's first error."""


def _sources() -> list[Path]:
    return sorted(HERE.glob("*.c"))


def _hash(flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for path in [*_sources(), *sorted(HERE.glob("*.h")), Path(__file__)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(" ".join((*flags, cffi.__version__, sys.version)).encode())
    return digest.hexdigest()


def declarations() -> str:
    """The public headers as cffi's `cdef` takes them: no directives, no exported data."""
    text = "\n".join((HERE / name).read_text() for name in HEADERS)
    constants = re.findall(r"^#define (\w+) (?:0x)?\w+$", text, re.MULTILINE)
    body = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    body = re.sub(r"^extern const struct wp_\w+ .*$", "", body, flags=re.MULTILINE)
    defines = "\n".join(f"#define {name} ..." for name in constants if not name.endswith("_H"))
    callback = 'extern "Python" void weft_log(void *opaque, int level, const char *line);'
    return f"{defines}\n{body}\n{callback}\n"


@contextmanager
def _lock() -> Iterator[None]:
    STAMPS.mkdir(exist_ok=True)
    (STAMPS / ".gitignore").write_text("*\n")
    with (STAMPS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _compile(name: str, target: Path, flags: tuple[str, ...]) -> None:
    builder = cffi.FFI()
    builder.cdef(declarations())
    with tempfile.TemporaryDirectory(dir=STAMPS) as work:
        glue = Path(work) / "glue.c"
        make_c_source(builder, f"softswitch.core.{name}", '#include "weft_switch.h"\n', str(glue))
        output = Path(work) / target.name
        include = sysconfig.get_paths()["include"]
        objects: list[str] = []
        compiler = os.environ.get("CC", "gcc")
        for source in [*_sources(), glue]:
            strict = WARNINGS if source is not glue else ("-std=gnu11", "-w")
            objects.append(str(Path(work) / f"{source.stem}.o"))
            run(
                [
                    compiler,
                    *strict,
                    *flags,
                    "-fPIC",
                    "-fvisibility=hidden",
                    f"-I{HERE}",
                    f"-I{include}",
                    "-c",
                    str(source),
                    "-o",
                    objects[-1],
                ]
            )
        run([compiler, *flags, "-shared", *objects, "-o", str(output), "-lpthread", "-ldl"])
        output.replace(target)


def run(command: list[str]) -> None:
    """Run a compiler command. Raises CoreBuildError with its first error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CoreBuildError(
            f"no C compiler ({command[0]}): install gcc, or run make setup"
        ) from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        first = errors[0] if errors else done.stderr.strip()
        raise CoreBuildError(f"the switch core does not compile: {first}")


def module_name(sanitize: bool = False) -> str:
    """The extension module's name inside this package."""
    return "_core_sanitized" if sanitize else "_core"


def ensure(*, sanitize: bool = False, force: bool = False) -> Path:
    """Compiles the extension module unless it is up to date; returns its path.

    Safe against other processes that do the same. Raises CoreBuildError.
    """
    name = module_name(sanitize)
    target = HERE / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = SANITIZE if sanitize else OPTIMISE
    stamp = STAMPS / f"{name}.sha256"
    wanted = _hash(flags)

    def fresh() -> bool:
        return target.exists() and stamp.exists() and stamp.read_text() == wanted

    if fresh() and not force:
        return target
    with _lock():
        if force or not fresh():
            _compile(name, target, flags)
            stamp.write_text(wanted)
    return target


def main(argv: list[str] | None = None) -> int:
    """Command line of this module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m softswitch.core.build", description=__doc__)
    parser.add_argument("--sanitize", action="store_true", help="build the sanitized module")
    parser.add_argument("--force", action="store_true", help="build even if up to date")
    arguments = parser.parse_args(argv)
    try:
        print(ensure(sanitize=arguments.sanitize, force=arguments.force))
    except CoreBuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
