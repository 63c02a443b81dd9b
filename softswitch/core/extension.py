"""Extension modules from C: compiled by cffi in API mode, and only when a source has changed.

The switch core, the simulator's engine and the endpoint's card each describe theirs by an
`Extension` in a `build.py`. Each has a second form under AddressSanitizer and
UndefinedBehaviorSanitizer, for the tests.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cffi
from cffi.recompiler import make_c_source

WARNINGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
OPTIMISE = ("-O2", "-g")
SANITIZE = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
)


class CoreBuildError(Exception):
    """C sources can't be compiled; the message holds the compiler's first error."""


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
        raise CoreBuildError(f"C sources do not compile: {first}")


@dataclass(frozen=True)
class Extension:
    """One module: `package`.`name`, which lies in `folder` and sees `headers` of its C.

    `sources`, `include` (folders, whose headers count as sources) and `declarations` (for cffi) are
    asked for when they are needed. `builds`: the Python files that say how. `defines` and
    `libraries` go to the compiler and the linker.
    """

    package: str
    name: str
    folder: Path
    headers: tuple[str, ...]
    sources: Callable[[], list[Path]]
    include: tuple[Path, ...]
    declarations: Callable[[], str]
    builds: tuple[Path, ...]
    defines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ("-lpthread",)

    @property
    def _stamps(self) -> Path:
        return self.folder / "_build"

    def module_name(self, sanitize: bool = False) -> str:
        """Return the module's name inside its package."""
        return f"{self.name}_sanitized" if sanitize else self.name

    def _digest(self, flags: tuple[str, ...]) -> str:
        digest = hashlib.sha256()
        headers = [path for folder in self.include for path in sorted(folder.glob("*.h"))]
        for path in [*self.sources(), *headers, *self.builds, Path(__file__)]:
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        settings = (*flags, *self.defines, *self.libraries, cffi.__version__, sys.version)
        digest.update(" ".join(settings).encode())
        return digest.hexdigest()

    def _compile(self, name: str, target: Path, flags: tuple[str, ...]) -> None:
        builder = cffi.FFI()
        builder.cdef(self.declarations())
        includes = "".join(f'#include "{header}"\n' for header in self.headers)
        folders = (*self.include, Path(sysconfig.get_paths()["include"]))
        compiler = os.environ.get("CC", "gcc")
        with tempfile.TemporaryDirectory(dir=self._stamps) as work:
            glue = Path(work) / "glue.c"
            make_c_source(builder, f"{self.package}.{name}", includes, str(glue))
            output = Path(work) / target.name
            objects: list[str] = []
            commands: list[list[str]] = []
            for source in [*self.sources(), glue]:
                strict = WARNINGS if source is not glue else ("-std=gnu11", "-w")
                objects.append(str(Path(work) / f"{source.parent.name}-{len(objects)}.o"))
                common = [*strict, *flags, *self.defines, "-fPIC", "-fvisibility=hidden"]
                common += [f"-I{folder}" for folder in folders]
                commands.append([compiler, *common, "-c", str(source), "-o", objects[-1]])
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as compilers:
                for _ in compilers.map(run, commands):  # the first source's error, if several have
                    pass
            run([compiler, *flags, "-shared", *objects, "-o", str(output), *self.libraries])
            output.replace(target)

    def ensure(self, *, sanitize: bool = False, force: bool = False) -> Path:
        """Compile the module unless it is up to date; return its path.

        Safe against other processes that do the same. Raises CoreBuildError.
        """
        name = self.module_name(sanitize)
        target = self.folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        flags = SANITIZE if sanitize else OPTIMISE
        stamp = self._stamps / f"{name}.sha256"
        wanted = self._digest(flags)

        def fresh() -> bool:
            return target.exists() and stamp.exists() and stamp.read_text() == wanted

        if fresh() and not force:
            return target
        self._stamps.mkdir(exist_ok=True)
        (self._stamps / ".gitignore").write_text("*\n")
        with (self._stamps / "lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if force or not fresh():
                self._compile(name, target, flags)
                stamp.write_text(wanted)
        return target

    def main(self, description: str | None, argv: list[str] | None = None) -> int:
        """Run the command line of a `build.py` and return its exit code."""
        program = f"python -m {self.package}.build"
        parser = argparse.ArgumentParser(prog=program, description=description)
        parser.add_argument("--sanitize", action="store_true", help="build the sanitized module")
        parser.add_argument("--force", action="store_true", help="build even if up to date")
        arguments = parser.parse_args(argv)
        try:
            print(self.ensure(sanitize=arguments.sanitize, force=arguments.force))
        except CoreBuildError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"error: {error.filename or self.folder}: {error.strerror}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        return 0
