"""The house by numbers: where a mechanism's name stands outside its room, and how large rooms are.

    python tests/mechanisms/house.py             counts, and every file that is not clean
    python tests/mechanisms/house.py --lines     each line, too

A product file is what git has outside tests/, docs/, labs/ and notebooks/, and is no text about the
whole (README.md). A mechanism's room are the files under its own name: mechanisms/NAME/,
p4src/modules/NAME.p4 and NAME/, hostagent/include/NAME.h, and what is called after it (run files,
the commands weft/NAME.py). Beside it stand the lists, one line a mechanism; the P4Info files, which
a command makes of the programs; and what only picks mechanisms: profiles (p4src files that are
defines and an include of fabric.p4), run files and topologies (workloads/ and topologies/*.yaml).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from mechanisms import registry  # noqa: E402 - as a script it runs from any folder

NAMES = {name: re.compile(name.replace("_", "[ _-]?"), re.IGNORECASE) for name in registry.NAMES}
"""Every spelling of each mechanism of the registry: fast_cnp is also fast CNP, and FastCnp."""

LISTS = (
    "mechanisms/registry.py",
    "p4src/mechanisms.p4",
    "hostagent/include/cc_algorithms.h",
    "weft/cli.py",
)
"""Where each mechanism has its line; the last one lists commands."""

NOT_PRODUCT = ("tests/", "docs/", "labs/", "notebooks/", "README.md", ".git")
MADE = re.compile(r"\.p4info\.txtpb$")
PICKS = re.compile(r"(workloads|topologies)/[^/]+\.yaml$|p4src/(?!fabric|mechanisms)[^/]+\.p4$")
"""Run files, topologies and profiles: they pick mechanisms by name, as their users do."""

ALSO_WORDS = {
    "allreduce": (
        "workloads/",
        "emulation/scheduler/",
        "hostagent/collective/",
        "hostagent/programs/host_programs.h",
    ),
    "dual_plane": ("topologies/",),
    "bolt": ("compiler/p4info/", "softswitch/p4runtime/p4info_from_json.py"),
    "path_telemetry": (
        "hostagent/include/encc.h",
        "hostagent/include/powertcp.h",
        "mechanisms/encc/",
        "mechanisms/powertcp/",
        "experiments/validation/controls/encc/",
    ),
}
"""Names that are words of another room, too: a job's AllReduce is one whoever computes it, also for
who submits it, and the workers of collectives have it in their interface and in the list of host
programs. A topology of two planes is one whatever its hosts make of them.
Who makes a rate of what switches write reads it in the form in which they do. And a SymbolTable has
the letters of another one."""

CODE = frozenset({".py", ".c", ".h", ".p4"})

ROOMS = (
    "compat", "labs", "weft", "experiments", "observe", "simulator", "emulation", "mechanisms",
    "workloads", "hostagent", "controller", "topologies", "softswitch", "compiler", "protocols",
    "p4src",
)  # fmt: skip


def tracked() -> list[str]:
    """Return what git has, or would have once it is added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def is_of_room(name: str, mechanism: str) -> bool:
    """Say whether a file is in a mechanism's room: a part of its path bears the name."""
    parts = [part.partition(".")[0].replace("-", "_") for part in name.split("/")]
    return any(mechanism in part for part in parts)


def strangers(mechanism: str) -> dict[str, list[str]]:
    """Return product files outside room and lists that name a mechanism, with the lines."""
    found: dict[str, list[str]] = {}
    for name in tracked():
        if name.startswith(NOT_PRODUCT) or name in LISTS:
            continue
        if MADE.search(name) or PICKS.match(name) or is_of_room(name, mechanism):
            continue
        if mechanism in ALSO_WORDS and name.startswith(ALSO_WORDS[mechanism]):
            continue
        try:
            lines = (ROOT / name).read_text().splitlines()
        except UnicodeDecodeError:
            continue
        named = [
            f"{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if NAMES[mechanism].search(line)
        ]
        if named:
            found[name] = named
    return found


def room_lines() -> dict[str, int]:
    """Return lines of code (Python, C, P4) of each room."""
    files = tracked()
    return {
        room: sum(
            len((ROOT / name).read_text().splitlines())
            for name in files
            if name.startswith(f"{room}/") and Path(name).suffix in CODE
        )
        for room in ROOMS
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the numbers; the exit code is 1 if a file outside names a mechanism."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", action="store_true", help="print the lines that name them")
    asked = parser.parse_args(arguments)
    wrong = 0
    for mechanism in NAMES:
        found = strangers(mechanism)
        wrong += len(found)
        print(f"{mechanism}: {len(found)} product files outside its room and {len(LISTS)} lists")
        for name, lines in found.items():
            print(f"  {name} ({len(lines)})")
            if asked.lines:
                print("\n".join(f"    {line}" for line in lines))
    for room, lines in sorted(room_lines().items(), key=lambda item: -item[1]):
        print(f"{lines:7} {room}/")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
