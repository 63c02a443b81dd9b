"""Warnings about declarations that nothing uses, as p4c gives them.

Reported: variables, constants, typedefs, actions and their parameters, functions, tables,
instances, controls and parsers. Not reported: states, struct fields, enum members, the parameters
of controls and parsers (their package asks for them) and of functions, and whatever comes from
our own include files or carries `@noWarn("unused")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from compiler.errors import Reporter
from compiler.syntax import ast
from compiler.syntax.walk import below

_Generic: TypeAlias = (
    ast.FunctionDecl
    | ast.PackageDecl
    | ast.ControlTypeDecl
    | ast.ParserTypeDecl
    | ast.ExternDecl
    | ast.MethodDecl
    | ast.StructLikeDecl
)


def warn_unused(
    nodes: Mapping[ast.Decl, Iterable[ast.Node]], own: Iterable[ast.Decl], reporter: Reporter
) -> None:
    """Warn of everything declared in the user's `own` declarations that is never named.

    `nodes` are those of each top-level declaration, also of the files that come with the compiler.
    """
    used: set[ast.Node] = set()
    for found in nodes.values():
        for node in found:
            target = None if isinstance(node, ast.DeclStmt) else getattr(node, "decl", None)
            if isinstance(target, ast.Node):
                used.add(target)
    for top in own:
        for decl, text in _candidates(top, top=True):
            if decl not in used and not decl.name.startswith("__"):
                reporter.warn(decl.pos, text, "unused")


def _candidates(decl: ast.Decl, *, top: bool = False) -> Iterator[tuple[ast.Decl, str]]:
    """Yield the declarations at and below `decl` to warn of where unused, with the warning's
    text.
    """
    name = f'"{decl.name}"'
    match decl:
        case ast.ControlDecl() | ast.ParserDecl():
            kind = "control" if isinstance(decl, ast.ControlDecl) else "parser"
            yield decl, f"{kind} {name} is unused"
            for each in decl.locals:
                yield from _candidates(each)
            bodies = [decl.body] if isinstance(decl, ast.ControlDecl) else decl.states
            yield from _in_bodies(list(bodies))
        case ast.ActionDecl() | ast.FunctionDecl():
            yield decl, f"{name} is unused"
            if isinstance(decl, ast.ActionDecl):
                for param in decl.params:
                    yield param, f'"{param.name}" is unused'
            if isinstance(decl, ast.FunctionDecl):
                yield from _type_params(decl)
            yield from _in_bodies([decl.body])
        case ast.TableDecl():
            yield decl, f"table {name} is unused"
        case ast.InstanceDecl():
            if not (top and decl.name == "main"):
                yield decl, f"{name} is unused"
        case ast.ConstDecl(init=ast.Call(kind=ast.CallKind.STATIC_ASSERT)):
            pass  # the declaration is only there to be checked
        case ast.PackageDecl() | ast.ControlTypeDecl() | ast.ParserTypeDecl():
            yield decl, f"{name} is unused"
            yield from _type_params(decl)
        case ast.ExternDecl(methods=methods):
            yield from _type_params(decl)
            for method in methods:
                yield from _type_params(method)
        case ast.MethodDecl() | ast.StructLikeDecl():
            yield from _type_params(decl)
        case ast.VarDecl() | ast.ConstDecl() | ast.TypedefDecl() | ast.NewtypeDecl():
            yield decl, f"{name} is unused"


def _in_bodies(bodies: list[ast.Node]) -> Iterator[tuple[ast.Decl, str]]:
    """Yield the candidates among statements; what a `for (x in ...)` declares need not be used."""
    nodes = list(below(bodies))
    loops = {node.var for node in nodes if isinstance(node, ast.ForIn)}
    for node in nodes:
        if isinstance(node, ast.VarDecl | ast.ConstDecl | ast.InstanceDecl) and node not in loops:
            yield from _candidates(node)


def _type_params(decl: _Generic) -> Iterator[tuple[ast.Decl, str]]:
    for param in decl.type_params:
        yield param, f'type parameter "{param.name}" is unused'


def is_needed(instance: ast.InstanceDecl, control: ast.ControlDecl) -> bool:
    """Return whether anything names an instance, reads into variables that nothing else names
    aside.
    """
    nodes = list(below(control))
    named: dict[int, int] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and node.decl is not None:
            named[id(node.decl)] = named.get(id(node.decl), 0) + 1
    idle = 0
    for node in nodes:
        if (
            isinstance(node, ast.CallStmt)
            and isinstance(node.call.receiver, ast.Name)
            and node.call.receiver.decl is instance
            and isinstance(node.call.callee, ast.Member)
            and node.call.callee.member == "read"
            and isinstance(result := node.call.args[0].value, ast.Name)
            and isinstance(result.decl, ast.VarDecl)
            and named[id(result.decl)] == 1
        ):
            idle += 1
    return named.get(id(instance), 0) > idle
