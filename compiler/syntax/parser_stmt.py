"""Parser of statements and local declarations (spec sections 11 and 12)."""

from __future__ import annotations

from compiler.errors import CompileError, NotSupported
from compiler.syntax import ast
from compiler.syntax.parser_base import BASE_TYPES, NAME_KINDS
from compiler.syntax.parser_expr import ExpressionParser

_ASSIGNMENTS: dict[str, ast.BinaryOp] = {
    "+=": ast.BinaryOp.ADD,
    "-=": ast.BinaryOp.SUB,
    "*=": ast.BinaryOp.MUL,
    "/=": ast.BinaryOp.DIV,
    "%=": ast.BinaryOp.MOD,
    "|+|=": ast.BinaryOp.ADD_SAT,
    "|-|=": ast.BinaryOp.SUB_SAT,
    "<<=": ast.BinaryOp.SHL,
    "&=": ast.BinaryOp.BIT_AND,
    "|=": ast.BinaryOp.BIT_OR,
    "^=": ast.BinaryOp.BIT_XOR,
}


class StatementParser(ExpressionParser):
    """Statements, blocks, and declarations that may stand among statements."""

    def block(self, annotations: list[ast.Annotation] | None = None) -> ast.Block:
        """Parse `{ statements }`; go on after a wrong statement."""
        if annotations is None:
            annotations = self._annotations()
        start = self._expect("{")
        block = ast.Block(start.pos, [], annotations)
        with self._scope():
            while self._kind not in ("}", "end"):
                at = self._index
                try:
                    block.statements.append(self.statement())
                except CompileError as error:
                    self.reporter.add(error)
                    self._skip_statement(at)
        block.end = self._pos
        if self._kind == "end":
            raise CompileError.at(
                self._pos,
                'syntax error: expected "}" before the end of the file',
                notes=[(start.pos, 'this "{" is not closed')],
            )
        self._advance()
        return block

    def statement(self) -> ast.Stmt:
        """Parse a statement or local declaration."""
        annotations = self._annotations()
        pos = self._pos
        kind = self._kind
        match kind:
            case "{":
                return self.block(annotations)
            case ";":
                self._advance()
                return ast.Empty(pos)
            case "if":
                return self._if()
            case "switch":
                return self._switch()
            case "for":
                return self._for(annotations)
            case "return":
                self._advance()
                value = None if self._kind == ";" else self.expression()
                self._expect(";")
                return ast.Return(pos, value)
            case "exit" | "break" | "continue" as word:
                self._advance()
                self._expect(";")
                return {"exit": ast.Exit, "break": ast.Break, "continue": ast.Continue}[word](pos)
            case "const":
                const = self.constant(annotations)
                return ast.DeclStmt(pos, const)
        stmt = self._declaration_or_simple(annotations)
        self._expect(";")
        return stmt

    def _if(self) -> ast.If:
        pos = self._expect("if").pos
        self._expect("(")
        cond = self.expression()
        self._expect(")")
        then = self.statement()
        otherwise = self.statement() if self._accept("else") else None
        return ast.If(pos, cond, then, otherwise)

    def _switch(self) -> ast.Switch:
        pos = self._expect("switch").pos
        self._expect("(")
        expr = self.expression()
        self._expect(")")
        self._expect("{")
        cases: list[ast.SwitchCase] = []
        while self._kind != "}":
            label_pos = self._pos
            label: ast.Expr
            label = ast.DefaultKey(label_pos) if self._accept("default") else self.expression()
            self._expect(":")
            body = self.block() if self._kind in ("{", "@") else None
            cases.append(ast.SwitchCase(label_pos, label, body))
        self._expect("}")
        return ast.Switch(pos, expr, cases)

    def _for(self, annotations: list[ast.Annotation]) -> ast.Stmt:
        pos = self._expect("for").pos
        self._expect("(")
        with self._scope():
            each = self._try(self._for_in_head)
            if each is not None:
                collection = self.expression()
                if self._accept(".."):
                    high = self.expression()
                    collection = ast.Range(collection.pos, collection, high)
                self._expect(")")
                return ast.ForIn(pos, each, collection, self.statement(), annotations)
            init = self._simple_list(";")
            self._expect(";")
            cond = self.expression()
            self._expect(";")
            update = self._simple_list(")")
            self._expect(")")
            return ast.For(pos, init, cond, update, self.statement(), annotations)

    def _for_in_head(self) -> ast.VarDecl:
        annotations = self._annotations()
        ref = self.type_ref()
        name = self._name()
        self._expect("in")
        self._declare(name.text)
        return ast.VarDecl(name.pos, name.text, ref, None, annotations=annotations)

    def _simple_list(self, close: str) -> list[ast.Stmt]:
        items: list[ast.Stmt] = []
        while self._kind != close:
            items.append(self._declaration_or_simple(self._annotations()))
            if not self._accept(","):
                break
        return items

    def _declaration_or_simple(self, annotations: list[ast.Annotation]) -> ast.Stmt:
        """Parse a variable, an instance, a call or an assignment, without the `;`."""
        pos = self._pos
        if self._starts_declaration():
            decl = self._variable_or_instance(annotations)
            if decl is not None:
                return ast.DeclStmt(pos, decl)
        target = self._postfix(self._lvalue_start())
        if self._accept("="):
            return ast.Assign(pos, target, self.expression())
        op = _ASSIGNMENTS.get(self._kind)
        if op is not None:
            self._advance()
            return ast.Assign(pos, target, self.expression(), op)
        if self._kind == ">" and self._touches_next():
            following = self._peek()
            if following.kind == ">=" or (following.kind == ">" and self._peek(2).kind == "="):
                self._advance()
                self._advance()
                self._accept("=")
                return ast.Assign(pos, target, self.expression(), ast.BinaryOp.SHR)
        if isinstance(target, ast.Call):
            return ast.CallStmt(pos, target)
        return self._fail('"=" or a call' if self._kind != ";" else "a statement with an effect")

    def _lvalue_start(self) -> ast.Expr:
        kind = self._kind
        if kind in NAME_KINDS or kind in (".", "this", "(") or kind in BASE_TYPES:
            return self._primary()
        return self._fail("a statement")

    def _starts_declaration(self) -> bool:
        if self._kind in BASE_TYPES and not (self._kind == "error" and self._peek().kind == "."):
            return self._kind != "list" or self._peek().kind == "<"
        if self._at_type_name():
            return True
        # `foo bar`: an unknown type; as a declaration it gives the better message.
        return self._kind in NAME_KINDS and self._peek().kind in NAME_KINDS

    def _variable_or_instance(
        self, annotations: list[ast.Annotation]
    ) -> ast.VarDecl | ast.InstanceDecl | None:
        """Parse a variable or instance, after `_starts_declaration`.

        None (nothing consumed) where it is `Type.member(...)`.
        """
        start = self._index
        ref = self._try(self.type_ref)
        if ref is not None and self._kind in NAME_KINDS:
            name = self._name()
            ref = self._array_suffix(ref)
            init = self.expression() if self._accept("=") else None
            self._declare(name.text)
            return ast.VarDecl(name.pos, name.text, ref, init, annotations=annotations)
        if ref is not None and self._kind == "(":
            args = self.arguments()
            if self._kind in NAME_KINDS:
                return self._instance_after(ref, args, annotations)
        self._index = start
        if self._kind in BASE_TYPES and self._kind != "error":
            self.type_ref()
            self._fail("the name of a variable")
        return None

    def _array_suffix(self, ref: ast.TypeRef) -> ast.TypeRef:
        """Parse the `[4]` of `H name[4]`, which means `H[4] name`."""
        while self._accept("["):
            size = self.expression()
            self._expect("]")
            ref = ast.StackTypeRef(ref.pos, ref, size)
        return ref

    def _instance_after(
        self, ref: ast.TypeRef, args: list[ast.Argument], annotations: list[ast.Annotation]
    ) -> ast.InstanceDecl:
        """Parse the rest of an instantiation after `Type(args)`, without the `;`."""
        name = self._name()
        if self._kind == "[":
            raise NotSupported.at(self._pos, "arrays of instances")
        call = ast.Call(ref.pos, ast.TypeExpr(ref.pos, ref), [], args)
        methods: list[ast.Decl] | None = None
        if self._accept("="):
            methods = self._initializer_methods()
        self._declare(name.text)
        return ast.InstanceDecl(name.pos, name.text, call, methods, annotations=annotations)

    def _initializer_methods(self) -> list[ast.Decl]:
        """Parse `{ functions and instances }` of an extern instance."""
        self._expect("{")
        methods: list[ast.Decl] = []
        with self._scope():
            while self._kind != "}":
                annotations = self._annotations()
                ref = self.type_ref() if self._kind != "void" else self._simple_type()
                if self._kind == "(":
                    methods.append(self._instance_after(ref, self.arguments(), annotations))
                    self._expect(";")
                else:
                    methods.append(self.function_after(ref, annotations))
        self._expect("}")
        return methods

    def constant(self, annotations: list[ast.Annotation]) -> ast.ConstDecl:
        """Parse `const T name = init;`."""
        self._expect("const")
        ref = self.type_ref()
        name = self._name()
        ref = self._array_suffix(ref)
        self._expect("=", '"=": a constant needs a value')
        init = self.expression()
        self._expect(";")
        self._declare(name.text)
        return ast.ConstDecl(name.pos, name.text, ref, init, annotations=annotations)

    def type_params(self) -> list[ast.TypeParam]:
        """Parse `<T, U>` or nothing; declare the names as types."""
        params: list[ast.TypeParam] = []
        if not self._accept("<"):
            return params
        while self._kind != ">":
            name = self._name("the name of a type parameter")
            self._declare(name.text, is_type=True)
            params.append(ast.TypeParam(name.pos, name.text))
            if not self._accept(","):
                break
        self._expect(">")
        return params

    def parameters(self) -> list[ast.Parameter]:
        """Parse `(parameter, ...)`, with the parentheses."""
        self._expect("(")
        params: list[ast.Parameter] = []
        while self._kind != ")":
            annotations = self._annotations()
            direction = self._advance().text if self._kind in ("in", "out", "inout") else ""
            ref = self.type_ref()
            name = self._name("the name of a parameter")
            ref = self._array_suffix(ref)
            default = self.expression() if self._accept("=") else None
            params.append(
                ast.Parameter(name.pos, name.text, direction, ref, default, annotations=annotations)
            )
            if not self._accept(","):
                break
        self._expect(")", '"," or ")"')
        for param in params:
            self._declare(param.name)
        return params

    def function_after(
        self, result: ast.TypeRef, annotations: list[ast.Annotation]
    ) -> ast.FunctionDecl:
        """Parse the rest of a function after its result type: `name<T>(params) { ... }`."""
        name = self._name("the name of a function")
        self._declare(name.text)
        with self._scope():
            type_params = self.type_params()
            params = self.parameters()
            body = self.block()
        return ast.FunctionDecl(
            name.pos, name.text, type_params, result, params, body, annotations=annotations
        )
