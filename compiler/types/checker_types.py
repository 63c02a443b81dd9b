"""Resolution of type references and checks of type declarations (spec section 7)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from compiler.errors import Pos
from compiler.syntax import ast
from compiler.types import types as ty
from compiler.types.checker_base import CheckerBase, GaveUp, counted, describe
from compiler.types.checker_formed import fits_in_array, fits_in_tuple, has_block_body, mentions
from compiler.types.scope import suggestion

MAX_WIDTH = 1 << 16

_BASE: dict[str, ty.Type] = {
    "bool": ty.BOOL,
    "error": ty.ERROR,
    "string": ty.STRING,
    "match_kind": ty.MATCH_KIND,
    "void": ty.VOID,
    "_": ty.DONT_CARE,
}

TypeDecl = (
    ast.StructLikeDecl
    | ast.EnumDecl
    | ast.TypedefDecl
    | ast.NewtypeDecl
    | ast.ExternDecl
    | ast.ParserDecl
    | ast.ParserTypeDecl
    | ast.ControlDecl
    | ast.ControlTypeDecl
    | ast.PackageDecl
    | ast.TypeParam
)


class TypeChecker(CheckerBase, ABC):
    """`resolve(ref)`: from a type as written to a `types.Type`."""

    @abstractmethod
    def check_constant_int(self, expr: ast.Expr, what: str) -> tuple[ast.Expr, int]:
        """Return the checked `expr` and its value. Raises where it is no constant number."""

    # ------------------------------------------------------------ references

    def resolve(self, ref: ast.TypeRef, *, infer: bool = False) -> ty.Type:
        """Return the type that `ref` names. `infer`: type arguments may be left out (they are then
        `_`).

        Raises `CompileError`.
        """
        if ref.type is None:
            ref.type = self._resolve(ref, infer)
        return ref.type

    def _resolve(self, ref: ast.TypeRef, infer: bool) -> ty.Type:
        match ref:
            case ast.BaseTypeRef():
                return self._base_type(ref)
            case ast.NamedTypeRef():
                return self._named_type(ref, infer)
            case ast.StackTypeRef():
                return self._stack_type(ref)
            case ast.TupleTypeRef():
                return ty.Tuple(tuple(self._tuple_element(each) for each in ref.elements))
            case ast.ListTypeRef():
                return ty.ListType(self.resolve(ref.element))
            case ast.InlineTypeRef():
                self.declare_type(ref.decl)
                if ref.decl.type is None:
                    raise GaveUp
                return ref.decl.type
            case _:
                raise AssertionError(ref)

    def _tuple_element(self, ref: ast.TypeRef) -> ty.Type:
        element = self.resolve(ref)
        if not fits_in_tuple(element):
            self._fail(ref.pos, f"a tuple can't have an element of type {element}")
        return element

    def require_error_type(self, pos: Pos) -> None:
        """Require the type `error`, which exists once some `error { ... }` has been declared."""
        if not self.errors:
            self._fail(pos, '"error" is not declared yet: #include <core.p4>')

    def _base_type(self, ref: ast.BaseTypeRef) -> ty.Type:
        if ref.name == "error":
            self.require_error_type(ref.pos)
        if ref.name in _BASE:
            return _BASE[ref.name]
        if ref.width is None:
            return ty.INFINT
        ref.width, width = self.check_constant_int(ref.width, "width of a type")
        if width < 0:
            self._fail(ref.width.pos, f"the width of {ref.name} can't be negative ({width})")
        if width > MAX_WIDTH:
            self._fail(ref.width.pos, f"the width of {ref.name} is too large ({width})")
        if ref.name == "bit":
            return ty.Bit(width)
        if ref.name == "varbit":
            return ty.Varbit(width)
        if width == 0:
            self._fail(ref.width.pos, "int<0> is no type: a signed number needs at least one bit")
        return ty.Int(width)

    def _named_type(self, ref: ast.NamedTypeRef, infer: bool) -> ty.Type:
        scope = self.globals if ref.absolute else self._scope
        found = scope.lookup(ref.name)
        if not found:
            names = [d.name for d in scope.visible() if isinstance(d, TypeDecl)]
            names += ["bool", "bit", "int", "varbit"]
            self._fail(ref.pos, f'unknown type "{ref.name}"{suggestion(ref.name, names)}')
        decl = found[0]
        ref.decl = decl
        if not isinstance(decl, TypeDecl):
            self._fail(
                ref.pos,
                f'"{ref.name}" is {describe(decl)}, not a type',
                ((decl.pos, "declared here"),) if decl.pos.line else (),
            )
        if decl.type is None:
            raise GaveUp
        params = type_params_of(decl)
        args = tuple(self.resolve(each) for each in ref.args)
        if not args and params and infer:
            args = tuple(ty.DONT_CARE for _ in params)
        return self.specialise(decl, args, ref.pos)

    def specialise(self, decl: TypeDecl, args: tuple[ty.Type, ...], pos: Pos) -> ty.Type:
        """Return the type of `decl` with its type parameters replaced by `args`."""
        declared = decl.type
        if declared is None:
            raise GaveUp
        params = type_params_of(decl)
        if len(args) != len(params):
            self._fail(
                pos,
                f'type "{decl.name}" takes {counted(len(params), "type argument")}, '
                f"not {len(args)}",
            )
        if any(mentions(arg, type(declared), decl.name) for arg in args):
            self._fail(pos, f'"{decl.name}" can\'t have itself as type argument')
        binding = {p.type: a for p, a in zip(params, args, strict=True) if p.type is not None}
        made = ty.substitute(declared, binding)
        if args and isinstance(decl, ast.StructLikeDecl) and isinstance(made, ty.StructLike):
            for each in made.fields:
                if each.decl is not None and not isinstance(each.type, ty.DontCare | ty.Unknown):
                    self._check_field(decl, each.decl, each.type, pos)
        return made

    def _stack_type(self, ref: ast.StackTypeRef) -> ty.Type:
        element = self.resolve(ref.element)
        ref.size, size = self.check_constant_int(ref.size, "size of a stack")
        if not isinstance(element, ty.Header | ty.HeaderUnion) and not fits_in_array(element):
            self._fail(
                ref.pos,
                f"a stack holds headers or header unions, an array numbers and such, not {element}",
            )
        if size < 0:
            self._fail(ref.size.pos, f"the size of a stack can't be negative ({size})")
        return ty.Stack(element, size)

    # ------------------------------------------------------------ declarations

    def type_params(self, params: list[ast.TypeParam]) -> tuple[ty.TypeVar, ...]:
        """Declare type parameters in the current scope."""
        found: list[ty.TypeVar] = []
        for param in params:
            param.type = self._new_type_var(param.name)
            self._declare(param)
            found.append(param.type)
        return tuple(found)

    def declare_type(self, decl: ast.StructLikeDecl | ast.EnumDecl) -> None:
        """Check and declare a struct, header, union or enum."""
        if isinstance(decl, ast.EnumDecl):
            self._declare_enum(decl)
        else:
            self._declare_struct_like(decl)

    def _declare_struct_like(self, decl: ast.StructLikeDecl) -> None:
        with self._nested():
            args = self.type_params(decl.type_params)
            fields: list[ty.Field] = []
            names: dict[str, Pos] = {}
            for each in decl.fields:
                with self._guard():
                    if each.name in names:
                        self._fail(
                            each.pos,
                            f'duplicate field "{each.name}" in "{decl.name}"',
                            ((names[each.name], "first declared here"),),
                        )
                    names[each.name] = each.pos
                    fields.append(ty.Field(each.name, ty.UNKNOWN, each))
                    field_type = self.resolve(each.type_ref)
                    self._check_field(decl, each, field_type)
                    fields[-1] = ty.Field(each.name, field_type, each)
        make: type[ty.StructLike]
        if isinstance(decl, ast.HeaderDecl):
            make = ty.Header
        else:
            make = ty.Struct if isinstance(decl, ast.StructDecl) else ty.HeaderUnion
        decl.type = make(decl.name, tuple(fields), args, decl)
        self._declare(decl)

    def _check_field(
        self, decl: ast.StructLikeDecl, each: ast.FieldDecl, t: ty.Type, pos: Pos | None = None
    ) -> None:
        """Check a field of type `t`; `pos` is where type arguments made that type, if they did."""
        base = ty.underlying(t)
        allowed: tuple[type[ty.Type], ...]
        match decl:
            case ast.HeaderDecl():
                what = "header"
                allowed = (ty.Bit, ty.Int, ty.Varbit, ty.Bool, ty.Struct, ty.TypeVar)
            case ast.HeaderUnionDecl():
                what = "header_union"
                allowed = (ty.Header, ty.TypeVar)
            case _:
                what = "struct"
                allowed = (
                    ty.Bit, ty.Int, ty.Varbit, ty.Bool, ty.Error, ty.Enum, ty.StructLike, ty.Stack,
                    ty.Tuple, ty.TypeVar, ty.String, ty.MatchKind,
                )  # fmt: skip
        if not isinstance(base, allowed):
            self._fail(
                pos or each.type_ref.pos,
                f'field "{each.name}" of {what} "{decl.name}" can\'t have type {t}',
                ((each.pos, "declared here"),) if pos is not None else (),
            )
        if isinstance(decl, ast.HeaderDecl) and isinstance(base, ty.Struct):
            for inner in base.fields:
                self._check_field(decl, each, inner.type, pos)

    def _declare_enum(self, decl: ast.EnumDecl) -> None:
        base: ty.Type | None = None
        if decl.base is not None:
            base = self.resolve(decl.base)
            if not isinstance(base, ty.Bit | ty.Int):
                self._fail(decl.base.pos, f"an enum is represented by bit<W> or int<W>, not {base}")
        names: dict[str, Pos] = {}
        for index, member in enumerate(decl.members):
            member.index = index
            if member.name in names:
                self.reporter.error(
                    member.pos,
                    f'duplicate member "{member.name}" in enum "{decl.name}"',
                    [(names[member.name], "first declared here")],
                )
            names[member.name] = member.pos
        decl.type = ty.Enum(decl.name, decl) if base is None else ty.SerEnum(decl.name, base, decl)
        for member in decl.members:
            with self._guard():
                self._check_enum_value(decl, member, base)
        self._declare(decl)
        if not decl.members:
            self._fail(decl.pos, f'enum "{decl.name}" has no members')

    def _check_enum_value(
        self, decl: ast.EnumDecl, member: ast.EnumMember, base: ty.Type | None
    ) -> None:
        if base is None:
            if member.value is not None:
                self._fail(
                    member.value.pos,
                    f"members have values only in enums with a representation, "
                    f'as in "enum bit<8> {decl.name}"',
                )
            return
        if member.value is None:
            self._fail(member.pos, f'member "{member.name}" of enum "{decl.name}" needs a value')
        member.value = self.check_constant_of(member.value, base)
        cast = member.value
        if not isinstance(cast, ast.Cast) or not cast.implicit:
            return
        number = cast.operand
        if isinstance(number.type, ty.InfInt) and number.const_value != cast.const_value:
            self._fail(
                cast.pos,
                f'value {number.const_value} of member "{member.name}" does not fit in {base}',
            )

    @abstractmethod
    def check_constant_of(self, expr: ast.Expr, t: ty.Type) -> ast.Expr:
        """Check `expr`, convert it to `t`, and require that it is constant."""

    # ------------------------------------------------------------ parameters

    def params(
        self, params: list[ast.Parameter], owner: str, *, constructor: bool = False
    ) -> tuple[ty.Param, ...]:
        """Resolve parameters; declaring them is the caller's part. `owner` is for messages.

        `constructor`: they are bound at instantiation, so controls and parsers are possible.
        """
        found: list[ty.Param] = []
        names: set[str] = set()
        for param in params:
            with self._guard():
                if param.name in names:
                    self._fail(param.pos, f'duplicate parameter "{param.name}" of {owner}')
                names.add(param.name)
                param.type = self.resolve(param.type_ref)
                self._check_param(param, param.type, owner, constructor=constructor)
                if param.default is not None:
                    param.default = self.check_constant_of(param.default, param.type)
            if param.type is None:
                raise GaveUp
            found.append(
                ty.Param(
                    param.name,
                    ty.Direction(param.direction),
                    param.type,
                    param.annotation("optional") is not None,
                    param,
                )
            )
        return tuple(found)

    def _check_param(
        self, param: ast.Parameter, t: ty.Type, owner: str, *, constructor: bool
    ) -> None:
        if isinstance(t, ty.Parser | ty.Control | ty.Package) and not constructor:
            self._fail(param.pos, f'parameter "{param.name}" of {owner} can\'t have type {t}')
        if constructor and has_block_body(t):
            self._fail(
                param.pos,
                f'parameter "{param.name}" of {owner} can\'t have type {t}, which has a body: '
                "declare a type of such",
            )
        if isinstance(t, ty.Void | ty.DontCare):
            self._fail(param.type_ref.pos, f'parameter "{param.name}" can\'t have type {t}')
        directed = param.direction != ""
        if directed and isinstance(t, ty.Behaviour):
            self._fail(
                param.pos,
                f'parameter "{param.name}" of {owner} has no direction: its type {t} is no value',
            )
        if directed and isinstance(t, ty.InfInt | ty.String):
            self._fail(
                param.pos, f'parameter "{param.name}" of type {t} can\'t be {param.direction}'
            )
        if param.default is not None and param.direction in ("out", "inout"):
            self._fail(
                param.default.pos,
                f'"{param.name}" is {param.direction}: it can\'t have a default value',
            )


def type_params_of(decl: TypeDecl) -> list[ast.TypeParam]:
    """Return the type parameters of a type's declaration (typedefs, enums and such have none)."""
    match decl:
        case ast.EnumDecl() | ast.TypedefDecl() | ast.NewtypeDecl() | ast.TypeParam():
            return []
        case _:
            return decl.type_params
