"""From type-value objects of the JSON to checked expressions and primitive arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from softswitch.codegen.expressions import (
    ARITHMETIC,
    COMPARISONS,
    VALID_FIELD,
    Argument,
    BoolConst,
    Const,
    Expr,
    FieldRef,
    HeaderField,
    HeaderRef,
    Kind,
    LastField,
    Local,
    Lookahead,
    ObjectRef,
    Op,
    RegisterRef,
    StackCount,
    StackElement,
    StackRef,
    Ternary,
    Text,
    UnionMember,
    UnionRef,
    UnionStackElement,
    UnionStackRef,
    Vector,
)
from softswitch.codegen.json_reader import Node
from softswitch.codegen.model import (
    Field,
    Header,
    HeaderStack,
    HeaderType,
    HeaderUnion,
    Primitive,
    Source,
    UnionStack,
    UnionType,
)
from softswitch.codegen.primitives import SIGNATURES, Arg

T = TypeVar("T")
E = TypeVar("E", bound=Expr)


def source_of(node: Node) -> Source | None:
    """Return where the document says that a node comes from; this may be missing or wrong."""
    info = node.object().get("source_info")
    if not isinstance(info, dict):
        return None
    file, line, text = (info.get(key) for key in ("filename", "line", "source_fragment"))
    if isinstance(file, str) and isinstance(line, int) and isinstance(text, str):
        return Source(file, line, text)
    return None


@dataclass
class Symbols:
    """The names that expressions may refer to; `dynamic` collects stacks indexed at run time."""

    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, HeaderStack] = field(default_factory=dict)
    unions: dict[str, HeaderUnion] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    objects: dict[str, set[str]] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)

    def header(self, node: Node) -> Header:
        """Return the header instance that `node` names."""
        return _known(node, self.headers, "header")

    def stack(self, node: Node) -> HeaderStack:
        """Return the header stack that `node` names."""
        return _known(node, self.stacks, "header stack")

    def object(self, node: Node, kind: str) -> str:
        """Return the name of a calculation, meter_array, counter_array or register_array."""
        name = node.text()
        if name not in self.objects.get(kind, ()):
            raise node.error(f'unknown {kind.replace("_", " ")} "{name}"')
        return name

    def field_ref(self, node: Node) -> FieldRef:
        """Return a ["header", "field"] pair, checked."""
        header_node, field_node = node.items(2)
        header = self.header(header_node)
        name = field_node.text()
        if name != VALID_FIELD:
            _member(field_node, header.type)
        return FieldRef(header.name, name)

    def field_type(self, ref: FieldRef) -> Field:
        """Return the type of a checked reference."""
        found = self.headers[ref.header].type.field(ref.field)
        return found if found is not None else Field(ref.field, 1)


def _known(node: Node, table: dict[str, T], what: str) -> T:
    name = node.text()
    if name not in table:
        raise node.error(f'unknown {what} "{name}"')
    return table[name]


def _member(node: Node, header_type: HeaderType) -> Field:
    found = header_type.field(node.text())
    if found is None:
        raise node.error(f'header type "{header_type.name}" has no field "{node.value}"')
    return found


class ExprLoader:
    """Loads expressions. `n_locals` is the number of `local`/`runtime_data` values in scope.

    `in_parser`: the packet's own bytes are there to be looked at.
    """

    def __init__(self, symbols: Symbols, n_locals: int = 0, *, in_parser: bool = False) -> None:
        self.symbols = symbols
        self.in_parser = in_parser
        self.n_locals = n_locals
        self._types: dict[int, HeaderType | UnionType] = {}
        self._alive: list[Expr] = []  # keeps ids in _types unique

    def _typed(self, expr: E, what: HeaderType | UnionType) -> E:
        self._types[id(expr)] = what
        self._alive.append(expr)
        return expr

    def header_type(self, expr: Expr) -> HeaderType:
        """Return the type of the header that a checked expression yields."""
        found = self._types[id(expr)]
        assert isinstance(found, HeaderType)
        return found

    def union_type(self, expr: Expr) -> UnionType:
        """Return the type of the union that a checked expression yields."""
        found = self._types[id(expr)]
        assert isinstance(found, UnionType)
        return found

    def load(self, node: Node, want: Kind) -> Expr:
        """Return the expression at `node`, which must yield `want`."""
        expr, kind = self.any(node)
        if kind is not want:
            raise node.error(f"expected {want.value}, found {kind.value}")
        return expr

    def any(self, node: Node) -> tuple[Expr, Kind]:
        """Return the expression at `node` and its kind."""
        kind = node["type"].text()
        value = node["value"]
        symbols = self.symbols
        match kind:
            case "expression":
                return self._operation(value) if "op" in value.object() else self.any(value)
            case "hexstr":
                return Const(value.hex_number()), Kind.DATA
            case "bool":
                return BoolConst(value.flag()), Kind.BOOL
            case "field":
                element = self._element_field(value)
                return symbols.field_ref(value) if element is None else element, Kind.DATA
            case "local" | "runtime_data":
                index = value.number(0)
                if index >= self.n_locals:
                    raise value.error(f"no parameter {index}: there are {self.n_locals}")
                return Local(index), Kind.DATA
            case "stack_field":
                stack_node, field_node = value.items(2)
                stack = symbols.stack(stack_node)
                symbols.dynamic.add(stack.name)
                if field_node.value == "last" and stack.type.field("last") is None:
                    # p4c's way to say the last element as a whole
                    last = StackElement(stack.name, StackCount(stack.name, True))
                    return self._typed(last, stack.type), Kind.HEADER
                _member(field_node, stack.type)
                return LastField(stack.name, field_node.text()), Kind.DATA
            case "register":
                name, index_node = value.items(2)
                register = symbols.object(name, "register_array")
                return RegisterRef(register, self.load(index_node, Kind.DATA)), Kind.DATA
            case "header":
                header = symbols.header(value)
                return self._typed(HeaderRef(header.name), header.type), Kind.HEADER
            case "header_stack":
                stack = symbols.stack(value)
                return self._typed(StackRef(stack.name), stack.type), Kind.STACK
            case "header_union":
                union = _known(value, symbols.unions, "header union")
                return self._typed(UnionRef(union.name), union.type), Kind.UNION
            case "header_union_stack":
                ustack = _known(value, symbols.union_stacks, "header union stack")
                return self._typed(UnionStackRef(ustack.name), ustack.type), Kind.UNION_STACK
            case "lookahead":
                if not self.in_parser:
                    raise node["type"].error("only a parser can look ahead")
                return self.lookahead(value), Kind.DATA
            case _:
                raise node["type"].error(f'unsupported type "{kind}" in an expression')

    def _element_field(self, value: Node) -> Expr | None:
        """Return the field that p4c writes as an expression (typed or not) instead of a header's
        name.

        None where there is a name.
        """
        left, name = value.items(2)
        if not isinstance(left.value, dict):
            return None
        header, kind = self._operation(left) if "op" in left.value else self.any(left)
        if kind is not Kind.HEADER:
            raise left.error(f"expected {Kind.HEADER.value}, found {kind.value}")
        of = self.header_type(header)
        if name.text() == VALID_FIELD:
            return Op("b2d", None, Op("valid", None, header))
        return HeaderField(header, of.fields.index(_member(name, of)))

    def lookahead(self, value: Node) -> Lookahead:
        """Read an [offset, width] pair."""
        offset, bits = value.items(2)
        return Lookahead(offset.width(0), bits.width())

    def _operation(self, node: Node) -> tuple[Expr, Kind]:
        op = node["op"].text()
        if op in COMPARISONS:
            return self._comparison(node, op), Kind.BOOL
        match op:
            case "?":
                cond = self.load(node["cond"], Kind.BOOL)
                left, kind = self.any(node["left"])
                right = self.load(node["right"], kind)
                if kind not in (Kind.DATA, Kind.BOOL):
                    raise node.error(f'operation "?" does not support {kind.value}')
                return Ternary(cond, left, right), kind
            case "and" | "or":
                left = self.load(node["left"], Kind.BOOL)
                return Op(op, left, self.load(node["right"], Kind.BOOL)), Kind.BOOL
            case "not":
                return Op(op, None, self.load(node["right"], Kind.BOOL)), Kind.BOOL
            case "d2b":
                return Op(op, None, self.load(node["right"], Kind.DATA)), Kind.BOOL
            case "b2d":
                return Op(op, None, self.load(node["right"], Kind.BOOL)), Kind.DATA
            case "~":
                return Op(op, None, self.load(node["right"], Kind.DATA)), Kind.DATA
            case "valid":
                return Op(op, None, self.load(node["right"], Kind.HEADER)), Kind.BOOL
            case "valid_union":
                return Op(op, None, self.load(node["right"], Kind.UNION)), Kind.BOOL
            case "last_stack_index" | "size_stack":
                stack = self.load(node["right"], Kind.STACK)
                assert isinstance(stack, StackRef)
                return StackCount(stack.name, op == "last_stack_index"), Kind.DATA
            case "dereference_header_stack" | "dereference_stack":
                stack = self.load(node["left"], Kind.STACK)
                assert isinstance(stack, StackRef)
                self.symbols.dynamic.add(stack.name)
                element = StackElement(stack.name, self.load(node["right"], Kind.DATA))
                return self._typed(element, self.header_type(stack)), Kind.HEADER
            case "dereference_union_stack":
                ustack = self.load(node["left"], Kind.UNION_STACK)
                assert isinstance(ustack, UnionStackRef)
                self.symbols.dynamic.add(ustack.name)
                of = UnionStackElement(ustack.name, self.load(node["right"], Kind.DATA))
                return self._typed(of, self.union_type(ustack)), Kind.UNION
            case "access_field":
                header = self.load(node["left"], Kind.HEADER)
                fields = self.header_type(header).fields
                index = node["right"].number(0, len(fields))
                if index == len(fields):  # BMv2 keeps $valid$ behind the last field
                    return Op("b2d", None, Op("valid", None, header)), Kind.DATA
                return HeaderField(header, index), Kind.DATA
            case "access_union_header":
                union = self.load(node["left"], Kind.UNION)
                members = self.union_type(union).members
                index = node["right"].number(0, len(members) - 1)
                return self._typed(UnionMember(union, index), members[index][1]), Kind.HEADER
            case _ if op in ARITHMETIC:
                unary = op in "+-" and node.opt("left") is None
                left = Const(0) if unary else self.load(node["left"], Kind.DATA)
                return Op(op, left, self.load(node["right"], Kind.DATA)), Kind.DATA
            case _:
                raise node["op"].error(f'unsupported operation "{op}"')

    def _comparison(self, node: Node, op: str) -> Expr:
        left, kind = self.any(node["left"])
        right = self.load(node["right"], kind)
        allowed = (
            (Kind.DATA, Kind.BOOL, Kind.HEADER, Kind.UNION) if op in ("==", "!=") else (Kind.DATA,)
        )
        if kind not in allowed:
            raise node.error(f'operation "{op}" does not support {kind.value}')
        suffix = {Kind.HEADER: "h", Kind.UNION: "u", Kind.BOOL: "b"}.get(kind, "")
        return Op(op + suffix, left, right)

    def primitive(self, node: Node) -> Primitive:
        """Return a primitive call whose arguments match its signature."""
        op = node["op"].text()
        signature = SIGNATURES.get(op)
        if signature is None:
            raise node["op"].error(f'unsupported primitive "{op}"')
        args = node["parameters"].items()
        if len(args) != len(signature):
            raise node.error(
                f'primitive "{op}" takes {len(signature)} arguments, found {len(args)}'
            )
        loaded = tuple(self._argument(a, want) for a, want in zip(args, signature, strict=True))
        if op in ("assign_header", "copy_header"):
            self._same(node, op, [self.header_type(a) for a in loaded])  # type: ignore[arg-type]
        elif op in ("assign_union", "assign_header_stack", "assign_union_stack"):
            self._same(node, op, [self._types[id(a)] for a in loaded])
        return Primitive(op, loaded, source_of(node))

    @staticmethod
    def _same(node: Node, op: str, types: Sequence[HeaderType | UnionType]) -> None:
        if types[0] is not types[1]:
            raise node.error(f'"{op}" between "{types[0].name}" and "{types[1].name}"')

    def _argument(self, node: Node, want: Arg) -> Argument:
        kind = node["type"].text()
        value = node["value"]
        match want:
            case Arg.TEXT:
                if kind == "string":
                    return Text(value.text())
            case Arg.VECTOR:
                if kind == "parameters_vector":
                    if value.value == {}:  # p4c's empty vector
                        return Vector(())
                    return Vector(tuple(self.load(item, Kind.DATA) for item in value.items()))
            case Arg.CALCULATION | Arg.METER | Arg.COUNTER | Arg.REGISTER:
                name = {
                    Arg.CALCULATION: "calculation",
                    Arg.METER: "meter_array",
                    Arg.COUNTER: "counter_array",
                    Arg.REGISTER: "register_array",
                }[want]
                if kind == name:
                    return ObjectRef(kind, self.symbols.object(value, kind))
            case _:
                return self._expression_argument(node, want)
        raise node.error(f'expected {want.value}, found an argument of type "{kind}"')

    def _expression_argument(self, node: Node, want: Arg) -> Expr:
        if node["type"].text() == "extern":
            raise node.error("extern instances are not supported")
        expr, kind = self.any(node)
        match want:
            case Arg.CONDITION:
                good = kind in (Kind.BOOL, Kind.DATA)
                if kind is Kind.DATA:
                    expr = Op("d2b", None, expr)
            case Arg.VALUE:
                good = kind is Kind.DATA
            case Arg.TARGET:
                good = isinstance(expr, FieldRef | LastField | HeaderField | RegisterRef)
                good = good and getattr(expr, "field", "") != VALID_FIELD
            case Arg.VARBIT:
                good = isinstance(expr, FieldRef) and self.symbols.field_type(expr).varbit
            case Arg.HEADER:
                good = kind is Kind.HEADER
            case Arg.HEADER_STACK:
                good = kind is Kind.STACK
            case Arg.STACK:
                good = kind in (Kind.STACK, Kind.UNION_STACK)
            case Arg.UNION:
                good = kind is Kind.UNION
            case _:
                good = kind is Kind.UNION_STACK
        if not good:
            raise node.error(f"expected {want.value}, found {kind.value}")
        return expr
