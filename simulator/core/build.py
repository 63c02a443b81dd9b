"""Builds the simulator's engine, together with the switch core, into `simulator.core._sim`.

    python -m simulator.core.build [--sanitize] [--force]

One module holds both, and the endpoint's card, so that the engine calls them without a detour. The
same compiled pipelines are loaded by it. Like the core's build, it compiles only when a source has
changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from hostagent.collective import build as collective_build
from hostagent.programs import build as program_build
from hostagent.rnic import build as card_build
from softswitch.core import build as core_build
from softswitch.core.extension import Extension

HERE = Path(__file__).resolve().parent
CORE = core_build.HERE


def sources() -> list[Path]:
    """Return the C files of the core, the card, the programs and the engine."""
    card = [path for path in card_build.sources() if path.parent != CORE]
    return [*core_build.sources(), *card, *program_build.sources(), *sorted(HERE.glob("*.c"))]


def declarations(shared: Path = card_build.SHARED) -> str:
    """Return the headers as cffi's `cdef` takes them: of core, card and programs, then the
    engine's.
    """
    own = re.sub(r"^#.*$", "", (HERE / "sim.h").read_text(), flags=re.MULTILINE)
    card = card_build.declarations(card_build.CARD_HEADERS, shared)
    return core_build.declarations() + card + program_build.declarations() + own


def extension(folder: Path = HERE, shared: Path = card_build.SHARED, *options: str) -> Extension:
    """Return the module as it is built into `folder` with the algorithms that are in `shared`."""
    return Extension(
        package="simulator.core",
        name="_sim",
        folder=folder,
        headers=("sim.h",),
        sources=sources,
        include=(HERE, CORE, card_build.CORE, shared, *program_build.INCLUDE),
        declarations=lambda: declarations(shared),
        builds=(
            Path(__file__),
            Path(core_build.__file__),
            Path(card_build.__file__),
            Path(program_build.__file__),
            Path(collective_build.__file__),
        ),
        defines=options,
        libraries=("-lpthread", "-ldl"),
    )


EXTENSION = extension()
module_name = EXTENSION.module_name
ensure = EXTENSION.ensure


if __name__ == "__main__":
    raise SystemExit(EXTENSION.main(__doc__))
