"""The whole BMv2 JSON of a lowered program, in p4c's layout (JSON format 2.23)."""

from __future__ import annotations

from pathlib import Path

from compiler.bmv2 import ir
from compiler.bmv2.code import CodeWriter
from compiler.bmv2.expr import Json, condition, field_ref, value
from compiler.bmv2.layout import STANDARD_METADATA, HeaderType
from compiler.bmv2.lower_program import Calculation, FieldList, ProgramLowering
from compiler.bmv2.parser import ParserWriter
from compiler.bmv2.pipeline import ActionList, Counters, PipelineWriter
from compiler.bmv2.places import scalar_type
from compiler.bmv2.source_text import SourceText
from compiler.errors import CompileError
from compiler.syntax import ast
from compiler.types import types as ty

FORMAT_VERSION = [2, 23]
_ARCHITECTURE_FILES = {"core.p4", "v1model.p4"}


def write_program(program: ProgramLowering, source: Path) -> Json:
    """Return the JSON object of `program`, which was read from `source`."""
    text = SourceText(source)
    code = CodeWriter(text)
    actions = ActionList(code)
    counters = Counters()
    stem = "".join(c if c.isalnum() or c == "_" else "_" for c in source.stem)
    assert program.parser_entry is not None
    parser = ParserWriter(code, program.state_names).write(program.parser_entry)
    pipelines = [
        PipelineWriter(program, actions, counters, stem).write(pipeline, number)
        for number, pipeline in enumerate(program.pipelines)
    ]
    return {
        **_headers(program),
        "field_lists": [_field_list(f, text) for f in program.field_lists],
        "errors": [[m.name, m.index] for m in program.checked.errors],
        "enums": _enums(program),
        "parsers": [parser],
        "parse_vsets": [
            {"name": name, "id": i, "compressed_bitwidth": width, "max_size": size}
            for i, (name, width, size) in enumerate(program.value_sets)
        ],
        "deparsers": [
            {
                "name": "deparser",
                "id": 0,
                **text.info(program.blocks["deparser"].decl.pos),
                "order": program.deparser_order,
                "primitives": [],
            }
        ],
        **_arrays(program, text),
        "calculations": [_calculation(c, i, text) for i, c in enumerate(program.calculations)],
        "learn_lists": [_field_list(f, text) for f in program.learn_lists],
        "actions": actions.written,
        "pipelines": pipelines,
        "checksums": _checksums(program, text),
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": _aliases(program),
        "program": source.name,
        "__meta__": {"version": FORMAT_VERSION, "compiler": "weft"},
    }


# ---------------------------------------------------------------- headers


def _headers(program: ProgramLowering) -> Json:
    layout = program.layout
    scalars = layout.scalars
    pad = -sum(t.width for _, t in scalars.fields) % 8
    padded = HeaderType(scalars.name, list(scalars.fields))
    if pad:
        padded.fields.append(("_padding_0", ir.bit(pad)))
    types = [padded, *layout.types.values()]
    instances: list[Json] = [
        _instance(layout.scalars_name, 0, scalars.name, True),
        _instance(STANDARD_METADATA, 1, STANDARD_METADATA, True),
    ]
    ids: dict[str, int] = {}
    for h in layout.headers:
        ids[h.name] = len(instances)
        instances.append(_instance(h.name, len(instances), h.type_name, h.metadata))
    union_ids = {u.name: i for i, u in enumerate(layout.unions)}
    return {
        "header_types": [_header_type(t, i) for i, t in enumerate(types)],
        "headers": instances,
        "header_stacks": [
            {
                "name": s.name,
                "id": i,
                "header_type": s.type_name,
                "size": s.size,
                "header_ids": [ids[f"{s.name}[{n}]"] for n in range(s.size)],
            }
            for i, s in enumerate(s for s in layout.stacks if not s.of_unions)
        ],
        "header_union_types": [
            {"name": name, "id": i, "headers": [list(m) for m in members]}
            for i, (name, members) in enumerate(layout.union_types.items())
        ],
        "header_unions": [
            {
                "name": u.name,
                "id": i,
                "union_type": u.type_name,
                "header_ids": [ids[m] for m in u.members],
                "pi_omit": True,
            }
            for i, u in enumerate(layout.unions)
        ],
        "header_union_stacks": [
            {
                "name": s.name,
                "id": i,
                "union_type": s.type_name,
                "size": s.size,
                "header_union_ids": [union_ids[f"{s.name}[{n}]"] for n in range(s.size)],
            }
            for i, s in enumerate(s for s in layout.stacks if s.of_unions)
        ],
    }


def _instance(name: str, number: int, type_name: str, metadata: bool) -> Json:
    return {
        "name": name,
        "id": number,
        "header_type": type_name,
        "metadata": metadata,
        "pi_omit": True,
    }


def _header_type(t: HeaderType, number: int) -> Json:
    fields: list[list[object]] = []
    for name, scalar in t.fields:
        if scalar.kind is ir.Kind.VARBIT:
            fields.append([name, "*"])
        else:
            fields.append([name, scalar.width, scalar.signed])
    written: Json = {"name": t.name, "id": number, "fields": fields}
    if t.max_length is not None:
        written["max_length"] = t.max_length
    return written


