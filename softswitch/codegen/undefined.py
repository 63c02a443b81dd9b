"""A build in which undefined values vary: what a program makes of them then shows.

P4 leaves the fields of an invalid header undefined, and variables that nothing was assigned to.
Of headers BMv2 shows whatever an earlier packet left there, our normal build zero; of variables
both show zero, or what a compiler left in the same place. This build fills them with random bits
before each packet is parsed: output that changes with the switch's seed depends on something that
the program does not define. Some get all bits 0 or 1, or the number 1, as what earlier packets
leave often is: a program that compares such a field with 1 would seldom meet a random one.
User metadata stays zero: that is what BMv2 promises.
And it counts what uses a register, counter or meter beyond the array's end, where BMv2 may crash.
"""

from __future__ import annotations

from softswitch.codegen.layout import LIMB, Layout, Place, limbs

CALL = "scramble(ctx, p);"
OUTSIDE = 'ctx->env->log(ctx, 1, "an index is outside of its array", 0, NULL);'


def scramble_function(layout: Layout) -> str:
    """Return the C function that CALL calls at the start of `parse`."""
    lines = [
        "static uint64_t junk(const struct wp_ctx *ctx, uint64_t mask)",
        "{",
        "    switch (ctx->env->random(ctx->env) & 7) {",
        "    case 0: return 0;",
        "    case 1: return 1;",
        "    case 2: return mask;",
        "    default: return ctx->env->random(ctx->env) & mask;",
        "    }",
        "}",
        "",
        "static void scramble(const struct wp_ctx *ctx, struct phv *p)",
        "{",
        "    (void)ctx, (void)p, (void)junk;",
    ]
    standard = {header for header, _ in layout.program.std_fields}
    for header in layout.program.headers.values():
        if header.name in standard:
            continue
        for field in header.type.fields:
            # Compilers name a field of user metadata STRUCT.FIELD, and a variable without a dot.
            if not header.metadata or "." not in field.name:
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
        lines.append(f"    {target} = junk(ctx, {mask});")
    return lines
