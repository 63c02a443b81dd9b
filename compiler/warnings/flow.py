"""Warnings on the flow of data: uninitialised values, out parameters, invalid headers.

One walk over each parser, control and function, in the order of execution, with the set of scalars
that may not have a value yet and what is known of each header's validity. It reports what p4c
reports (its SimplifyDefUse), so it takes over what that leaves out: `isValid()` in a condition is
not understood but silences a header until the end of the branch; a branch that returns still counts
where paths join; functions, controls and externs that are called are taken to write all that they
may, and to leave their headers valid, while actions and tables are walked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.errors import Reporter
from compiler.syntax import ast, walk
from compiler.types import types as ty
from compiler.warnings.storage import Body, Place, Storage, bits_of, headers_of, union
from compiler.warnings.values import State, Values


class FlowWarnings(Values):
    """Walks bodies in the order of execution, and reports."""

    def __init__(self, reporter: Reporter, storage: Storage, *, inline: bool = False) -> None:
        """`inline`: also walk through the functions, controls and parsers that are called."""
        super().__init__(reporter, storage)
        self._inline = inline
        self._unreachable = False
        self._returned: list[State] = []
        self._breaks: list[State] = []
        self._split: State | None = None  # at the first branch of an action: what callers see

    # ------------------------------------------------------------ bodies

    def control(self, decl: ast.ControlDecl) -> None:
        """Check a control with all actions and tables that it reaches."""
        self._enter(decl)
        self._locals(decl.locals)
        self._body(decl.body)
        self._check_out(decl.params, decl.name)

    def function(self, decl: ast.FunctionDecl) -> None:
        """Check a function, as if called from anywhere."""
        self._enter(decl)
        self._body(decl.body)
        self._check_out(decl.params, decl.name)

    def parser(self, decl: ast.ParserDecl) -> None:
        """Check a parser."""
        self._enter(decl)
        self._locals(decl.locals)
        known = self._states(decl)
        ends = [known[name] for name in ("accept", "reject") if name in known]
        self._state = State(unset=union(end.unset for end in ends))
        self._check_out(decl.params, decl.name)

    def _states(self, decl: ast.ParserDecl) -> dict[str, State]:
        """Walk states until nothing new is known at the start of any, then once more to report."""
        states = {state.name: state for state in decl.states}
        known = {"start": self._state.copy()}
        todo = ["start"] if "start" in states else []
        quiet, self._quiet = self._quiet, True
        while todo:
            name = todo.pop(0)
            if name not in states:
                continue
            self._parser_state(states[name], known[name])
            for following in walk.successors(states[name]):
                before = known.get(following)
                after = self._state.copy() if before is None else before.join(self._state)
                if after != before:
                    known[following] = after
                    if following not in todo:
                        todo.append(following)
        self._quiet = quiet
        for state in decl.states:
            if state.name in known and not quiet:
                self._parser_state(state, known[state.name])
        return known

    def _parser_state(self, state: ast.ParserState, before: State) -> None:
        self._state = before.copy()
        self._unreachable = False
        for stmt in state.statements:
            self._stmt(stmt)
        if isinstance(state.transition, ast.Select):
            for expr in state.transition.exprs:
                self._read(expr)
            for case in state.transition.cases:
                for keyset in case.keysets:
                    self._read(keyset)

    def _enter(self, decl: ast.ControlDecl | ast.ParserDecl | ast.FunctionDecl) -> None:
        self._state = State()
        self._unreachable = False
        self._returned = []
        self._params(decl.params)
        self._forget_variables(decl)

    def _forget_variables(self, decl: Body) -> None:
        for variable in self._storage.variables(decl):
            self._forget(self._storage.of(variable))

    def _params(self, params: Iterable[ast.Parameter]) -> None:
        for param in params:
            place = self._storage.of(param)
            if place is None:
                continue
            self._set_headers(place.headers, valid=param.direction != "out")
            if param.direction == "out":
                self._forget(place)
            else:
                self._state.unset &= ~place.bits

    def _locals(self, decls: Iterable[ast.Decl]) -> None:
        for decl in decls:
            if isinstance(decl, ast.VarDecl):
                self._declare(decl)

    def _body(self, body: ast.Block) -> None:
        self._stmt(body)
        for state in self._returned:
            self._state.unset |= state.unset
            self._state.dead &= state.dead
        self._returned = []

    def _check_out(self, params: Iterable[ast.Parameter], name: str) -> None:
        for param in params:
            place = self._storage.of(param)
            if param.direction == "out" and place is not None and self._state.unset & place.plain:
                text = f'out parameter "{param.name}" may be uninitialized when "{name}" ends'
                self._warn(param.pos, text, "uninitialized-out-param")

    # ------------------------------------------------------------ statements

    def _stmt(self, stmt: ast.Stmt) -> None:
        if self._unreachable:
            return
        match stmt:
            case ast.Block(statements=statements):
                for each in statements:
                    self._stmt(each)
            case ast.DeclStmt(decl=ast.VarDecl() as decl):
                self._declare(decl)
            case ast.Assign():
                if stmt.op is not None:
                    self._read(stmt.left)
                self._write(stmt.left)
                self._read(stmt.right)
                self._copy_validity(stmt.left, stmt.right)
                self._state.unset &= ~bits_of(self._written(stmt.left))
            case ast.CallStmt(call=call):
                self._read(call)
            case ast.If():
                self._if(stmt)
            case ast.Switch():
                self._switch(stmt)
            case ast.For():
                self._for(stmt)
            case ast.ForIn():
                self._for_in(stmt)
            case ast.Return(value=value):
                if value is not None:
                    self._read(value)
                self._returned.append(self._state.copy())
                self._end()
            case ast.Exit():
                self._end()
            case ast.Break() | ast.Continue():
                self._breaks.append(self._state.copy())
                self._end()
            case _:
                pass

    def _end(self) -> None:
        self._state.dead = True
        self._unreachable = True

    def _declare(self, decl: ast.VarDecl) -> None:
        place = self._storage.of(decl)
        if place is None:
            return
        if decl.init is None:
            self._set_headers(place.headers, valid=False)
        else:
            self._read(decl.init)
            self._validity_from(place, decl.init)
            self._state.unset &= ~place.bits

    def _if(self, stmt: ast.If) -> None:
        silenced = self._state.silenced
        self._read(stmt.cond)
        known = stmt.cond.const_value
        if isinstance(known, bool):
            taken = stmt.then if known else stmt.otherwise
            if taken is not None:
                self._stmt(taken)
            return
        before = self._state.copy()
        self._stmt(stmt.then)
        self._split = self._split or self._state
        then, then_ends = self._state, self._unreachable
        self._state, self._unreachable = before, False
        if stmt.otherwise is not None:
            self._stmt(stmt.otherwise)
        self._unreachable = self._unreachable and then_ends
        self._state = then.join(self._state)
        self._state.silenced = silenced

    def _switch(self, stmt: ast.Switch) -> None:
        silenced = self._state.silenced
        self._read(stmt.expr)
        taken = walk.constant_case(stmt)
        if taken is not None:
            for body in taken:
                self._stmt(body)
            return
        before = self._state.copy()
        self._split = self._split or before
        bodies = [case.body for case in stmt.cases if case.body is not None]
        default = any(isinstance(case.label, ast.DefaultKey) for case in stmt.cases)
        whole = default or (stmt.table is not None and len(stmt.cases) == len(stmt.table.actions))
        after: State | None = None
        all_end = True
        for body in bodies:
            self._state, self._unreachable = before.copy(), False
            self._stmt(body)
            all_end = all_end and self._unreachable
            after = self._state if after is None else after.join(self._state)
        if after is None:
            self._state = before
            return
        # p4c looks for headers whether there is a default, for the rest whether all are there.
        headers = after if default else after.join(before)
        if stmt.table is None or not whole:
            after = after.join(before)
        self._unreachable = all_end
        self._state = State(after.unset, headers.valid, headers.invalid, silenced, after.dead)

    def _for(self, stmt: ast.For) -> None:
        outer, self._breaks = self._breaks, []
        for each in stmt.init:
            self._stmt(each)
        self._read(stmt.cond)
        before = self._state.copy()
        self._loop_body([stmt.body, *stmt.update], before)
        self._breaks = outer

    def _for_in(self, stmt: ast.ForIn) -> None:
        outer, self._breaks = self._breaks, []
        self._read(stmt.collection)
        before = self._state.copy()
        place = self._storage.of(stmt.var)
        if place is not None:
            self._state.unset &= ~place.bits
            self._set_headers(place.headers, valid=True)
        self._loop_body([stmt.body], before)
        self._breaks = outer

    def _loop_body(self, body: Sequence[ast.Stmt], before: State) -> None:
        for each in body:
            self._stmt(each)
        unset = self._state.unset | before.unset | union(state.unset for state in self._breaks)
        self._state.unset = unset
        self._state.dead = before.dead
        self._unreachable = False

    # ------------------------------------------------------------ calls

    def _call(self, call: ast.Call) -> None:
        kind = ast.CallKind
        match call.kind:
            case kind.IS_VALID | kind.SET_VALID | kind.SET_INVALID:
                self._header_method(call)
            case kind.PUSH_FRONT | kind.POP_FRONT:
                assert call.receiver is not None
                places = self._read(call.receiver, whole=False)
                self._set_headers(headers_of(places), valid=True)
                self._state.unset &= ~bits_of(places)
            case kind.ACTION:
                assert isinstance(call.decl, ast.ActionDecl)
                self._action(call.decl, call.binding)
            case kind.TABLE_APPLY:
                assert isinstance(call.decl, ast.TableDecl)
                self._table(call.decl)
            case kind.PACKET_EXTRACT:
                for argument in call.args[1:]:
                    self._read(argument.value)
                self._out(call.args[0].value, valid=True)
            case kind.SIZE_IN_BITS | kind.STATIC_ASSERT | kind.CONSTRUCTOR:
                pass
            case _:
                if not (self._inline and self._inlined(call)):
                    self._opaque(call)

    def _inlined(self, call: ast.Call) -> bool:
        """Walk through what is called; False if it is nothing with a body."""
        decl = call.decl
        if not isinstance(decl, ast.ControlDecl | ast.ParserDecl | ast.FunctionDecl):
            return False
        if isinstance(decl, ast.FunctionDecl) and decl.type_params:
            return False
        arguments = {b.param.name: b.arg for b in call.binding if b.arg is not None}
        for param in decl.params:
            place, arg = self._storage.of(param), arguments.get(param.name)
            if place is None:
                continue
            if arg is not None and param.direction != "out":
                self._read(arg, whole=False)
            self._params([param])
            if arg is not None and param.direction != "out":
                self._copy_all(place, self._places(arg))
                if param.direction != "inout":  # reads of it were reported where it is passed
                    self._state.unset &= ~place.bits
        returned, self._returned = self._returned, []
        ended, self._unreachable = self._unreachable, False
        self._run_inlined(decl)
        self._returned, self._unreachable = returned, ended
        for param in decl.params:
            place, arg = self._storage.of(param), arguments.get(param.name)
            if place is None or param.direction not in ("out", "inout"):
                continue
            if arg is not None and not isinstance(arg, ast.Wildcard):
                if isinstance(decl, ast.FunctionDecl):
                    self._check_copied_out(param, place)
                self._write(arg)
                targets = self._written(arg)
                self._state.unset &= ~bits_of(targets)
                for target in targets:
                    if target.type == place.type:
                        self._copy_all(target, [place])
        return True

    def _run_inlined(self, decl: ast.ControlDecl | ast.ParserDecl | ast.FunctionDecl) -> None:
        self._forget_variables(decl)
        if not isinstance(decl, ast.FunctionDecl):
            self._locals(decl.locals)
        if isinstance(decl, ast.ParserDecl):
            known = self._states(decl)
            self._state = known.get("accept", self._state).copy()
        else:
            self._body(decl.body)

    def _check_copied_out(self, param: ast.Parameter, place: Place) -> None:
        if not self._state.dead and self._state.unset & place.bits:
            text = f'"{param.name}" may be uninitialized where it is copied out'
            self._warn(param.pos, text, "uninitialized-use")

    def _header_method(self, call: ast.Call) -> None:
        receiver = call.receiver
        assert receiver is not None
        if isinstance(receiver, ast.Member):
            self._read(receiver, whole=False)
        if call.kind is ast.CallKind.IS_VALID:
            self._state.silenced |= headers_of(self._places(receiver))
        else:
            self._set_validity(receiver, valid=call.kind is ast.CallKind.SET_VALID)

    def _opaque(self, call: ast.Call) -> None:
        """Apply a call whose body is not analysed: a function, a control, a parser, an extern."""
        outputs = []
        for binding in call.binding:
            if binding.arg is None or isinstance(binding.arg, ast.Wildcard):
                continue
            if binding.param.direction is not ty.Direction.OUT:
                self._read(binding.arg)
            if binding.param.direction in (ty.Direction.OUT, ty.Direction.INOUT):
                outputs.append(binding.arg)
        if not call.binding:
            for argument in call.args:
                self._read(argument.value)
        for each in outputs:
            self._out(each, valid=None if call.kind is ast.CallKind.FUNCTION else True)

    def _out(self, expr: ast.Expr, *, valid: bool | None) -> None:
        """Apply an argument that a call writes; a function leaves headers as they were."""
        if isinstance(expr, ast.Wildcard):
            return
        self._write(expr)
        if valid:
            if isinstance(expr.type, ty.Header):
                self._set_validity(expr, valid=True)
            else:
                self._set_headers(headers_of(self._places(expr)), valid=True)
        self._state.unset &= ~bits_of(self._written(expr))

    def _table(self, table: ast.TableDecl) -> None:
        for key in table.keys or []:
            self._read(key.expr)
        before = self._state.copy()
        after = None if table.default_action is not None else before.copy()
        for reference in table.actions:
            self._state = before.copy()
            if reference.decl is not None:
                self._action(reference.decl, reference.binding)
            after = self._state if after is None else after.join(self._state)
        if after is not None:  # what actions do to headers is not known outside, as in p4c
            before.unset, before.dead = after.unset, after.dead
        self._state = before

    def _action(self, action: ast.ActionDecl, binding: Sequence[ast.Binding]) -> None:
        arguments = {b.param.name: b.arg for b in binding if b.arg is not None}
        for param in action.params:
            arg = arguments.get(param.name)
            place = self._storage.of(param)
            if place is None:
                continue
            if param.direction == "out":
                self._set_headers(place.headers, valid=False)
                self._forget(place)
                continue
            self._state.unset &= ~place.bits
            if arg is None or isinstance(arg, ast.Wildcard):
                self._set_headers(place.headers, valid=True)
            else:
                self._read(arg)
                self._validity_from(place, arg)
        self._forget_variables(action)
        returned, self._returned = self._returned, []
        ended, self._unreachable = self._unreachable, False
        split, self._split = self._split, None
        self._body(action.body)
        self._check_out(action.params, action.name)
        if self._split is not None and not self._inline:
            self._state.valid, self._state.invalid = self._split.valid, self._split.invalid
        self._returned, self._unreachable, self._split = returned, ended, split
        for param in action.params:
            arg = arguments.get(param.name)
            place = self._storage.of(param)
            if param.direction in ("out", "inout") and arg is not None and place is not None:
                if self._inline:
                    self._check_copied_out(param, place)
                self._write(arg)
                self._state.unset &= ~bits_of(self._written(arg))
                for target in self._places(arg):
                    self._validity_of_places(target, [place])
