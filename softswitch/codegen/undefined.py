"""A build in which undefined values vary: what a program makes of them can then be told apart.

P4 leaves the fields of an invalid header undefined. BMv2 shows whatever an earlier packet left
there, our normal build zero. This build fills them with random bits before each packet is parsed:
output that changes with the switch's seed depends on something that the program does not define.
And it counts what uses a register, counter or meter beyond the array's end, where BMv2 may crash.
"""

from __future__ import annotations

from softswitch.codegen.layout import LIMB, Layout, Place, limbs

CALL = "scramble(ctx, p);"
OUTSIDE = 'ctx->env->log(ctx, 1, "an index is outside of its array", 0, NULL);'


def scramble_function(layout: Layout) -> str:
    """The C function that CALL calls, at the start of `parse`."""
    lines = [
        "static void scramble(const struct wp_ctx *ctx, struct phv *p)",
        "{",
        "    (void)ctx, (void)p;",
    ]
    for header in layout.program.headers.values():
        if not header.metadata:
            for field in header.type.fields:
                lines += _assignments(layout.field(header.name, field.name))
    return "\n".join([*lines, "}"])


def _assignments(place: Place) -> list[str]:
    if place.varbit:
        return []  # its length is 0: there are no bits to vary
    words = limbs(place.bits)
    lines = []
    for i in range(words):
        target = place.code if words == 1 else f"{place.code}[{i}]"
        width = min(LIMB, place.bits - LIMB * i)
        mask = f"UINT64_C({(1 << width) - 1:#x})"
        lines.append(f"    {target} = ctx->env->random(ctx->env) & {mask};")
    return lines
