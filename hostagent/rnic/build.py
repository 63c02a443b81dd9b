"""Builds the card and its real-time driver into `hostagent.rnic._rnic` (cffi, API mode).

    python -m hostagent.rnic.build [--sanitize] [--force]

Like the switch core's build it compiles only when a source has changed. AF_XDP is built in where
libxdp's headers are (Debian's libxdp-dev); without them the driver has AF_PACKET alone.
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

from softswitch.core import build as core_build
from softswitch.core.build import OPTIMISE, SANITIZE, WARNINGS, CoreBuildError

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
DRIVER = HERE / "driver"
SHARED = HERE.parent / "include"
STAMPS = HERE / "_build"
XDP_HEADER = Path("/usr/include/xdp/xsk.h")
CARD_HEADERS = (SHARED / "dcqcn.h", SHARED / "cc_slot.h", CORE / "rnic.h")
HEADERS = (*CARD_HEADERS, CORE / "cc.h")
"""What Python sees of the card, in this order; the driver's own header follows."""

_TYPES = "".join(f"typedef uint{bits}_t weft_u{bits};\n" for bits in (8, 16, 32, 64))


def sources() -> list[Path]:
    """The card's own C files and those of the switch core that it shares."""
    return [*sorted(CORE.glob("*.c")), core_build.HERE / "icrc.c"]


def _all_sources() -> list[Path]:
    return [*sources(), *sorted(DRIVER.glob("*.c"))]


def _include() -> list[Path]:
    return [SHARED, CORE, DRIVER, core_build.HERE]


def without_code(text: str) -> str:
    """A C header as cffi's `cdef` takes it: no directives, no inline functions."""
    body = re.sub(r"^static inline [^;{]*\{.*?^\}$", "", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^static inline .*\}$", "", body, flags=re.MULTILINE)
    return re.sub(r"^#(.*\\\n)*.*$", "", body, flags=re.MULTILINE)


def declarations(headers: tuple[Path, ...] = HEADERS) -> str:
    """The public headers as cffi's `cdef` takes them."""
    return _TYPES + "".join(without_code(path.read_text()) for path in headers if path.exists())


def _driver_headers() -> tuple[Path, ...]:
    return tuple(sorted(path for path in DRIVER.glob("driver.h")))


def has_xdp() -> bool:
    """Whether AF_XDP can be built in."""
    return XDP_HEADER.exists()


def _hash(flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    headers = [path for folder in _include() for path in sorted(folder.glob("*.h"))]
    for path in [*_all_sources(), *headers, Path(__file__), Path(core_build.__file__)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(" ".join((*flags, cffi.__version__, sys.version, str(has_xdp()))).encode())
    return digest.hexdigest()


def _compile(name: str, target: Path, flags: tuple[str, ...]) -> None:
    public = [path for path in (*HEADERS, *_driver_headers()) if path.exists()]
    builder = cffi.FFI()
    builder.cdef(declarations((*HEADERS, *_driver_headers())))
    includes = "".join(f'#include "{path.name}"\n' for path in public)
    with tempfile.TemporaryDirectory(dir=STAMPS) as work:
        glue = Path(work) / "glue.c"
        make_c_source(builder, f"hostagent.rnic.{name}", includes, str(glue))
        output = Path(work) / target.name
        include = [f"-I{path}" for path in (*_include(), sysconfig.get_paths()["include"])]
        compiler = os.environ.get("CC", "gcc")
        defines = ["-DRNIC_HAVE_XDP"] if has_xdp() else []
        objects: list[str] = []
        for source in [*_all_sources(), glue]:
            strict = WARNINGS if source is not glue else ("-std=gnu11", "-w")
            objects.append(str(Path(work) / f"{source.parent.name}-{len(objects)}.o"))
            common = [*strict, *flags, *defines, "-fPIC", "-fvisibility=hidden", *include]
            core_build.run([compiler, *common, "-c", str(source), "-o", objects[-1]])
        libraries = ["-lxdp", "-lbpf"] if has_xdp() else []
        core_build.run(
            [compiler, *flags, "-shared", *objects, "-o", str(output), *libraries, "-lpthread"]
        )
        output.replace(target)


def module_name(sanitize: bool = False) -> str:
    """The extension module's name inside this package."""
    return "_rnic_sanitized" if sanitize else "_rnic"


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
    parser = argparse.ArgumentParser(prog="python -m hostagent.rnic.build", description=__doc__)
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
