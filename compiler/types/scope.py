"""Names in scope: declaration, lookup, and suggestions for misspelt names (spec section 6.8)."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from compiler.syntax import ast

# Declarations that may share a name if their parameters differ in number or name.
_OVERLOADABLE = (ast.MethodDecl, ast.FunctionDecl)


class Scope:
    """One level of names; `parent` is the level around it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self._names: dict[str, list[ast.Decl]] = {}

    def declare(self, decl: ast.Decl) -> ast.Decl | None:
        """Add `decl`; return the earlier declaration it clashes with (and is then not added)."""
        present = self._names.get(decl.name)
        if present is None:
            self._names[decl.name] = [decl]
            return None
        if isinstance(decl, _OVERLOADABLE):
            signature = overload_key(decl)
            for other in present:
                if not isinstance(other, _OVERLOADABLE) or overload_key(other) == signature:
                    return other
            present.append(decl)
            return None
        return present[0]

    def here(self, name: str) -> list[ast.Decl]:
        """Return the declarations of `name` at this level."""
        return self._names.get(name, [])

    def lookup(self, name: str) -> list[ast.Decl]:
        """Return the innermost declarations of `name`: one, or several overloads, or none.

        Overloads of functions at outer levels are hidden by any inner declaration.
        """
        scope: Scope | None = self
        while scope is not None:
            found = scope._names.get(name)
            if found:
                return found
            scope = scope.parent
        return []

    def visible(self) -> Iterable[ast.Decl]:
        """Yield all declarations that can be named here, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            for decls in scope._names.values():
                yield from decls
            scope = scope.parent


def overload_key(decl: ast.MethodDecl | ast.FunctionDecl) -> tuple[str, ...]:
    """Return what must differ between two functions of one name: the names of their parameters."""
    return tuple(param.name for param in decl.params)


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean "x"?` if a candidate is close to `name`, else nothing."""
    pool = sorted({c for c in candidates if not c.startswith("__")})
    lowered = {c.lower(): c for c in pool}
    close = get_close_matches(name, pool, n=1, cutoff=0.6)
    if not close and name.lower() in lowered:
        close = [lowered[name.lower()]]
    return f'; did you mean "{close[0]}"?' if close else ""
