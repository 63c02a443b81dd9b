"""The process that runs a host's programs in its network namespace.

    python -m hostagent.programs.service

Its first line of input says, as JSON, what to run (`Work`). It answers `ready` when its sockets are
there; with the line `start` time begins. To each line `counters` it answers, as JSON, what each
program has counted so far. With any other line, or the end of its input, it ends: the programs are
notified, and its last line of output has the counters. What goes wrong stands on its standard
error, in one line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hostagent.programs.driver import Driver, LiveInterface
from hostagent.programs.loader import find, make
from hostagent.programs.program import Interface, Program, ProgramError


@dataclass(frozen=True)
class Work:
    """What one host runs. `programs`: as the run file calls them, with their settings."""

    host: str
    interfaces: Sequence[LiveInterface]
    programs: Sequence[tuple[str, Mapping[str, Any]]]
    addresses: Mapping[str, int] = field(default_factory=dict)
    time_scale: int = 1
    directory: str = "."  # where programs' files are looked for
    record: str | None = None

    def line(self) -> str:
        """Return it as a line of input."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, line: str) -> Work:
        """Read such a line."""
        found = json.loads(line)
        found["interfaces"] = [
            LiveInterface(each["device"], Interface(**each["interface"]))
            for each in found["interfaces"]
        ]
        return cls(**found)


def program_of(name: str, settings: Mapping[str, Any], directory: Path) -> Program:
    """Make a program in Python or in C. Raises ProgramError."""
    found = find(name, directory)
    if isinstance(found, str):
        from hostagent.programs.native import NativeProgram  # large, and for those in C alone

        return NativeProgram(found, settings)
    return make(name, found, settings)


def serve(work: Work, lines: int) -> list[dict[str, Any]]:
    """Run a host's programs until the file descriptor `lines` says so; return what they counted.

    Raises ProgramError, OSError.
    """
    driver = Driver(
        work.host,
        work.interfaces,
        addresses=work.addresses,
        time_scale=work.time_scale,
        record=None if work.record is None else Path(work.record),
    )
    try:
        for name, settings in work.programs:
            driver.add(name, program_of(name, settings, Path(work.directory)))
        print("ready", flush=True)
        if not _line(lines):
            return []
        driver.start()
        driver.run(lines)
        while _line(lines) == "counters\n":
            print(json.dumps(_counted(driver, work.host)), flush=True)
            driver.run(lines)
        driver.stop()
        return _counted(driver, work.host)
    finally:
        driver.close()


def _counted(driver: Driver, host: str) -> list[dict[str, Any]]:
    return [
        {"program": title, "host": host, "counters": counters}
        for title, counters in driver.counters()
    ]


def main() -> int:
    """Run what standard input says; return the exit code."""
    line = _line(sys.stdin.fileno())
    try:
        counted = serve(Work.read(line), sys.stdin.fileno())
    except (ProgramError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(counted), flush=True)
    return 0


def _line(source: int) -> str:
    """Read one line and nothing of the next, which `select` is to see."""
    line = b""
    while not line.endswith(b"\n"):
        one = os.read(source, 1)
        if not one:
            break
        line += one
    return line.decode()


if __name__ == "__main__":
    raise SystemExit(main())
