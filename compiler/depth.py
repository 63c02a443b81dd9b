"""Room for recursion: the compiler walks trees, and programs may nest deeply.

A long `else if` chain is a deep tree. Python's default limit of 1000 frames stops at some 150
links; pure Python frames cost no C stack, so a higher limit is safe for the time of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compiler.errors import CompileError, Pos

RECURSION_LIMIT = 10_000


@contextmanager
def deep_recursion(source: Path) -> Iterator[None]:
    """Raise Python's recursion limit inside; going past it becomes a `CompileError`.

    `source` is named in that error. Contexts may nest.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    except RecursionError:
        raise CompileError.at(
            Pos(str(source), 0, 0), "the program is nested too deeply for this compiler"
        ) from None
    finally:
        sys.setrecursionlimit(limit)
