"""Builds the planner's hot loops into `mechanisms.iglb._iglb` (cffi, API mode).

    python -m mechanisms.iglb.build [--sanitize] [--force]

Like the switch core's build it compiles only when a source has changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.core.extension import Extension

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
HEADER = "iglb.h"


def declarations() -> str:
    """Return the header as cffi's `cdef` takes it."""
    return re.sub(r"^#(?!define IGLB_FAR).*$", "", (CORE / HEADER).read_text(), flags=re.MULTILINE)


EXTENSION = Extension(
    package="mechanisms.iglb",
    name="_iglb",
    folder=HERE,
    headers=(HEADER,),
    sources=lambda: sorted(CORE.glob("*.c")),
    include=(CORE,),
    declarations=declarations,
    builds=(Path(__file__),),
    libraries=(),
)
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
