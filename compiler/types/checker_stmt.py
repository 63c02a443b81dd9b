"""Statements and local declarations (spec sections 11, 12)."""

from __future__ import annotations

from abc import abstractmethod

from compiler.errors import Pos
from compiler.syntax import ast
from compiler.types import types as ty
from compiler.types import unify
from compiler.types.checker_call import CallChecker
from compiler.types.checker_convert import is_untyped, type_of
from compiler.types.scope import suggestion

_NOT_IN_PARSER = {
    ast.Exit: "exit",
    ast.Return: "return",
    ast.Switch: "switch",
    ast.For: "for",
    ast.ForIn: "for",
}


class StatementChecker(CallChecker):
    """`stmt(node)`; errors are reported statement by statement."""

    @abstractmethod
    def annotations(self, annotations: list[ast.Annotation]) -> None:
        """Fold the bodies of annotations."""

    def block(self, block: ast.Block) -> None:
        """Check a block with a scope of its own."""
        self.annotations(block.annotations)
        with self._nested():
            self.statements(block.statements)

    def statements(self, statements: list[ast.Stmt]) -> None:
        """Check statements in the current scope; go on after a wrong one."""
        for each in statements:
            with self._guard():
                self.stmt(each)

    def stmt(self, stmt: ast.Stmt) -> None:
        """Check one statement; raises `CompileError`."""
        if self._context.kind == "parser" and type(stmt) in _NOT_IN_PARSER:
            self._fail(stmt.pos, f'"{_NOT_IN_PARSER[type(stmt)]}" can\'t stand in a parser state')
        match stmt:
            case ast.Assign():
                self._assign(stmt)
            case ast.CallStmt():
                self.call(stmt.call)
            case ast.DeclStmt():
                self.local(stmt.decl, in_body=True)
            case ast.Block():
                self.block(stmt)
            case ast.If():
                self._if(stmt)
            case ast.Switch():
                self._switch(stmt)
            case ast.Return():
                self._return(stmt)
            case ast.Exit():
                if self._context.kind == "function":
                    self._fail(stmt.pos, '"exit" can\'t stand in a function')
            case ast.For():
                self._for(stmt)
            case ast.ForIn():
                self._for_in(stmt)
            case ast.Break() | ast.Continue():
                if not self._context.loops:
                    word = "break" if isinstance(stmt, ast.Break) else "continue"
                    self._fail(stmt.pos, f'"{word}" can only stand in a loop')
            case ast.Empty():
                pass
            case _:
                raise AssertionError(stmt)

    # ------------------------------------------------------------ simple ones

    def _assign(self, stmt: ast.Assign) -> None:
        stmt.left = self.value(stmt.left)
        self.require_lvalue(stmt.left, "can't assign to")
        target = type_of(stmt.left)
        if isinstance(target, ty.Behaviour):
            self._fail(stmt.pos, f"{target} can't be assigned")
        if stmt.op is None:
            stmt.right = self.assigned_value(stmt.right, target, "assigned value")
            return
        combined = ast.Binary(stmt.pos, stmt.op, stmt.left, stmt.right)
        self.expr(combined)
        if combined.left is not stmt.left or combined.type != target:
            self._fail(
                stmt.pos,
                f'"{stmt.op.value}=" gives {combined.type}, which is not the type of its target: '
                f"{target}",
            )
        stmt.op, stmt.right = combined.op, combined.right

    def local(
        self, decl: ast.VarDecl | ast.ConstDecl | ast.InstanceDecl, *, in_body: bool = False
    ) -> None:
        """Check a variable, constant or instance; its name is declared even where it is wrong.

        `in_body`: it stands among statements.
        """
        self.annotations(decl.annotations)
        try:
            match decl:
                case ast.VarDecl():
                    self._variable(decl)
                case ast.ConstDecl():
                    self.constant(decl)
                case ast.InstanceDecl():
                    if in_body and self._context.kind in ("control", "parser"):
                        where = "apply" if self._context.kind == "control" else "the states"
                        self._fail(decl.pos, f'"{decl.name}" is an instance: declare it before '
                                   f"{where}")  # fmt: skip
                    self.instance(decl)
        finally:
            self._declare(decl, in_body=in_body)

    def _variable(self, decl: ast.VarDecl) -> None:
        declared = self.resolve(decl.type_ref)
        if isinstance(declared, ty.Behaviour):
            self._fail(
                decl.pos, f'"{decl.name}" can\'t be a variable: {declared} must be instantiated, '
                f"as in {declared}() {decl.name};"
            )  # fmt: skip
        if isinstance(declared, ty.Void | ty.DontCare | ty.InfInt | ty.String | ty.MatchKind):
            hint = ": give it a width, as in bit<8>" if isinstance(declared, ty.InfInt) else ""
            self._fail(decl.type_ref.pos, f"a variable can't have type {declared}{hint}")
        decl.type = declared
        if decl.init is not None:
            decl.init = self.assigned_value(decl.init, declared, f'initial value of "{decl.name}"')

    def constant(self, decl: ast.ConstDecl) -> None:
        """Check `const T name = value;`."""
        declared = self.resolve(decl.type_ref)
        if isinstance(declared, ty.Behaviour | ty.Void | ty.DontCare):
            self._fail(decl.type_ref.pos, f"a constant can't have type {declared}")
        decl.type = declared
        decl.init = self.check_constant_of(decl.init, declared)

    def instance(self, decl: ast.InstanceDecl) -> None:
        """Check `T(args) name;`."""
        decl.type = self.construct(decl.call)
        self.initializer(decl)
        if self._context.kind == "program" and isinstance(decl.type, ty.Parser | ty.Control):
            made = decl.type
            self._fail(
                decl.pos,
                f"{made} can't be instantiated at top level: give {made}(...) to a package",
            )

    @abstractmethod
    def initializer(self, decl: ast.InstanceDecl) -> None:
        """Check `= { methods }` of an instance; see `checker_methods`."""

    # ------------------------------------------------------------ control flow

    def _if(self, stmt: ast.If) -> None:
        with self._guard():
            stmt.cond = self.condition(stmt.cond)
        with self._guard(), self._nested():
            self.stmt(stmt.then)
        if stmt.otherwise is not None:
            with self._guard(), self._nested():
                self.stmt(stmt.otherwise)

    def condition(self, expr: ast.Expr) -> ast.Expr:
        """Return a checked bool; the message for numbers says what to write."""
        checked = self.value(expr)
        if not isinstance(checked.type, ty.Bool):
            hint = ""
            if unify.is_number(ty.underlying(type_of(checked))):
                hint = "; compare it, as in x == 1"
            self._fail(checked.pos, f"a condition must be bool, not {checked.type}{hint}")
        return checked

    def _return(self, stmt: ast.Return) -> None:
        self._context.returns = True
        result = self._context.result
        if stmt.value is None:
            if result is not None and not isinstance(result, ty.Void):
                self._fail(stmt.pos, f"this function returns {result}: a value is missing")
            return
        if result is None or isinstance(result, ty.Void):
            kind = self._context.kind
            what = "a void function" if kind == "function" else f"the body of this {kind}"
            self._fail(stmt.value.pos, f"{what} returns no value")
        stmt.value = self.assigned_value(stmt.value, result, "returned value")

    def _switch(self, stmt: ast.Switch) -> None:
        stmt.expr = self.value(stmt.expr)
        switched = type_of(stmt.expr)
        allowed = (ty.Bit, ty.Int, ty.InfInt, ty.Enum, ty.SerEnum, ty.ActionRun)
        if not isinstance(switched, allowed):
            self._fail(stmt.expr.pos, f"switch can't choose by a value of type {switched}")
        stmt.in_action = self._context.kind == "action"
        with self._guard():
            self._check_default_label(stmt)
        seen: dict[object, Pos] = {}
        for case in stmt.cases:
            with self._guard():
                key = self._switch_label(stmt, case, switched)
                if key in seen and key != "default":
                    self._fail(
                        case.pos, "duplicate label of switch", ((seen[key], "first used here"),)
                    )
                seen[key] = case.pos
            if case.body is not None:
                self.block(case.body)
        if stmt.cases and stmt.cases[-1].body is None:
            last = stmt.cases[-1]
            self.reporter.warn(last.pos, "the last label falls through to nothing", "missing")

    def _check_default_label(self, stmt: ast.Switch) -> None:
        defaults = [case for case in stmt.cases if isinstance(case.label, ast.DefaultKey)]
        if len(defaults) > 1:
            notes = tuple((case.pos, "one of them") for case in defaults)
            self._fail(stmt.pos, 'this switch has more than one label "default"', notes)
        if defaults and defaults[0] is not stmt.cases[-1]:
            notes = ((defaults[0].pos, "it stands here"),)
            self._fail(stmt.pos, '"default" must be the last label of a switch', notes)

    def _switch_label(self, stmt: ast.Switch, case: ast.SwitchCase, switched: ty.Type) -> object:
        """Check a label; return what must not occur twice."""
        if isinstance(switched, ty.ActionRun):
            stmt.table = switched.table.decl
            return self._action_label(case, switched)
        if isinstance(case.label, ast.DefaultKey):
            case.label.type = switched
            return "default"
        case.label = self.value_of(case.label, switched, "label")
        if case.label.const_value is not None:
            return case.label.const_value
        if isinstance(case.label, ast.Member) and case.label.decl is not None:
            return case.label.decl
        return self._fail(case.label.pos, "a label of switch must be known while compiling")

    def _action_label(self, case: ast.SwitchCase, switched: ty.ActionRun) -> object:
        label = case.label
        if isinstance(label, ast.DefaultKey):
            label.type = switched
            return "default"
        table = switched.table.decl
        if not isinstance(label, ast.Name) or table is None:
            self._fail(label.pos, f'a label here is an action of table "{switched.table.name}"')
        for ref in table.actions:
            if ref.path.name == label.name and ref.decl is not None:
                label.decl, label.type = ref.decl, ref.decl.type
                return ref.decl
        hint = suggestion(label.name, [ref.path.name for ref in table.actions])
        return self._fail(
            label.pos, f'"{label.name}" is no action of table "{switched.table.name}"{hint}'
        )

    def _for(self, stmt: ast.For) -> None:
        self.annotations(stmt.annotations)
        with self._nested():
            for each in stmt.init:
                self.stmt(each)
            stmt.cond = self.condition(stmt.cond)
            for each in stmt.update:
                self.stmt(each)
            self._loop_body(stmt.body)

    def _for_in(self, stmt: ast.ForIn) -> None:
        self.annotations(stmt.annotations)
        with self._nested():
            self.local(stmt.var)
            element = stmt.var.type
            assert element is not None
            if isinstance(stmt.collection, ast.Range):
                span = stmt.collection
                span.low = self.value_of(span.low, element, "start of the range")
                span.high = self.value_of(span.high, element, "end of the range")
                span.type = ty.SetType(element)
            else:
                stmt.collection = self.value(stmt.collection)
                collected = type_of(stmt.collection)
                if not isinstance(collected, ty.Stack | ty.ListType):
                    hint = (
                        f": write (list<{element}>){{...}}" if is_untyped(stmt.collection) else ""
                    )
                    self._fail(
                        stmt.collection.pos,
                        f"for can't go through a value of type {collected}{hint}",
                    )
                if collected.element != element:
                    self._fail(
                        stmt.var.pos, f'"{stmt.var.name}" must have type {collected.element}'
                    )
            self._loop_body(stmt.body)

    def _loop_body(self, body: ast.Stmt) -> None:
        self._context.loops += 1
        try:
            self.stmt(body)
        finally:
            self._context.loops -= 1


def always_returns(stmt: ast.Stmt) -> bool:
    """Return whether control never goes past `stmt`: every path ends in return or exit."""
    match stmt:
        case ast.Return() | ast.Exit():
            return True
        case ast.Block():
            return any(always_returns(each) for each in stmt.statements)
        case ast.If(otherwise=ast.Stmt() as otherwise):
            return always_returns(stmt.then) and always_returns(otherwise)
        case ast.Switch():
            has_default = any(isinstance(case.label, ast.DefaultKey) for case in stmt.cases)
            return has_default and all(
                case.body is None or always_returns(case.body) for case in stmt.cases
            )
        case _:
            return False
