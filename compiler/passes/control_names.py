"""What the front end checks for the control plane: unique names, translated types.

The name of a table or action is its control's name, a dot and its own; `@name` replaces the last
part, or the whole if it begins with a dot. Two of a kind with one name can't be distinguished.
P4Runtime specification: "P4Info", "User-defined types".
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import CompileError, Pos, Reporter
from compiler.syntax import ast
from compiler.types import types as ty

_KINDS: dict[type[ast.Decl], str] = {ast.ActionDecl: "action", ast.TableDecl: "table"}


def check_control_plane_names(
    program: ast.Program, reporter: Reporter, *, with_p4info: bool
) -> None:
    """Report actions and tables whose control-plane names clash. Needs folded annotations.

    Without P4Info actions may: BMv2's tables know theirs by number too.
    """
    seen: dict[tuple[str, str], Pos] = {}
    for name, kind, decl in _named(program):
        if kind == "action" and not with_p4info:
            continue
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


def check_translations(program: ast.Program, reporter: Reporter) -> None:
    """Report wrong `@p4runtime_translation`s, also of types that the control plane never meets."""
    for decl in program.decls:
        if isinstance(decl, ast.NewtypeDecl) and decl.type is not None:
            try:
                translation(decl.type)
            except CompileError as error:
                reporter.add(error)


def translation(t: ty.Type) -> tuple[str, int | None] | None:
    """Return `@p4runtime_translation` of a new type: URI and controller's width (None: string)."""
    if not isinstance(t, ty.NewType) or t.decl is None:
        return None
    annotation = t.decl.annotation("p4runtime_translation")
    if annotation is None:
        return None
    wrong = CompileError.at(
        annotation.pos, "@p4runtime_translation takes a URI and a width in bits, bit<W> or string"
    )
    tokens = annotation.tokens
    if len(tokens) < 3 or not tokens[0].startswith('"') or tokens[1] != ",":
        raise wrong
    uri, rest = tokens[0].strip('"'), "".join(tokens[2:])
    if rest == "string":
        return uri, None
    digits = rest.removeprefix("bit<").removesuffix(">")
    try:
        return uri, int(digits.split("w")[-1], 0)
    except ValueError:
        raise wrong from None
