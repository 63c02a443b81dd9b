"""Errors of the Python interface: one message with what is wrong, where, what would be right.

A notebook shows the message alone: IPython asks an exception for `_render_traceback_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from experiments.our_errors import is_ours

if TYPE_CHECKING:
    from compiler import Diagnostic
    from topologies import Problem

P = ParamSpec("P")
R = TypeVar("R")


class WeftError(Exception):
    """Something that the caller can put right."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in the place of a stack trace."""
        return [f"{type(self).__name__}: {self}"]


class CompileError(WeftError):
    """A P4 program that can't be compiled; `diagnostics` holds everything that is wrong."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class InputError(WeftError):
    """A run, topology or sweep that can't be used; `problems` holds everything that is wrong."""

    def __init__(self, message: str, problems: Sequence[Problem]) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class MissingPackageError(WeftError):
    """A Python package that set-up does not install is needed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button. `result`: what had been simulated by then."""

    def __init__(self, what: str, result: Any) -> None:
        super().__init__(f"interrupted: {what}; this exception's .result has it")
        self.result = result

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in the place of a stack trace."""
        return [str(self)]


def plainly(call: Callable[P, R]) -> Callable[P, R]:
    """Raise errors of the rooms below as a WeftError; bugs pass as they are."""

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except WeftError:
            raise
        except Exception as error:
            if is_ours(error):
                raise _as_weft_error(error) from None
            raise

    return calling


def _as_weft_error(error: Exception) -> WeftError:
    problems = getattr(error, "problems", None)
    if problems:
        return InputError("\n".join(_text(problem) for problem in problems), problems)
    message = str(error).removeprefix("--")  # options of commands are arguments here
    remedy = getattr(error, "remedy", "")
    return WeftError(f"{message}\n{remedy}" if remedy else message)


def _text(problem: Problem) -> str:
    """Return a mistake with its place; one in a dict has no line, so its keys alone."""
    if not problem.file.startswith("<"):
        return str(problem)
    return f"{problem.field}: {problem.message}" if problem.field else problem.message
