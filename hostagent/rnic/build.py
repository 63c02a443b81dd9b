"""Builds the card and its real-time driver into `hostagent.rnic._rnic` (cffi, API mode).

    python -m hostagent.rnic.build [--sanitize] [--force]

Like the switch core's build it compiles only when a source has changed. AF_XDP is built in where
libxdp's headers are (Debian's libxdp-dev); without them the driver has AF_PACKET alone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from softswitch.core import build as core_build
from softswitch.core.extension import Extension, run

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
DRIVER = HERE / "driver"
SHARED = HERE.parent / "include"
XDP_HEADER = Path("/usr/include/xdp/xsk.h")
CARD_HEADERS = ("rnic.h",)
HEADERS = (*CARD_HEADERS, "path_choice.h", "cc.h", "driver.h")
"""What Python sees of card and driver, with what these include of ours."""

_LINE_MARKER = re.compile(r'# \d+ "([^"]*)"')


def sources() -> list[Path]:
    """Return the card's own C files and those of the switch core that it shares."""
    return [*sorted(CORE.glob("*.c")), core_build.HERE / "icrc.c"]


def declarations(headers: tuple[str, ...] = HEADERS, shared: Path = SHARED) -> str:
    """Return headers as cffi's `cdef` takes them: macros expanded, no inline functions.

    What they include of ours is there too, once, of the system's headers nothing. `shared`: where
    the headers of algorithms are. Raises CoreBuildError.
    """
    folders = (shared, CORE, DRIVER)
    with tempfile.TemporaryDirectory() as work:
        source, expanded = Path(work) / "headers.c", Path(work) / "headers.i"
        source.write_text("".join(f'#include "{header}"\n' for header in headers))
        include = [f"-I{folder}" for folder in (*folders, core_build.HERE)]
        compiler = os.environ.get("CC", "gcc")
        run([compiler, "-E", "-std=c11", *include, str(source), "-o", str(expanded)])
        return without_code("".join(_lines_of(folders, expanded.read_text().splitlines())))


def _lines_of(folders: Iterable[Path], expanded: Iterable[str]) -> Iterator[str]:
    """Yield the preprocessor's lines that come from files in these folders."""
    ours = False
    for line in expanded:
        marker = _LINE_MARKER.match(line)
        if marker is not None:
            ours = Path(marker[1]).parent in folders
        elif ours:
            yield f"{line}\n"


def without_code(text: str) -> str:
    """Return preprocessed C without inline functions and the preprocessor's own lines."""
    # Those of one line first: the others end at a line of their own.
    body = re.sub(r"^static inline .*\}$", "", text, flags=re.MULTILINE)
    body = re.sub(r"^static inline [^;{]*\{.*?^\}$", "", body, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^#.*$", "", body, flags=re.MULTILINE)


def has_xdp() -> bool:
    """Return whether AF_XDP can be built in."""
    return XDP_HEADER.exists()


def extension(folder: Path = HERE, shared: Path = SHARED, *options: str) -> Extension:
    """Return the module as it is built into `folder` with the algorithms that are in `shared`."""
    return Extension(
        package="hostagent.rnic",
        name="_rnic",
        folder=folder,
        headers=HEADERS,
        sources=lambda: [*sources(), *sorted(DRIVER.glob("*.c"))],
        include=(shared, CORE, DRIVER, core_build.HERE),
        declarations=lambda: declarations(shared=shared),
        builds=(Path(__file__), Path(core_build.__file__)),
        defines=(*(("-DRNIC_HAVE_XDP",) if has_xdp() else ()), *options),
        libraries=("-lxdp", "-lbpf", "-lpthread") if has_xdp() else ("-lpthread",),
    )


EXTENSION = extension()
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
