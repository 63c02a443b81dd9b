"""The fabric with one mechanism more, of tests: 12 bytes a hop (programs/hop_records.p4)."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

P4SRC = Path(__file__).parents[2] / "p4src"
MODULE = Path(__file__).with_name("programs") / "hop_records.p4"
RECORD = struct.Struct("!HHII")
"""Switch, port, queue at dequeue, when it left."""
CORE = ("PROFILE", "WITH_HOP_RECORDS")
"""What to define for the smallest router that writes them."""


def source(folder: Path) -> Path:
    """Copy p4src into a folder, with the mechanism in its list; return fabric.p4's path."""
    copy = shutil.copytree(P4SRC, folder / "p4src")
    shutil.copy(MODULE, copy / "modules")
    with (copy / "mechanisms.p4").open("a") as file:
        file.write(f'#include "modules/{MODULE.name}"\n')
    return copy / "fabric.p4"
