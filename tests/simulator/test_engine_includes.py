"""The engine uses what embed.h offers of the switch and rnic.h of the card; nothing private."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "simulator" / "core"
PUBLIC = {
    ROOT / "softswitch" / "core": {
        "embed.h",
        "memory.h",
        "pipeline_abi.h",
        "weft_switch.h",
        "wire.h",
    },
    ROOT / "hostagent" / "rnic" / "core": {"rnic.h", "notifications.h"},
}
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def included(file: Path) -> set[str]:
    """Return what a file includes of ours."""
    return set(_INCLUDE.findall(file.read_text()))


def test_the_engine_includes_only_public_headers_of_switch_and_card() -> None:
    own = {path.name for path in ENGINE.glob("*.h")}
    taken = {
        (file.name, header)
        for file in [*ENGINE.glob("*.c"), *ENGINE.glob("*.h")]
        for header in included(file) - own
    }
    private = {
        (file, header)
        for file, header in taken
        for folder, public in PUBLIC.items()
        if (folder / header).exists() and header not in public
    }
    assert not private
    assert {"embed.h", "rnic.h"} <= {header for _, header in taken}  # it looks at the right files


def test_public_headers_include_nothing_private() -> None:
    for folder, public in PUBLIC.items():
        for header in public:
            inside = {each for each in included(folder / header) if (folder / each).exists()}
            assert inside <= public, header


def test_no_public_header_tells_what_a_switch_is_made_of() -> None:
    core = ROOT / "softswitch" / "core"
    parts = re.compile(r"^struct ws_(switch|port|packet|table) \{", re.MULTILINE)
    assert parts.search((core / "port.h").read_text())
    for header in PUBLIC[core]:
        assert not parts.search((core / header).read_text()), header
