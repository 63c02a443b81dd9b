"""Types and constant values of expressions (spec section 8)."""

from __future__ import annotations

from abc import abstractmethod

from compiler.syntax import ast
from compiler.syntax.ast import BinaryOp, MemberKind, UnaryOp
from compiler.types import constants, unify
from compiler.types import types as ty
from compiler.types.checker_base import GaveUp
from compiler.types.checker_convert import Converter, constant_initializer, is_untyped, type_of
from compiler.types.checker_types import MAX_WIDTH
from compiler.types.scope import suggestion

_RELATIONAL = frozenset({BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})
_EQUALITY = frozenset({BinaryOp.EQ, BinaryOp.NE})
_LOGICAL = frozenset({BinaryOp.AND, BinaryOp.OR})
_SHIFTS = frozenset({BinaryOp.SHL, BinaryOp.SHR})
_SATURATING = frozenset({BinaryOp.ADD_SAT, BinaryOp.SUB_SAT})


class ExpressionChecker(Converter):
    """`expr(node)`: checks a node and what is below it; returns it, or what replaces it."""

    @abstractmethod
    def call(self, call: ast.Call) -> ast.Expr:
        """Return the checked call; see `checker_call`."""

    def expr(self, expr: ast.Expr) -> ast.Expr:
        """Return the checked `expr`: with its type, and its value where constant."""
        if expr.type is not None:
            return expr
        match expr:
            case ast.Name():
                self._name_expr(expr)
            case ast.Member():
                self._member(expr)
            case ast.IntLiteral():
                self._int_literal(expr)
            case ast.BoolLiteral():
                expr.type, expr.const_value = ty.BOOL, expr.value
            case ast.StringLiteral():
                expr.type, expr.const_value = ty.STRING, expr.value
            case ast.Binary():
                self._binary(expr)
            case ast.Unary():
                self._unary(expr)
            case ast.Ternary():
                self._ternary(expr)
            case ast.Cast():
                return self._cast(expr)
            case ast.Call():
                return self.call(expr)
            case ast.Index():
                self._index(expr)
            case ast.Slice():
                self._slice(expr)
            case ast.ListExpr():
                expr.elements = [self.value(each) for each in expr.elements]
                expr.type = ty.Tuple(tuple(type_of(each) for each in expr.elements))
            case ast.StructExpr():
                self._struct_expr(expr)
            case ast.DefaultExpr() | ast.InvalidExpr() | ast.Wildcard() | ast.DefaultKey():
                expr.type = ty.DONT_CARE
            case ast.TypeExpr():
                expr.type = ty.TypeName(self.resolve(expr.ref, infer=True))
            case ast.Mask() | ast.Range():
                self._fail(expr.pos, "a mask or range can only stand in a keyset")
            case ast.ThisExpr():
                if self._context.receiver is None:
                    self._fail(expr.pos, '"this" only means something in an abstract method')
                expr.type = self._context.receiver
            case _:
                raise AssertionError(expr)
        return expr

    # ------------------------------------------------------------ leaves

    def _int_literal(self, expr: ast.IntLiteral) -> None:
        if expr.width is None:
            expr.type, expr.const_value = ty.INFINT, expr.value
            return
        if expr.signed and expr.width == 0:
            self._fail(expr.pos, "int<0> is no type: a signed number needs at least one bit")
        expr.type = ty.Int(expr.width) if expr.signed else ty.Bit(expr.width)
        expr.const_value = self.fit(expr.value, expr.type, expr.pos)

    def _name_expr(self, expr: ast.Name) -> None:
        if expr.name == "error" and not expr.absolute:
            expr.type = ty.TypeName(ty.ERROR)
            return
        decl = self._lookup(expr.name, expr.pos, absolute=expr.absolute)[0]
        expr.decl = decl
        match decl:
            case ast.ConstDecl():
                expr.type = decl.type
                expr.const_value = decl.init.const_value
            case ast.VarDecl() | ast.Parameter() | ast.InstanceDecl():
                expr.type = decl.type
            case ast.ActionDecl() | ast.FunctionDecl() | ast.MethodDecl() | ast.TableDecl():
                expr.type = decl.type
            case ast.ValueSetDecl():
                expr.type = None if decl.element is None else ty.SetType(decl.element)
            case ast.ParserState():
                expr.type = ty.State(decl.name)
            case ast.EnumMember():
                expr.type = ty.MATCH_KIND
            case (
                ast.StructLikeDecl()
                | ast.EnumDecl()
                | ast.TypedefDecl()
                | ast.NewtypeDecl()
                | ast.ExternDecl()
                | ast.ParserDecl()
                | ast.ParserTypeDecl()
                | ast.ControlDecl()
                | ast.ControlTypeDecl()
                | ast.PackageDecl()
                | ast.TypeParam()
            ):
                expr.type = None if decl.type is None else ty.TypeName(decl.type)
            case _:
                self._fail(expr.pos, f'"{expr.name}" can\'t be used here')
        if expr.type is None:
            self._refuse_recursion(decl, expr.pos)
            raise GaveUp

    # ------------------------------------------------------------ members

    def _member(self, expr: ast.Member) -> None:
        expr.base = self.expr(expr.base)
        base = type_of(expr.base)
        match base:
            case ty.TypeName():
                self._type_member(expr, base.type)
            case ty.StructLike():
                self._field(expr, base)
            case ty.Stack():
                self._stack_member(expr, base)
            case ty.ApplyResult():
                self._apply_result(expr, base)
            case _:
                self._fail(expr.member_pos, f'{base} has no member "{expr.member}"')

    def _type_member(self, expr: ast.Member, t: ty.Type) -> None:
        if isinstance(t, ty.Error):
            members, kind = self.errors, MemberKind.ERROR_MEMBER
        elif isinstance(t, ty.Enum | ty.SerEnum) and t.decl is not None:
            members, kind = t.decl.members, MemberKind.ENUM_MEMBER
        else:
            self._fail(expr.member_pos, f'type {t} has no member "{expr.member}"')
        for member in members:
            if member.name == expr.member:
                expr.kind, expr.decl, expr.type = kind, member, t
                if isinstance(t, ty.SerEnum):
                    if member.value is None or member.value.const_value is None:
                        raise GaveUp
                    expr.const_value = member.value.const_value
                return
        names = [member.name for member in members]
        self._fail(
            expr.member_pos,
            f'{t} has no member "{expr.member}"{suggestion(expr.member, names)}',
        )

    def _field(self, expr: ast.Member, base: ty.StructLike) -> None:
        found = base.field_named(expr.member)
        if found is None:
            names = [f.name for f in base.fields]
            hint = suggestion(expr.member, names)
            if expr.member in ("isValid", "setValid", "setInvalid"):
                hint = "; it is a method: write ()"
            self._fail(expr.member_pos, f'{base} has no field "{expr.member}"{hint}')
        if isinstance(found.type, ty.Unknown):
            raise GaveUp
        expr.kind, expr.decl, expr.type = MemberKind.FIELD, found.decl, found.type
        known = constant_initializer(expr)
        if known is not None:
            expr.const_value = known.const_value

    def _stack_member(self, expr: ast.Member, base: ty.Stack) -> None:
        if base.is_array:
            self._fail(expr.member_pos, f'an array has no member "{expr.member}"')
        match expr.member:
            case "next" | "last":
                expr.type = base.element
                expr.kind = (
                    MemberKind.STACK_NEXT if expr.member == "next" else MemberKind.STACK_LAST
                )
            case "lastIndex":
                expr.kind, expr.type = MemberKind.STACK_LAST_INDEX, ty.Bit(32)
            case "size":
                expr.kind, expr.type = MemberKind.STACK_SIZE, ty.INFINT
                expr.const_value = base.size
            case _:
                names = ["next", "last", "lastIndex", "size", "push_front", "pop_front"]
                self._fail(
                    expr.member_pos,
                    f'a header stack has no member "{expr.member}"{suggestion(expr.member, names)}',
                )
        if expr.member != "size" and self._context.kind not in ("parser", "function"):
            self._fail(expr.member_pos, f'"{expr.member}" of a stack can only be used in parsers')

    def _apply_result(self, expr: ast.Member, base: ty.ApplyResult) -> None:
        match expr.member:
            case "hit":
                expr.kind, expr.type = MemberKind.TABLE_HIT, ty.BOOL
            case "miss":
                expr.kind, expr.type = MemberKind.TABLE_MISS, ty.BOOL
            case "action_run":
                expr.kind, expr.type = MemberKind.TABLE_ACTION_RUN, ty.ActionRun(base.table)
            case _:
                hint = suggestion(expr.member, ["hit", "miss", "action_run"])
                self._fail(expr.member_pos, f'the {base} has no member "{expr.member}"{hint}')

    def _index(self, expr: ast.Index) -> None:
        expr.base = self.value(expr.base)
        base = type_of(expr.base)
        if isinstance(base, ty.Tuple):
            expr.index, at = self.check_constant_int(expr.index, "index of a tuple")
            if not 0 <= at < len(base.elements):
                self._fail(expr.index.pos, f"index {at} is outside of {base}")
            expr.type = base.elements[at]
            known = constant_initializer(expr)
            expr.const_value = None if known is None else known.const_value
            return
        if not isinstance(base, ty.Stack):
            self._fail(expr.pos, f"{base} can't be indexed: it is no header stack or tuple")
        expr.index = self.value(expr.index)
        index_type = ty.underlying(type_of(expr.index))
        if not unify.is_number(index_type):
            self._fail(expr.index.pos, f"the index of a stack is a number, not {expr.index.type}")
        value = expr.index.const_value
        if value is not None and not 0 <= int(value) < base.size:
            self._fail(expr.index.pos, f"index {value} is outside of {base}: 0 to {base.size - 1}")
        if isinstance(index_type, ty.InfInt):
            expr.index = self.convert(expr.index, ty.Bit(32), "index")
        expr.type = base.element

    def _slice(self, expr: ast.Slice) -> None:
        expr.base = self.value(expr.base)
        base = type_of(expr.base)
        number = base.base if isinstance(base, ty.SerEnum) else base
        whole = isinstance(number, ty.InfInt) and expr.base.const_value is not None
        if whole and not expr.plus:
            self._fixed_slice(expr, None)
            return
        if not isinstance(number, ty.Bit | ty.Int):
            self._fail(expr.pos, f"bits can be taken of bit<W> and int<W>, not of {base}")
        if expr.base.type != number:
            expr.base = self.convert(expr.base, number, "sliced value")
        if expr.plus:
            self._plus_slice(expr, number)
            return
        self._fixed_slice(expr, number.width)

    def _fixed_slice(self, expr: ast.Slice, width: int | None) -> None:
        """Check `e[hi:lo]`; without a `width`, `e` is a constant `int` with as many bits as
        needed.
        """
        expr.hi, hi = self.check_constant_int(expr.hi, "upper bound of a slice")
        expr.lo, lo = self.check_constant_int(expr.lo, "lower bound of a slice")
        if lo < 0 or hi < 0:
            self._fail(expr.lo.pos, f"a slice [{hi}:{lo}] has no negative bounds")
        if hi < lo:
            self._fail(expr.hi.pos, f"the slice [{hi}:{lo}] is empty: the upper bound comes first")
        if width is not None and hi >= width:
            base = expr.base.type
            self._fail(expr.hi.pos, f"bit {hi} is outside of {base}: the highest is {width - 1}")
        if hi >= MAX_WIDTH:
            self._fail(expr.hi.pos, f"bit {hi} is too far: there are {MAX_WIDTH}")
        expr.type = ty.Bit(hi - lo + 1)
        if isinstance(expr.base.const_value, int):
            expr.const_value = constants.slice_bits(expr.base.const_value, hi, lo)

    def _plus_slice(self, expr: ast.Slice, base: ty.Bit | ty.Int) -> None:
        expr.hi, width = self.check_constant_int(expr.hi, "width of a slice")
        expr.lo = self.value(expr.lo)
        if not unify.is_number(ty.underlying(type_of(expr.lo))):
            self._fail(expr.lo.pos, f"the start of a slice is a number, not {expr.lo.type}")
        if not 0 < width <= base.width:
            self._fail(expr.hi.pos, f"a slice of {base} can't be {width} bits wide")
        expr.type = ty.Bit(width)
        start = expr.lo.const_value
        if start is not None and not 0 <= int(start) <= base.width - width:
            self._fail(expr.lo.pos, f"bits {start} +: {width} are outside of {base}")
        if start is not None and isinstance(expr.base.const_value, int):
            low = int(start)
            expr.const_value = constants.slice_bits(expr.base.const_value, low + width - 1, low)

    def _struct_expr(self, expr: ast.StructExpr) -> None:
        fields: list[ty.Field] = []
        for each in expr.fields:
            each.value = self.value(each.value)
            fields.append(ty.Field(each.name, type_of(each.value)))
        shape = ", ".join(f"{f.type} {f.name}" for f in fields)
        expr.type = ty.Struct(f"<struct {{{shape}}}>", tuple(fields))

    # ------------------------------------------------------------ operators

    def _unary(self, expr: ast.Unary) -> None:
        expr.operand = self._without_enum(self.value(expr.operand))
        given = type_of(expr.operand)
        match expr.op:
            case UnaryOp.NOT:
                allowed = isinstance(given, ty.Bool)
            case UnaryOp.COMPLEMENT:
                allowed = isinstance(given, ty.Bit | ty.Int)
            case _:
                allowed = unify.is_number(given)
        if not allowed:
            self._fail(expr.pos, f'"{expr.op.value}" is not defined for {given}')
        expr.type = given
        if isinstance(expr.operand.const_value, int):
            expr.const_value = constants.unary(expr.op, expr.operand.const_value, given)

    def _ternary(self, expr: ast.Ternary) -> None:
        expr.cond = self.value_of(expr.cond, ty.BOOL, "condition")
        expr.then, expr.otherwise = self.value(expr.then), self.value(expr.otherwise)
        expr.then, expr.otherwise = self._join(
            expr.then, expr.otherwise, f'branches of "?" have types {expr.then.type} and '
            f"{expr.otherwise.type}"
        )  # fmt: skip
        expr.type = expr.then.type
        if isinstance(expr.cond.const_value, bool):
            chosen = expr.then if expr.cond.const_value else expr.otherwise
            expr.const_value = chosen.const_value
        elif isinstance(expr.type, ty.InfInt):
            self._fail(expr.pos, 'a branch of "?" must have a width: write it as in 8w1')

    def _without_enum(self, expr: ast.Expr) -> ast.Expr:
        """Return a serializable enum's value as its number, anything else as it is."""
        if isinstance(expr.type, ty.SerEnum):
            return self.convert(expr, expr.type.base, "operand")
        return expr

    def _join(self, left: ast.Expr, right: ast.Expr, text: str) -> tuple[ast.Expr, ast.Expr]:
        """Convert both operands to one type; `text` begins the message if there is none."""
        a, b = type_of(left), type_of(right)
        if a == b:
            return left, right
        if is_untyped(right) and not is_untyped(left):
            return left, self.convert(right, a, "operand")
        if is_untyped(left) and not is_untyped(right):
            return self.convert(left, b, "operand"), right
        if unify.converts(b, a):
            return left, self.convert(right, a, "operand")
        if unify.converts(a, b):
            return self.convert(left, b, "operand"), right
        if isinstance(a, ty.SerEnum) or isinstance(b, ty.SerEnum):
            return self._join(self._without_enum(left), self._without_enum(right), text)
        if isinstance(left, ast.ListExpr) and isinstance(right, ast.ListExpr):
            return left, self.convert(right, a, "operand")
        hint = ""
        if isinstance(a, ty.Bit | ty.Int) and isinstance(b, ty.Bit | ty.Int):
            hint = "; write a cast" if type(a) is type(b) else "; signed and unsigned don't mix"
        return self._fail(left.pos, f"{text}{hint}")

    def _binary(self, expr: ast.Binary) -> None:
        expr.left, expr.right = self.value(expr.left), self.value(expr.right)
        op = expr.op
        if op in _LOGICAL:
            self._logical(expr)
        elif op is BinaryOp.CONCAT:
            self._concat(expr)
        elif op in _SHIFTS:
            self._shift(expr)
        elif op in _EQUALITY:
            self._equality(expr)
        else:
            self._arithmetic(expr)

    def _logical(self, expr: ast.Binary) -> None:
        for side in (expr.left, expr.right):
            if not isinstance(side.type, ty.Bool):
                hint = "; compare it with 1" if side.type == ty.Bit(1) else ""
                self._fail(side.pos, f'"{expr.op.value}" needs bool, not {side.type}{hint}')
        expr.type = ty.BOOL
        left, right = expr.left.const_value, expr.right.const_value
        if isinstance(left, bool) and left is (expr.op is BinaryOp.OR):
            expr.const_value = left
        elif isinstance(left, bool) and isinstance(right, bool):
            expr.const_value = right

    def _concat(self, expr: ast.Binary) -> None:
        if isinstance(expr.left.const_value, str) and isinstance(expr.right.const_value, str):
            expr.type = ty.STRING
            expr.const_value = expr.left.const_value + expr.right.const_value
            return
        expr.left, expr.right = self._without_enum(expr.left), self._without_enum(expr.right)
        left, right = type_of(expr.left), type_of(expr.right)
        for side in (expr.left, expr.right):
            if not isinstance(side.type, ty.Bit | ty.Int):
                hint = ": write its width, as in 8w1" if isinstance(side.type, ty.InfInt) else ""
                self._fail(side.pos, f'"++" is not defined for {side.type}{hint}')
        width = (ty.width_of(left) or 0) + (ty.width_of(right) or 0)
        expr.type = ty.Int(width) if isinstance(left, ty.Int) else ty.Bit(width)
        a, b = expr.left.const_value, expr.right.const_value
        if isinstance(a, int) and isinstance(b, int):
            expr.const_value = constants.concat(a, left, b, right)

    def _warn_shifted_out(self, expr: ast.Binary, distance: int) -> None:
        value = expr.left.const_value
        if isinstance(value, int):
            self.fit(value << distance, type_of(expr.left), expr.pos)

    def _shift(self, expr: ast.Binary) -> None:
        expr.left, expr.right = self._without_enum(expr.left), self._without_enum(expr.right)
        left, right = type_of(expr.left), type_of(expr.right)
        if not unify.is_number(left):
            self._fail(expr.left.pos, f'"{expr.op.value}" is not defined for {left}')
        distance = expr.right.const_value
        if isinstance(distance, int) and distance < 0:
            self._fail(expr.right.pos, f"shift by a negative number ({distance})")
        if not isinstance(right, ty.Bit | ty.InfInt) and not isinstance(distance, int):
            self._fail(expr.right.pos, f"the shift distance must be bit<W>, not {right}")
        if not unify.is_number(right):
            self._fail(expr.right.pos, f"the shift distance must be a number, not {right}")
        if isinstance(left, ty.InfInt) and distance is None:
            self._fail(expr.left.pos, "a number shifted by a variable needs a width, as in 8w1")
        width = ty.width_of(left)
        if isinstance(distance, int) and width is not None and distance >= width > 0:
            self.reporter.warn(
                expr.pos, f"shift of {left} by {distance}: no bit is left", "overflow"
            )
        elif width is not None and isinstance(distance, int) and expr.op is BinaryOp.SHL:
            self._warn_shifted_out(expr, distance)
        expr.type = left
        self._fold(expr)

    def _equality(self, expr: ast.Binary) -> None:
        text = f'"{expr.op.value}" can\'t compare {expr.left.type} with {expr.right.type}'
        expr.left, expr.right = self._join(expr.left, expr.right, text)
        compared = type_of(expr.left)
        incomparable = (
            ty.Behaviour, ty.ApplyResult, ty.ActionRun, ty.DontCare, ty.TypeVar, ty.MatchKind
        )  # fmt: skip
        anonymous = isinstance(compared, ty.Struct) and is_untyped(expr.left)
        if isinstance(compared, incomparable) or anonymous:
            self._fail(expr.pos, text)
        expr.type = ty.BOOL
        left, right = expr.left.const_value, expr.right.const_value
        if left is not None and right is not None:
            expr.const_value = constants.compare(expr.op, left, right)

    def _arithmetic(self, expr: ast.Binary) -> None:
        op = expr.op
        expr.left, expr.right = self._without_enum(expr.left), self._without_enum(expr.right)
        for side in (expr.left, expr.right):
            if not unify.is_number(type_of(side)):
                hint = ""
                if isinstance(side.type, ty.NewType):
                    hint = f": cast it to {side.type.base} first"
                self._fail(side.pos, f'"{op.value}" is not defined for {side.type}{hint}')
        if op in (BinaryOp.DIV, BinaryOp.MOD):
            self._refuse_negative(expr)
        text = f'operands of "{op.value}" have types {expr.left.type} and {expr.right.type}'
        expr.left, expr.right = self._join(expr.left, expr.right, text)
        common = type_of(expr.left)
        if op in _SATURATING and isinstance(common, ty.InfInt):
            self._fail(expr.pos, f'"{op.value}" needs a width: there is no largest int')
        if op in (BinaryOp.DIV, BinaryOp.MOD) and isinstance(common, ty.Int):
            self._fail(expr.pos, f'"{op.value}" is not defined for signed numbers')
        expr.type = ty.BOOL if op in _RELATIONAL else common
        if op in (BinaryOp.DIV, BinaryOp.MOD):
            self._check_division(expr)
        self._fold(expr)

    def _refuse_negative(self, expr: ast.Binary) -> None:
        for side in (expr.left, expr.right):
            if isinstance(side.const_value, int) and side.const_value < 0:
                self._fail(side.pos, f'"{expr.op.value}" is not defined for negative numbers')

    def _check_division(self, expr: ast.Binary) -> None:
        if expr.right.const_value == 0:
            self._fail(expr.right.pos, "division by zero")
        if expr.left.const_value is not None and expr.right.const_value is not None:
            return
        if expr.left.const_value == 0:  # 0 whatever the divisor, which is evaluated all the same
            expr.op = BinaryOp.BIT_AND
            return
        divisor = expr.right.const_value
        if not isinstance(divisor, int) or divisor & (divisor - 1):
            return  # The lowering refuses it, unless no packet ever gets there.
        # Targets have no divider: by a power of 2 it is a shift or a mask.
        right = ast.IntLiteral(expr.right.pos, divisor.bit_length() - 1)
        right.type = ty.INFINT
        if expr.op is BinaryOp.MOD:
            right.value, right.type = divisor - 1, type_of(expr.left)
        right.const_value = right.value
        expr.op = BinaryOp.SHR if expr.op is BinaryOp.DIV else BinaryOp.BIT_AND
        expr.right = right

    def _fold(self, expr: ast.Binary) -> None:
        left, right = expr.left.const_value, expr.right.const_value
        if not isinstance(left, int) or not isinstance(right, int):
            return
        if expr.op in _RELATIONAL:
            expr.const_value = constants.compare(expr.op, left, right)
            return
        try:
            expr.const_value = constants.arithmetic(expr.op, left, right, type_of(expr.left))
        except constants.ConstantError as error:
            self._fail(expr.right.pos, str(error))

    def _cast(self, expr: ast.Cast) -> ast.Expr:
        if expr.to is None:
            raise AssertionError("a cast without a type is made by the checker, not checked")
        target = self.resolve(expr.to)
        expr.operand = self.value(expr.operand)
        untyped = (ast.ListExpr, ast.StructExpr, ast.InvalidExpr, ast.DefaultExpr)
        if isinstance(expr.operand, untyped):
            if isinstance(expr.operand, ast.StructExpr):
                expr.operand.type_ref = expr.to
            if isinstance(expr.operand, ast.ListExpr) and isinstance(target, ty.ListType):
                return self.as_list(expr.operand, target)
            return self.convert(expr.operand, target, "operand of the cast")
        given = type_of(expr.operand)
        if not unify.castable(given, target):
            hint = ""
            if isinstance(given, ty.Bit | ty.Int) and isinstance(target, ty.Bit | ty.Int):
                hint = "; change the width and the sign in two casts"
            self._fail(expr.pos, f"there is no cast from {given} to {target}{hint}")
        expr.type = target
        value = expr.operand.const_value
        base = ty.underlying(target)
        if isinstance(base, ty.Bool) and isinstance(value, int):
            if value not in (0, 1):
                self._fail(expr.pos, f"only 0 and 1 can become bool, not {value}")
            expr.const_value = bool(value)
        elif isinstance(value, int):
            expr.const_value = constants.wrap(int(value), base)
        elif isinstance(base, ty.InfInt):
            self._refuse_int(expr.pos, given)
        return expr
