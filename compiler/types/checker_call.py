"""Calls: what is called, overloads, type arguments, and arguments (spec sections 6.8, 8.20)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.errors import Pos
from compiler.syntax import ast
from compiler.syntax.ast import CallKind
from compiler.types import types as ty
from compiler.types import unify
from compiler.types.checker_base import GaveUp, counted, describe
from compiler.types.checker_builtin import BuiltinChecker
from compiler.types.checker_convert import is_compile_time, type_of
from compiler.types.checker_types import TypeDecl
from compiler.types.scope import Scope, suggestion

_Callable = ast.MethodDecl | ast.FunctionDecl


@dataclass
class Signature:
    """What binding arguments needs to know about a called thing.

    `flexible` are the type variables to infer, `constants` says that directionless parameters
    take compile-time values only.
    """

    name: str
    params: tuple[ty.Param, ...]
    flexible: tuple[ty.TypeVar, ...] = ()
    constants: bool = False


class CallChecker(BuiltinChecker):
    """`call(node)`: checks a call or construction."""

    # The constructor call of the instance declaration that is being checked.
    _declared: ast.Call | None = None

    def call(self, call: ast.Call) -> ast.Expr:
        """Return the checked call with kind, declaration, receiver, binding and type."""
        callee = call.callee
        match callee:
            case ast.Name():
                self._named_call(call, callee)
            case ast.TypeExpr():
                self._construct(call, self.resolve(callee.ref, infer=True))
                callee.type = ty.TypeName(type_of(call))
            case ast.Member():
                self._member_call(call, callee)
            case _:
                self._fail(call.pos, "this expression can't be called")
        return call

    def _named_call(self, call: ast.Call, callee: ast.Name) -> None:
        found = self._not_itself(
            self._lookup(callee.name, callee.pos, absolute=callee.absolute), callee.name
        )
        decl = found[0]
        callee.decl = decl
        if isinstance(decl, ast.MethodDecl | ast.FunctionDecl):
            self._function_call(call, callee, found)
        elif isinstance(decl, ast.ActionDecl):
            self._action_call(call, callee, decl)
        elif isinstance(decl, TypeDecl):
            if decl.type is None:
                raise GaveUp
            ref = ast.NamedTypeRef(callee.pos, callee.name, call.type_args, callee.absolute)
            self._construct(call, self.resolve(ref, infer=True))
            callee.type = ty.TypeName(type_of(call))
        elif isinstance(decl, ast.TableDecl):
            self._fail(call.pos, f'"{callee.name}" is a table: apply it by {callee.name}.apply()')
        elif isinstance(decl, ast.InstanceDecl) and isinstance(decl.type, ty.Parser | ty.Control):
            self._fail(
                call.pos, f'"{callee.name}" is an instance: run it by {callee.name}.apply(...)'
            )
        else:
            self._fail(call.pos, f'"{callee.name}" is {describe(decl)}: it can\'t be called')

    def _not_itself(self, found: list[ast.Decl], name: str) -> list[ast.Decl]:
        """Leave out the action `f` for a call inside of `f`, which means an outer `f`, if there is
        one.
        """
        if len(found) == 1 and any(each is found[0] for each in self._checking):
            scope: Scope | None = self._scope
            while scope is not None:
                here = scope.here(name)
                if here and here[0] is not found[0]:
                    return here
                scope = scope.parent
        return found

    # ------------------------------------------------------------ functions, actions

    def _function_call(self, call: ast.Call, callee: ast.Name, found: Sequence[ast.Decl]) -> None:
        candidates = [d for d in found if isinstance(d, ast.MethodDecl | ast.FunctionDecl)]
        decl = self._choose(call, callee.name, candidates)
        callee.decl, callee.type = decl, decl.type
        if isinstance(decl, ast.FunctionDecl):
            self._refuse_recursion(decl, call.pos)
            call.kind = CallKind.FUNCTION
        else:
            call.kind = CallKind.EXTERN_FUNCTION
        call.decl = decl
        if decl.type is None:
            raise GaveUp
        signature = Signature(
            decl.name,
            decl.type.params,
            decl.type.type_params,
            constants=isinstance(decl, ast.MethodDecl),
        )
        bindings = self._bind(call, signature, call.type_args)
        call.type = ty.substitute(decl.type.result, bindings)
        if isinstance(decl, ast.MethodDecl):
            self.check_extern_function(call, decl)

    def _action_call(self, call: ast.Call, callee: ast.Name, decl: ast.ActionDecl) -> None:
        self._refuse_recursion(decl, call.pos)
        if decl.type is None:
            raise GaveUp
        if self._context.kind not in ("control", "action"):
            self._fail(call.pos, f'action "{decl.name}" can\'t be called in a {self._context.kind}')
        if call.type_args:
            self._fail(call.pos, f'action "{decl.name}" takes no type arguments')
        callee.type = decl.type
        call.kind, call.decl, call.type = CallKind.ACTION, decl, ty.VOID
        self._bind(call, Signature(decl.name, decl.type.params), [])
        self.refuse_tables_in(call.binding)

    def refuse_tables_in(self, bindings: list[ast.Binding]) -> None:
        """Refuse arguments of actions that apply tables."""
        for binding in bindings:
            for inner in calls_in(binding.arg):
                if inner.kind is CallKind.TABLE_APPLY:
                    self._fail(inner.pos, "a table can't be applied in an argument of an action")

    def _choose(self, call: ast.Call, name: str, candidates: Sequence[_Callable]) -> _Callable:
        """Return the overload that takes these arguments."""
        if len(candidates) == 1:
            return candidates[0]
        fitting = [d for d in candidates if _accepts(d.params, call.args)]
        if not fitting:
            forms = ", ".join(sorted({str(len(d.params)) for d in candidates}))
            self._fail(
                call.pos,
                f'no form of "{name}" takes {counted(len(call.args), "argument")} like these '
                f"(there are forms with {forms})",
            )
        if len(fitting) > 1:
            for arg in call.args:
                if not isinstance(arg.value, ast.Wildcard):
                    arg.value = self.value(arg.value)
            exact = [d for d in fitting if self._types_fit(d, call)]
            fitting = exact or fitting
        if len(fitting) > 1 and len({len(d.params) for d in fitting}) == 1:
            self._fail(call.pos, f'call of "{name}" is ambiguous: several forms fit')
        return min(fitting, key=lambda d: len(d.params))

    def _types_fit(self, decl: _Callable, call: ast.Call) -> bool:
        if decl.type is None:
            return False
        bindings: dict[ty.TypeVar, ty.Type | None] = dict.fromkeys(decl.type.type_params)
        by_name = {param.name: param for param in decl.type.params}
        for index, arg in enumerate(call.args):
            param = by_name[arg.name] if arg.name else decl.type.params[index]
            if isinstance(arg.value, ast.Wildcard):
                continue
            given = type_of(arg.value)
            if not unify.unify(param.type, given, bindings) and not unify.converts(
                given, param.type
            ):
                return False
        return True

    # ------------------------------------------------------------ members

    def _member_call(self, call: ast.Call, callee: ast.Member) -> None:
        receiver = self.expr(callee.base)
        callee.base = call.receiver = receiver
        callee.kind = ast.MemberKind.METHOD
        given = type_of(receiver)
        sizes = ("minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes")
        if callee.member in sizes and not isinstance(given, ty.Extern):
            self.size_method(call, callee, given)
            return
        match given:
            case ty.Extern():
                self._extern_method(call, callee, given)
            case ty.Table():
                self._table_apply(call, callee, given)
            case ty.Parser() | ty.Control():
                self._apply(call, callee, given, direct=False)
            case ty.TypeName(type=ty.Parser() | ty.Control() as applied):
                self._apply(call, callee, applied, direct=True)
            case ty.Header() | ty.HeaderUnion():
                self.header_method(call, callee, given)
            case ty.Stack():
                self.stack_method(call, callee, given)
            case ty.ApplyResult() if callee.member in ("hit", "miss"):
                self._fail(callee.member_pos, f'"{callee.member}" is a field: leave out the ()')
            case _:
                self._fail(callee.member_pos, f'{given} has no method "{callee.member}"')

    def _extern_method(self, call: ast.Call, callee: ast.Member, given: ty.Extern) -> None:
        decl = given.decl
        if decl is None:
            raise GaveUp
        named = [m for m in decl.methods if m.name == callee.member and not m.is_constructor]
        if not named:
            names = [m.name for m in decl.methods if not m.is_constructor]
            self._fail(
                callee.member_pos,
                f'{given} has no method "{callee.member}"{suggestion(callee.member, names)}',
            )
        chosen = self._choose(call, callee.member, named)
        if not isinstance(chosen, ast.MethodDecl) or chosen.type is None:
            raise GaveUp
        of_class = {
            p.type: a
            for p, a in zip(decl.type_params, given.args, strict=True)
            if p.type is not None
        }
        params = tuple(ty.substitute_param(p, of_class) for p in chosen.type.params)
        signature = Signature(callee.member, params, chosen.type.type_params, constants=True)
        callee.decl, callee.type = chosen, chosen.type
        call.decl, call.kind = chosen, CallKind.EXTERN_METHOD
        bindings = self._bind(call, signature, call.type_args)
        result = ty.substitute(chosen.type.result, of_class)
        call.type = ty.substitute(result, bindings)
        self.check_extern_method(call, callee, given)

    def _table_apply(self, call: ast.Call, callee: ast.Member, given: ty.Table) -> None:
        if callee.member != "apply":
            self._fail(
                callee.member_pos,
                f'a table has no method "{callee.member}"{suggestion(callee.member, ["apply"])}',
            )
        if self._context.kind != "control":
            where = {"action": "an action", "function": "a function", "parser": "a parser"}
            place = where.get(self._context.kind, "this place")
            self._fail(call.pos, f'table "{given.name}" can\'t be applied in {place}')
        self._no_arguments(call, f"{given.name}.apply")
        call.kind, call.decl, call.type = CallKind.TABLE_APPLY, given.decl, ty.ApplyResult(given)

    def _apply(
        self, call: ast.Call, callee: ast.Member, given: ty.Parser | ty.Control, *, direct: bool
    ) -> None:
        if callee.member != "apply":
            self._fail(callee.member_pos, f'{given} has no method "{callee.member}"; use apply')
        is_parser = isinstance(given, ty.Parser)
        wanted = "parser" if is_parser else "control"
        if self._context.kind != wanted:
            self._fail(call.pos, f'{wanted} "{given.name}" can only be applied in a {wanted}')
        decl = given.decl
        if decl is None:
            raise GaveUp
        if direct:
            self._refuse_recursion(decl, call.pos)
            if isinstance(decl, ast.ParserDecl | ast.ControlDecl) and decl.ctor_params:
                self._fail(
                    call.pos,
                    f'"{given.name}" has constructor parameters: declare an instance of it',
                )
            if not isinstance(decl, ast.ParserDecl | ast.ControlDecl):
                self._fail(call.pos, f'"{given.name}" has no body: it can\'t be applied')
            if decl.type_params:
                decl = self.specialised_block(decl, given.args, call.pos)
                if decl.type is None:
                    raise GaveUp
                given = decl.type
        call.kind = CallKind.PARSER_APPLY if is_parser else CallKind.CONTROL_APPLY
        call.decl, call.type, call.direct = decl, ty.VOID, direct
        self._bind(call, Signature(f"{given.name}.apply", given.params), [])

    # ------------------------------------------------------------ construction

    def construct(self, call: ast.Call) -> ty.Type:
        """Check the constructor call of an instance declaration; its type."""
        self._declared = call
        self.call(call)
        if call.kind is not CallKind.CONSTRUCTOR:
            self._fail(call.pos, "an instance is made of an extern, control, parser or package")
        return type_of(call)

    def _construct(self, call: ast.Call, made: ty.Type) -> None:
        call.kind = CallKind.CONSTRUCTOR
        match made:
            case ty.Extern():
                self._construct_extern(call, made)
            case ty.Package():
                self._construct_package(call, made)
            case ty.Parser(decl=ast.ParserDecl() as decl):
                self._construct_block(call, made, decl)
            case ty.Control(decl=ast.ControlDecl() as decl):
                self._construct_block(call, made, decl)
            case ty.Parser() | ty.Control():
                self._fail(call.pos, f"{made} is a type without a body: it has no instances")
            case _:
                self._fail(call.pos, f"{made} is no extern, control, parser or package: it can't "
                           "be instantiated; for a cast write (T)(...)")  # fmt: skip
        if self._context.kind in ("action", "function"):
            self._fail(call.pos, f"{made} can't be instantiated in {_article(self._context.kind)}")

    def _construct_block(
        self, call: ast.Call, made: ty.Parser | ty.Control, decl: ast.ParserDecl | ast.ControlDecl
    ) -> None:
        self._refuse_recursion(decl, call.pos)
        if decl.type_params:
            decl = self.specialised_block(decl, made.args, call.pos)
            if decl.type is None:
                raise GaveUp
            made = decl.type
        inside = self._context.kind
        if inside == "parser" and isinstance(made, ty.Control):
            self._fail(call.pos, f'control "{made.name}" can\'t be instantiated in a parser')
        if inside == "control" and isinstance(made, ty.Parser):
            self._fail(call.pos, f'parser "{made.name}" can\'t be instantiated in a control')
        call.decl, call.type = decl, made
        params = tuple(self._param_of(p) for p in decl.ctor_params)
        self._bind(call, Signature(f"constructor {made.name}", params, constants=True), [])

    @abstractmethod
    def specialised_block(
        self, decl: ast.ParserDecl | ast.ControlDecl, args: tuple[ty.Type, ...], pos: Pos
    ) -> ast.ParserDecl | ast.ControlDecl:
        """Return the generic block `decl` for these type arguments (see `Checker`)."""

    def _param_of(self, param: ast.Parameter) -> ty.Param:
        if param.type is None:
            raise GaveUp
        optional = param.annotation("optional") is not None
        return ty.Param(param.name, ty.Direction(param.direction), param.type, optional, param)

    def _construct_package(self, call: ast.Call, made: ty.Package) -> None:
        decl = made.decl
        if decl is None or not isinstance(decl.type, ty.Package):
            raise GaveUp
        if self._context.kind != "program":
            self._fail(call.pos, f"package {made.name} can only be instantiated at top level")
        call.decl = decl
        flexible = tuple(p.type for p in decl.type_params if p.type is not None)
        signature = Signature(made.name, decl.type.params, flexible, constants=True)
        bindings = self._bind(call, signature, [], given=made.args)
        call.type = ty.substitute(decl.type, bindings)

    def _construct_extern(self, call: ast.Call, made: ty.Extern) -> None:
        decl = made.decl
        if decl is None or decl.type is None:
            raise GaveUp
        constructors = [m for m in decl.methods if m.is_constructor]
        if not constructors:
            self._fail(call.pos, f"extern {made.name} has no constructor: it has no instances")
        chosen = self._choose(call, made.name, constructors)
        if chosen.type is None:
            raise GaveUp
        self.warn_deprecated(decl, call.pos)
        if call is not self._declared and any(m.abstract for m in decl.methods):
            self._fail(
                call.pos,
                f"extern {made.name} has abstract methods: declare an instance that defines them",
            )
        call.decl = decl
        flexible = tuple(p.type for p in decl.type_params if p.type is not None)
        signature = Signature(
            f"constructor {made.name}", chosen.type.params, flexible, constants=True
        )
        bindings = self._bind(call, signature, [], given=made.args)
        call.type = ty.substitute(decl.type, bindings)

    # ------------------------------------------------------------ arguments

    def _bind(
        self,
        call: ast.Call,
        signature: Signature,
        type_args: list[ast.TypeRef],
        given: tuple[ty.Type, ...] = (),
    ) -> dict[ty.TypeVar, ty.Type]:
        """Bind the arguments of `call`; return the type variables' values.

        Type arguments are written (`type_args`), already resolved (`given`), or inferred.
        """
        args = given or tuple(self.resolve(each) for each in type_args)
        bindings: dict[ty.TypeVar, ty.Type | None] = dict.fromkeys(signature.flexible)
        if args and len(args) != len(signature.flexible):
            self._fail(
                call.pos,
                f"{signature.name} takes {counted(len(signature.flexible), 'type argument')}, "
                f"not {len(args)}",
            )
        for variable, arg in zip(signature.flexible, args, strict=False):
            if not isinstance(arg, ty.DontCare):
                bindings[variable] = arg
        chosen = self.match_arguments(call.pos, signature.name, signature.params, call.args)
        for _, each in chosen if call.kind is not CallKind.CONSTRUCTOR else ():
            if each is not None and isinstance(each.type, ty.Parser | ty.Control | ty.Package):
                self._fail(each.pos, f"an argument can't have type {each.type}")
        self._infer(signature, chosen, bindings)
        given_args = dict(zip(signature.flexible, args, strict=False))
        solved = self._solved(call.pos, signature, bindings, given_args, chosen)
        for param, arg_expr in chosen:
            bound = ty.substitute_param(param, solved)
            call.binding.append(self._bind_one(call.pos, signature, bound, arg_expr))
        call.bound_type_args = {variable.name: solved[variable] for variable in signature.flexible}
        return solved

    def match_arguments(
        self, pos: Pos, name: str, params: tuple[ty.Param, ...], args: list[ast.Argument]
    ) -> list[tuple[ty.Param, ast.Expr | None]]:
        """Return each parameter with its argument (None: left out), checked but not converted."""
        named = [arg for arg in args if arg.name is not None]
        if named and len(named) != len(args):
            self._fail(pos, f"arguments of {name} are given either all by name or all by place")
        if len(args) > len(params):
            self._fail(pos, f"{name} takes {counted(len(params), 'argument')}, not {len(args)}")
        chosen: dict[str, ast.Expr] = {}
        known = [param.name for param in params]
        for index, arg in enumerate(args):
            key = arg.name if arg.name is not None else params[index].name
            if key not in known:
                hint = suggestion(key, known)
                self._fail(arg.pos, f'{name} has no parameter "{key}"{hint}')
            if key in chosen:
                self._fail(arg.pos, f'argument "{key}" of {name} is given twice')
            if not isinstance(arg.value, ast.Wildcard):
                arg.value = self.value(arg.value)
            chosen[key] = arg.value
        missing = [
            param
            for param in params
            if param.name not in chosen
            and not param.optional
            and (param.decl is None or param.decl.default is None)
        ]
        if missing:
            text = f"{name} needs {counted(len(params), 'argument')}, not {len(args)}"
            names = ", ".join(f'"{param.name}"' for param in missing)
            self._fail(pos, f"{text}: {names} left out")
        return [(param, chosen.get(param.name)) for param in params]

    def _infer(
        self,
        signature: Signature,
        chosen: list[tuple[ty.Param, ast.Expr | None]],
        bindings: dict[ty.TypeVar, ty.Type | None],
    ) -> None:
        """Bind type variables by the arguments' types; numbers without a width come last."""
        if not signature.flexible:
            return
        late: list[tuple[ty.Param, ast.Expr]] = []
        for param, arg in chosen:
            if arg is None or isinstance(arg, ast.Wildcard):
                continue
            if isinstance(arg.type, ty.InfInt):
                late.append((param, arg))
            else:
                unify.unify(param.type, type_of(arg), bindings)
        for param, arg in late:
            unify.unify(param.type, type_of(arg), bindings)

    def _solved(
        self,
        pos: Pos,
        signature: Signature,
        bindings: dict[ty.TypeVar, ty.Type | None],
        args: dict[ty.TypeVar, ty.Type],
        chosen: list[tuple[ty.Param, ast.Expr | None]],
    ) -> dict[ty.TypeVar, ty.Type]:
        solved: dict[ty.TypeVar, ty.Type] = {}
        waived = [v for v, a in args.items() if a == ty.DONT_CARE]
        written = [v for v, a in args.items() if a != ty.DONT_CARE]
        for variable, bound in bindings.items():
            if bound is None and (variable in waived or _only_optional(variable, signature)):
                bound = ty.DONT_CARE
            if bound is None:
                self._fail(
                    pos,
                    f'can\'t infer type argument "{variable.name}" of {signature.name}; '
                    f"write it: <...>",
                )
            if isinstance(bound, ty.InfInt) and variable not in written:
                where = next((a for p, a in chosen if p.type == variable and a is not None), None)
                self._fail(
                    where.pos if where is not None else pos,
                    f"argument of {signature.name} needs a width: write it as in 8w1",
                )
            if isinstance(bound, ty.Struct) and bound.name.startswith("<"):
                self._fail(
                    pos, f"the struct expression given to {signature.name} needs a type: (T){{...}}"
                )
            solved[variable] = bound
        return {v: ty.substitute(t, {k: x for k, x in solved.items() if k != v})
                for v, t in solved.items()}  # fmt: skip

    def _bind_one(
        self, pos: Pos, signature: Signature, param: ty.Param, arg: ast.Expr | None
    ) -> ast.Binding:
        what = f'argument "{param.name}" of {signature.name}'
        if isinstance(param.type, ty.String) and param.direction is not ty.Direction.NONE:
            self._fail(
                arg.pos if arg is not None else pos,
                f"{what} can't be a string: the parameter has a direction",
                ((param.decl.pos, "declared here"),) if param.decl is not None else (),
            )
        if arg is None:
            default = param.decl.default if param.decl is not None else None
            return ast.Binding(param, default)
        if isinstance(arg, ast.Wildcard):
            if param.direction is not ty.Direction.OUT:
                self._fail(arg.pos, f'"_" can only stand for an out parameter, not for {what}')
            arg.type = param.type
            return ast.Binding(param, arg)
        if param.direction in (ty.Direction.OUT, ty.Direction.INOUT):
            self.require_lvalue(arg, f"{what} is {param.direction.value}: can't write to")
            if arg.type != param.type:
                self._mismatch(arg, param.type, what)
            return ast.Binding(param, arg)
        converted = self.convert(arg, param.type, what)
        if (
            param.direction is ty.Direction.NONE
            and signature.constants
            and not isinstance(param.type, ty.Extern)
            and not is_compile_time(converted)
        ):
            self._fail(converted.pos, f"{what} must be known while compiling")
        return ast.Binding(param, converted)


