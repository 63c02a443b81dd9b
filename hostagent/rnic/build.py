"""Builds the card and its real-time driver into `hostagent.rnic._rnic` (cffi, API mode).

    python -m hostagent.rnic.build [--sanitize] [--force]

Like the switch core's build it compiles only when a source has changed. AF_XDP is built in where
libxdp's headers are (Debian's libxdp-dev); without them the driver has AF_PACKET alone.
"""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.core import build as core_build
from softswitch.core.extension import Extension

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
DRIVER = HERE / "driver"
SHARED = HERE.parent / "include"
XDP_HEADER = Path("/usr/include/xdp/xsk.h")
CARD_HEADERS = (SHARED / "dcqcn.h", SHARED / "fast_cnp.h", SHARED / "cc_slot.h", CORE / "rnic.h")
HEADERS = (*CARD_HEADERS, CORE / "cc.h", DRIVER / "driver.h")
"""What Python sees of card and driver, in this order."""

_TYPES = "".join(f"typedef uint{bits}_t weft_u{bits};\n" for bits in (8, 16, 32, 64))


def sources() -> list[Path]:
    """The card's own C files and those of the switch core that it shares."""
    return [*sorted(CORE.glob("*.c")), core_build.HERE / "icrc.c"]


def without_code(text: str) -> str:
    """A C header as cffi's `cdef` takes it: no directives, no inline functions."""
    body = re.sub(r"^static inline [^;{]*\{.*?^\}$", "", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^static inline .*\}$", "", body, flags=re.MULTILINE)
    return re.sub(r"^#(.*\\\n)*.*$", "", body, flags=re.MULTILINE)


def declarations(headers: tuple[Path, ...] = HEADERS) -> str:
    """The public headers as cffi's `cdef` takes them."""
    return _TYPES + "".join(without_code(path.read_text()) for path in headers)


def has_xdp() -> bool:
    """Whether AF_XDP can be built in."""
    return XDP_HEADER.exists()


EXTENSION = Extension(
    package="hostagent.rnic",
    name="_rnic",
    folder=HERE,
    headers=tuple(path.name for path in HEADERS),
    sources=lambda: [*sources(), *sorted(DRIVER.glob("*.c"))],
    include=(SHARED, CORE, DRIVER, core_build.HERE),
    declarations=declarations,
    builds=(Path(__file__), Path(core_build.__file__)),
    defines=("-DRNIC_HAVE_XDP",) if has_xdp() else (),
    libraries=("-lxdp", "-lbpf", "-lpthread") if has_xdp() else ("-lpthread",),
)
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
