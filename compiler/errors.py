"""Diagnostics of the P4 compiler: what was wrong, where, and how it is shown.

A position is always of the user's file (line markers of the preprocessor are followed).
Every error that a user can cause is a `CompileError`; nothing else may leave the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Pos:
    """A place in a source file: line and column count from 1; line 0 means "the whole file"."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        if self.line == 0:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


BUILTIN_POS = Pos("<built-in>", 0, 0)


class Severity(Enum):
    """How bad a diagnostic is; the value is the word printed."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place, e.g. ``l3.p4:12:7: error: unknown name "hrd"``.

    `code` is a short stable word for tools and for `@noWarn` ("unused", "deprecated", ...).
    `notes` point at related places, such as an earlier declaration. `back_end`: it is about what
    BMv2 does, which p4c reports whatever its options are.
    """

    pos: Pos
    message: str
    severity: Severity = Severity.ERROR
    code: str = ""
    notes: tuple[tuple[Pos, str], ...] = ()
    back_end: bool = False

    def __str__(self) -> str:
        kind = f" [{self.code}]" if self.severity is Severity.WARNING and self.code else ""
        lines = [f"{self.pos}: {self.severity.value}: {self.message}{kind}"]
        lines += [f"{pos}: note: {text}" for pos, text in self.notes]
        return "\n".join(lines)


class CompileError(Exception):
    """The program can't be compiled. `diagnostics` holds at least one error, in source order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics: list[Diagnostic] = list(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))

    @classmethod
    def at(
        cls, pos: Pos, message: str, *, notes: Iterable[tuple[Pos, str]] = (), code: str = ""
    ) -> CompileError:
        """Create an error of one diagnostic at `pos`."""
        return cls([Diagnostic(pos, message, Severity.ERROR, code, tuple(notes))])


class NotSupported(CompileError):
    """The program is (as far as we know) good P4_16, but this compiler can't do it yet."""

    @classmethod
    def at(
        cls, pos: Pos, message: str, *, notes: Iterable[tuple[Pos, str]] = (), code: str = ""
    ) -> NotSupported:
        """Create the error "not supported yet: <message>"; `message` names the construct."""
        text = f"not supported yet: {message}"
        return cls([Diagnostic(pos, text, Severity.ERROR, code or "unsupported", tuple(notes))])


class TooManyErrors(Exception):
    """Raised inside the front end to stop after `MAX_ERRORS`; never leaves it."""


class Reporter:
    """Collects diagnostics of one run; raises once at the end (or when there are too many)."""

    def __init__(self, max_errors: int = MAX_ERRORS) -> None:
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._max_errors = max_errors
        self._seen: set[tuple[Pos, str]] = set()

    def error(self, pos: Pos, message: str, notes: Iterable[tuple[Pos, str]] = ()) -> None:
        """Record an error; the same text at the same place is recorded once."""
        self.add(CompileError.at(pos, message, notes=notes))

    def add(self, error: CompileError) -> None:
        """Record what a raised `CompileError` holds. Raises `TooManyErrors` at the limit."""
        for diagnostic in error.diagnostics:
            key = (diagnostic.pos, diagnostic.message)
            if key in self._seen:
                continue
            self._seen.add(key)
            self.errors.append(diagnostic)
        if len(self.errors) >= self._max_errors:
            raise TooManyErrors

    def warn(self, pos: Pos, message: str, code: str, *, back_end: bool = False) -> None:
        """Record a warning once."""
        key = (pos, message)
        if key not in self._seen:
            self._seen.add(key)
            self.warnings.append(
                Diagnostic(pos, message, Severity.WARNING, code, back_end=back_end)
            )

    def raise_if_errors(self) -> None:
        """Raise a `CompileError` (`NotSupported` if nothing but unsupported parts was found)."""
        if not self.errors:
            return
        if all(d.code == "unsupported" for d in self.errors):
            raise NotSupported(self.errors)
        raise CompileError(self.errors)
