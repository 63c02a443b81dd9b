"""How far a run has come: a bar in a notebook or on a terminal, or the caller's own function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from weft import console

Show = Callable[[float | None, str], None]
"""Takes the share done (None: unknown) and a text."""

Wanted = bool | Show | None
"""True or None: a bar where it can be seen; False: none."""

_AFTER_S, _EVERY_S = 1.0, 0.25


@contextmanager
def shown(wanted: Wanted) -> Iterator[Show]:
    """Yield what shows how far something is; nothing is left of it after the block."""
    if callable(wanted):
        yield wanted
    elif wanted is not False and in_notebook():
        with _notebook_bar() as show:
            yield show
    else:
        with console.bar(quiet=wanted is False, after_s=_AFTER_S) as show:
            yield show


def in_notebook() -> bool:
    """Say whether a Jupyter kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def _notebook_bar() -> Iterator[Show]:
    from IPython.display import HTML, display  # there, since it runs this

    started, last = time.monotonic(), 0.0
    handle: Any = None

    def show(share: float | None, text: str) -> None:
        nonlocal handle, last
        now = time.monotonic()
        if now - started < _AFTER_S or now - last < _EVERY_S:
            return
        last = now
        value = "" if share is None else f' value="{share:.3f}"'
        drawn = HTML(f"<progress max=1{value}></progress> {escape(text)}")
        if handle is None:
            handle = display(drawn, display_id=True)
        else:
            handle.update(drawn)

    try:
        yield show
    finally:
        if handle is not None:
            handle.update(HTML(""))