def calls_in(expr: ast.Expr | None) -> Iterator[ast.Call]:
    """Yield all calls inside of an expression."""
    match expr:
        case ast.Call():
            yield expr
            yield from calls_in(expr.callee)
            for arg in expr.args:
                yield from calls_in(arg.value)
        case ast.Member():
            yield from calls_in(expr.base)
        case ast.Index():
            yield from calls_in(expr.base)
            yield from calls_in(expr.index)
        case ast.Slice():
            for part in (expr.base, expr.hi, expr.lo):
                yield from calls_in(part)
        case ast.Unary() | ast.Cast():
            yield from calls_in(expr.operand)
        case ast.Binary():
            yield from calls_in(expr.left)
            yield from calls_in(expr.right)
        case ast.Ternary():
            for part in (expr.cond, expr.then, expr.otherwise):
                yield from calls_in(part)
        case ast.Mask():
            yield from calls_in(expr.value)
            yield from calls_in(expr.mask)
        case ast.Range():
            yield from calls_in(expr.low)
            yield from calls_in(expr.high)
        case ast.ListExpr():
            for part in expr.elements:
                yield from calls_in(part)
        case ast.StructExpr():
            for each in expr.fields:
                yield from calls_in(each.value)


def _only_optional(variable: ty.TypeVar, signature: Signature) -> bool:
    """Return whether only parameters that may be left out have the type variable in their type."""
    probe = {variable: ty.VOID}
    users = [p for p in signature.params if ty.substitute(p.type, probe) != p.type]
    return bool(users) and all(
        p.optional or (p.decl is not None and p.decl.default is not None) for p in users
    )


def _accepts(params: list[ast.Parameter], args: list[ast.Argument]) -> bool:
    """Return whether a function can take these arguments, by their number and names."""
    if len(args) > len(params):
        return False
    given = {arg.name for arg in args if arg.name is not None}
    if not given <= {param.name for param in params}:
        return False
    taken = given or {param.name for param in params[: len(args)]}
    return all(
        param.name in taken or param.default is not None or param.annotation("optional")
        for param in params
    )


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
