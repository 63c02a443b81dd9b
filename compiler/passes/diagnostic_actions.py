"""What becomes of warnings: p4c's options `--Wdisable`, `--Wwarn`, `--Werror`, and `@diagnostic`.

actions = DiagnosticActions.of(["Werror", "Wdisable=unused"])
left = actions.apply(warnings)        # raises CompileError for those that are errors
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from compiler.errors import CompileError, Diagnostic, Pos, Severity
from compiler.syntax import ast
from compiler.syntax.walk import below
from compiler.warnings.silenced import KINDS


class Action(Enum):
    """What to do with warnings of a kind; the value is the option of p4c that asks for it."""

    DISABLE = "Wdisable"
    WARN = "Wwarn"
    ERROR = "Werror"


_ANNOTATED = {"disable": Action.DISABLE, "warn": Action.WARN, "error": Action.ERROR}


class UnknownKind(Exception):
    """An option that names no kind of warning, or that is none."""


@dataclass(frozen=True, slots=True)
class DiagnosticActions:
    """The action for each kind that one is given for, and for all others."""

    default: Action = Action.WARN
    by_kind: dict[str, Action] = field(default_factory=lambda: {"branch": Action.DISABLE})

    @classmethod
    def of(cls, options: Sequence[str]) -> DiagnosticActions:
        """Parse options such as "Wdisable" and "Werror=unused". Raises UnknownKind."""
        default, by_kind = Action.WARN, {"branch": Action.DISABLE}
        for option in options:
            name, given, kind = option.partition("=")
            if name not in {action.value for action in Action}:
                raise UnknownKind(f"--{option}: there is no such option")
            if not given:
                default = Action(name)
            elif kind in KINDS:
                by_kind[kind] = Action(name)
            else:
                raise UnknownKind(
                    f"--{option}: no such kind; there are: {', '.join(sorted(KINDS))}"
                )
        return cls(default, by_kind)

    def with_annotations(self, program: ast.Program) -> DiagnosticActions:
        """Add the actions of a program's `@diagnostic("kind", "disable"|"warn"|"error")`.

        Raises CompileError for one of another form.
        """
        by_kind = dict(self.by_kind)
        for node in below(program.decls):
            for annotation in getattr(node, "annotations", ()):
                if annotation.name == "diagnostic":
                    kind, action = _read(annotation)
                    by_kind[kind] = action
        return DiagnosticActions(self.default, by_kind)

    def apply(self, warnings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the diagnostics that are still to be shown.

        Raises CompileError if some are errors.
        """
        kept, errors = [], []
        for each in warnings:
            action = Action.WARN
            if each.severity is Severity.WARNING and not each.back_end:
                action = self.by_kind.get(each.code, self.default)
            if action is Action.ERROR:
                message = f"{each.message} [{each.code}]"
                errors.append(replace(each, severity=Severity.ERROR, message=message))
            elif action is Action.WARN:
                kept.append(each)
        if errors:
            raise CompileError(errors)
        return kept


def _read(annotation: ast.Annotation) -> tuple[str, Action]:
    values = annotation.values
    if len(values) != 2 or str(values[1]) not in _ANNOTATED:
        _fail(annotation.pos, 'should look like @diagnostic("unused", "disable")')
    if values[0] not in KINDS:
        _fail(annotation.pos, f'there is no kind of warning "{values[0]}"')
    return str(values[0]), _ANNOTATED[str(values[1])]


def _fail(pos: Pos, text: str) -> None:
    raise CompileError.at(pos, f"@diagnostic: {text}")
