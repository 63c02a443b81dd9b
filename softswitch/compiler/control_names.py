"""Names for the control plane must be unique (P4Runtime specification, "P4Info").

The name of a table or action is its control's name, a dot and its own; `@name` replaces the last
part, or the whole if it begins with a dot. Two of a kind with one name can't be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.compiler import ast
from softswitch.compiler.errors import Pos, Reporter

_KINDS: dict[type[ast.Decl], str] = {ast.ActionDecl: "action", ast.TableDecl: "table"}


def check_control_plane_names(program: ast.Program, reporter: Reporter) -> None:
    """Report actions and tables whose control-plane names clash. Needs folded annotations."""
    seen: dict[tuple[str, str], Pos] = {}
    for name, kind, decl in _named(program):
        earlier = seen.setdefault((kind, name), decl.pos)
        if earlier is not decl.pos:
            reporter.error(
                decl.pos,
                f'{kind} "{decl.name}" has the control-plane name "{name}" of another {kind}',
                [(earlier, "the other one")],
            )


def _named(program: ast.Program) -> Iterator[tuple[str, str, ast.Decl]]:
    for decl in program.decls:
        if isinstance(decl, ast.ActionDecl):
            if decl.name == "NoAction":
                continue  # core.p4's; programs may have one of their own beside it
            yield _control_plane_name(decl, ""), "action", decl
        elif isinstance(decl, ast.ControlDecl):
            prefix = _control_plane_name(decl, "") + "."
            for each in decl.locals:
                kind = _KINDS.get(type(each))
                if kind is not None:
                    yield _control_plane_name(each, prefix), kind, each


def _control_plane_name(decl: ast.Decl, prefix: str) -> str:
    annotation = decl.annotation("name")
    if annotation is None or not annotation.values:
        return prefix + decl.name
    name = str(annotation.values[0])
    return name[1:] if name.startswith(".") else prefix + name
