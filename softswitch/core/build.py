"""Builds the C core into the extension module `softswitch.core._core` (cffi, API mode).

    python -m softswitch.core.build [--sanitize] [--force]

The module carries the hash of the sources that it was made from: `ensure()` compiles only when that
hash changed. `--sanitize` makes a second module, `_core_sanitized`, for the tests.
"""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.core.extension import (
    OPTIMISE,
    SANITIZE,
    WARNINGS,
    CoreBuildError,
    Extension,
    run,
)

HERE = Path(__file__).resolve().parent
HEADERS = ("pipeline_abi.h", "weft_switch.h")


def sources() -> list[Path]:
    """Return the core's C files."""
    return sorted(HERE.glob("*.c"))


def declarations() -> str:
    """Return the public headers as cffi's `cdef` takes them: no directives, no exported data."""
    text = "\n".join((HERE / name).read_text() for name in HEADERS)
    constants = re.findall(r"^#define (\w+) (?:0x)?\w+$", text, re.MULTILINE)
    body = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    body = re.sub(r"^extern const struct wp_\w+ .*$", "", body, flags=re.MULTILINE)
    defines = "\n".join(f"#define {name} ..." for name in constants if not name.endswith("_H"))
    callback = 'extern "Python" void weft_log(void *opaque, int level, const char *line);'
    return f"{defines}\n{body}\n{callback}\n"


EXTENSION = Extension(
    package="softswitch.core",
    name="_core",
    folder=HERE,
    headers=("weft_switch.h",),
    sources=sources,
    include=(HERE,),
    declarations=declarations,
    builds=(Path(__file__),),
    libraries=("-lpthread", "-ldl"),
)
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure

__all__ = [
    "OPTIMISE",
    "SANITIZE",
    "WARNINGS",
    "CoreBuildError",
    "declarations",
    "ensure",
    "module_name",
    "run",
    "sources",
]


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
