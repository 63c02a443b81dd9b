"""Puts one program's C file together; see `pipeline_abi.h` for what it must export."""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.codegen import undefined
from softswitch.codegen.cexpr import ExprGen
from softswitch.codegen.descriptors import descriptors
from softswitch.codegen.gen_actions import ActionGen
from softswitch.codegen.gen_calculations import CalculationGen
from softswitch.codegen.gen_deparser import DeparserGen
from softswitch.codegen.gen_parser import ParserGen
from softswitch.codegen.gen_pipeline import PipelineGen
from softswitch.codegen.gen_trace import TraceGen
from softswitch.codegen.json_reader import JsonError
from softswitch.codegen.layout import Layout, comment
from softswitch.codegen.model import Bmv2Program
from softswitch.codegen.pack import const_pieces, field_pieces, store


def generate_c(program: Bmv2Program, *, vary_undefined: bool = False, trace: bool = False) -> str:
    """Return the C source of a program: one translation unit, the same text for the same program.

    `vary_undefined`: fields of invalid headers hold random bits, and using an array beyond its end
    counts as a failed assertion (see `undefined`).
    `trace`: the variant that reports each step to `env->trace`; layout and tables are the same.

    Raises JsonError for what the document says but the switch can't do.
    """
    try:
        return _generate(program, vary_undefined, trace)
    except RecursionError:
        raise JsonError("document", "an expression is nested too deeply") from None


def _generate(program: Bmv2Program, vary_undefined: bool, traced: bool) -> str:
    layout = Layout(program)
    trace = TraceGen(program, enabled=traced)
    exprs = ExprGen(layout)
    calcs = CalculationGen(layout)
    outside = undefined.OUTSIDE if vary_undefined else ""
    actions = ActionGen(layout, exprs, calcs, trace, outside)
    deparser = DeparserGen(layout, exprs, actions, calcs)
    action_code = [actions.action(action) for action in program.actions]
    prologue = [undefined.CALL] if vary_undefined else []
    parser_code = ParserGen(layout, exprs, actions, trace).function(deparser.verify(), prologue)
    pipelines = PipelineGen(layout, exprs, actions, calcs, trace)
    ingress = pipelines.function(program.ingress, "ingress")
    egress = pipelines.function(program.egress, "egress")
    deparse = deparser.function()
    used = {h.type.name: h.type for h in program.headers.values() if not h.metadata}
    header_code = []
    for of in used.values():
        header_code += [actions.headers.extract_function(of), actions.headers.emit_function(of)]
    header_code += [actions.headers.equal_function(of) for of in exprs.compared.values()]
    parts = [
        f"/* Generated from the BMv2 JSON of {comment(program.name) or 'a program'}. "
        "Do not edit. */",
        '#include "pipeline_abi.h"\n#include "weft_bigint.h"\n#include "weft_bits.h"\n'
        '#include "weft_hash.h"\n#include "weft_value_set.h"',
        *(f"WPX_BIG({n})" for n in sorted(exprs.bigs)),
        trace.macro(),
        _section("packet header vector"),
        layout.declarations(),
        *header_code,
        _section("hashes and checksums"),
        *calcs.functions(),
        _section("actions"),
        *action_code,
        _section("parser"),
        undefined.scramble_function(layout) if vary_undefined else "",
        parser_code,
        _section("pipelines"),
        pipelines.endless_function(),
        ingress,
        egress,
        _section("deparser"),
        deparse,
        _section("metadata"),
        _reset(layout),
        _field_lists(program, deparser),
        _learn(program, layout),
        _section("descriptors"),
        descriptors(program, deparser.max_header_bytes(), layout.declarations()),
        trace.descriptors(layout),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str) -> str:
    return f"/* --- {title} {'-' * (88 - len(title))} */"


def _function(head: str, body: Iterable[str]) -> str:
    return "\n".join([head, "{", *("    " + line for line in body), "}"])


def _reset(layout: Layout) -> str:
    body = ["struct phv *p = (struct phv *)phv;", "memset(&p->std, 0, sizeof p->std);"]
    for header in layout.program.headers.values():
        if header.metadata and layout.has_struct(header):
            name = layout.header(header.name)
            body.append(f"memset(&{name}, 0, sizeof {name});")
    return _function("static void reset_metadata(struct wp_phv *phv)", body)


def _field_lists(program: Bmv2Program, deparser: DeparserGen) -> str:
    body = [
        "struct phv *to = (struct phv *)dst;",
        "const struct phv *from = (const struct phv *)src;",
        "(void)to, (void)from;",
        "switch (id) {",
    ]
    for fields in program.field_lists:
        copies = " ".join(deparser.copy(field, "to", "from") for field in fields.fields)
        body.append(f"case {fields.id}: {copies} break;")
    return _function(
        "static void copy_field_list(uint32_t id, struct wp_phv *dst, const struct wp_phv *src)",
        [*body, "default: break;", "}"],
    )


def _learn(program: Bmv2Program, layout: Layout) -> str:
    body = [
        "const struct phv *p = (const struct phv *)phv;",
        "(void)p, (void)out;",
        "switch (index) {",
    ]
    for learn in program.learn_lists:
        body.append(f"case {learn.index}: /* {comment(learn.name)} */")
        at = 0
        for ref in learn.fields:
            place = layout.field(ref.header, ref.field)
            size = (place.bits + 7) // 8
            pieces = field_pieces(place)
            if place.bits % 8:
                pieces = const_pieces(0, 8 - place.bits % 8) + pieces
            body += ["    " + line for line in store(pieces, f"(out + {at})")]
            at += size
        body.append("    break;")
    return _function(
        "static void learn(uint32_t index, const struct wp_phv *phv, uint8_t *out)",
        [*body, "default: break;", "}"],
    )
