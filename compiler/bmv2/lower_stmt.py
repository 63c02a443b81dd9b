"""Lowering of statements: control flow, table applies, switches; and calls used as values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from compiler.bmv2 import fold, ir, lower_extern
from compiler.bmv2.lower_call import CallLowering, root_of
from compiler.bmv2.lower_expr import elements_of
from compiler.bmv2.lower_frame import Code, Frame, Region
from compiler.bmv2.places import StackPlace, StackValue, StructValue, Value
from compiler.errors import CompileError, NotSupported, Pos
from compiler.passes import effects
from compiler.syntax import ast
from compiler.syntax.walk import constant_case, expressions_of, has_side_effects, statements_of

UNROLL_LIMIT = 256
_APPLIES = frozenset(
    {ast.CallKind.TABLE_APPLY, ast.CallKind.CONTROL_APPLY, ast.CallKind.PARSER_APPLY}
)


class StmtLowering(CallLowering):
    """Adds statements to the lowering of calls, assignments and expressions."""

    def statement(self, stmt: ast.Stmt) -> None:
        """Write code for one statement; nothing if it can't be reached."""
        if self.code.current is None:
            return
        match stmt:
            case ast.Block(annotations=annotations) if self._is_atomic(annotations):
                self._as_one_action(stmt)
            case ast.Block():
                self._plain_block(stmt)
            case ast.Assign():
                self.assign_statement(stmt)
            case ast.CallStmt(call=call):
                self._call(call)
            case ast.If():
                self._if(stmt)
            case ast.Switch():
                self._switch(stmt)
            case ast.Return():
                self._return(stmt)
            case ast.Exit():
                self._exit(stmt.pos)
            case ast.DeclStmt(decl=ast.VarDecl() as decl):
                self.declare(decl)
            case ast.DeclStmt(decl=ast.InstanceDecl()):
                raise NotSupported.at(stmt.pos, "an instance declared among statements")
            case ast.Empty() | ast.DeclStmt():
                pass
            case ast.ForIn():
                self._for_in(stmt)
            case ast.For():
                self._for(stmt)
            case ast.Break() | ast.Continue():
                self._leave_round(stmt)
            case _:
                raise NotSupported.at(stmt.pos, f"this statement ({type(stmt).__name__})")

    def _is_atomic(self, annotations: Sequence[ast.Annotation]) -> bool:
        return (
            any(a.name == "atomic" for a in annotations)
            and not self.code.in_action
            and not self.in_parser()
        )

    # ------------------------------------------------------------ conditions

    def branch(self, cond: ast.Expr, then: ir.Block, otherwise: ir.Block) -> None:
        """Go on in `then` if `cond` holds, else in `otherwise`. Calls run as P4 orders them."""
        if isinstance(cond.const_value, bool):
            self.code.goto(then if cond.const_value else otherwise)
            return
        match cond:
            case ast.Member(
                kind=ast.MemberKind.TABLE_HIT | ast.MemberKind.TABLE_MISS, base=ast.Call() as call
            ):
                hit = cond.kind is ast.MemberKind.TABLE_HIT
                table = self.program.prepare_table(self, call)
                self.code.terminate(
                    ir.ApplyTable(
                        table,
                        cond.pos,
                        hit=then if hit else otherwise,
                        miss=otherwise if hit else then,
                    )
                )
            case ast.Unary(op=ast.UnaryOp.NOT, operand=operand):
                self.branch(operand, otherwise, then)
            case ast.Binary(op=ast.BinaryOp.AND, left=left, right=right) if has_side_effects(cond):
                middle = ir.Block(right.pos)
                self.branch(left, middle, otherwise)
                self.code.start(middle)
                self._branch_if_reached(right, then, otherwise)
            case ast.Binary(op=ast.BinaryOp.OR, left=left, right=right) if has_side_effects(cond):
                middle = ir.Block(right.pos)
                self.branch(left, then, middle)
                self.code.start(middle)
                self._branch_if_reached(right, then, otherwise)
            case _:
                value = self.scalar(cond)
                if isinstance(value, ir.Const):
                    self.code.goto(then if value.value else otherwise)
                    return
                if self.in_parser() and not isinstance(value, ir.Field):
                    value = self.to_temporary(value, cond.pos)
                self.code.terminate(ir.Branch(value, then, otherwise, cond.pos))

    def _branch_if_reached(self, cond: ast.Expr, then: ir.Block, otherwise: ir.Block) -> None:
        if self.code.current is not None:
            self.branch(cond, then, otherwise)

    def _if(self, stmt: ast.If) -> None:
        then, join = ir.Block(stmt.then.pos), ir.Block(stmt.pos)
        otherwise = ir.Block(stmt.otherwise.pos) if stmt.otherwise is not None else join
        self.branch(stmt.cond, then, otherwise)
        self.code.start(then)
        self.statement(stmt.then)
        self.code.goto(join)
        if stmt.otherwise is not None:
            self.code.start(otherwise)
            self.statement(stmt.otherwise)
            self.code.goto(join)
        self.code.start(join)

    # ------------------------------------------------------------ leaving a body

    def _return(self, stmt: ast.Return) -> None:
        frame = self.frame
        if stmt.value is not None and frame.result is not None:
            self.assign(frame.result, self.lower(stmt.value), stmt.pos)
        if frame.returned is not None:
            self.code.emit(ir.Op("assign", (frame.returned, fold.TRUE), stmt.pos))
        if frame.return_to is None:
            self.code.terminate(ir.Stop())
        else:
            self.code.goto(frame.return_to)

    def _exit(self, pos: Pos) -> None:
        frame: Frame | None = self.frame
        while frame is not None:
            for target, source, at in frame.copy_out:
                self.assign(target, source, at)
            frame = frame.caller
        self.code.emit(ir.Op("exit", (), pos))
        self.code.terminate(ir.Stop())

    # ------------------------------------------------------------ switch

    def _switch(self, stmt: ast.Switch) -> None:
        if stmt.in_action:
            raise CompileError.at(stmt.pos, "BMv2 has no switch statements in actions: use if")
        known = constant_case(stmt)
        if known is not None:
            for body in known:
                self.statement(body)
            return
        groups: list[tuple[list[ast.Expr], ast.Block]] = []
        labels: list[ast.Expr] = []
        for case in stmt.cases:
            labels.append(case.label)
            if case.body is not None:
                groups.append((labels, case.body))
                labels = []
        join = ir.Block(stmt.pos)
        blocks = [ir.Block(body.pos) for _, body in groups]
        if stmt.table is not None:
            self._switch_on_table(stmt, groups, blocks, join)
        else:
            self._switch_on_value(stmt, groups, blocks, join)
        for block, (_, body) in zip(blocks, groups, strict=True):
            self.code.start(block)
            self.statement(body)
            self.code.goto(join)
        self.code.start(join)

    def _switch_on_table(
        self,
        stmt: ast.Switch,
        groups: Sequence[tuple[list[ast.Expr], ast.Block]],
        blocks: Sequence[ir.Block],
        join: ir.Block,
    ) -> None:
        expr = stmt.expr
        if not isinstance(expr, ast.Member) or not isinstance(expr.base, ast.Call):
            raise NotSupported.at(expr.pos, "this switch expression")
        table = self.program.prepare_table(self, expr.base)
        by_action: dict[str, ir.Block] = {}
        default = join
        for (labels, _), block in zip(groups, blocks, strict=True):
            for label in labels:
                if isinstance(label, ast.DefaultKey):
                    default = block
                    continue
                assert isinstance(label, ast.Name)
                assert isinstance(label.decl, ast.ActionDecl)
                by_action[table.action_named(label.decl, label.pos).name] = block
        for action in table.actions:
            by_action.setdefault(action.name, default)
        self.code.terminate(ir.ApplyTable(table, stmt.pos, next=default, by_action=by_action))

    def _switch_on_value(
        self,
        stmt: ast.Switch,
        groups: Sequence[tuple[list[ast.Expr], ast.Block]],
        blocks: Sequence[ir.Block],
        join: ir.Block,
    ) -> None:
        value = self.simple(stmt.expr)
        default = join
        for (labels, _), block in zip(groups, blocks, strict=True):
            wanted: ir.Expr = fold.FALSE
            for label in labels:
                if isinstance(label, ast.DefaultKey):
                    default = block
                    continue
                same = fold.binary("==", value, self.scalar(label), ir.BOOL)
                wanted = fold.binary("or", wanted, same, ir.BOOL)
            if wanted == fold.FALSE or self.code.current is None:
                continue
            following = ir.Block(stmt.pos)
            if isinstance(wanted, ir.Const):
                self.code.goto(block)
            else:
                if self.in_parser():
                    wanted = self.to_temporary(wanted, stmt.pos)
                self.code.terminate(ir.Branch(wanted, block, following, stmt.pos))
            self.code.start(following)
        self.code.goto(default)

    # ------------------------------------------------------------ loops

    def _for(self, stmt: ast.For) -> None:
        """Lower `for (init; cond; update) body` to one action of a pipeline if it applies
        nothing.
        """
        if (
            not self.code.in_action
            and not self.in_parser()
            and _fits_one_action(stmt, may_return=True)
        ):
            self._as_one_action(stmt)
            return
        for each in stmt.init:
            self.statement(each)
        test, body = ir.Block(stmt.cond.pos), ir.Block(stmt.body.pos)
        update, after = ir.Block(stmt.pos), ir.Block(stmt.pos)
        self.code.goto(test)
        self.code.start(test)
        self.branch(stmt.cond, body, after)
        self.code.start(body)
        self._round(stmt.body, after, update)
        self.code.start(update)
        for each in stmt.update:
            self.statement(each)
        self.code.goto(test)
        self.code.start(after)

    def _for_in(self, stmt: ast.ForIn) -> None:
        """Lower `for (v in collection)`, unrolled: the number of rounds must be known.

        The items are copies made before the first round: what the body writes changes none, and
        what it writes to `v` changes nothing else. Numbers need none unless it writes to `v`.
        """
        assert stmt.var.type is not None
        t = self.type_in(stmt.var.type)
        changes = any(root_of(target) is stmt.var for target in effects.written(stmt.body))
        items = [
            item if isinstance(item, ir.Const) and not changes else self.copy_of(item, t, stmt.pos)
            for item in self._items(stmt.collection)
        ]
        after = ir.Block(stmt.pos)
        for item in items:
            if self.code.current is None:
                break
            following = ir.Block(stmt.pos)
            self.frame.values[id(stmt.var)] = item
            self._round(stmt.body, after, following)
            self.code.start(following)
        self.code.goto(after)
        self.code.start(after)

    def _items(self, collection: ast.Expr) -> list[Value]:
        if isinstance(collection, ast.Range):
            low, high = self.constant(collection.low), self.constant(collection.high)
            if high.value - low.value >= UNROLL_LIMIT:
                raise NotSupported.at(collection.pos, f"more than {UNROLL_LIMIT} rounds")
            return [fold.const(n, low.type) for n in range(low.value, high.value + 1)]
        value = self.lower(collection)
        if isinstance(value, StackPlace | StackValue):
            return elements_of(value)
        if isinstance(value, StructValue):
            return list(value.fields.values())
        raise NotSupported.at(collection.pos, "a loop over this expression")

    def _round(self, body: ast.Stmt, after: ir.Block, following: ir.Block) -> None:
        """Lower one round of a loop; `break` leads to `after`, `continue` to `following`."""
        if self.code.current is None:
            return
        self.frame.loops.append((after, following))
        self.statement(body)
        self.frame.loops.pop()
        self.code.goto(following)

    def _leave_round(self, stmt: ast.Break | ast.Continue) -> None:
        if not self.frame.loops:
            raise CompileError.at(stmt.pos, "break and continue belong into a loop")
        after, following = self.frame.loops[-1]
        self.code.goto(after if isinstance(stmt, ast.Break) else following)

    # ------------------------------------------------------------ one action

    def _as_one_action(self, stmt: ast.Stmt) -> None:
        """Make one hidden action of a statement: for loops, and for `@atomic` blocks.

        BMv2 runs an action without another packet in between on the registers it uses, but not
        the several actions that an `if` between reading and writing would make.
        """
        if not _fits_one_action(stmt, may_return=isinstance(stmt, ast.For)):
            self.program.inform(
                stmt.pos, "@atomic has no effect on a block with return or table applies"
            )
            self._plain_block(stmt)
            return
        inner = Code(self.code.region, ir.Block(stmt.pos))
        inner.in_action = True
        after = ir.Block(stmt.pos)
        body = type(self)(self.program, inner, self.frame)
        outside = self.frame.return_to
        returned = self._return_flag(stmt)
        if returned is not None:
            self.frame.return_to, self.frame.returned = after, returned
        if isinstance(stmt, ast.Block):
            body._plain_block(stmt)
        else:
            body.statement(stmt)
        self.frame.return_to, self.frame.returned = outside, None
        inner.goto(after)
        inner.start(after)
        ended = inner.current is None
        inner.terminate(ir.Stop())
        self.code.emit(ir.Inline(inner.entry, after, stmt.pos))
        if ended:
            self.code.terminate(ir.Stop())
        elif returned is not None:
            leave = outside or ir.Block(stmt.pos, end=ir.Stop())
            following = ir.Block(stmt.pos)
            self.code.terminate(ir.Branch(returned, leave, following, stmt.pos))
            self.code.start(following)

    def _return_flag(self, stmt: ast.Stmt) -> ir.Field | None:
        """Return a new flag, false, if `stmt` holds a `return`."""
        if not any(isinstance(each, ast.Return) for each in statements_of(stmt)):
            return None
        return self.to_temporary(fold.FALSE, stmt.pos)

    def _plain_block(self, stmt: ast.Stmt) -> None:
        assert isinstance(stmt, ast.Block)
        for each in stmt.statements:
            self.statement(each)

    # ------------------------------------------------------------ calls

    def _call(self, call: ast.Call) -> None:
        """Lower a call that is a statement."""
        match call.kind:
            case ast.CallKind.ACTION:
                self.inline_action(call)
            case ast.CallKind.TABLE_APPLY:
                table = self.program.prepare_table(self, call)
                after = ir.Block(call.pos)
                self.code.terminate(ir.ApplyTable(table, call.pos, next=after))
                self.code.start(after)
            case ast.CallKind.CONTROL_APPLY | ast.CallKind.PARSER_APPLY:
                self.inline_apply(call)
            case ast.CallKind.SET_VALID | ast.CallKind.SET_INVALID:
                assert call.receiver is not None
                valid = call.kind is ast.CallKind.SET_VALID
                self.set_validity(self.lower(call.receiver), valid, call.pos)
            case ast.CallKind.PUSH_FRONT | ast.CallKind.POP_FRONT:
                assert call.receiver is not None
                count = self.constant(call.args[0].value).value
                push = call.kind is ast.CallKind.PUSH_FRONT
                self.shift_stack(self.lower(call.receiver), count, push, call.pos)
            case ast.CallKind.STATIC_ASSERT:
                pass
            case _:
                self.call_value(call)

    def call_value(self, call: ast.Call) -> Value:
        """Code for a call whose result may be used."""
        match call.kind:
            case ast.CallKind.IS_VALID:
                assert call.receiver is not None
                return self.is_valid(self.lower(call.receiver), call.pos)
            case ast.CallKind.FUNCTION:
                return self.inline_function(call)
            case ast.CallKind.EXTERN_FUNCTION:
                return lower_extern.function(self, call)
            case ast.CallKind.EXTERN_METHOD:
                return lower_extern.method(self, call)
            case ast.CallKind.VERIFY:
                self._verify(call)
            case ast.CallKind.PACKET_EXTRACT:
                self.extract(call)
            case ast.CallKind.PACKET_LOOKAHEAD:
                return self.lookahead(call)
            case ast.CallKind.PACKET_ADVANCE:
                self._require_parser(call)
                self.code.emit(ir.Advance(self.simple(_argument(call, 0)), call.pos))
            case ast.CallKind.PACKET_LENGTH:
                raise NotSupported.at(call.pos, "packet_in.length()")
            case ast.CallKind.PACKET_EMIT:
                raise CompileError.at(call.pos, "emit belongs into the deparser")
            case _:
                raise NotSupported.at(call.pos, "this call")
        return StructValue({})

    @abstractmethod
    def extract(self, call: ast.Call) -> None:
        """Lower `packet.extract(..)` (see `lower_parser`)."""

    @abstractmethod
    def lookahead(self, call: ast.Call) -> Value:
        """Lower `packet.lookahead<T>()` (see `lower_parser`)."""

    def _verify(self, call: ast.Call) -> None:
        self._require_parser(call)
        cond, error = self.scalars([_argument(call, 0), _argument(call, 1)])
        self.code.emit(ir.Verify(cond, error, call.pos))

    def _require_parser(self, call: ast.Call) -> None:
        if self.code.region is not Region.PARSER:
            raise CompileError.at(call.pos, "this call belongs into a parser")


def _fits_one_action(stmt: ast.Stmt, *, may_return: bool) -> bool:
    """Return whether a statement applies nothing and (unless it may) does not return."""
    for each in statements_of(stmt):
        if isinstance(each, ast.Return) and not may_return:
            return False
        for expr in expressions_of(each):
            if isinstance(expr, ast.Call) and expr.kind in _APPLIES:
                return False
    return True


def _argument(call: ast.Call, index: int) -> ast.Expr:
    if index < len(call.binding):
        arg = call.binding[index].arg
        assert arg is not None
        return arg
    return call.args[index].value
