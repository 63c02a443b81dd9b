"""Lowering of a whole v1model program: shared state, and the six blocks one after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.bmv2 import ir
from compiler.bmv2.layout import Layout
from compiler.bmv2.lower_checksum import Checksum, lower_checksums
from compiler.bmv2.lower_expr import elements_of
from compiler.bmv2.lower_extern import OBJECTS
from compiler.bmv2.lower_frame import Code, Frame, Region
from compiler.bmv2.lower_parser import BodyLowering
from compiler.bmv2.lower_stmt import StmtLowering
from compiler.bmv2.lower_table import (
    LoweredAction,
    LoweredTable,
    TableLowering,
    action_frame,
    new_action_code,
    prepared,
)
from compiler.bmv2.places import (
    ExternObject,
    HeaderPlace,
    Packet,
    StackPlace,
    StructValue,
    UnionPlace,
    Value,
    scalar_type,
    union_member,
)
from compiler.errors import CompileError, Diagnostic, NotSupported, Pos, Severity
from compiler.frontend import CheckedProgram
from compiler.p4info.types import struct_name
from compiler.passes.elaborate import Elaborated, Instance, Item, flatten, local_name
from compiler.syntax import ast
from compiler.syntax.walk import expressions_of, statements_of
from compiler.types import types as ty


@dataclass(frozen=True)
class Calculation:
    """Inputs of a hash or checksum; `payload`: the rest of the packet follows them."""

    name: str
    algorithm: str
    inputs: tuple[ir.Expr, ...]
    payload: bool
    pos: Pos


@dataclass(frozen=True)
class FieldList:
    """Fields that a clone, resubmit or recirculate keeps, or that a digest carries."""

    number: int
    name: str
    fields: tuple[ir.Expr, ...]
    pos: Pos | None = None


@dataclass
class DirectResource:
    """A direct counter or meter with its table and, for meters, where the color goes."""

    target: ExternObject
    table: LoweredTable | None = None
    result: ir.Field | None = None


@dataclass
class Pipeline:
    """Ingress or egress: its code, and the externs that it declares, in order."""

    name: str
    entry: ir.Block
    externs: list[ExternObject]
    unreached: list[LoweredTable]
    pos: Pos


@dataclass
class ProgramLowering:
    """State shared by all bodies of one program, and its lowered form when `run` is done."""

    checked: CheckedProgram
    blocks: Elaborated
    layout: Layout = field(default_factory=Layout)
    warnings: list[Diagnostic] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)
    state_names: set[str] = field(default_factory=set)
    calculations: list[Calculation] = field(default_factory=list)
    learn_lists: list[FieldList] = field(default_factory=list)
    field_lists: list[FieldList] = field(default_factory=list)
    tables: list[LoweredTable] = field(default_factory=list)
    actions: list[LoweredAction] = field(default_factory=list)
    direct: dict[int, DirectResource] = field(default_factory=dict)
    profiles: dict[int, tuple[ExternObject, LoweredTable]] = field(default_factory=dict)
    parser_entry: ir.Block | None = None
    value_sets: list[tuple[str, int, int]] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    deparser_order: list[str] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    _externs: dict[tuple[int, int], ExternObject] = field(default_factory=dict)
    _tables: dict[tuple[int, int], LoweredTable] = field(default_factory=dict)
    _actions: dict[tuple[int, int], LoweredAction] = field(default_factory=dict)
    _anonymous: list[ast.InstanceDecl] = field(default_factory=list)
    _digest_names: dict[int, str] = field(default_factory=dict)
    _list_numbers: int = 0

    # ------------------------------------------------------------ the six blocks

    def run(self) -> None:
        """Lower everything. Raises `CompileError` and `NotSupported`."""
        parser = self.blocks["parser"]
        hdr_type, meta_type = parser.decl.params[1].type, parser.decl.params[2].type
        std_type = parser.decl.params[3].type
        if not isinstance(hdr_type, ty.Struct) or not isinstance(meta_type, ty.Struct):
            raise CompileError.at(
                parser.decl.pos, "the parser's headers and metadata must be structs"
            )
        assert isinstance(std_type, ty.Struct)
        std = self.layout.standard_metadata(std_type)
        hdr = self.layout.program_headers(hdr_type, parser.decl.params[1].pos)
        meta = self.layout.metadata(meta_type, meta_type.name, parser.decl.params[2].pos)
        self._declared_field_lists(meta_type, meta)
        self._parser([Packet(), hdr, meta, std])
        self._pipeline("ingress", Region.INGRESS, [hdr, meta, std])
        self._pipeline("egress", Region.EGRESS, [hdr, meta, std])
        self._deparser([Packet(), hdr])
        for role in ("compute", "verify"):
            body = self._body(self.blocks[role], Region.OTHER, [hdr, meta])
            self.checksums += lower_checksums(body, verify=role == "verify")

    def _body(self, instance: Instance, region: Region, values: list[Value]) -> BodyLowering:
        """Return the lowering of a top-level block with its parameters bound."""
        frame = self.frames.setdefault(id(instance), Frame(instance))
        for param, value in zip(instance.decl.params, values, strict=True):
            frame.values[id(param)] = value
        return BodyLowering(self, Code(region, ir.Block(instance.decl.pos)), frame)

    def _parser(self, values: list[Value]) -> None:
        instance = self.blocks["parser"]
        decl = instance.decl
        assert isinstance(decl, ast.ParserDecl)
        for item in flatten(instance):
            if isinstance(item.decl, ast.ValueSetDecl):
                self._value_set(item)
        body = self._body(instance, Region.PARSER, values)
        body.locals(decl.locals)
        body.parser_states(decl, ir.Block(decl.pos, end=ir.Stop()), "")
        self.parser_entry = body.code.entry

    def _value_set(self, item: Item) -> None:
        decl = item.decl
        assert isinstance(decl, ast.ValueSetDecl)
        width = ty.width_of(decl.element) if decl.element is not None else None
        if width is None or not isinstance(decl.size.const_value, int):
            raise NotSupported.at(decl.pos, "this value set")
        self.value_sets.append((item.name, width, decl.size.const_value))

    def _pipeline(self, name: str, region: Region, values: list[Value]) -> None:
        instance = self.blocks[name]
        decl = instance.decl
        assert isinstance(decl, ast.ControlDecl)
        externs = [
            self.extern_of(item.decl, item.instance)
            for item in flatten(instance)
            if isinstance(item.decl, ast.InstanceDecl)
        ]
        body = self._body(instance, region, values)
        body.locals(decl.locals)
        body.statement(decl.body)
        body.code.terminate(ir.Stop())
        for extern in externs:
            _check_known(extern)
        unreached = self._unreached_tables(instance, body.code)
        self.pipelines.append(Pipeline(name, body.code.entry, externs, unreached, decl.pos))

    def _unreached_tables(self, root: Instance, code: Code) -> list[LoweredTable]:
        """Return the tables that only stand after an `exit`: the control plane sees them all the
        same.
        """
        found: list[LoweredTable] = []
        for item in flatten(root):
            key = (id(item.decl), id(item.instance))
            home = self.frames.get(id(item.instance))
            if isinstance(item.decl, ast.TableDecl) and key not in self._tables and home:
                found.append(self._lower_table(item, code, home))
        return found

    def _deparser(self, values: list[Value]) -> None:
        instance = self.blocks["deparser"]
        decl = instance.decl
        assert isinstance(decl, ast.ControlDecl)
        self._emits(self._body(instance, Region.OTHER, values), decl)

    def _emits(self, body: BodyLowering, control: ast.ControlDecl) -> None:
        """Collect the emits of a deparser, in order. Controls that only emit may be applied."""
        for stmt in statements_of(control.body):
            match stmt:
                case ast.Block() | ast.Empty():
                    pass
                case ast.CallStmt(call=ast.Call(kind=ast.CallKind.PACKET_EMIT) as call):
                    argument = call.binding[0].arg if call.binding else call.args[0].value
                    assert argument is not None
                    self.deparser_order += _headers_in(body.lower(argument), argument.pos)
                case ast.CallStmt(call=ast.Call(kind=ast.CallKind.CONTROL_APPLY) as call):
                    inner_control, inner = body.applied(call)
                    self._emits(inner, inner_control)
                case _:
                    raise CompileError.at(stmt.pos, "a deparser of BMv2 can only emit")

    # ------------------------------------------------------------ names and instances

    def warn(self, pos: Pos, message: str, code: str, *, back_end: bool = False) -> None:
        """Record a warning of a kind once; `back_end`: of what BMv2 does."""
        self._note(Diagnostic(pos, message, Severity.WARNING, code, back_end=back_end))

    def inform(self, pos: Pos, message: str) -> None:
        """Record, once, what is worth knowing but no fault."""
        self._note(Diagnostic(pos, message, Severity.INFO))

    def _note(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.warnings:
            self.warnings.append(diagnostic)

    def extern_object(self, decl: ast.InstanceDecl, frame: Frame, pos: Pos) -> ExternObject:
        """Return the extern instance that a name in `frame` denotes."""
        if not isinstance(decl.type, ty.Extern):
            raise NotSupported.at(pos, f"{decl.name} as a value")
        home = frame.home_of(decl)
        return self.extern_of(decl, home.instance if home is not None else None)

    def extern_of(self, decl: ast.InstanceDecl, instance: Instance | None) -> ExternObject:
        """Return the extern object that `instance` declares."""
        key = (id(decl), id(instance))
        found = self._externs.get(key)
        if found is None:
            assert isinstance(decl.type, ty.Extern)
            register = decl.type.name == "register"
            cell = scalar_type(decl.type.args[0]) if register else None
            if register and (cell is None or not cell.width):
                raise CompileError.at(
                    decl.pos, f"BMv2's registers hold bit<w> or int<w>, not {decl.type.args[0]}"
                )
            name = instance.name_of(decl) if instance is not None else local_name(decl)
            found = ExternObject(decl, instance, name.removeprefix("."), decl.type)
            self._externs[key] = found
        return found

    def global_externs(self) -> list[ExternObject]:
        """Return the extern instances declared outside of controls."""
        return [
            self.extern_of(decl, None)
            for decl in self.checked.program.decls
            if isinstance(decl, ast.InstanceDecl) and isinstance(decl.type, ty.Extern)
        ]

    def anonymous_extern(self, prop: ast.Property, frame: Frame) -> ExternObject:
        """Return an extern constructed in a table property; `@name` on the property names it."""
        call = prop.value
        assert isinstance(call, ast.Call)
        assert isinstance(call.type, ty.Extern)
        if prop.annotation("name") is None:
            raise CompileError.at(
                prop.pos, f'{prop.name}: an instance made here needs a @name("..") for P4Runtime'
            )
        decl = ast.InstanceDecl(prop.pos, local_name(prop), call, annotations=prop.annotations)
        decl.type = call.type
        self._anonymous.append(decl)
        target = self.extern_of(decl, None)
        home: Frame | None = frame
        while home is not None and home.instance is None:
            home = home.parent
        return replace(target, instance=home.instance if home is not None else None)

    def made_in_place(self, target: ExternObject) -> bool:
        """Return whether an extern was constructed in a table property."""
        return any(decl is target.decl for decl in self._anonymous)

    def constructor_argument(self, param: ast.Parameter, frame: Frame, pos: Pos) -> Value:
        """Return the value of a constructor parameter named in `frame`."""
        scope: Frame | None = frame
        while scope is not None:
            instance = scope.instance
            if instance is not None and id(param) in instance.ctor_args:
                expr, outer = instance.ctor_args[id(param)]
                return self.constants_of(outer).lower(expr)
            scope = scope.parent
        raise NotSupported.at(pos, f"{param.name} as a value")

    def constants_of(self, instance: Instance | None) -> BodyLowering:
        """Return a lowering that can only evaluate compile-time values, in the scope of
        `instance`.
        """
        return BodyLowering(self, Code(Region.OTHER, ir.Block(Pos("", 0, 0))), Frame(instance))

    def constructor_value(self, target: ExternObject, index: int) -> ir.Const:
        """Return the argument number `index` of an extern's constructor."""
        arg = target.decl.call.binding[index].arg
        assert arg is not None
        return self.constants_of(target.instance).constant(arg)

    def value_set_name(self, decl: ast.ValueSetDecl, frame: Frame) -> str:
        """Return the control-plane name of a value set."""
        home = frame.home_of(decl)
        assert home is not None
        assert home.instance is not None
        return home.instance.name_of(decl)

    def apply_sites(self, instance: Instance) -> list[ast.Call]:
        """Return all calls that apply `instance`."""
        parent = instance.parent
        if parent is None or not isinstance(parent.decl, ast.ControlDecl):
            return []
        keys = {key for key, child in parent.children.items() if child is instance}
        return [
            expr
            for stmt in statements_of(parent.decl.body)
            for expr in expressions_of(stmt)
            if isinstance(expr, ast.Call)
            and isinstance(expr.receiver, ast.Name)
            and id(expr.receiver.decl) in keys
            and expr.kind is ast.CallKind.CONTROL_APPLY
        ]

    # ------------------------------------------------------------ tables and actions

    def prepare_table(self, body: StmtLowering, call: ast.Call) -> LoweredTable:
        """Return the table that `call` applies, with the code before it written."""
        decl = call.decl
        assert isinstance(decl, ast.TableDecl)
        home = body.frame.home_of(decl)
        if home is None or home.instance is None or body.code.in_action:
            raise CompileError.at(call.pos, f"table {decl.name} can't be applied here")
        key = (id(decl), id(home.instance))
        found = self._tables.get(key)
        if found is None:
            found = self._lower_table(Item(home.instance, decl), body.code, home)
        prepared(found, BodyLowering(self, body.code, home))
        return found

    def _lower_table(self, item: Item, code: Code, home: Frame) -> LoweredTable:
        scope = BodyLowering(self, Code(code.region, ir.Block(item.decl.pos)), home)
        found = TableLowering(self, scope, item).lower()
        self._tables[id(item.decl), id(item.instance)] = found
        self.tables.append(found)
        return found

    def table_named(self, item: Item) -> LoweredTable:
        """Return a lowered table. Raises `NotSupported` if the lowering never met it."""
        found = self._tables.get((id(item.decl), id(item.instance)))
        if found is None:
            raise NotSupported.at(item.decl.pos, f"table {item.decl.name}, which is not reached")
        return found

    def table_action(self, ref: ast.ActionRef, frame: Frame) -> LoweredAction:
        """Return the action of an action list; arguments bound there make a version of its own."""
        assert ref.decl is not None
        bound = [binding for binding in ref.binding if binding.arg is not None]
        return self.action_of(ref.decl, bound, frame)

    def no_action(self, pos: Pos) -> ast.ActionDecl:
        """Return core.p4's NoAction."""
        for decl in self.checked.program.decls:
            if isinstance(decl, ast.ActionDecl) and decl.name == "NoAction":
                return decl
        raise CompileError.at(pos, "NoAction is not declared: include core.p4")

    def action_of(
        self, decl: ast.ActionDecl, bound: list[ast.Binding], frame: Frame
    ) -> LoweredAction:
        """Return an action as tables run it: bindings of the action list are read and written each
        time.
        """
        home = frame.home_of(decl)
        instance = home.instance if home is not None else frame.instance
        key = (id(decl), id(instance))
        found = self._actions.get(key)
        if found is not None and not bound:
            return found
        assert instance is not None
        named = {binding.param.name for binding in bound}
        given = [param for param in decl.params if param.name in named]
        inner, params = action_frame(given, decl, home)
        region = self._region_of(frame)
        code = new_action_code(region, decl.pos)
        outer = BodyLowering(self, code, frame)
        outer.run_action(bound, given, inner, decl)
        code.terminate(ir.Stop())
        name = Item(instance, decl).name
        action = LoweredAction(name, decl, params, code.entry, decl.pos)
        self.actions.append(action)
        if not bound:
            self._actions[key] = action
        return action

    def _region_of(self, frame: Frame) -> Code:
        root = frame.instance
        if root is None:
            raise AssertionError("an action outside of any control")
        while root.parent is not None:
            root = root.parent
        ingress = root is self.blocks["ingress"]
        return Code(Region.INGRESS if ingress else Region.EGRESS, ir.Block(root.decl.pos))

    # ------------------------------------------------------------ attached objects

    def attach(self, target: ExternObject, table: LoweredTable) -> None:
        """Attach a direct counter or meter to a table. One object serves one table."""
        resource = self.direct.setdefault(id(target), DirectResource(target))
        if resource.table is not None and resource.table is not table:
            raise CompileError.at(
                table.decl.pos,
                f"{target.decl.name} is attached to both {resource.table.name} and {table.name}",
            )
        resource.table = table

    def direct_meter_target(self, target: ExternObject, place: ir.Field, pos: Pos) -> None:
        """Set where a direct meter's color goes; BMv2 has one place a meter."""
        resource = self.direct.setdefault(id(target), DirectResource(target))
        if resource.result is not None and resource.result != place:
            raise CompileError.at(
                pos, f"all reads of {target.decl.name} must have the same destination"
            )
        resource.result = place

    def attach_profile(self, target: ExternObject, table: LoweredTable) -> None:
        """Attach an action profile or selector; tables that share a selector share its inputs."""
        found = self.profiles.setdefault(id(target), (target, table))
        if found[1].selector_inputs != table.selector_inputs:
            raise CompileError.at(
                table.decl.pos,
                f"tables {found[1].decl.name} and {table.decl.name} share {target.decl.name}"
                " but not its selector keys",
            )

    # ------------------------------------------------------------ calculations and lists

    def calculation(self, algorithm: str, inputs: list[ir.Expr], payload: bool, pos: Pos) -> str:
        """Register a calculation; its name."""
        count = len(self.calculations)
        name = "calc" if count == 0 else f"calc_{count - 1}"
        self.calculations.append(Calculation(name, algorithm, tuple(inputs), payload, pos))
        return name

    def learn_list(self, call: ast.Call, fields: list[ir.Expr]) -> int:
        """Register the contents of a digest; its number, from 1."""
        number = len(self.learn_lists) + 1
        name = self.digest_name(call)
        self.learn_lists.append(FieldList(number, name, tuple(fields), call.pos))
        return number

    def digest_name(self, call: ast.Call) -> str:
        """Name of a digest for the control plane: its struct's, else `digest_N`."""
        t = call.binding[1].param.type
        if isinstance(t, ty.StructLike):
            return struct_name(t)
        found = self._digest_names.get(id(call))
        if found is None:
            found = self._digest_names[id(call)] = f"digest_{len(self._digest_names)}"
            self.warn(call.pos, f'a digest of no struct gets the name "{found}"', "mismatch")
        return found

    def _declared_field_lists(self, struct: ty.Struct, meta: StructValue) -> None:
        """Collect the lists of the user metadata's `@field_list(n, ..)`, numbered as they appear.

        Fields of structs in the metadata may carry it too.
        """
        found: dict[int, list[ir.Expr]] = {}
        _tagged(struct, meta, found)
        for index, fields in found.items():
            self._list_numbers += 1
            self.field_lists.append(
                FieldList(self._list_numbers, f"field_list{index}", tuple(fields))
            )

    def field_list(self, index: int, pos: Pos) -> int:
        """Return the number of the list `@field_list(index)`.

        If none, an empty one, with a warning.
        """
        for each in self.field_lists:
            if each.name == f"field_list{index}":
                return each.number
        text = f"no user metadata fields tagged with @field_list({index})"
        self.warn(pos, text, "invalid", back_end=True)
        return self.empty_field_list(f"field_list{index}")

    def empty_field_list(self, name: str) -> int:
        """Add a list without fields and return its number."""
        self._list_numbers += 1
        taken = {each.name for each in self.field_lists}
        own, count = name, 0
        while own in taken:
            own, count = f"{name}_{count}", count + 1
        self.field_lists.append(FieldList(self._list_numbers, own, ()))
        return self._list_numbers


