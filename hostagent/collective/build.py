"""Builds the worker and its real-time driver into `hostagent.collective._collective` (cffi, API).

    python -m hostagent.collective.build [--sanitize] [--force]

Like the switch core's build it compiles only when a source has changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from softswitch.core.extension import Extension

HERE = Path(__file__).resolve().parent
CORE = HERE / "core"
DRIVER = HERE / "driver"
SHARED = HERE.parent / "include"
HEADERS = ("worker.h", "server.h", "blocks.h", "floats.h", "driver.h")

CALLBACKS = """
extern "Python" {
    void collective_worker_send(void *owner, const uint8_t *payload, uint32_t length,
                                uint32_t tail);
    void collective_worker_set_timer(void *owner, int64_t at_ns);
    void collective_worker_fill(void *owner, uint64_t tag, uint32_t chunk, int32_t *lanes);
    void collective_worker_take(void *owner, uint64_t tag, uint32_t chunk, const int32_t *lanes);
    uint8_t collective_worker_exponent(void *owner, uint64_t tag, uint32_t chunk);
    void collective_worker_agree(void *owner, uint64_t tag, uint32_t chunk, uint8_t exponent);
    void collective_worker_done(void *owner, uint64_t tag);
    void collective_server_send(void *owner, const uint8_t *payload, uint32_t length,
                                uint32_t tail);
    void collective_blocks_send(void *owner, uint32_t to, const uint8_t *payload, uint32_t length,
                                uint32_t tail);
    void collective_blocks_set_timer(void *owner, int64_t at_ns);
    uint16_t collective_blocks_epoch(void *owner);
    void collective_blocks_fill(void *owner, uint32_t block, int32_t *lanes, uint32_t n);
    void collective_blocks_take(void *owner, uint32_t rank, uint32_t block, const int32_t *lanes,
                                uint32_t n);
    void collective_blocks_complete(void *owner);
}
"""
"""By which what the passive C calls reaches Python; see `binding` and `blocks` in this folder."""


def core_sources() -> list[Path]:
    """Return the passive worker's C files, which other builds contain, too."""
    return sorted(CORE.glob("*.c"))


def _plain(path: Path) -> str:
    text = re.sub(r"^#define (\w+) INT64_MAX$", "", path.read_text(), flags=re.MULTILINE)
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def declarations() -> str:
    """Return the headers as cffi's `cdef` takes them."""
    headers = [*(CORE / name for name in HEADERS[:-1]), DRIVER / HEADERS[-1]]
    return "".join(map(_plain, headers)) + CALLBACKS


EXTENSION = Extension(
    package="hostagent.collective",
    name="_collective",
    folder=HERE,
    headers=HEADERS,
    sources=lambda: [*core_sources(), *sorted(DRIVER.glob("*.c"))],
    include=(SHARED, CORE, DRIVER),
    declarations=declarations,
    builds=(Path(__file__),),
)
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
