"""Which primitives exist and what arguments they take: simple_switch's and the core ones."""

from __future__ import annotations

from enum import Enum


class Arg(Enum):
    """The kind of a primitive's argument."""

    VALUE = "an integer value"
    TARGET = "a field or register to write"
    VARBIT = "a variable-length field"
    HEADER = "a header"
    STACK = "a header stack or header union stack"
    HEADER_STACK = "a header stack"
    UNION = "a header union"
    UNION_STACK = "a header union stack"
    CALCULATION = "a calculation"
    METER = "a meter array"
    COUNTER = "a counter array"
    REGISTER = "a register array"
    TEXT = "a string"
    VECTOR = "a vector of values"
    CONDITION = "a condition"


_BINARY = (Arg.TARGET, Arg.VALUE, Arg.VALUE)

SIGNATURES: dict[str, tuple[Arg, ...]] = {
    # core primitives
    "assign": (Arg.TARGET, Arg.VALUE),
    "assign_VL": (Arg.VARBIT, Arg.VARBIT),
    "assign_header": (Arg.HEADER, Arg.HEADER),
    "assign_union": (Arg.UNION, Arg.UNION),
    "assign_header_stack": (Arg.HEADER_STACK, Arg.HEADER_STACK),
    "assign_union_stack": (Arg.UNION_STACK, Arg.UNION_STACK),
    "push": (Arg.STACK, Arg.VALUE),
    "pop": (Arg.STACK, Arg.VALUE),
    "_jump": (Arg.VALUE,),
    "_jump_if_zero": (Arg.VALUE, Arg.VALUE),
    "exit": (),
    "assert": (Arg.CONDITION,),
    "assume": (Arg.CONDITION,),
    "log_msg": (Arg.TEXT, Arg.VECTOR),
    # simple_switch
    "modify_field": (Arg.TARGET, Arg.VALUE),
    "modify_field_rng_uniform": (Arg.TARGET, Arg.VALUE, Arg.VALUE),
    "modify_field_with_hash_based_offset": (Arg.TARGET, Arg.VALUE, Arg.CALCULATION, Arg.VALUE),
    "add_to_field": (Arg.TARGET, Arg.VALUE),
    "subtract_from_field": (Arg.TARGET, Arg.VALUE),
    "add": _BINARY,
    "subtract": _BINARY,
    "bit_xor": _BINARY,
    "bit_or": _BINARY,
    "bit_and": _BINARY,
    "shift_left": _BINARY,
    "shift_right": _BINARY,
    "drop": (),
    "mark_to_drop": (Arg.HEADER,),
    "generate_digest": (Arg.VALUE, Arg.VALUE),
    "add_header": (Arg.HEADER,),
    "add_header_fast": (Arg.HEADER,),
    "remove_header": (Arg.HEADER,),
    "copy_header": (Arg.HEADER, Arg.HEADER),
    "clone_ingress_pkt_to_egress": (Arg.VALUE, Arg.VALUE),
    "clone_egress_pkt_to_egress": (Arg.VALUE, Arg.VALUE),
    "resubmit": (Arg.VALUE,),
    "recirculate": (Arg.VALUE,),
    "no_op": (),
    "execute_meter": (Arg.METER, Arg.VALUE, Arg.TARGET),
    "count": (Arg.COUNTER, Arg.VALUE),
    "register_read": (Arg.TARGET, Arg.REGISTER, Arg.VALUE),
    "register_write": (Arg.REGISTER, Arg.VALUE, Arg.VALUE),
    "truncate": (Arg.VALUE,),
}

# BMv2's algorithms that keep no state between packets.
HASHES = frozenset(
    {
        "crc16",
        "crc32",
        "crcCCITT",
        "crc8_custom",
        "crc16_custom",
        "crc32_custom",
        "crc64_custom",
        "csum16",
        "cksum16",
        "xxh64",
        "identity",
        "xor16",
        "xor32",
        "toeplitz",
    }
)
