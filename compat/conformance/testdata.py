"""p4c's `testdata` directory: which programs are in it, for which architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

SAMPLES = "p4_16_samples"
ERRORS = "p4_16_errors"
SYSTEM_FILES = frozenset({"core.p4", "v1model.p4"})
"""Each compiler has its own: their lines are not the same."""
_INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", re.MULTILINE)
_VERSION = re.compile(r"^\d+(?:\.\d+)+\S*$", re.MULTILINE)
_DEPTH = 6


class TestdataError(Exception):
    """The directory is not what it should be; the message says what would be."""

    __test__ = False


class Architecture(Enum):
    """What a program is written for."""

    V1MODEL = "v1model"
    CORE = "core language"
    OTHER = "another architecture"


@dataclass(frozen=True, slots=True)
class Program:
    """One file; `name` is its path below its suite's directory, `suite` SAMPLES or ERRORS.

    `part`: it lies deeper than p4c's own tests look, so it is a part of some other program.
    """

    path: Path
    suite: str
    name: str
    architecture: Architecture
    part: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it."""
        return self.suite, self.name


@dataclass(frozen=True, slots=True)
class Testdata:
    """A `testdata` directory; `version` is p4c's, where a checkout is around it, else ""."""

    __test__ = False

    directory: Path
    version: str

    def outputs(self, suite: str) -> Path:
        """Return where p4c keeps what it expects of a suite."""
        return self.directory / f"{suite}_outputs"

    def programs(self) -> list[Program]:
        """Return all programs of both suites, by name."""
        return [program for suite in (SAMPLES, ERRORS) for program in self._of(suite)]

    def _of(self, suite: str) -> Iterator[Program]:
        top = self.directory / suite
        for path in sorted(top.rglob("*.p4")):
            if path.is_file():
                name = path.relative_to(top)
                part = len(name.parts) > 2
                yield Program(path, suite, str(name), architecture_of(path), part)


def find(directory: Path) -> Testdata:
    """Find the testdata at `directory`: that itself, a checkout of p4c, or one of the suites.

    Raises TestdataError.
    """
    for place in (directory, directory / "testdata", directory.parent):
        if (place / SAMPLES).is_dir():
            return Testdata(place, _version(place.parent / "Version.txt"))
    raise TestdataError(f"{directory}: no {SAMPLES} there; give p4c's testdata directory")


def _version(path: Path) -> str:
    if not path.is_file():
        return ""
    found = _VERSION.search(path.read_text(encoding="utf-8", errors="replace"))
    return found[0] if found else ""


def architecture_of(path: Path) -> Architecture:
    """Return the architecture, by the system files that a program includes, directly or not."""
    names = _system_includes(path, _DEPTH)
    if "v1model.p4" in names:
        return Architecture.V1MODEL
    return Architecture.OTHER if names - {"core.p4"} else Architecture.CORE


@cache
def _system_includes(path: Path, depth: int) -> frozenset[str]:
    """Return the names of files that `path` includes and that are not beside it."""
    names: set[str] = set()
    for quote, name in _INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
        beside = path.parent / name
        if quote == '"' and beside.is_file():
            if depth > 0:
                names |= _system_includes(beside, depth - 1)
        else:
            names.add(Path(name).name)
    return frozenset(names)
