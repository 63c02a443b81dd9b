"""Lowering of calls: actions, functions, controls and parsers are inlined where they are called.

Arguments are passed by reference where it makes no difference; otherwise they are copied in and out
in the order that P4 prescribes (spec 6.8). Tables' actions are lowered apart (`lower_table`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from compiler.bmv2 import ir
from compiler.bmv2.lower_assign import AssignLowering
from compiler.bmv2.lower_frame import Frame
from compiler.bmv2.places import (
    SCALARS,
    ExternObject,
    HeaderPlace,
    Packet,
    StackPlace,
    StructValue,
    UnionPlace,
    Unset,
    Value,
    overlap,
)
from compiler.errors import NotSupported, Pos
from compiler.passes import effects
from compiler.passes.elaborate import Instance
from compiler.syntax import ast
from compiler.syntax.walk import expressions_of, has_side_effects, statements_of
from compiler.types import types as ty
from compiler.types.types import Direction

_OUT = (Direction.OUT, Direction.INOUT)


class CallLowering(AssignLowering):
    """Adds inlining to the lowering of assignments and expressions."""

    @abstractmethod
    def statement(self, stmt: ast.Stmt) -> None:
        """Write code for a statement (see `lower_stmt`)."""

    @abstractmethod
    def parser_states(self, decl: ast.ParserDecl, accept: ir.Block, prefix: str) -> None:
        """Write a parser's states and go to its start (see `lower_parser`)."""

    # ------------------------------------------------------------ actions and functions

    def inline_action(self, call: ast.Call) -> None:
        """Lower a direct call of an action."""
        decl = call.decl
        assert isinstance(decl, ast.ActionDecl)
        home = self.frame.home_of(decl)
        frame = Frame(None, parent=home, caller=self.frame)
        copies = self._bind(call.binding, decl.params, frame, home, decl.body, decl.name, call.pos)
        self._run(decl.body, frame, copies, call.pos)

    def run_action(
        self,
        bindings: Sequence[ast.Binding],
        params: Sequence[ast.Parameter],
        frame: Frame,
        decl: ast.ActionDecl,
    ) -> None:
        """Lower an action run by a table whose action list binds `params`."""
        copies = self._bind(bindings, params, frame, frame.parent, decl.body, decl.name, decl.pos)
        self._run(decl.body, frame, copies, decl.pos)

    def inline_function(self, call: ast.Call) -> Value:
        """Lower a call of a function and return its result."""
        decl = call.decl
        assert isinstance(decl, ast.FunctionDecl)
        frame = Frame(None, caller=self.frame)
        for param in decl.type_params:
            if param.type is not None and param.name in call.bound_type_args:
                bound = call.bound_type_args[param.name]
                frame.types[param.type] = ty.substitute(bound, self.frame.types)
        copies = self._bind(call.binding, decl.params, frame, None, decl.body, decl.name, call.pos)
        body = decl.body.statements
        if len(body) == 1 and isinstance(body[0], ast.Return) and not copies:
            value = body[0].value
            if value is not None and not has_side_effects(value):
                return self._within(frame).lower(value)
        assert call.type is not None
        result_type = ty.substitute(self.type_of(call), frame.types)
        if not isinstance(result_type, ty.Void):
            frame.result = self.program.layout.local(decl.name, result_type, call.pos)
        self._run(decl.body, frame, copies, call.pos)
        return frame.result if frame.result is not None else StructValue({})

    def _run(
        self,
        body: ast.Block,
        frame: Frame,
        copies: Sequence[tuple[Value, Value]],
        pos: Pos,
    ) -> None:
        """Write `body` in `frame`, then the copies out."""
        after = ir.Block(pos)
        frame.return_to = after
        frame.copy_out = [(target, source, pos) for target, source in copies]
        inner = self._within(frame)
        inner.statement(body)
        self.code.goto(after)
        self.code.start(after)
        for target, source in copies:
            self.assign(target, source, pos)

    def _within(self, frame: Frame) -> CallLowering:
        """Return the same lowering with the names of `frame`."""
        return type(self)(self.program, self.code, frame)

    # ------------------------------------------------------------ controls and parsers

    def inline_apply(self, call: ast.Call) -> None:
        """Lower `control.apply(..)` and `parser.apply(..)`."""
        instance = self._callee(call)
        decl = instance.decl
        frame = self._instance_frame(instance, call)
        frame.caller = self.frame
        sites = self.program.apply_sites(instance)
        by_copy = len(sites) > 1 and not _same_arguments(sites)
        copies = self._bind_apply(call, decl, frame, by_copy)
        if isinstance(decl, ast.ControlDecl):
            after = ir.Block(call.pos)
            frame.return_to = after
            frame.copy_out = [(target, source, call.pos) for target, source in copies]
            inner = self._within(frame)
            inner.locals(decl.locals)
            inner.statement(decl.body)
            self.code.goto(after)
            self.code.start(after)
        else:
            after = ir.Block(call.pos)
            inner = self._within(frame)
            inner.locals(decl.locals)
            inner.parser_states(decl, after, f"{instance.path.rsplit('.', 1)[-1]}_")
            self.code.start(after)
        for target, source in copies:
            self.assign(target, source, call.pos)

    def _callee(self, call: ast.Call) -> Instance:
        frame: Frame | None = self.frame
        while frame is not None and frame.instance is None:
            frame = frame.parent
        assert frame is not None
        assert frame.instance is not None
        children = frame.instance.children
        if call.direct:
            return children[id(call)]
        receiver = call.receiver
        assert isinstance(receiver, ast.Name)
        assert receiver.decl is not None
        return children[id(receiver.decl)]

    def _instance_frame(self, instance: Instance, call: ast.Call) -> Frame:
        """Return the frame of a control instance: one for all its applies, as its tables refer to
        it.
        """
        if isinstance(instance.decl, ast.ParserDecl):
            return Frame(instance)
        found = self.program.frames.get(id(instance))
        if found is None:
            found = self.program.frames[id(instance)] = Frame(instance)
        return found

    def _bind_apply(
        self,
        call: ast.Call,
        decl: ast.ControlDecl | ast.ParserDecl,
        frame: Frame,
        by_copy: bool,
    ) -> list[tuple[Value, Value]]:
        values = self._arguments(call.binding)
        outs = _outs(call.binding, values)
        copies: list[tuple[Value, Value]] = []
        for i, (param, binding) in enumerate(zip(decl.params, call.binding, strict=True)):
            value, direction = values[i], binding.param.direction
            others = [v for j, v in outs if j != i]
            aliased = by_copy or any(overlap(value, other) for other in others)
            if not aliased and not _is_computed(value):
                frame.values[id(param)] = value
                if direction is Direction.OUT:
                    self.reset(value, call.pos)
                continue
            if isinstance(value, Packet | ExternObject):
                frame.values[id(param)] = value
                continue
            place = frame.values.get(id(param)) if by_copy else None
            if place is None:
                t = self.type_in(binding.param.type)
                place = self.program.layout.local(param.name, t, call.pos)
                frame.values[id(param)] = place
            self._copy_in(place, value, direction, call.pos)
            if direction in _OUT and not isinstance(value, Unset):
                copies.append((value, place))
        return copies

    def type_in(self, t: ty.Type) -> ty.Type:
        """Return `t` with the type arguments of this frame."""
        return ty.substitute(t, self.frame.types)

    def locals(self, decls: Iterable[ast.Decl]) -> None:
        """Make places for a control's or parser's variables and run their initialisers."""
        for decl in decls:
            if isinstance(decl, ast.VarDecl):
                self.declare(decl)

    def declare(self, decl: ast.VarDecl) -> None:
        """Lower a variable declaration: reset its headers, run its initialiser."""
        assert decl.type is not None
        if isinstance(decl.type, ty.ListType):  # known while compiling, and never changed
            value = StructValue({}) if decl.init is None else self.lower(decl.init)
            self.frame.values[id(decl)] = value
            return
        place = self.frame.values.get(id(decl))
        if place is None:
            place = self.program.layout.local(decl.name, self.type_in(decl.type), decl.pos)
            self.frame.values[id(decl)] = place
        if decl.init is not None:
            self.assign(place, self.lower(decl.init), decl.pos)
        else:
            self.reset(place, decl.pos)

    # ------------------------------------------------------------ parameters

    def _arguments(self, bindings: Sequence[ast.Binding]) -> list[Value]:
        """Return the values and places of arguments, evaluated left to right."""
        given = [b.arg for b in bindings]
        if any(arg is None for arg in given):
            missing = next(b for b in bindings if b.arg is None)
            raise NotSupported.at(
                missing.param.decl.pos if missing.param.decl else Pos("", 0, 0),
                f"the omitted optional parameter {missing.param.name}",
            )
        effects_at = [has_side_effects(arg) for arg in given if arg is not None]
        values: list[Value] = []
        for i, binding in enumerate(bindings):
            arg = binding.arg
            assert arg is not None
            if binding.param.direction in _OUT and not isinstance(arg, ast.Wildcard):
                values.append(self.place(arg, fixed=True))
                continue
            value = self.lower(arg)
            if (
                any(effects_at[i + 1 :])
                and isinstance(value, SCALARS)
                and not isinstance(value, ir.Const)
            ):
                value = self.to_temporary(value, arg.pos)
            values.append(value)
        return values

    def _bind(
        self,
        bindings: Sequence[ast.Binding],
        params: Sequence[ast.Parameter],
        frame: Frame,
        home: Frame | None,
        body: ast.Block,
        name: str,
        pos: Pos,
    ) -> list[tuple[Value, Value]]:
        """Bind an action's or function's parameters; the copies to make after its body."""
        values = self._arguments(bindings)
        outs = _outs(bindings, values)
        touched = self._resolved(effects.mentioned(body), home)
        changed = self._resolved(effects.written(body), home)
        uses = _uses(body, params)
        copies: list[tuple[Value, Value]] = []
        for i, (param, binding) in enumerate(zip(params, bindings, strict=True)):
            value, direction = values[i], binding.param.direction
            if isinstance(value, ExternObject | Packet | ir.Const | ir.ActionParam | ir.Text):
                frame.values[id(param)] = value
                continue
            others = [v for j, v in outs if j != i]
            rivals = others + (touched if direction in _OUT else changed)
            aliased = any(overlap(value, other) for other in rivals)
            once = direction not in _OUT and uses.get(id(param), 0) <= 1
            if not aliased and (once or not _is_computed(value)):
                frame.values[id(param)] = value
                if direction is Direction.OUT:
                    self.reset(value, pos)
                continue
            t = ty.substitute(self.type_in(binding.param.type), frame.types)
            place = self.program.layout.local(f"{name}_{param.name}", t, pos)
            frame.values[id(param)] = place
            self._copy_in(place, value, direction, pos)
            if direction in _OUT and not isinstance(value, Unset):
                copies.append((value, place))
        return copies

    def _copy_in(self, place: Value, value: Value, direction: Direction, pos: Pos) -> None:
        if direction is Direction.OUT:
            self.reset(place, pos)
        else:
            self.assign(place, value, pos)

    def _resolved(self, exprs: Iterable[ast.Expr], home: Frame | None) -> list[Value]:
        """Return the places of the expressions that name variables of the enclosing control."""
        if home is None:
            return []
        outer = self._within(home)
        found: list[Value] = []
        for expr in exprs:
            root = root_of(expr)
            if root is not None and home.lookup(root) is not None:
                found.append(outer.lower(_without_run_time_index(expr)))
        return found


