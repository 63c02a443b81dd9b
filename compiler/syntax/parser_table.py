"""Parser of tables (spec section 14.2)."""

from __future__ import annotations

from compiler.errors import CompileError, Pos
from compiler.syntax import ast
from compiler.syntax.parser_stmt import StatementParser


class TableParser(StatementParser):
    """`table name { key, actions, entries, default_action and other properties }`."""

    def table(self, annotations: list[ast.Annotation]) -> ast.TableDecl:
        """Parse a table declaration."""
        self._expect("table")
        name = self._name("the name of a table")
        self._declare(name.text)
        table = ast.TableDecl(
            name.pos,
            name.text,
            None,
            [],
            None,
            entries_const=False,
            default_action=None,
            default_action_const=False,
            properties=[],
            annotations=annotations,
        )
        self._expect("{")
        while self._kind not in ("}", "end"):
            start = self._index
            try:
                self._property(table)
            except CompileError as error:
                self.reporter.add(error)
                self._skip_statement(start)
        self._expect("}")
        return table

    def _property(self, table: ast.TableDecl) -> None:
        annotations = self._annotations()
        is_const = self._accept("const") is not None
        name = self._name("a table property")
        self._expect("=")
        if name.text in ("key", "actions") and is_const:
            raise CompileError.at(name.pos, f'"{name.text}" is always constant: no "const" here')
        match name.text:
            case "key":
                self._once(table.keys is None, name.text, name.pos)
                if table.entries_pos is not None:
                    self.reporter.error(
                        table.entries_pos, '"entries" must come after "key"', [(name.pos, "key")]
                    )
                table.keys_pos = name.pos
                table.keys = self._keys()
            case "actions":
                self._once(table.actions_pos is None, name.text, name.pos)
                table.actions_pos = name.pos
                table.actions = self._actions()
            case "entries":
                self._once(table.entries is None, name.text, name.pos)
                table.entries_const = is_const
                table.entries_pos = name.pos
                table.entries = self._entries()
                table.entries_annotations = annotations
            case "default_action":
                self._once(table.default_action is None, name.text, name.pos)
                table.default_action_const = is_const
                table.default_action = self._action_ref(annotations)
                self._expect(";")
            case _:
                self._once(table.prop(name.text) is None, name.text, name.pos)
                value = self.expression()
                self._expect(";")
                table.properties.append(
                    ast.Property(name.pos, name.text, value, is_const, annotations=annotations)
                )

    def _once(self, first: bool, name: str, pos: Pos) -> None:
        if not first:
            self.reporter.error(pos, f'duplicate table property "{name}"')

    def _keys(self) -> list[ast.TableKey]:
        keys: list[ast.TableKey] = []
        self._expect("{")
        while self._kind != "}":
            pos = self._pos
            expr = self.expression()
            self._expect(":")
            kind = self._name("a match kind")
            annotations = self._annotations()
            self._expect(";")
            keys.append(ast.TableKey(pos, expr, ast.Name(kind.pos, kind.text), annotations))
        self._expect("}")
        self._accept(";")
        return keys

    def _actions(self) -> list[ast.ActionRef]:
        actions: list[ast.ActionRef] = []
        self._expect("{")
        while self._kind != "}":
            actions.append(self._action_ref(self._annotations()))
            self._expect(";")
        self._expect("}")
        self._accept(";")
        return actions

    def _action_ref(self, annotations: list[ast.Annotation]) -> ast.ActionRef:
        pos = self._pos
        absolute = self._accept(".") is not None
        name = self._name("the name of an action")
        args = self.arguments() if self._kind == "(" else None
        return ast.ActionRef(pos, ast.Name(name.pos, name.text, absolute), args, annotations)

    def _entries(self) -> list[ast.Entry]:
        entries: list[ast.Entry] = []
        self._expect("{")
        while self._kind != "}":
            start = self._index
            try:
                entries.append(self._entry())
            except CompileError as error:
                self.reporter.add(error)
                self._skip_statement(start)
                if self._kind == "end":
                    break
        self._expect("}")
        self._accept(";")
        return entries

    def _entry(self) -> ast.Entry:
        pos = self._pos
        leading = self._annotations()
        is_const = self._accept("const") is not None
        priority: ast.Expr | None = None
        if self._kind == "priority" and self._peek().kind == "=":
            self._advance()
            self._advance()
            priority = self._primary()
            self._expect(":")
        keysets = self.keysets()
        self._expect(":")
        action = self._action_ref([])
        annotations = [*leading, *self._annotations()]
        self._expect(";")
        return ast.Entry(pos, keysets, action, annotations, is_const, priority)
