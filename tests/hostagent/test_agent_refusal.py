"""A verifier's log, shortened to what its reader needs."""

from __future__ import annotations

import pytest

from hostagent.agent import refusal

BOUNDS = """\
bpf: Failed to load program: Permission denied
; int roce_xdp(struct xdp_md *context)
0: (bf) r6 = r1
; void *data = (void *)(long)context->data;
1: (61) r1 = *(u32 *)(r6 +0)          ; R1_w=pkt(off=0,r=0,imm=0) R6_w=ctx(off=0,imm=0)
; return *(unsigned char *)data;
2: (71) r0 = *(u8 *)(r1 +40)
invalid access to packet, off=40 size=1, R1(id=0,off=40,r=0)
R1 offset is outside of the packet
processed 3 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
"""
NO_SOURCE = """\
0: (18) r1 = 0x0
2: (79) r0 = *(u64 *)(r2 +0)
R2 !read_ok
processed 2 insns (limit 1000000) max_states_per_insn 0
"""
TOO_LARGE = """\
; for (;;)
100: (05) goto pc-1
BPF program is too large. Processed 1000001 insn
processed 1000001 insns (limit 1000000) max_states_per_insn 4
"""

LOOP = """\
; while (n) n += 3; @ main.c:21
10: (55) if r1 != 0x0 goto pc-5 infinite loop detected at insn 6
cur state: R1=scalar(smin=1) R10=fp0 fp-8=mmmm????
old state: R1=scalar(smin=1) R10=fp0 fp-8=mmmm????
processed 26 insns (limit 1000000) max_states_per_insn 0 total_states 2 peak_states 2 mark_read 0
"""

FOLLOWED_TOO_LONG = """\
bpf: Argument list too long. Program  too large (843 insns), at most 4096 insns

"""
TOO_LONG = """\
bpf: Argument list too long. Program  too large (4097 insns), at most 4096 insns

"""


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (BOUNDS, ["invalid access to packet, off=40", "2: (71)", "return *(unsigned char *)data;"]),
        (NO_SOURCE, ["R2 !read_ok", "2: (79) r0 = *(u64 *)(r2 +0)"]),
        (
            LOOP,
            [
                "infinite loop detected at insn 6 (at instruction 10: (55) if r1 != 0x0 goto pc-5,",
                "for the source line `while (n) n += 3;`)",
            ],
        ),
        (FOLLOWED_TOO_LONG, ["too complex for the kernel's verifier: 843 instructions"]),
        (TOO_LONG, ["Program  too large (4097 insns), at most 4096 insns"]),
        (TOO_LARGE, ["BPF program is too large. Processed 1000001 insn"]),
        ("bpf: Failed to load program: Operation not permitted\n\n", ["no reason given"]),
        ("", ["no reason given"]),
    ],
)
def test_the_reason_the_instruction_and_its_source(log: str, says: list[str]) -> None:
    told = refusal(log)
    assert [part for part in says if part not in told] == []
    assert "\n" not in told
    assert len(told) < 300
    assert "processed 3 insns" not in told