def _aliases(program: ProgramLowering) -> list[list[object]]:
    """Return where BMv2 finds its own metadata: `@alias` of the architecture's fields."""
    std = program.blocks["parser"].decl.params[3].type
    assert isinstance(std, ty.Struct)
    aliases: list[list[object]] = []
    for f in std.fields:
        annotation = f.decl.annotation("alias") if f.decl is not None else None
        if annotation is not None:
            aliases.append([str(annotation.values[0]), [STANDARD_METADATA, f.name]])
    return aliases


def _enums(program: ProgramLowering) -> list[Json]:
    return [
        {"name": d.name, "entries": [[m.name, m.index] for m in d.members]}
        for d in program.checked.program.decls
        if isinstance(d, ast.EnumDecl)
        and d.base is None
        and Path(d.pos.file).name not in _ARCHITECTURE_FILES
    ]


# ---------------------------------------------------------------- lists and calculations


def _field_list(f: FieldList, text: SourceText) -> Json:
    info = text.info(f.pos) if f.pos is not None else {}
    return {"id": f.number, "name": f.name, **info, "elements": [value(e) for e in f.fields]}


def _calculation(c: Calculation, number: int, text: SourceText) -> Json:
    inputs: list[Json] = []
    for e in c.inputs:
        item = value(e)
        if isinstance(e, ir.Const):
            item["bitwidth"] = e.type.width
        inputs.append(item)
    if c.payload:
        inputs.append({"type": "payload", "value": None})
    return {
        "name": c.name,
        "id": number,
        **text.info(c.pos),
        "algo": c.algorithm,
        "input": inputs,
    }


def _checksums(program: ProgramLowering, text: SourceText) -> list[Json]:
    return [
        {
            "name": "cksum" if i == 0 else f"cksum_{i - 1}",
            "id": i,
            **text.info(c.pos),
            "target": field_ref(c.target),
            "type": "generic",
            "calculation": c.calculation,
            "verify": c.verify,
            "update": not c.verify,
            "if_cond": condition(c.condition),
        }
        for i, c in enumerate(program.checksums)
    ]


# ---------------------------------------------------------------- counters, meters, registers


def _arrays(program: ProgramLowering, text: SourceText) -> Json:
    counters: list[Json] = []
    meters: list[Json] = []
    registers: list[Json] = []
    declared = [t for p in program.pipelines for t in p.externs]
    for target in [*declared, *program.global_externs()]:
        kind = target.type.name
        common: Json = {"name": target.name, **text.info(target.decl.pos)}
        resource = program.direct.get(id(target))
        match kind:
            case "counter":
                size = program.constructor_value(target, 0).value
                counters.append({**common, "id": len(counters), "size": size, "is_direct": False})
            case "direct_counter" if resource is not None and resource.table is not None:
                counters.append(
                    {
                        **common,
                        "id": len(counters),
                        "is_direct": True,
                        "binding": resource.table.name,
                    }
                )
            case "direct_counter":
                unused = f"direct counter {target.decl.name} is not used"
                program.warn(target.decl.pos, unused, "unused", back_end=True)
            case "meter":
                meters.append(
                    {
                        **common,
                        "id": len(meters),
                        "is_direct": False,
                        "size": program.constructor_value(target, 0).value,
                        "rate_count": 2,
                        "type": _unit(program.constructor_value(target, 1)),
                    }
                )
            case "direct_meter" if resource is not None and resource.table is not None:
                if resource.result is None:
                    raise CompileError.at(
                        target.decl.pos,
                        f"direct meter {target.decl.name} is never read: BMv2 needs to know"
                        " where its color goes",
                    )
                meters.append(
                    {
                        **common,
                        "id": len(meters),
                        "is_direct": True,
                        "rate_count": 2,
                        "type": _unit(program.constructor_value(target, 0)),
                        "size": resource.table.size,
                        "binding": resource.table.name,
                        "result_target": field_ref(resource.result),
                    }
                )
            case "direct_meter":
                program.inform(target.decl.pos, f"direct meter {target.decl.name} is not used")
            case "register":
                registers.append(
                    {
                        **common,
                        "id": len(registers),
                        "size": program.constructor_value(target, 0).value,
                        "bitwidth": _register_width(target.type, target.decl),
                    }
                )
            case _:
                pass
    return {"meter_arrays": meters, "counter_arrays": counters, "register_arrays": registers}


def _unit(kind: ir.Const) -> str:
    assert kind.member is not None
    return kind.member.name


def _register_width(t: ty.Extern, decl: ast.InstanceDecl) -> int:
    cell = scalar_type(t.args[0])
    numbers = isinstance(ty.underlying(t.args[0]), ty.Bit | ty.Int | ty.Enum)
    if cell is None or not numbers or not cell.width:
        raise CompileError.at(decl.pos, f"BMv2's registers hold bit<w> or int<w>, not {t.args[0]}")
    return cell.width
