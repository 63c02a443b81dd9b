"""The checker's entry: top-level declarations, bodies of actions, functions, controls, parsers.

errors, match kinds and main are found on the Checker after `program(...)`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compiler.errors import CompileError, Pos, Reporter
from compiler.syntax import ast
from compiler.syntax.walk import expressions_of
from compiler.types import types as ty
from compiler.types.checker_base import Context, GaveUp
from compiler.types.checker_convert import is_compile_time
from compiler.types.checker_formed import fits_in_value_set
from compiler.types.checker_match import MatchChecker
from compiler.types.checker_stmt import always_returns
from compiler.types.checker_types import TypeDecl

# Annotations whose bodies must be good; others are only tried.
_STRICT_ANNOTATIONS = frozenset({"name", "id", "field_list", "priority", "deprecated"})

# Annotations in which each name must be declared, whatever else they hold.
_NAMING_ANNOTATIONS = frozenset({"length", "match"})


V1MODEL_VERSIONS = (20180101, 20200408)


class Checker(MatchChecker):
    """Checks a whole program in place."""

    main: ast.InstanceDecl | None = None

    def __init__(self, reporter: Reporter, source: str, *, needs_main: bool = True) -> None:
        super().__init__(reporter)
        self._whole_file = Pos(source, 0, 0)
        self._unchecked: dict[int, ast.ParserDecl | ast.ControlDecl] = {}
        self._specialised: dict[
            tuple[int, tuple[ty.Type, ...]], ast.ParserDecl | ast.ControlDecl
        ] = {}
        self._needs_main = needs_main

    def program(self, program: ast.Program) -> None:
        """Check all declarations, in order. Errors go to the reporter."""
        for decl in program.decls:
            with self._guard():
                self.declaration(decl)
        self._find_main(program)
        self._check_architecture_version()

    def _check_architecture_version(self) -> None:
        """Check `V1MODEL_VERSION`, which selects one of the two forms that v1model.p4 has had."""
        for decl in self.globals.here("__v1model_version"):
            if isinstance(decl, ast.ConstDecl) and decl.init.const_value is not None:
                version = decl.init.const_value
                if version not in V1MODEL_VERSIONS:
                    known = " and ".join(map(str, V1MODEL_VERSIONS))
                    self.reporter.warn(
                        self._whole_file,
                        f"V1MODEL_VERSION {version} is not known: there are {known}",
                        "mismatch",
                    )

    def _find_main(self, program: ast.Program) -> None:
        for decl in program.decls:
            if isinstance(decl, ast.InstanceDecl) and decl.name == "main":
                self.main = decl
                if decl.type is not None and not isinstance(decl.type, ty.Package):
                    self.reporter.error(decl.pos, f'"main" must be a package, not {decl.type}')
                return
        for other in self.globals.here("main"):
            if isinstance(other, TypeDecl):
                self.reporter.error(other.pos, '"main" must be an instance of a package')
                return
        if not self._needs_main:
            self.reporter.warn(self._whole_file, 'the program has no "main"', "missing")
            return
        self.reporter.error(
            self._whole_file,
            'the program has no "main": end it with, for example, V1Switch(...) main;',
        )

    def declaration(self, decl: ast.Decl) -> None:
        """Check one top-level declaration.

        Raises `CompileError` at its first error outside of bodies.
        """
        self.annotations(decl.annotations)
        match decl:
            case ast.ConstDecl() | ast.InstanceDecl():
                self.local(decl)
            case ast.StructLikeDecl():
                for at, each in enumerate(decl.fields):
                    self.annotations(each.annotations, [f.name for f in decl.fields[:at]])
                self._or_declare(decl, lambda: self.declare_type(decl))
            case ast.EnumDecl():
                self._or_declare(decl, lambda: self.declare_type(decl))
            case ast.TypedefDecl():
                self._or_declare(decl, lambda: self._typedef(decl))
            case ast.NewtypeDecl():
                self._or_declare(decl, lambda: self._newtype(decl))
            case ast.ErrorDecl():
                self._members(decl.members, self.errors, "error")
            case ast.MatchKindDecl():
                self._members(decl.members, self.match_kinds, "match kind")
            case ast.MethodDecl():
                self._or_declare(decl, lambda: self._extern_function(decl))
            case ast.ExternDecl():
                self._or_declare(decl, lambda: self._extern(decl))
            case ast.ActionDecl():
                self._or_declare(decl, lambda: self.action(decl))
            case ast.FunctionDecl():
                self._or_declare(decl, lambda: self._function(decl))
            case ast.ParserTypeDecl() | ast.ControlTypeDecl() | ast.PackageDecl():
                self._or_declare(decl, lambda: self._architecture(decl))
            case ast.ParserDecl():
                self._or_declare(decl, lambda: self._parser(decl))
            case ast.ControlDecl():
                self._or_declare(decl, lambda: self._control(decl))
            case _:
                self._fail(decl.pos, f'"{decl.name}" can\'t be declared at top level')

    def _or_declare(self, decl: ast.Decl, check: Callable[[], None]) -> None:
        """Run `check`; where it fails before it declared the name, declare it nevertheless."""
        try:
            check()
        except CompileError:
            if decl not in self.globals.here(decl.name):
                self.globals.declare(decl)
            raise

    # ------------------------------------------------------------ annotations

    def annotations(self, annotations: list[ast.Annotation], fields: Sequence[str] = ()) -> None:
        """Fold bodies; wrong ones are errors where the annotation has a meaning for us.

        `fields`: those that stand before an annotated field, which @length may name.
        """
        seen: set[str] = set()
        for annotation in annotations:
            if annotation.values or annotation.value_pairs:
                continue
            strict = annotation.name in _STRICT_ANNOTATIONS or annotation.structured
            if annotation.structured and annotation.name in seen:
                self.reporter.error(annotation.pos, f"@{annotation.name} is given twice")
            seen.add(annotation.name)
            if annotation.name in _NAMING_ANNOTATIONS:
                self._check_names(annotation, fields)
            for expr in annotation.exprs:
                value = self._annotation_value(
                    expr, strict=strict, structured=annotation.structured
                )
                if value is not None:
                    annotation.values.append(value)
            for key, expr in annotation.pairs:
                value = self._annotation_value(
                    expr, strict=strict, structured=annotation.structured
                )
                if value is not None:
                    annotation.value_pairs.append((key, value))
            with self._guard():
                self._check_known(annotation)

    def _check_names(self, annotation: ast.Annotation, fields: Sequence[str]) -> None:
        """Check that each name was declared before, whatever it means."""
        known = {*fields, *(kind.name for kind in self.match_kinds)}
        inside = [each for expr in annotation.exprs for each in expressions_of(expr)]
        for name in (each for each in inside if isinstance(each, ast.Name)):
            if name.name not in known and not self._scope.lookup(name.name):
                self.reporter.error(name.pos, f'unknown name "{name.name}"')

    def _annotation_value(
        self, expr: ast.Expr, *, strict: bool, structured: bool
    ) -> ast.ConstValue | None:
        try:
            checked = self.value(expr)
            if strict and not is_compile_time(checked):
                self._fail(expr.pos, "an annotation's values must be known while compiling")
            if structured and checked.const_value is None:
                self._fail(
                    expr.pos,
                    f"a structured annotation holds numbers, strings and bools, not {checked.type}",
                )
            return checked.const_value
        except CompileError as error:
            if strict:
                self.reporter.add(error)
            return None

    def _check_known(self, annotation: ast.Annotation) -> None:
        values = annotation.values
        if annotation.name == "name" and (len(values) != 1 or not isinstance(values[0], str)):
            self._fail(annotation.pos, "@name takes one string")
        if annotation.name == "id" and (
            len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int)
        ):
            self._fail(annotation.pos, "@id takes one number")
        if annotation.name == "match":
            for expr in annotation.exprs:
                if isinstance(expr.type, ty.InfInt | ty.Bit | ty.Int | ty.Bool | ty.String):
                    self._fail(expr.pos, f"@match takes a match kind, not {expr.type}")
        if annotation.name == "length" and len(annotation.exprs) != 1:
            self._fail(annotation.pos, "@length takes one expression")
        if annotation.name == "pkginfo" and not annotation.text:
            self._fail(annotation.pos, "@pkginfo takes pairs: key = value")

    # ------------------------------------------------------------ types

    def _typedef(self, decl: ast.TypedefDecl) -> None:
        target = self.resolve(decl.type_ref)
        if isinstance(target, ty.Void | ty.DontCare):
            self._fail(decl.type_ref.pos, f"{target} can't be given a name")
        decl.type = target
        self._declare(decl)

    def _newtype(self, decl: ast.NewtypeDecl) -> None:
        base = self.resolve(decl.type_ref)
        if not isinstance(ty.underlying(base), ty.Bit | ty.Int | ty.Bool | ty.TypeVar):
            self._fail(
                decl.type_ref.pos, f'"type" makes new types of numbers and bool, not of {base}'
            )
        decl.type = ty.NewType(decl.name, base, decl)
        self._declare(decl)

    def _members(
        self, members: list[ast.EnumMember], known: list[ast.EnumMember], what: str
    ) -> None:
        for member in members:
            earlier = next((k for k in known if k.name == member.name), None)
            if earlier is not None:
                self.reporter.error(
                    member.pos,
                    f'{what} "{member.name}" is already declared',
                    [(earlier.pos, "first declared here")],
                )
                continue
            member.index = len(known)
            known.append(member)

    def _extern(self, decl: ast.ExternDecl) -> None:
        with self._nested():
            args = self.type_params(decl.type_params)
            decl.type = ty.Extern(decl.name, args, decl)
            self.globals.declare(decl)
            seen: set[tuple[str, tuple[str, ...]]] = set()
            for method in decl.methods:
                self.annotations(method.annotations)
                with self._guard():
                    self._signature(method, decl)
                    key = (method.name, tuple(p.name for p in method.params))
                    if key in seen:
                        self._fail(method.pos, f'method "{method.name}" is declared twice')
                    seen.add(key)

    def _extern_function(self, decl: ast.MethodDecl) -> None:
        self._signature(decl, None)
        self._declare(decl)

    def _signature(self, method: ast.MethodDecl, owner: ast.ExternDecl | None) -> None:
        if method.abstract:
            method.type = None
        with self._nested():
            variables = self.type_params(method.type_params)
            params = self.params(
                method.params, f'"{method.name}"', constructor=method.is_constructor
            )
            if owner is not None:
                for param in params:
                    self._check_method_param(param, method, owner)
            if owner is not None and method.name == owner.name and not method.is_constructor:
                self._fail(method.pos, f"a constructor of {owner.name} has no result type")
            result: ty.Type = ty.VOID
            if method.result is not None:
                result = self.resolve(method.result)
                if owner is not None and isinstance(result, ty.InfInt | ty.String):
                    self._fail(method.result.pos, f"a method can't return {result}")
            elif owner is not None and owner.type is not None:
                result = owner.type
            method.type = ty.Function(method.name, variables, params, result)

    def _check_method_param(
        self, param: ty.Param, method: ast.MethodDecl, owner: ast.ExternDecl
    ) -> None:
        pos = method.pos if param.decl is None else param.decl.pos
        if isinstance(param.type, ty.Extern) and param.type.decl is owner:
            self._fail(
                pos, f'"{owner.name}" can\'t have a method that takes a "{owner.name}"',
                ((owner.pos, "declared here"),),
            )  # fmt: skip
        if method.is_constructor and isinstance(param.type, ty.Parser | ty.Control | ty.Package):
            self._fail(pos, f'parameter "{param.name}" of an extern can\'t have type {param.type}')

    def _refuse_same_names(self, decl: ast.ControlDecl | ast.ParserDecl) -> None:
        """Refuse equal names among type parameters and both kinds of parameters: one scope."""
        seen: dict[str, Pos] = {}
        names: list[ast.Decl] = [*decl.type_params, *decl.params, *decl.ctor_params]
        for each in names:
            if each.name in seen:
                self._fail(
                    each.pos,
                    f'parameter "{each.name}" of "{decl.name}" is already declared',
                    ((seen[each.name], "first declared here"),),
                )
            seen[each.name] = each.pos

    def _architecture(
        self, decl: ast.ParserTypeDecl | ast.ControlTypeDecl | ast.PackageDecl
    ) -> None:
        with self._nested():
            args = self.type_params(decl.type_params)
            package = isinstance(decl, ast.PackageDecl)
            params = self.params(decl.params, f'"{decl.name}"', constructor=package)
        match decl:
            case ast.ParserTypeDecl():
                decl.type = ty.Parser(decl.name, args, params, decl)
            case ast.ControlTypeDecl():
                decl.type = ty.Control(decl.name, args, params, decl)
            case ast.PackageDecl():
                decl.type = ty.Package(decl.name, args, params, decl)
                for each in decl.params:
                    each.of_constructor = True
        self._declare(decl)

    # ------------------------------------------------------------ bodies

    def _declare_params(self, params: list[ast.Parameter]) -> None:
        for param in params:
            self.annotations(param.annotations)
            self._declare(param)

    def action(self, decl: ast.ActionDecl) -> None:
        """Check an action, at top level or in a control."""
        params = self.params(decl.params, f'action "{decl.name}"')
        decl.type = ty.Action(decl.name, params, decl)
        self._declare(decl)
        free = False
        for param in decl.params:
            self._refuse_optional(param)
            if isinstance(param.type, ty.Extern):
                self._fail(
                    param.pos,
                    f'parameter "{param.name}" of action "{decl.name}" can\'t be an extern object',
                )
            if isinstance(param.type, ty.InfInt):
                self._fail(
                    param.pos,
                    f'parameter "{param.name}" of action "{decl.name}" needs a width, as in bit<8>',
                )
            if param.direction == "":
                free = True
            elif free:
                self._fail(
                    param.pos,
                    f'parameter "{param.name}" of action "{decl.name}" has a direction: '
                    "it must come before those without",
                )
        with self._within(Context("action", decl)), self._nested():
            self._declare_params(decl.params)
            self.block(decl.body)

    def _refuse_optional(self, param: ast.Parameter) -> None:
        if param.annotation("optional") is not None:
            self._fail(
                param.pos,
                f'"{param.name}" can\'t be @optional: only externs and packages have that',
            )

    def _function(self, decl: ast.FunctionDecl) -> None:
        with self._nested():
            variables = self.type_params(decl.type_params)
            params = self.params(decl.params, f'function "{decl.name}"')
            result = self.resolve(decl.result)
            for each in decl.params:
                self._refuse_optional(each)
            decl.type = ty.Function(decl.name, variables, params, result)
            clash = self.globals.declare(decl)
            if clash is not None:
                self._already_declared(decl, clash)
            with self._within(Context("function", decl, result)), self._nested():
                self._declare_params(decl.params)
                self.block(decl.body)
        if not isinstance(result, ty.Void) and not always_returns(decl.body):
            self._fail(
                decl.pos,
                f'function "{decl.name}" does not always return a value',
                ((decl.body.end, "it can end here without one"),) if decl.body.end else (),
            )

    def specialised_block(
        self, decl: ast.ParserDecl | ast.ControlDecl, args: tuple[ty.Type, ...], pos: Pos
    ) -> ast.ParserDecl | ast.ControlDecl:
        """Return a copy of a generic control or parser, checked with these type arguments."""
        unbound = [p.type for p in decl.type_params]
        if any(isinstance(arg, ty.DontCare) or arg in unbound for arg in args):
            self._fail(pos, f'"{decl.name}" is generic: write its type arguments, {decl.name}<...>')
        key = (id(decl), args)
        made = self._specialised.get(key)
        if made is not None:
            return made
        made = self._specialised[key] = copy.deepcopy(self._unchecked[id(decl)])
        outer, declared = self._scope, self._declared
        self._scope = self.globals
        try:
            with self._nested():
                for param, arg in zip(made.type_params, args, strict=True):
                    bound = ast.TypedefDecl(param.pos, param.name, ast.BaseTypeRef(pos, "_", None))
                    bound.type = arg
                    self._declare(bound)
                made.type_params = []
                self.annotations(made.annotations)
                if isinstance(made, ast.ControlDecl):
                    self._control(made, named=False)
                else:
                    self._parser(made, named=False)
        finally:
            self._scope, self._declared = outer, declared
        return made

    def _declare_block(self, decl: ast.ParserDecl | ast.ControlDecl, named: bool) -> None:
        if named:
            clash = self.globals.declare(decl)
            if clash is not None:
                self._already_declared(decl, clash)

    def _control(self, decl: ast.ControlDecl, *, named: bool = True) -> None:
        if decl.type_params:
            self._unchecked[id(decl)] = copy.deepcopy(decl)
        with self._nested():
            args = self.type_params(decl.type_params)
            params = self.params(decl.params, f'control "{decl.name}"')
            self._refuse_same_names(decl)
            self._constructor_params(decl)
            decl.type = ty.Control(decl.name, args, params, decl)
            self._declare_block(decl, named)
            with self._within(Context("control", decl)), self._block_scope(decl):
                for each in decl.locals:
                    with self._guard():
                        self._control_local(each)
                self.annotations(decl.body.annotations)
                with self._nested():
                    self.statements(decl.body.statements)

    @contextmanager
    def _block_scope(self, decl: ast.ControlDecl | ast.ParserDecl) -> Iterator[None]:
        """Open the scope of parameters, and inside it, able to hide them, that of local
        declarations.
        """
        with self._nested():
            self._declare_params(decl.params)
            self._declare_params(decl.ctor_params)
            with self._nested():
                yield

    def _control_local(self, decl: ast.Decl) -> None:
        match decl:
            case ast.VarDecl() | ast.ConstDecl() | ast.InstanceDecl():
                self.local(decl)
            case ast.ActionDecl():
                self.annotations(decl.annotations)
                try:
                    self.action(decl)
                except CompileError:
                    if decl not in self._scope.here(decl.name):
                        self._scope.declare(decl)
                    raise
            case ast.TableDecl():
                self.table(decl)
            case _:
                raise AssertionError(decl)

    def _parser(self, decl: ast.ParserDecl, *, named: bool = True) -> None:
        if decl.type_params:
            self._unchecked[id(decl)] = copy.deepcopy(decl)
        with self._nested():
            args = self.type_params(decl.type_params)
            params = self.params(decl.params, f'parser "{decl.name}"')
            self._refuse_same_names(decl)
            self._constructor_params(decl)
            decl.type = ty.Parser(decl.name, args, params, decl)
            self._declare_block(decl, named)
            with self._within(Context("parser", decl)), self._block_scope(decl):
                for each in decl.locals:
                    with self._guard():
                        self._parser_local(each)
                self.states(decl)

    def _parser_local(self, decl: ast.Decl) -> None:
        match decl:
            case ast.VarDecl() | ast.ConstDecl() | ast.InstanceDecl():
                self.local(decl)
            case ast.ValueSetDecl():
                self.annotations(decl.annotations)
                try:
                    decl.element = self.resolve(decl.type_ref)
                    if not fits_in_value_set(decl.element):
                        self._fail(
                            decl.type_ref.pos, f"a value set can't have elements of type "
                            f"{decl.element}"
                        )  # fmt: skip
                    decl.size = self.value(decl.size)
                    if not is_compile_time(decl.size):
                        self._fail(decl.size.pos, "the size of a value set must be a constant")
                finally:
                    self._declare(decl)
            case _:
                raise AssertionError(decl)

    def _constructor_params(self, decl: ast.ControlDecl | ast.ParserDecl) -> None:
        self.params(decl.ctor_params, f'constructor of "{decl.name}"', constructor=True)
        for param in decl.ctor_params:
            param.of_constructor = True
            self._refuse_optional(param)
            if isinstance(decl, ast.ControlDecl) and isinstance(param.type, ty.Parser):
                self._fail(param.pos, f'a control can\'t hold the parser "{param.name}"')
            if isinstance(decl, ast.ParserDecl) and isinstance(param.type, ty.Control):
                self._fail(param.pos, f'a parser can\'t hold the control "{param.name}"')
            if param.direction:
                self._fail(
                    param.pos, f'constructor parameter "{param.name}" can\'t have a direction'
                )
            if param.type is None:
                raise GaveUp
