"""The traced variant of a program: calls of `env->trace` between the same statements, and where
each field lies in the PHV, so that a reader of the PHV's bytes can name what changed.

Objects have the same numbers in a trace as here: states, conditionals and fields by their place in
`states`, `conditionals` and `fields`; tables, actions and arrays by their `index`.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.expressions import VALID_FIELD
from softswitch.codegen.layout import Layout, Place
from softswitch.codegen.model import Bmv2Program, Conditional, Field, Header, ParseState

_MACRO = (
    "#define WPX_TRACE(...) \\\n"
    "    ctx->env->trace(ctx, (const struct wp_phv *)p, "
    "&(const struct wp_trace_step){__VA_ARGS__})"
)


def states(program: Bmv2Program) -> list[ParseState]:
    """Return the parser states in the order in which traces number them."""
    return list(program.parser.states.values())


def conditionals(program: Bmv2Program) -> list[Conditional]:
    """Return the conditionals in the order in which traces number them."""
    nodes = [*program.ingress.nodes.values(), *program.egress.nodes.values()]
    return [node for node in nodes if isinstance(node, Conditional)]


def fields(program: Bmv2Program) -> Iterator[tuple[Header, Field]]:
    """Yield the fields in the order of the traced variant's descriptors.

    A header's validity comes first.
    """
    for header in program.headers.values():
        if not header.metadata:
            yield header, Field(VALID_FIELD, 1)
        for field in header.type.fields:
            yield header, field


class TraceGen:
    """Statements that report steps; none at all in the normal variant."""

    def __init__(self, program: Bmv2Program, *, enabled: bool) -> None:
        self.enabled = enabled
        self._states = {state.name: i for i, state in enumerate(states(program))}
        self._conditionals = {node.name: i for i, node in enumerate(conditionals(program))}

    def _step(self, kind: str, number: int, rest: str = "") -> list[str]:
        if not self.enabled:
            return []
        return [f"WPX_TRACE(.kind = WP_TRACE_{kind}, .object = {number}{rest});"]

    def macro(self) -> str:
        """Return the macro that the trace statements need, or "" without tracing."""
        return _MACRO if self.enabled else ""

    def state(self, name: str) -> list[str]:
        """Return the code that records entering a parser state."""
        return self._step("STATE", self._states[name])

    def condition(self, name: str, condition: str) -> tuple[list[str], str]:
        """Return the statements before a conditional, and the condition to branch on."""
        if not self.enabled:
            return [], condition
        return [
            f"const int taken = ({condition}) != 0;",
            *self._step("CONDITION", self._conditionals[name], ", .value = (uint64_t)taken"),
        ], "taken"

    def table(self, index: int, run: str) -> list[str]:
        """Return the code that records a table lookup; `run` names the entry whose action runs."""
        return self._step("TABLE", index, f", .key = key, .entry = e, .run = {run}")

    def action(self, index: int) -> list[str]:
        """Return the code that records that an action is done."""
        return self._step("ACTION", index)

    def cell(self, kind: str, number: int, index: str, value: str = "0") -> list[str]:
        """Return the code that records a use of an array's cell.

        `kind` is REGISTER_READ, REGISTER_WRITE, COUNT or METER.
        """
        return self._step(kind, number, f", .index = {index}, .value = {value}")

    def descriptors(self, layout: Layout) -> str:
        """Return `weft_trace`, which says where the fields are."""
        if not self.enabled:
            return ""
        rows = [_row(layout.field(h.name, f.name), f) for h, f in fields(layout.program)]
        body = ",\n    ".join(rows or ["{0}"])
        return (
            f"static const struct wp_trace_field trace_fields[] = {{\n    {body},\n}};\n\n"
            "const struct wp_trace weft_trace = {\n"
            f"    .n_fields = {len(rows)},\n    .fields = trace_fields,\n}};"
        )


def _row(place: Place, field: Field) -> str:
    at = f"offsetof(struct phv, {place.code.removeprefix('p->')})"
    if place.varbit:
        length = f"offsetof(struct phv, {place.length.removeprefix('p->')})"
        return f"{{{at}, {place.bound}, 0, {length}}}"
    if field.name == VALID_FIELD:
        return f"{{{at}, 1, 1, 0}}"
    size = f"sizeof(((struct phv *)0)->{place.code.removeprefix('p->')})"
    return f"{{{at}, {size}, {place.bits}, 0}}"
