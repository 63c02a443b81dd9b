"""Answers that are Python files: read, called, and their errors told in a line.

What a learner's file prints goes to stderr: stdout belongs to the command that grades. Grading
reads and calls it in a process of its own, with a time limit (`experiments.grade_worker`).
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


class AnswerError(ValueError):
    """A file that can't be read, or a function of it that failed; says where."""


@dataclass(frozen=True)
class PythonAnswer:
    """A learner's module that has all functions that the lab calls."""

    module: ModuleType
    path: Path

    def call(self, function: str, *arguments: Any) -> Any:
        """Call one of its functions. Raises AnswerError with the line of the file."""
        return self.call_method(self.module, function, *arguments)

    def call_method(self, instance: object, method: str, *arguments: Any) -> Any:
        """Call a method of something that the file made. Raises AnswerError likewise."""
        try:
            with _to_stderr():
                return getattr(instance, method)(*arguments)
        except (Exception, SystemExit) as error:
            raise AnswerError(_described(error, self.path)) from None


def load(path: Path, functions: Sequence[str]) -> PythonAnswer:
    """Read a Python file that has these functions. Raises AnswerError."""
    if path.suffix != ".py":
        raise AnswerError(f"{path}: hand in a Python file (.py)")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AnswerError(f"{path}: {error}") from None
    return from_text(text, path, functions)


def from_text(text: str, path: Path, functions: Sequence[str]) -> PythonAnswer:
    """Return the answer that a text is. Raises AnswerError."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[f"answer {path.stem}"] = module  # dataclasses look their module up
    module.__name__ = f"answer {path.stem}"
    try:
        code = compile(text, str(path), "exec")
        with _to_stderr():
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise AnswerError(_described(error, path)) from None
    for name in functions:
        found: Callable[..., object] | None = getattr(module, name, None)
        if not callable(found):
            raise AnswerError(f"{path}: there is no function {name}(...)")
    return PythonAnswer(module, path)


def _to_stderr() -> contextlib.redirect_stdout[Any]:
    return contextlib.redirect_stdout(sys.stderr)


def _described(error: BaseException, path: Path) -> str:
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}: {error.msg}"
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{own[-1].lineno}: {what}" if own else f"{path}: {what}"