def _check_known(extern: ExternObject) -> None:
    """Raise where v1model has no such object; at the extern's declaration, as p4c."""
    name, decl = extern.type.name, extern.type.decl
    if name not in OBJECTS:
        raise CompileError.at(
            extern.decl.pos if decl is None else decl.pos,
            f"v1model does not have the extern {name}",
            notes=((extern.decl.pos, "instantiated here"),),
        )


def _tagged(struct: ty.Struct, value: StructValue, found: dict[int, list[ir.Expr]]) -> None:
    """Add the fields that are tagged, and those of the structs inside, to `found`, by number."""
    for f in struct.fields:
        annotation = f.decl.annotation("field_list") if f.decl is not None else None
        inner = value.fields[f.name]
        if annotation is None:
            if isinstance(inner, StructValue) and isinstance(f.type, ty.Struct):
                _tagged(f.type, inner, found)
            continue
        for index in annotation.values:
            if isinstance(index, bool) or not isinstance(index, int):
                raise CompileError.at(annotation.pos, "@field_list takes numbers")
            found.setdefault(index, []).extend(_fields_in(inner, f.decl))


def _fields_in(value: Value, decl: ast.FieldDecl | None) -> list[ir.Expr]:
    if isinstance(value, ir.Field):
        return [value]
    if isinstance(value, StructValue):
        return [leaf for v in value.fields.values() for leaf in _fields_in(v, decl)]
    raise NotSupported.at(
        decl.pos if decl is not None else Pos("", 0, 0), "@field_list on a header"
    )


def _headers_in(value: Value, pos: Pos) -> list[str]:
    """Return the names of the headers to emit for a value, in order."""
    match value:
        case HeaderPlace(name, _):
            return [name]
        case StackPlace():
            return [n for element in elements_of(value) for n in _headers_in(element, pos)]
        case UnionPlace(_, t):
            return [union_member(value, f.name).name for f in t.fields]
        case StructValue(fields):
            return [n for v in fields.values() for n in _headers_in(v, pos)]
        case _:
            raise NotSupported.at(pos, "emit of this expression")
