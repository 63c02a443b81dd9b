"""A program as P4_16 text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tests.random_programs import model as m
from tests.random_programs.types import (
    Bits,
    Bool,
    Enum,
    Error,
    Stack,
    Struct,
    Type,
    Varbit,
    width_of,
)

INDENT = "    "
_NO_LISTS: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def type_text(type_: Type | None) -> str:
    """Return a type as it is written."""
    match type_:
        case None:
            return "void"
        case Bits(width=width, signed=signed):
            return f"{'int' if signed else 'bit'}<{width}>"
        case Bool():
            return "bool"
        case Error():
            return "error"
        case Varbit(width=width):
            return f"varbit<{width}>"
        case Stack(element=element, size=size):
            return f"{element.name}[{size}]"
        case Enum(name=name) | Struct(name=name):
            return name


def expr(node: m.Expr) -> str:
    """Return an expression, with brackets around all that has an operator."""
    match node:
        case m.Lit():
            return _literal(node)
        case m.Var(name=name):
            return name
        case m.Field(base=base, name=name):
            return f"{expr(base)}.{name}"
        case m.Index(base=base, index=index):
            return f"{expr(base)}[{expr(index)}]"
        case m.Slice(base=base, high=high, low=low):
            inner = expr(base)
            if not isinstance(base, m.Var | m.Field | m.Index | m.Slice):
                inner = f"({inner})"
            return f"{inner}[{high}:{low}]"
        case m.Unary(op=op, operand=operand):
            return f"{op}({expr(operand)})"
        case m.Binary(op=op, left=left, right=right):
            return f"({expr(left)} {op} {expr(right)})"
        case m.Cast(type=type_, operand=operand):
            return f"(({type_text(type_)})({expr(operand)}))"
        case m.Mux(condition=condition, yes=yes, no=no):
            return f"({expr(condition)} ? {expr(yes)} : {expr(no)})"
        case m.Call(name=name, args=args):
            return f"{name}({_list(args)})"
        case m.IsValid(header=header):
            return f"{expr(header)}.isValid()"
        case m.Hit(table=table, miss=miss):
            return f"{table}.apply().{'miss' if miss else 'hit'}"
        case m.Tuple(type=type_, items=items, named=named):
            if named and isinstance(type_, Struct):
                pairs = zip(type_.fields, items, strict=True)
                return "{ " + ", ".join(f"{f[0]} = {expr(item)}" for f, item in pairs) + " }"
            return f"{{ {_list(items)} }}"
        case m.Lookahead(type=type_):
            return f"packet.lookahead<{type_text(type_)}>()"


def _list(items: Iterable[m.Expr]) -> str:
    return ", ".join(expr(item) for item in items)


def _literal(node: m.Lit) -> str:
    match node.type:
        case Bool():
            return "true" if node.value else "false"
        case Error():
            return f"error.{node.value}"
        case Enum(name=name, members=members):
            return f"{name}.{next(text for text, value in members if value == node.value)}"
        case Bits(width=width, signed=signed):
            assert isinstance(node.value, int)
            if node.bare:
                return str(node.value) if node.value >= 0 else f"({node.value})"
            if node.value < 0:
                return f"(int<{width}>)({node.value})"
            return f"{width}{'s' if signed else 'w'}{node.value}"
    raise TypeError(f"no literals of {node.type}")


def block(body: list[m.Stmt], depth: int) -> list[str]:
    """Statements, one or more lines each."""
    return [INDENT * depth + line for stmt in body for line in _statement(stmt)]


def _braced(head: str, body: list[m.Stmt]) -> list[str]:
    return [f"{head} {{", *block(body, 1), "}"]


def _statement(stmt: m.Stmt) -> list[str]:
    match stmt:
        case m.Declare(name=name, type=type_, value=value):
            initial = "" if value is None else f" = {expr(value)}"
            return [f"{type_text(type_)} {name}{initial};"]
        case m.Assign(target=target, value=value, op=op):
            return [f"{expr(target)} {op}= {expr(value)};"]
        case m.If(condition=condition, yes=yes, no=no):
            lines = _braced(f"if ({expr(condition)})", yes)
            return [*lines[:-1], *_braced("} else", no)] if no else lines
        case m.Switch():
            return _switch(stmt)
        case m.CallStmt(call=call):
            return [f"{expr(call)};"]
        case m.Apply(table=table):
            return [f"{table}.apply();"]
        case m.SetValidity(header=header, valid=valid):
            return [f"{expr(header)}.{'setValid' if valid else 'setInvalid'}();"]
        case m.Push(stack=stack, count=count):
            return [f"{expr(stack)}.{'push' if count > 0 else 'pop'}_front({abs(count)});"]
        case m.For():
            return _for(stmt)
        case m.Jump(word=word, value=None):
            return [f"{word};"]
        case m.Jump(word=word, value=value) if value is not None:
            return [f"{word} {expr(value)};"]
    return [_extern(stmt)]


def _extern(stmt: m.Stmt) -> str:
    match stmt:
        case m.RegisterRead(register=register, target=target, index=index):
            return f"{register}.read({expr(target)}, (bit<32>)({expr(index)}));"
        case m.RegisterWrite(register=register, index=index, value=value):
            return f"{register}.write((bit<32>)({expr(index)}), {expr(value)});"
        case m.Count(counter=counter, index=index):
            return f"{counter}.count((bit<32>)({expr(index)}));"
        case m.Hash(target=target, algorithm=algorithm, base=base, items=items, limit=limit):
            data = f"{{ {_list(items)} }}"
            rest = f"{expr(base)}, {data}, {expr(limit)}"
            return f"hash({expr(target)}, HashAlgorithm.{algorithm}, {rest});"
        case m.Drop():
            return f"mark_to_drop({m.STD});"
        case m.Extract(target=target, next=of_stack, length=length):
            place = f"{expr(target)}.next" if of_stack else expr(target)
            bits = "" if length is None else f", (bit<32>)({expr(length)})"
            return f"packet.extract({place}{bits});"
        case m.Verify(condition=condition, error=error):
            return f"verify({expr(condition)}, error.{error});"
        case m.Clone(kind=kind, session=session, field_list=None):
            return f"clone(CloneType.{kind}, {expr(session)});"
        case m.Clone(kind=kind, session=session, field_list=number):
            rest = f"CloneType.{kind}, {expr(session)}, {number}"
            return f"clone_preserving_field_list({rest});"
        case m.Digest(type=type_, items=items):
            return f"digest<{type_.name}>(1, {{ {_list(items)} }});"
        case m.ExecuteMeter(meter=meter, index=index, target=target):
            return f"{meter}.execute_meter((bit<32>)({expr(index)}), {expr(target)});"
        case m.ReadMeter(meter=meter, target=target):
            return f"{meter}.read({expr(target)});"
        case m.Again(word=word, field_list=number):
            return f"{word}_preserving_field_list({number});"
        case m.SubParser(name=name, args=args):
            return f"{name}_i.apply(packet, {_list(args)});"
    raise TypeError(f"no text for {stmt}")


def _switch(stmt: m.Switch) -> list[str]:
    subject = f"{stmt.table}.apply().action_run" if stmt.value is None else expr(stmt.value)
    lines = [f"switch ({subject}) {{"]
    for case in stmt.cases:
        for at, label in enumerate(case.labels):
            text = "default" if label is None else str(label)
            if at == len(case.labels) - 1 and case.body is not None:
                lines += [INDENT + line for line in _braced(f"{text}:", case.body)]
            else:
                lines.append(f"{INDENT}{text}:")
    return [*lines, "}"]


def _for(stmt: m.For) -> list[str]:
    name, of = stmt.name, type_text(stmt.type)
    if stmt.ranged:
        return _braced(f"for ({of} {name} in {stmt.low} .. {stmt.high})", stmt.body)
    head = f"for ({of} {name} = {stmt.low}; {name} <= {stmt.high}; {name} = {name} + 1)"
    return _braced(head, stmt.body)


# --- declarations ---------------------------------------------------------------------------------


def program(made: m.Program) -> str:
    """Return the whole program."""
    lines = [f"// Made from seed {made.seed}.", "#include <core.p4>", "#include <v1model.p4>", ""]
    if made.errors:
        lines.append(f"error {{ {', '.join(made.errors)} }}")
    for enum in made.enums:
        lines += _enum(enum)
    for struct in [*made.structs, made.headers]:
        lines += _struct(struct)
    lines += _struct(made.metadata, made.field_lists)
    for function in made.functions:
        lines += _function(function, type_text(function.result))
    for sub in made.sub_parsers:
        lines += _parser(sub, [], {})
    lines += _parser(made.parser, made.sub_parsers, made.value_sets)
    lines += _checksum_control("Verify", made, verify=True)
    lines += _control(made.ingress)
    lines += _control(made.egress)
    lines += _checksum_control("Compute", made, verify=False)
    emits = [f"{INDENT * 2}packet.emit({expr(item)});" for item in made.emits]
    head = f"control Deparse(packet_out packet, in {made.headers.name} hdr) {{"
    lines += [head, f"{INDENT}apply {{", *emits, f"{INDENT}}}", "}"]
    lines.append("V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;")
    return "\n".join(lines) + "\n"


def _enum(enum: Enum) -> list[str]:
    if not enum.width:
        return [f"enum {enum.name} {{ {', '.join(name for name, _ in enum.members)} }}"]
    members = ", ".join(f"{name} = {value}" for name, value in enum.members)
    return [f"enum bit<{enum.width}> {enum.name} {{ {members} }}"]


def _struct(
    struct: Struct, lists: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> list[str]:
    word = {"struct": "struct", "header": "header", "union": "header_union"}[struct.kind]
    fields = []
    for name, of in struct.fields:
        marks = f"@field_list({', '.join(map(str, lists[name]))}) " if lists.get(name) else ""
        fields.append(f"{INDENT}{marks}{type_text(of)} {name};")
    return [f"{word} {struct.name} {{", *fields, "}"]


def _params(params: Iterable[m.Param]) -> str:
    return ", ".join(f"{p.direction} {type_text(p.type)} {p.name}".strip() for p in params)


def _function(function: m.Function, head: str) -> list[str]:
    return _braced(f"{head} {function.name}({_params(function.params)})", function.body)


def _parser(
    made: m.Parser, subs: list[m.Parser], value_sets: dict[str, tuple[Bits, int]]
) -> list[str]:
    lines = [f"parser {made.name}(packet_in packet, {_params(made.params)}) {{"]
    lines += [f"{INDENT}{sub.name}() {sub.name}_i;" for sub in subs]
    for name, (of, size) in value_sets.items():
        lines.append(f"{INDENT}value_set<{type_text(of)}>({size}) {name};")
    lines += block(list(made.locals), 1)
    for state in made.states:
        lines += [f"{INDENT}state {state.name} {{", *block(state.body, 2)]
        if isinstance(state.next, str):
            lines.append(f"{INDENT * 2}transition {state.next};")
        else:
            lines.append(f"{INDENT * 2}transition select({_list(state.next.exprs)}) {{")
            lines += [f"{INDENT * 3}{_case(case)};" for case in state.next.cases]
            lines.append(f"{INDENT * 2}}}")
        lines.append(f"{INDENT}}}")
    return [*lines, "}"]


def _case(case: m.SelectCase) -> str:
    if case.set_name:
        return f"{case.set_name}: {case.state}"
    if all(match.kind == "any" for match in case.matches):
        return f"default: {case.state}"
    texts = [_match(match) for match in case.matches]
    return f"{texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'}: {case.state}"


def _match(match: m.Match, width: int = 0) -> str:
    match match.kind:
        case "value":
            return str(match.low)
        case "prefix":
            mask = (1 << width) - (1 << (width - match.high))
            return f"{match.low & mask} &&& {mask}"
        case "mask":
            return f"{match.low} &&& {match.high}"
        case "range":
            return f"{match.low} .. {match.high}"
    return "_"


def _checksum_control(name: str, made: m.Program, *, verify: bool) -> list[str]:
    lines = [
        f"control {name}(inout {made.headers.name} hdr, inout {made.metadata.name} meta) {{",
        f"{INDENT}apply {{",
    ]
    for checksum in made.checksums:
        if (verify and checksum.verify) or (not verify and checksum.update):
            word = "verify_checksum" if verify else "update_checksum"
            condition, items = expr(checksum.condition), _list(checksum.items)
            rest = f"{{ {items} }}, {expr(checksum.target)}, HashAlgorithm.csum16"
            lines.append(f"{INDENT * 2}{word}({condition}, {rest});")
    return [*lines, f"{INDENT}}}", "}"]


def _control(control: m.Control) -> list[str]:
    lines = [
        f"control {control.name}(inout headers_t hdr, inout metadata_t meta,",
        f"{INDENT * 3}inout standard_metadata_t std) {{",
    ]
    for register in control.registers:
        lines.append(
            f"{INDENT}register<{type_text(register.type)}>({register.size}) {register.name};"
        )
    for counter in control.counters:
        kind = "CounterType.packets_and_bytes"
        lines.append(f"{INDENT}counter({counter.size}, {kind}) {counter.name};")
    for meter in control.meters:
        lines.append(f"{INDENT}meter({meter.size}, {_unit(meter)}) {meter.name};")
    lines += block(list(control.locals), 1)
    # Actions may read the direct meters of tables that come after them.
    for table in control.tables:
        if table.meter is not None:
            of = type_text(None if table.color is None else table.color.type)
            lines.append(f"{INDENT}direct_meter<{of}>({_unit(table.meter)}) {table.meter.name};")
    for action in control.actions:
        lines += [INDENT + line for line in _function(action, "action")]
    for table in control.tables:
        lines += [INDENT + line for line in _table(table, control)]
    return [*lines, f"{INDENT}apply {{", *block(control.body, 2), f"{INDENT}}}", "}"]


def _table(table: m.Table, control: m.Control) -> list[str]:
    lines = []
    if table.counter:
        kind = "CounterType.packets_and_bytes"
        lines.append(f"direct_counter({kind}) {table.counter};")
    lines += [f"table {table.name} {{", f"{INDENT}key = {{"]
    for key in table.keys:
        lines.append(f'{INDENT * 2}{expr(key.expr)} : {key.kind} @name("{key.name}");')
    lines += [f"{INDENT}}}", f"{INDENT}actions = {{"]
    for name in table.actions:
        bound = table.bound.get(name)
        lines.append(f"{INDENT * 2}{name}{f'({_list(bound)})' if bound else ''};")
    if table.default not in table.actions:
        lines.append(f"{INDENT * 2}@defaultonly {table.default};")
    lines.append(f"{INDENT}}}")
    const = "const " if table.const_default else ""
    default = _chosen(table, table.default, table.default_args, control)
    lines.append(f"{INDENT}{const}default_action = {default};")
    if table.entries:
        lines.append(f"{INDENT}const entries = {{")
        for entry in table.entries:
            pairs = zip(entry.matches, table.keys, strict=True)
            texts = [_match(match, width_of(key.expr.type)) for match, key in pairs]
            keys = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
            chosen = _chosen(table, entry.action, entry.args, control)
            lines.append(f"{INDENT * 2}{keys} : {chosen};")
        lines.append(f"{INDENT}}}")
    if table.counter:
        lines.append(f"{INDENT}counters = {table.counter};")
    if table.meter is not None:
        lines.append(f"{INDENT}meters = {table.meter.name};")
    return [*lines, "}"]


def _unit(meter: m.Meter) -> str:
    return f"MeterType.{'bytes' if meter.bytes else 'packets'}"


def _chosen(table: m.Table, name: str, args: list[int], control: m.Control) -> str:
    bound = [expr(item) for item in table.bound.get(name, [])]
    del control
    return f"{name}({', '.join([*bound, *map(str, args)])})"