def _outs(bindings: Sequence[ast.Binding], values: Sequence[Value]) -> list[tuple[int, Value]]:
    return [
        (i, value)
        for i, (binding, value) in enumerate(zip(bindings, values, strict=True))
        if binding.param.direction in _OUT and not isinstance(value, Unset)
    ]


def _is_computed(value: Value) -> bool:
    """Return whether `value` is no place that a parameter can stand for."""
    match value:
        case ir.Field() | ir.Const() | ir.ActionParam() | ir.Text() | Packet() | ExternObject():
            return False
        case HeaderPlace() | StackPlace() | UnionPlace():
            return False
        case StructValue(fields):
            return any(_is_computed(v) for v in fields.values())
        case _:
            return True


def _uses(body: ast.Block, params: Sequence[ast.Parameter]) -> dict[int, int]:
    """Return how often each parameter is named in a body."""
    counts: dict[int, int] = {}
    wanted = {id(p) for p in params}
    for stmt in statements_of(body):
        for expr in expressions_of(stmt):
            if isinstance(expr, ast.Name) and id(expr.decl) in wanted:
                counts[id(expr.decl)] = counts.get(id(expr.decl), 0) + 1
    return counts


def root_of(expr: ast.Expr) -> ast.Decl | None:
    """Return the variable that a path like `a.b[i].c` begins with."""
    while isinstance(expr, ast.Member | ast.Index | ast.Slice):
        expr = expr.base
    return expr.decl if isinstance(expr, ast.Name) else None


def _without_run_time_index(expr: ast.Expr) -> ast.Expr:
    """Return the part of a path before the first index that is not constant."""
    path: list[ast.Expr] = []
    node = expr
    while isinstance(node, ast.Member | ast.Index | ast.Slice):
        path.append(node)
        node = node.base
    result = expr
    for step in path:
        if isinstance(step, ast.Index) and step.index.const_value is None:
            result = step.base
        if isinstance(step, ast.Member) and step.kind is not ast.MemberKind.FIELD:
            result = step.base
        if isinstance(step, ast.Slice):
            result = step.base
    return result


def _same_arguments(sites: Sequence[ast.Call]) -> bool:
    """Return whether all calls pass the same variables by name."""

    def names(call: ast.Call) -> list[object]:
        return [
            b.arg.decl if isinstance(b.arg, ast.Name) and b.arg.decl is not None else object()
            for b in call.binding
        ]

    first = names(sites[0])
    return all(
        len(first) == len(other) and all(a is b for a, b in zip(first, other, strict=True))
        for other in map(names, sites[1:])
    )
