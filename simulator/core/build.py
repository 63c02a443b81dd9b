"""Builds the simulator's engine, together with the switch core, into `simulator.core._sim`.

    python -m simulator.core.build [--sanitize] [--force]

One module holds both, so that the engine calls switches without a detour. The same compiled
pipelines are loaded by it. Like the core's build, it compiles only when a source has changed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

import cffi
from cffi.recompiler import make_c_source

from hostagent.rnic import build as card_build
from softswitch.core import build as core_build
from softswitch.core.build import OPTIMISE, SANITIZE, WARNINGS, CoreBuildError

HERE = Path(__file__).resolve().parent
CORE = core_build.HERE
STAMPS = HERE / "_build"


def _sources() -> list[Path]:
    card = [path for path in card_build.sources() if path.parent != CORE]
    return [*sorted(CORE.glob("*.c")), *card, *sorted(HERE.glob("*.c"))]


def _include() -> list[Path]:
    return [HERE, CORE, card_build.CORE, card_build.SHARED]


def _hash(flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    headers = [path for folder in _include() for path in sorted(folder.glob("*.h"))]
    builds = [Path(core_build.__file__), Path(card_build.__file__)]
    for path in [*_sources(), *headers, Path(__file__), *builds]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(" ".join((*flags, cffi.__version__, sys.version)).encode())
    return digest.hexdigest()


def declarations() -> str:
    """The headers as cffi's `cdef` takes them: the core's, the card's, then the engine's."""
    own = re.sub(r"^#.*$", "", (HERE / "sim.h").read_text(), flags=re.MULTILINE)
    return core_build.declarations() + card_build.declarations(card_build.CARD_HEADERS) + own


def _compile(name: str, target: Path, flags: tuple[str, ...]) -> None:
    builder = cffi.FFI()
    builder.cdef(declarations())
    with tempfile.TemporaryDirectory(dir=STAMPS) as work:
        glue = Path(work) / "glue.c"
        make_c_source(builder, f"simulator.core.{name}", '#include "sim.h"\n', str(glue))
        output = Path(work) / target.name
        include = [f"-I{path}" for path in (*_include(), sysconfig.get_paths()["include"])]
        compiler = os.environ.get("CC", "gcc")
        objects: list[str] = []
        for source in [*_sources(), glue]:
            strict = WARNINGS if source is not glue else ("-std=gnu11", "-w")
            objects.append(str(Path(work) / f"{source.parent.name}-{len(objects)}.o"))
            common = [*strict, *flags, "-fPIC", "-fvisibility=hidden", *include]
            core_build.run([compiler, *common, "-c", str(source), "-o", objects[-1]])
        libraries = ["-lpthread", "-ldl"]
        core_build.run([compiler, *flags, "-shared", *objects, "-o", str(output), *libraries])
        output.replace(target)


def module_name(sanitize: bool = False) -> str:
    """The extension module's name inside this package."""
    return "_sim_sanitized" if sanitize else "_sim"


def ensure(*, sanitize: bool = False, force: bool = False) -> Path:
    """Compile the module unless it is up to date; return its path.

    Safe against other processes that do the same. Raises softswitch.core.build.CoreBuildError.
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
    STAMPS.mkdir(exist_ok=True)
    (STAMPS / ".gitignore").write_text("*\n")
    with (STAMPS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if force or not fresh():
            _compile(name, target, flags)
            stamp.write_text(wanted)
    return target


def main(argv: list[str] | None = None) -> int:
    """Command line of this module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulator.core.build", description=__doc__)
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
