"""Card, headers and BPF program with algorithms of one's own, in the user's cache by content.

CACHE/algorithms/KEY/include/      the shared headers, with the own ones and a list that has them
CACHE/algorithms/KEY/card/         the card's module
CACHE/algorithms/KEY/alone/        the headers by themselves
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hostagent.own_algorithm.check import LIST, OwnAlgorithm, OwnAlgorithmError
from hostagent.rnic import build as card_build
from hostagent.rnic import native as card_native
from softswitch.core.extension import Extension
from softswitch.program_cache import cache_directory

KEPT = 32
"""So many are kept, the latest used."""
FAST_BUILD = ("-O0",)
FOLDER = "algorithms"

_MOST_NAMES = 32  # a set of algorithms is a word of 32 bits


@dataclass(frozen=True)
class Built:
    """Headers with a list that has algorithms of one's own, and what is built with them."""

    own: tuple[OwnAlgorithm, ...]
    folder: Path

    @property
    def include(self) -> Path:
        """The shared headers, to compile against: `Agent.load(pins, include=...)`."""
        return self.folder / "include"

    def part(self, name: str) -> Path:
        """Return a folder for something that is built with these headers."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def card(self, *, sanitize: bool = False) -> ModuleType:
        """Build the card's module and load it, beside the one that is installed.

        Raises softswitch.core.extension.CoreBuildError.
        """
        extension = card_build.extension(self.part("card"), self.include, *FAST_BUILD)
        return loaded(extension, sanitize=sanitize)

    @contextmanager
    def card_in_place(self, *, sanitize: bool = False) -> Iterator[None]:
        """Let every Card that this process makes meanwhile, and what packs parameters, use it."""
        module = self.card(sanitize=sanitize)
        with in_place(card_native._loaded, module, sanitize=sanitize):
            yield


def built(*own: OwnAlgorithm) -> Built:
    """Write the headers with these algorithms in the list; nothing is compiled yet.

    One that bears an entry's name takes its place, others come behind the last one. Raises
    OwnAlgorithmError for names that can't be, OSError where the cache can't be written.
    """
    texts = _texts(own)
    digest = hashlib.sha256(f"{card_build.SHARED}\0".encode())
    for name, text in sorted(texts.items()):
        digest.update(f"{name}\0{text}\0".encode())
    root = cache_directory() / FOLDER
    folder = root / digest.hexdigest()[:32]
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = include / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            part = include / f".{name}.{id(text)}.part"
            part.write_text(text, encoding="utf-8")
            part.replace(path)  # several processes may be at it
    folder.touch()
    _forget(root)
    return Built(own, folder)


def _texts(own: tuple[OwnAlgorithm, ...]) -> dict[str, str]:
    shared = {path.name: path.read_text(encoding="utf-8") for path in card_build.SHARED.glob("*.h")}
    entries = [
        name.removesuffix(".h")
        for name in re.findall(r'^#include "(\w+\.h)"', shared[LIST], re.MULTILINE)
    ]
    more = ""
    seen: set[str] = set()
    for each in own:
        line = each.line_of(f"CC_ALGORITHM({each.name})")
        if each.name in seen:
            wrong = f"a second header is called {each.name}"
            raise OwnAlgorithmError(each.path, line, wrong, "each has a name of its own")
        seen.add(each.name)
        name = f"{each.name}.h"
        if name in shared and each.name not in entries:
            right = (
                f"take another name, or one of the list's to stand in for it: {', '.join(entries)}"
            )
            raise OwnAlgorithmError(each.path, line, f"{name} is a shared header already", right)
        if each.name not in entries:
            more += f'#include "{name}"\n'
        shared[name] = each.text
    if len(entries) + more.count("\n") > _MOST_NAMES:
        raise OwnAlgorithmError(own[-1].path, 1, "there are too many algorithms", "at most 32")
    shared[LIST] += more
    return shared


def _forget(root: Path) -> None:
    """Keep the latest used."""
    with suppress(OSError):
        folders = sorted(root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in folders[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


# ---------------------------------------------------------------- modules beside the installed ones


def loaded(extension: Extension, *, sanitize: bool = False) -> ModuleType:
    """Build a module unless it is up to date, and load it beside one of the same name.

    Raises CoreBuildError.
    """
    name = f"{extension.package}.{extension.module_name(sanitize)}"
    return _loaded(name, extension.ensure(sanitize=sanitize))


@cache
def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    installed = sys.modules.pop(name, None)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(name, None)
        if installed is not None:
            sys.modules[name] = installed
    return module


@contextmanager
def in_place(modules: dict[bool, Any], module: ModuleType, *, sanitize: bool) -> Iterator[None]:
    """Put a module where a binding looks for its own (`_loaded`), for as long as this lasts."""
    before = dict(modules)
    modules[sanitize] = modules[False] = module
    try:
        yield
    finally:
        modules.clear()
        modules.update(before)
