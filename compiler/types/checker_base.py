"""Foundation of the checker: scopes, error handling and the context of what is being checked.

The checker stops a statement or declaration at its first error (a `CompileError` is raised) and
goes on with the next one. `GaveUp` is raised where the cause was reported before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from compiler.errors import CompileError, NotSupported, Pos, Reporter
from compiler.syntax import ast
from compiler.types import types as ty
from compiler.types.scope import Scope, suggestion


class GaveUp(CompileError):
    """Carries no diagnostics: the cause was reported elsewhere."""

    def __init__(self) -> None:
        super().__init__([])


@dataclass
class Context:
    """What surrounds the code that is being checked.

    `kind` is "program", "control", "parser", "action", "function" or "extern"; `receiver` is what
    `this` means, in a method that an instance defines.
    """

    kind: str
    decl: ast.Decl | None = None
    result: ty.Type | None = None
    loops: int = 0
    states: dict[str, ast.ParserState] = field(default_factory=dict)
    returns: bool = False
    receiver: ty.Type | None = None


class CheckerBase:
    """Scopes, contexts and reporting."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.globals = Scope()
        self.errors: list[ast.EnumMember] = []
        self.match_kinds: list[ast.EnumMember] = []
        self._scope = self.globals
        self._context = Context("program")
        self._checking: list[ast.Decl] = []
        self._next_uid = 0

    # ------------------------------------------------------------ errors

    def _fail(self, pos: Pos, message: str, notes: tuple[tuple[Pos, str], ...] = ()) -> NoReturn:
        raise CompileError.at(pos, message, notes=notes)

    def _unsupported(self, pos: Pos, what: str) -> NoReturn:
        raise NotSupported.at(pos, what)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Report an error raised inside and go on after the block."""
        try:
            yield
        except CompileError as error:
            self.reporter.add(error)

    # ------------------------------------------------------------ scopes

    @contextmanager
    def _nested(self) -> Iterator[Scope]:
        outer = self._scope
        self._scope = Scope(outer)
        try:
            yield self._scope
        finally:
            self._scope = outer

    @contextmanager
    def _within(self, context: Context) -> Iterator[None]:
        """Check a body; a use of `context.decl` meanwhile is recursion."""
        outer = self._context
        self._context = context
        if context.decl is not None:
            self._checking.append(context.decl)
        try:
            yield
        finally:
            self._context = outer
            if context.decl is not None:
                self._checking.pop()

    def _declare(self, decl: ast.Decl, *, in_body: bool = False) -> None:
        """Declare a name at the current level. `in_body`: among statements."""
        earlier = self._scope.declare(decl)
        if earlier is not None:
            self._already_declared(decl, earlier)
            return
        self._warn_shadowing(decl, in_body)

    def _already_declared(self, decl: ast.Decl, earlier: ast.Decl) -> None:
        self.reporter.error(
            decl.pos,
            f'"{decl.name}" is already declared',
            [(earlier.pos, "first declared here")] if earlier.pos.line else [],
        )

    def _warn_shadowing(self, decl: ast.Decl, in_body: bool) -> None:
        outer = self._scope.parent
        if outer is None or isinstance(decl, ast.TypeParam):
            return
        hidden = outer.lookup(decl.name)
        local = (ast.VarDecl, ast.ConstDecl, ast.Parameter, ast.InstanceDecl, ast.TableDecl)
        if not hidden or not isinstance(decl, (*local, ast.ActionDecl)):
            return
        if isinstance(hidden[0], ast.Parameter) and in_body:
            self._fail(
                decl.pos,
                f'"{decl.name}" hides the parameter of that name',
                ((hidden[0].pos, "the parameter"),),
            )
        if isinstance(hidden[0], (*local, ast.ActionDecl, ast.FunctionDecl, ast.MethodDecl)):
            self.reporter.warn(decl.pos, f'"{decl.name}" shadows {hidden[0].pos}', "shadow")

    def _lookup(self, name: str, pos: Pos, *, absolute: bool = False) -> list[ast.Decl]:
        """Return the declarations of `name`. Raises with a suggestion where there is none."""
        scope = self.globals if absolute else self._scope
        found = scope.lookup(name)
        if not found:
            found = [member for member in self.match_kinds if member.name == name]
        if not found:
            names = (d.name for d in scope.visible())
            self._fail(pos, f'unknown name "{name}"{suggestion(name, names)}')
        return found

    def _new_type_var(self, name: str) -> ty.TypeVar:
        self._next_uid += 1
        return ty.TypeVar(name, self._next_uid)

    def _refuse_recursion(self, decl: ast.Decl, pos: Pos) -> None:
        if any(each is decl for each in self._checking):
            self._fail(pos, f'"{decl.name}" uses itself: recursion is not allowed in P4')


def describe(decl: ast.Decl) -> str:
    """Say what kind of thing `decl` is, with its article: "an action", "a table", ..."""
    words: tuple[tuple[type[ast.Decl], str], ...] = (
        (ast.ActionDecl, "an action"),
        (ast.TableDecl, "a table"),
        (ast.FunctionDecl, "a function"),
        (ast.MethodDecl, "a function"),
        (ast.ConstDecl, "a constant"),
        (ast.VarDecl, "a variable"),
        (ast.Parameter, "a parameter"),
        (ast.InstanceDecl, "an instance"),
        (ast.ParserState, "a parser state"),
        (ast.ValueSetDecl, "a value set"),
        (ast.EnumMember, "a match kind"),
    )
    for cls, text in words:
        if isinstance(decl, cls):
            return text
    return "a type"


def counted(number: int, what: str) -> str:
    """Format a number with its noun: `1 argument`, `2 arguments`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
