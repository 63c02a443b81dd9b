"""Elaboration: the tree of control and parser instances behind `main`, and what of it is used.

Constructor arguments are bound, every instance gets its hierarchical (control-plane) name, and
declarations that no packet can reach are left out, as p4c does before it writes P4Info: tables
that are never applied, controls that are never applied, actions that no table lists and no
apply body calls. Extern instances always count as used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from compiler.errors import CompileError, NotSupported
from compiler.frontend import CheckedProgram
from compiler.syntax import ast
from compiler.syntax.walk import expressions_of, statements_of
from compiler.types import types as ty

ARCHITECTURE = ("parser", "verify", "ingress", "egress", "compute", "deparser")


@dataclass(eq=False)
class Instance:
    """A control or parser instance.

    `path` is its control-plane name; `ctor_args` maps constructor parameters to the argument and
    the instance in whose scope the argument stands (None: the program). `children` are the
    applied sub-instances by their InstanceDecl, or by the Call for `C.apply(..)`.
    """

    decl: ast.ControlDecl | ast.ParserDecl
    path: str
    parent: Instance | None = None
    ctor_args: dict[int, tuple[ast.Expr, Instance | None]] = field(default_factory=dict)
    children: dict[int, Instance] = field(default_factory=dict)
    used_tables: list[ast.TableDecl] = field(default_factory=list)
    direct_actions: list[ast.ActionDecl] = field(default_factory=list)
    direct_calls: list[ast.Call] = field(default_factory=list)

    def name_of(self, decl: ast.Decl) -> str:
        """Return the control-plane name of a declaration inside this instance."""
        return join_name(self.path, local_name(decl))


@dataclass(eq=False)
class Elaborated:
    """The six blocks of V1Switch, in the order of the package's parameters."""

    blocks: dict[str, Instance]

    def __getitem__(self, role: str) -> Instance:
        return self.blocks[role]


@dataclass(frozen=True)
class Item:
    """A declaration with the instance that holds it."""

    instance: Instance
    decl: ast.Decl

    @property
    def name(self) -> str:
        """Control-plane name; top-level declarations (NoAction) have no prefix."""
        if isinstance(self.decl, ast.ActionDecl) and not is_local(self.instance, self.decl):
            return local_name(self.decl).removeprefix(".")
        return self.instance.name_of(self.decl)


def local_name(decl: ast.Decl) -> str:
    """Return `@name`'s value, else the declared name."""
    annotation = decl.annotation("name")
    if annotation is None:
        return decl.name
    if len(annotation.values) != 1 or not isinstance(annotation.values[0], str):
        raise CompileError.at(annotation.pos, "@name takes one string")
    return annotation.values[0]


def join_name(prefix: str, name: str) -> str:
    """Return `prefix.name`; a name that starts with a dot is absolute."""
    if name.startswith("."):
        return name[1:]
    return f"{prefix}.{name}" if prefix else name


def is_local(instance: Instance, decl: ast.Decl) -> bool:
    """Return whether `decl` is declared in the instance's control or parser (not at top level)."""
    return any(each is decl for each in instance.decl.locals)


def elaborate(checked: CheckedProgram) -> Elaborated:
    """Bind `main` of a checked v1model program to its six blocks.

    Raises `CompileError` if `main` is no V1Switch.
    """
    call = checked.main.call
    package = call.type
    if not isinstance(package, ty.Package) or package.name != "V1Switch":
        raise CompileError.at(
            checked.main.pos, f"main must be a V1Switch (the v1model architecture), not {package}"
        )
    if len(call.binding) != len(ARCHITECTURE):
        raise CompileError.at(checked.main.pos, "V1Switch takes six arguments")
    blocks: dict[str, Instance] = {}
    for role, binding in zip(ARCHITECTURE, call.binding, strict=True):
        assert binding.arg is not None
        constructor = _constructor(binding.arg)
        assert constructor.decl is not None
        blocks[role] = _instantiate(constructor, constructor.decl.name, None)
    return Elaborated(blocks)


def _constructor(expr: ast.Expr) -> ast.Call:
    """Return the constructor call behind an argument that is an instance."""
    if isinstance(expr, ast.Cast):
        return _constructor(expr.operand)
    if isinstance(expr, ast.Name) and isinstance(expr.decl, ast.InstanceDecl):
        return expr.decl.call
    if isinstance(expr, ast.Call) and expr.kind is ast.CallKind.CONSTRUCTOR:
        return expr
    raise NotSupported.at(expr.pos, "a package argument that is neither `C()` nor an instance")


def _instantiate(call: ast.Call, name: str, parent: Instance | None) -> Instance:
    decl = call.decl
    if not isinstance(decl, ast.ControlDecl | ast.ParserDecl):
        raise CompileError.at(call.pos, "expected a control or parser with a body")
    path = join_name(parent.path if parent else "", name)
    instance = Instance(decl, path, parent)
    for param, binding in zip(decl.ctor_params, call.binding, strict=True):
        if binding.arg is not None:
            instance.ctor_args[id(param)] = (binding.arg, parent)
    _find_uses(instance)
    return instance


