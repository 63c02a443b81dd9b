"""Card and engine once more, with the algorithms of `algorithms_for_tests` behind those that ship.

They are built without optimisation, into build/more-algorithms, and only when a source changes.
`put_in_place` makes the bindings use them for as long as a test's monkeypatch stands.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hostagent.rnic import build as card_build
from hostagent.rnic import native as card_native
from simulator.core import binding
from simulator.core import build as engine_build
from softswitch.core.extension import Extension
from softswitch.core.native import attach_log

HERE = Path(__file__).resolve().parent / "algorithms_for_tests"
BUILT = Path(__file__).resolve().parents[2] / "build" / "more-algorithms"
NAMES = ("windowed", "listener", "wheel")
NO_LIMIT = (1 << 64) - 1  # CC_NO_LIMIT: their rates bind nobody


def windowed(window: int, **fields: int) -> Mapping[str, int]:
    """Parameters of the algorithm `windowed`."""
    rest = dict.fromkeys(("later_at", "later", "each", "shrinks_at", "shrunk"), 0)
    return {"line_rate": NO_LIMIT, "min_rate": 1, "window": window, **rest, **fields}


LISTENER: Mapping[str, int] = {"line_rate": NO_LIMIT, "min_rate": 1}


@cache
def headers() -> Path:
    """The folder of shared headers, with a list that has these algorithms, too."""
    folder = BUILT / "include"
    listed = (card_build.SHARED / "cc_algorithms.h").read_text()
    texts = {path.name: path.read_text() for path in card_build.SHARED.glob("*.h")}
    texts |= {f"{name}.h": (HERE / f"{name}.h").read_text() for name in NAMES}
    lines = "".join(f'#include "{name}.h"\n' for name in NAMES)
    texts["cc_algorithms.h"] = listed + lines
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            part = folder / f".{name}.part"
            part.write_text(text)
            part.replace(path)  # several processes may be at it
    for path in folder.glob("*.h"):
        if path.name not in texts:
            path.unlink(missing_ok=True)
    return folder


def _loaded(extension: Extension, sanitize: bool) -> Any:
    path = extension.ensure(sanitize=sanitize)
    name = f"{extension.package}.{extension.module_name(sanitize)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    with pytest.MonkeyPatch.context() as patch:  # what it puts there is not the one that ships
        patch.setitem(sys.modules, name, None)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _folder(name: str) -> Path:
    folder = BUILT / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def card(sanitize: bool = False) -> Any:
    """The card's module."""
    return _loaded(card_build.extension(_folder("card"), headers(), "-O0"), sanitize)


@cache
def engine(sanitize: bool = False) -> Any:
    """The engine's module."""
    module = _loaded(engine_build.extension(_folder("engine"), headers(), "-O0"), sanitize)
    attach_log(module)
    return module


def put_in_place(patch: pytest.MonkeyPatch, *, sanitize: bool = False) -> None:
    """Let every Card, and what packs parameters for one, use that module."""
    patch.setitem(card_native._loaded, sanitize, card(sanitize))
    if sanitize:
        patch.setitem(card_native._loaded, False, card(sanitize))


def put_engine_in_place(patch: pytest.MonkeyPatch, *, sanitize: bool = False) -> None:
    """Let every Engine use that module."""
    patch.setitem(binding._loaded, sanitize, engine(sanitize))


@cache
def bpf() -> Path:
    """The folder of the BPF program's sources, beside that of the headers."""
    target = headers().parent / "bpf"
    shutil.copytree(card_build.SHARED.parent / "bpf", target, dirs_exist_ok=True)
    return target
