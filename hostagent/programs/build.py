"""What builds that hold host programs need: their C files, and their header as cffi takes it."""

from __future__ import annotations

import re
from pathlib import Path

from hostagent.collective import build as collective

HERE = Path(__file__).resolve().parent
HEADER = HERE / "host_program.h"
INCLUDE = (HERE, collective.CORE, collective.SHARED)
"""Where headers of the programs are."""

CALLBACKS = """
extern "Python" {
    void weft_program_start(struct program_host *host);
    void weft_program_packet(struct program_host *host, uint32_t interface, const uint8_t *frame,
                             uint32_t length);
    void weft_program_timer(struct program_host *host, uint32_t token);
    void weft_program_stop(struct program_host *host);
}
"""
"""How programs in Python are called; hostagent.programs.adapter defines them."""


def sources() -> list[Path]:
    """Return the C files of the programs, of their list, and of what they run."""
    return [*sorted(HERE.glob("*.c")), *collective.core_sources()]


def declarations(python: str = CALLBACKS) -> str:
    """Return the header as cffi's `cdef` takes it, and the functions that Python defines."""
    return re.sub(r"^#.*$", "", HEADER.read_text(), flags=re.MULTILINE) + python
