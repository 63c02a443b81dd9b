"""Parser of top-level declarations: the whole P4_16 grammar (spec appendix "P4 grammar").

    program = parse(tokens, reporter)

Syntax errors go to the reporter; parsing goes on at the next statement or declaration.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.errors import CompileError, Reporter
from compiler.syntax import ast
from compiler.syntax.lexer import Token
from compiler.syntax.parser_base import NAME_KINDS
from compiler.syntax.parser_table import TableParser


def parse(tokens: list[Token], reporter: Reporter) -> ast.Program:
    """Parse `tokens` as a program. Errors are reported; see `Reporter.raise_if_errors`."""
    return Parser(tokens, reporter).program()


class Parser(TableParser):
    """Top-level declarations."""

    def program(self) -> ast.Program:
        """Parse all declarations up to the end of the tokens."""
        program = ast.Program(self._pos, [])
        while self._kind != "end":
            start = self._index
            if self._accept(";"):
                continue
            try:
                program.decls.append(self.declaration())
            except CompileError as error:
                self.reporter.add(error)
                self._skip_declaration(start)
                self._index = max(self._index, start + 1)
        return program

    def declaration(self) -> ast.Decl:
        """Parse one top-level declaration."""
        annotations = self._annotations()
        declare = self._declarations().get(self._kind)
        if declare is not None and not (
            self._kind in ("error", "match_kind") and self._peek().kind != "{"
        ):
            return declare(annotations)
        if self._kind != "void" and not self._at_type() and self._kind not in NAME_KINDS:
            self._fail("a declaration")
        ref = self.type_ref()
        if self._kind == "(":
            args = self.arguments()
            instance = self._instance_after(ref, args, annotations)
            self._expect(";")
            return instance
        return self.function_after(ref, annotations)

    def _declarations(self) -> dict[str, Callable[[list[ast.Annotation]], ast.Decl]]:
        return {
            "const": self.constant,
            "extern": self._extern,
            "action": self.action,
            "parser": self._parser,
            "control": self._control,
            "package": self._package,
            "struct": self._struct_like,
            "header": self._struct_like,
            "header_union": self._struct_like,
            "enum": self._enum,
            "error": self._error,
            "match_kind": self._match_kind,
            "typedef": self._typedef,
            "type": self._newtype,
        }

    # ------------------------------------------------------------ types

    def _struct_like(self, annotations: list[ast.Annotation]) -> ast.StructLikeDecl:
        classes: dict[str, type[ast.StructLikeDecl]] = {
            "struct": ast.StructDecl,
            "header": ast.HeaderDecl,
            "header_union": ast.HeaderUnionDecl,
        }
        make = classes[self._advance().text]
        name = self._name("the name of a type")
        self._declare(name.text, is_type=True)
        fields: list[ast.FieldDecl] = []
        with self._scope():
            type_params = self.type_params()
            self._expect("{")
            while self._kind != "}":
                field_annotations = self._annotations()
                ref = self.type_ref()
                field_name = self._name("the name of a field")
                ref = self._array_suffix(ref)
                self._expect(";")
                fields.append(
                    ast.FieldDecl(
                        field_name.pos, field_name.text, ref, annotations=field_annotations
                    )
                )
            self._expect("}")
        return make(name.pos, name.text, type_params, fields, annotations=annotations)

    def _enum(self, annotations: list[ast.Annotation]) -> ast.EnumDecl:
        self._expect("enum")
        base = None
        if self._kind not in NAME_KINDS or self._peek().kind != "{":
            base = self.type_ref()
        name = self._name("the name of an enum")
        self._declare(name.text, is_type=True)
        self._expect("{")
        members = self._members("}", with_values=True)
        self._expect("}")
        return ast.EnumDecl(name.pos, name.text, base, members, annotations=annotations)

    def _members(self, close: str, *, with_values: bool = False) -> list[ast.EnumMember]:
        members: list[ast.EnumMember] = []
        while self._kind != close:
            annotations = self._annotations()
            name = self._name("the name of a member")
            value = self.expression() if with_values and self._accept("=") else None
            members.append(ast.EnumMember(name.pos, name.text, value, annotations=annotations))
            if not self._accept(","):
                break
        return members

    def _error(self, annotations: list[ast.Annotation]) -> ast.ErrorDecl:
        pos = self._expect("error").pos
        self._expect("{")
        members = self._members("}")
        self._expect("}")
        return ast.ErrorDecl(pos, "error", members, annotations=annotations)

    def _match_kind(self, annotations: list[ast.Annotation]) -> ast.MatchKindDecl:
        pos = self._expect("match_kind").pos
        self._expect("{")
        members = self._members("}")
        self._expect("}")
        for member in members:
            self._declare(member.name)
        return ast.MatchKindDecl(pos, "match_kind", members, annotations=annotations)

    def _typedef(self, annotations: list[ast.Annotation]) -> ast.Decl:
        self._expect("typedef")
        ref: ast.TypeRef
        if self._kind in ("struct", "header", "header_union", "enum"):
            pos = self._pos
            derived = self._enum([]) if self._kind == "enum" else self._struct_like([])
            ref = ast.InlineTypeRef(pos, derived)
        else:
            ref = self.type_ref()
        name = self._name("the name of the new type")
        ref = self._array_suffix(ref)
        self._expect(";")
        self._declare(name.text, is_type=True)
        return ast.TypedefDecl(name.pos, name.text, ref, annotations=annotations)

    def _newtype(self, annotations: list[ast.Annotation]) -> ast.Decl:
        self._expect("type")
        ref = self.type_ref()
        name = self._name("the name of the new type")
        ref = self._array_suffix(ref)
        self._expect(";")
        self._declare(name.text, is_type=True)
        return ast.NewtypeDecl(name.pos, name.text, ref, annotations=annotations)

    # ------------------------------------------------------------ externs, packages

    def _extern(self, annotations: list[ast.Annotation]) -> ast.Decl:
        self._expect("extern")
        if self._extern_object_ahead():
            return self._extern_object(annotations)
        result = self.type_ref()
        method = self._prototype(result, annotations)
        self._expect(";")
        self._declare(method.name)
        return method

    def _extern_object_ahead(self) -> bool:
        """Return whether `Name {`, `Name;` or `Name<T> {` follows, as opposed to `Type
        name(...)`.
        """
        if self._kind not in NAME_KINDS:
            return False
        ahead = 1
        if self._peek(ahead).kind == "<":
            while self._peek(ahead).kind in NAME_KINDS | {"<", ",", ">"}:
                ahead += 1
                if self._peek(ahead - 1).kind == ">":
                    break
        return self._peek(ahead).kind in ("{", ";")

    def _extern_object(self, annotations: list[ast.Annotation]) -> ast.ExternDecl:
        name = self._name("the name of an extern")
        self._declare(name.text, is_type=True)
        methods: list[ast.MethodDecl] = []
        with self._scope():
            type_params = self.type_params()
            if not self._accept(";"):
                self._expect("{")
                while self._kind != "}":
                    methods.append(self._method(name.text))
                self._expect("}")
        return ast.ExternDecl(name.pos, name.text, type_params, methods, annotations=annotations)

    def _method(self, extern_name: str) -> ast.MethodDecl:
        annotations = self._annotations()
        abstract = self._accept("abstract") is not None
        if self._tok.text == extern_name and self._peek().kind == "(":
            name = self._name()
            with self._scope():
                params = self.parameters()
            method = ast.MethodDecl(
                name.pos, name.text, [], None, params, is_constructor=True, annotations=annotations
            )
        else:
            method = self._prototype(self.type_ref(), annotations)
        method.abstract = abstract
        self._expect(";")
        return method

    def _prototype(self, result: ast.TypeRef, annotations: list[ast.Annotation]) -> ast.MethodDecl:
        name = self._name("the name of a function")
        with self._scope():
            type_params = self.type_params()
            params = self.parameters()
        return ast.MethodDecl(
            name.pos, name.text, type_params, result, params, annotations=annotations
        )

    def _package(self, annotations: list[ast.Annotation]) -> ast.PackageDecl:
        self._expect("package")
        name = self._name("the name of a package")
        self._declare(name.text, is_type=True)
        with self._scope():
            type_params = self.type_params()
            params = self.parameters()
        self._expect(";")
        return ast.PackageDecl(name.pos, name.text, type_params, params, annotations=annotations)

    # ------------------------------------------------------------ controls

    def _control(self, annotations: list[ast.Annotation]) -> ast.Decl:
        self._expect("control")
        name = self._name("the name of a control")
        self._declare(name.text, is_type=True)
        with self._scope():
            type_params = self.type_params()
            params = self.parameters()
            if self._accept(";"):
                return ast.ControlTypeDecl(
                    name.pos, name.text, type_params, params, annotations=annotations
                )
            ctor_params = self.parameters() if self._kind == "(" else []
            self._expect("{")
            local: list[ast.Decl] = []
            while self._kind != "apply":
                start = self._index
                try:
                    local.append(self._control_local())
                except CompileError as error:
                    self.reporter.add(error)
                    self._skip_statement(start)
                if self._kind in ("}", "end"):
                    self._fail('"apply"')
            self._expect("apply")
            body = self.block()
            self._expect("}")
        return ast.ControlDecl(
            name.pos,
            name.text,
            type_params,
            params,
            ctor_params,
            local,
            body,
            annotations=annotations,
        )

    def _control_local(self) -> ast.Decl:
        annotations = self._annotations()
        if self._kind == "action":
            return self.action(annotations)
        if self._kind == "table":
            return self.table(annotations)
        return self._local(annotations, "a declaration or apply")

    def _local(self, annotations: list[ast.Annotation], wanted: str) -> ast.Decl:
        if self._kind == "const":
            return self.constant(annotations)
        if not self._starts_declaration():
            self._fail(wanted)
        decl = self._variable_or_instance(annotations)
        if decl is None:
            self._fail(wanted)
        self._expect(";")
        return decl

    def action(self, annotations: list[ast.Annotation]) -> ast.ActionDecl:
        """Parse `action name(params) { ... }`."""
        self._expect("action")
        name = self._name("the name of an action")
        self._declare(name.text)
        with self._scope():
            params = self.parameters()
            body = self.block()
        return ast.ActionDecl(name.pos, name.text, params, body, annotations=annotations)

    # ------------------------------------------------------------ parsers

    def _parser(self, annotations: list[ast.Annotation]) -> ast.Decl:
        self._expect("parser")
        name = self._name("the name of a parser")
        self._declare(name.text, is_type=True)
        with self._scope():
            type_params = self.type_params()
            params = self.parameters()
            if self._accept(";"):
                return ast.ParserTypeDecl(
                    name.pos, name.text, type_params, params, annotations=annotations
                )
            ctor_params = self.parameters() if self._kind == "(" else []
            self._expect("{")
            local: list[ast.Decl] = []
            states: list[ast.ParserState] = []
            while self._kind not in ("}", "end"):
                start = self._index
                try:
                    self._parser_element(local, states)
                except CompileError as error:
                    self.reporter.add(error)
                    self._skip_statement(start)
            if not states:
                self._fail("a state: a parser needs at least one")
            self._expect("}")
        return ast.ParserDecl(
            name.pos,
            name.text,
            type_params,
            params,
            ctor_params,
            local,
            states,
            annotations=annotations,
        )

    def _parser_element(self, local: list[ast.Decl], states: list[ast.ParserState]) -> None:
        annotations = self._annotations()
        if self._kind == "state" and self._peek().kind in NAME_KINDS:
            states.append(self._state(annotations))
        elif states:
            self._fail('"state": declarations come before the states')
        elif self._kind == "value_set":
            local.append(self._value_set(annotations))
        else:
            local.append(self._local(annotations, "a declaration or a state"))

    def _value_set(self, annotations: list[ast.Annotation]) -> ast.ValueSetDecl:
        self._expect("value_set")
        self._expect("<")
        element = self.type_ref()
        self._expect(">")
        self._expect("(")
        size = self.expression()
        self._expect(")")
        name = self._name("the name of a value set")
        self._expect(";")
        self._declare(name.text)
        return ast.ValueSetDecl(name.pos, name.text, element, size, annotations=annotations)

    def _state(self, annotations: list[ast.Annotation]) -> ast.ParserState:
        self._expect("state")
        name = self._name("the name of a state")
        self._expect("{")
        statements: list[ast.Stmt] = []
        transition: ast.Name | ast.Select | None = None
        with self._scope():
            while self._kind not in ("}", "transition", "end"):
                start = self._index
                try:
                    statements.append(self.statement())
                except CompileError as error:
                    self.reporter.add(error)
                    self._skip_statement(start)
            if self._kind == "transition":
                transition = self._transition()
        self._expect("}", '"}": nothing follows the transition')
        return ast.ParserState(name.pos, name.text, statements, transition, annotations=annotations)

    def _transition(self) -> ast.Name | ast.Select:
        self._expect("transition")
        if self._kind != "select":
            name = self._name("the name of a state, or select")
            self._expect(";")
            return ast.Name(name.pos, name.text)
        select = ast.Select(self._expect("select").pos, [], [])
        self._expect("(")
        while self._kind != ")":
            select.exprs.append(self.expression())
            if not self._accept(","):
                break
        self._expect(")")
        self._expect("{")
        while self._kind != "}":
            pos = self._pos
            keysets = self.keysets()
            self._expect(":")
            target = self._name("the name of a state")
            self._expect(";")
            select.cases.append(ast.SelectCase(pos, keysets, ast.Name(target.pos, target.text)))
        self._expect("}")
        return select