def instantiate_direct(call: ast.Call, parent: Instance) -> Instance:
    """Return the instance for `C.apply(..)`: no constructor arguments, named after the type."""
    decl = call.decl
    assert isinstance(decl, ast.ControlDecl | ast.ParserDecl)
    instance = Instance(decl, join_name(parent.path, decl.name), parent)
    _find_uses(instance)
    return instance


def _find_uses(instance: Instance) -> None:
    decl = instance.decl
    bodies: list[ast.Stmt] = []
    if isinstance(decl, ast.ControlDecl):
        bodies.append(decl.body)
    else:
        for state in decl.states:
            bodies.extend(state.statements)
    for body in bodies:
        for stmt in statements_of(body):
            if isinstance(stmt, ast.DeclStmt) and isinstance(stmt.decl, ast.InstanceDecl):
                raise NotSupported.at(stmt.pos, "an instance declared among statements")
            for expr in expressions_of(stmt):
                if isinstance(expr, ast.Call):
                    _note_use(instance, expr)
    for local in decl.locals:
        if isinstance(local, ast.VarDecl) and local.init is not None:
            for expr in expressions_of(local.init):
                if isinstance(expr, ast.Call):
                    _note_use(instance, expr)


def _note_use(instance: Instance, call: ast.Call) -> None:
    match call.kind:
        case ast.CallKind.TABLE_APPLY:
            assert isinstance(call.decl, ast.TableDecl)
            if call.decl not in instance.used_tables:
                instance.used_tables.append(call.decl)
                for key in call.decl.keys or []:
                    for expr in expressions_of(key.expr):
                        if isinstance(expr, ast.Call):
                            _note_use(instance, expr)
        case ast.CallKind.ACTION:
            assert isinstance(call.decl, ast.ActionDecl)
            if call.decl not in instance.direct_actions:
                instance.direct_actions.append(call.decl)
        case ast.CallKind.CONTROL_APPLY | ast.CallKind.PARSER_APPLY if call.direct:
            instance.children[id(call)] = instantiate_direct(call, instance)
            instance.direct_calls.append(call)
        case ast.CallKind.CONTROL_APPLY | ast.CallKind.PARSER_APPLY:
            receiver = call.receiver
            if not isinstance(receiver, ast.Name) or receiver.decl is None:
                raise NotSupported.at(call.pos, "apply of this expression")
            _child(instance, receiver.decl, call)


def _child(instance: Instance, target: ast.Decl, call: ast.Call) -> Instance:
    """Return the instance that `target` (an instance or a constructor parameter) names."""
    found = instance.children.get(id(target))
    if found is not None:
        return found
    if isinstance(target, ast.InstanceDecl):
        parent = instance if is_local(instance, target) else None
        found = _instantiate(target.call, local_name(target), parent)
    elif id(target) in instance.ctor_args:
        expr, outer = instance.ctor_args[id(target)]
        if isinstance(expr, ast.Name) and expr.decl is not None and outer is not None:
            found = _child(outer, expr.decl, call)
        else:
            found = _instantiate(_constructor(expr), target.name, instance)
    else:
        raise NotSupported.at(call.pos, "apply of an instance passed as a parameter")
    instance.children[id(target)] = found
    return found


def flatten(instance: Instance) -> Iterator[Item]:
    """Yield an instance's declarations, its used sub-instances in place, as inlining orders them.

    These are TableDecl (used ones), ActionDecl, InstanceDecl of externs and ValueSetDecl.
    """
    for local in instance.decl.locals:
        match local:
            case ast.InstanceDecl():
                child = instance.children.get(id(local))
                if child is not None:
                    yield from flatten(child)
                elif isinstance(local.type, ty.Extern):
                    yield Item(instance, local)
            case ast.TableDecl():
                if local in instance.used_tables:
                    yield Item(instance, local)
            case ast.ActionDecl() | ast.ValueSetDecl():
                yield Item(instance, local)
            case _:
                pass
    for call in instance.direct_calls:
        yield from flatten(instance.children[id(call)])


def apply_calls(instance: Instance) -> Iterator[ast.Call]:
    """Yield the calls of an apply body in program order, with those of the controls it applies."""
    if isinstance(instance.decl, ast.ControlDecl):
        for stmt in statements_of(instance.decl.body):
            for expr in expressions_of(stmt):
                if not isinstance(expr, ast.Call):
                    continue
                yield expr
                child = instance.children.get(id(expr))
                if child is None and isinstance(expr.receiver, ast.Name):
                    child = instance.children.get(id(expr.receiver.decl))
                if child is not None:
                    yield from apply_calls(child)


def table_actions(table: ast.TableDecl) -> Iterator[ast.ActionRef]:
    """Yield all references to actions in a table: the list, the default, the entries."""
    yield from table.actions
    if table.default_action is not None:
        yield table.default_action
    for entry in table.entries or []:
        yield entry.action
