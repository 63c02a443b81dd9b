"""`@noWarn("kind")`: no warnings of that kind in what carries it."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.errors import Diagnostic, Pos, Reporter
from compiler.syntax import ast
from compiler.syntax.walk import below

KINDS = frozenset(
    {
        "branch",
        "deprecated",
        "duplicate",
        "duplicate-priorities",
        "entries-out-of-priority-order",
        "expr",
        "failed",
        "ignore",
        "ignore-prop",
        "invalid",
        "invalid-header",
        "keys",
        "legacy",
        "mismatch",
        "missing",
        "multi-header-extract",
        "ordering",
        "overflow",
        "parser-transition",
        "shadow",
        "type-inference",
        "uninitialized",
        "uninitialized-out-param",
        "uninitialized-use",
        "unknown",
        "unreachable",
        "unsupported",
        "unused",
    }
)
"""p4c's words for its kinds of warnings: those that options and annotations can name."""


class Silenced:
    """Where which kinds are not wanted."""

    def __init__(self, nodes: Iterable[ast.Node], reporter: Reporter) -> None:
        """Find all @noWarn among `nodes`; reports those that name no kind."""
        self._places: set[tuple[Pos, str]] = set()
        for node in nodes:
            annotations = getattr(node, "annotations", ())
            kinds = {str(v) for a in annotations if a.name == "noWarn" for v in a.values}
            for annotation in annotations:
                for value in annotation.values if annotation.name == "noWarn" else ():
                    if value not in KINDS:
                        text = f'@noWarn: there is no kind of warning "{value}"'
                        reporter.warn(annotation.pos, text, "unknown")
            self._silence(node, kinds)
            if isinstance(node, ast.TableDecl):
                inner = (a for a in node.entries_annotations if a.name == "noWarn")
                self._silence(node.entries, {str(v) for a in inner for v in a.values})

    def _silence(self, nodes: object, kinds: set[str]) -> None:
        if kinds:
            places = {each.pos for each in below(nodes)}
            self._places |= {(pos, kind) for pos in places for kind in kinds}

    def hides(self, diagnostic: Diagnostic) -> bool:
        """Return whether a warning is one of them."""
        return (diagnostic.pos, diagnostic.code) in self._places
