"""Small BMv2 JSON programs for tests, and a way to run them without a switch.

A `Tiny` is filled by calls and becomes a document with `json()`; `run` builds the generated C
together with pipelines/run_pipeline.c under ASan and UBSan and feeds it packets.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softswitch.codegen import Bmv2Program, generate_c
from softswitch.codegen.build import ABI, FLAGS, INCLUDE, SANITIZE, STRICT

Json = dict[str, Any]
HARNESS = Path(__file__).with_name("pipelines") / "run_pipeline.c"
STANDARD = [
    ["ingress_port", 9, False],
    ["egress_spec", 9, False],
    ["egress_port", 9, False],
    ["instance_type", 32, False],
    ["packet_length", 32, False],
    ["mcast_grp", 16, False],
    ["parser_error", 32, False],
    ["checksum_error", 1, False],
]
ERRORS = [
    ["NoError", 0],
    ["PacketTooShort", 1],
    ["NoMatch", 2],
    ["StackOutOfBounds", 3],
    ["HeaderTooShort", 4],
    ["ParserTimeout", 5],
    ["ParserInvalidArgument", 6],
]


def field(header: str, name: str) -> Json:
    """Return a field reference."""
    return {"type": "field", "value": [header, name]}


def const(value: int) -> Json:
    """Return an integer literal."""
    return {"type": "hexstr", "value": f"{'-' if value < 0 else ''}{abs(value):#x}"}


def op(name: str, left: Json | None, right: Json | int, **more: Json) -> Json:
    """Return an operation."""
    return {"type": "expression", "value": {"op": name, "left": left, "right": right, **more}}


def arg(expression: Json) -> Json:
    """Return an expression as a primitive's argument: p4c wraps it once more."""
    return {"type": "expression", "value": expression}


def header(name: str) -> Json:
    """Return a header reference."""
    return {"type": "header", "value": name}


def ref(kind: str, name: str) -> Json:
    """Return a reference to an object of a kind: header_stack, calculation, register_array..."""
    return {"type": kind, "value": name}


def call(name: str, *args: Json) -> Json:
    """Return a primitive call."""
    return {"op": name, "parameters": list(args)}


@dataclass(frozen=True)
class Ran:
    """What one packet left behind; see run_pipeline.c."""

    parser_error: int
    checksum_error: int
    egress_spec: int
    mcast: int
    exited: int
    parsed_len: int
    packet_length: int
    clone_session: int
    resubmit: int
    recirc: int
    learn: int
    truncate: int
    headers: bytes


class Tiny:
    """A program in the making: one parser, actions run one after the other in ingress."""

    def __init__(self) -> None:
        self.doc: Json = {
            "program": "tiny",
            "__meta__": {"version": [2, 23]},
            "header_types": [],
            "headers": [],
            "header_stacks": [],
            "header_union_types": [],
            "header_unions": [],
            "header_union_stacks": [],
            "errors": [list(e) for e in ERRORS],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": []}],
            "deparsers": [{"name": "deparser", "id": 0, "order": [], "primitives": []}],
            "register_arrays": [],
            "counter_arrays": [],
            "meter_arrays": [],
            "calculations": [],
            "checksums": [],
            "actions": [],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": None, "tables": [], "conditionals": []},
                {"name": "egress", "id": 1, "init_table": None, "tables": [], "conditionals": []},
            ],
            "field_aliases": [],
        }
        self.type("standard_t", STANDARD)
        self.header("standard_metadata", "standard_t", metadata=True)

    def type(self, name: str, fields: list[list[Any]], **more: Any) -> None:
        """Add a header type."""
        types = self.doc["header_types"]
        types.append({"name": name, "id": len(types), "fields": fields, **more})

    def header(self, name: str, of: str, *, metadata: bool = False) -> int:
        """Add a header instance; return its id."""
        headers = self.doc["headers"]
        number = len(headers)
        headers.append({"name": name, "id": number, "header_type": of, "metadata": metadata})
        return number

    def stack(self, name: str, of: str, size: int) -> None:
        """Add a header stack with its headers, all of them emitted."""
        ids = [self.header(f"{name}[{i}]", of) for i in range(size)]
        self.doc["header_stacks"].append(
            {"name": name, "id": 0, "header_type": of, "size": size, "header_ids": ids}
        )
        self.emit(*(f"{name}[{i}]" for i in range(size)))

    def union_type(self, name: str, members: list[list[str]]) -> None:
        """Add a header union type: [member, header type] each."""
        types = self.doc["header_union_types"]
        types.append({"name": name, "id": len(types), "headers": members})

    def union(self, name: str, of: str) -> int:
        """Add a header union instance with its headers `name.member`, all of them emitted."""
        members = next(t for t in self.doc["header_union_types"] if t["name"] == of)["headers"]
        ids = [self.header(f"{name}.{member}", header) for member, header in members]
        unions = self.doc["header_unions"]
        number = len(unions)
        unions.append({"name": name, "id": number, "union_type": of, "header_ids": ids})
        self.emit(*(f"{name}.{member}" for member, _ in members))
        return number

    def union_stack(self, name: str, of: str, size: int) -> None:
        """Add a stack of header unions."""
        ids = [self.union(f"{name}[{i}]", of) for i in range(size)]
        self.doc["header_union_stacks"].append(
            {"name": name, "id": 0, "union_type": of, "header_union_ids": ids}
        )

    def emit(self, *names: str) -> None:
        """Append headers to the deparser's order."""
        self.doc["deparsers"][0]["order"] += names

    def state(
        self,
        name: str,
        ops: list[Json],
        key: list[Json] | None = None,
        transitions: list[Json] | None = None,
    ) -> None:
        """Add a parse state; without transitions it is the last one."""
        states = self.doc["parsers"][0]["parse_states"]
        states.append(
            {
                "name": name,
                "id": len(states),
                "parser_ops": ops,
                "transition_key": key or [],
                "transitions": transitions or [goto(None)],
            }
        )

    def register(self, name: str, bits: int, size: int) -> None:
        """Add a register array."""
        arrays = self.doc["register_arrays"]
        arrays.append({"name": name, "id": len(arrays), "bitwidth": bits, "size": size})

    def calculation(self, name: str, algorithm: str, inputs: list[Json]) -> None:
        """Add a hash or checksum."""
        calcs = self.doc["calculations"]
        calcs.append({"name": name, "id": len(calcs), "algo": algorithm, "input": inputs})

    def action(self, name: str, *primitives: Json, pipeline: int = 0) -> None:
        """Add an action without parameters that runs after those before it."""
        actions = self.doc["actions"]
        calls = self.doc["pipelines"][pipeline].setdefault("action_calls", [])
        actions.append(
            {"name": name, "id": len(actions), "runtime_data": [], "primitives": list(primitives)}
        )
        node = f"run_{name}"
        if calls:
            calls[-1]["next_node"] = node
        else:
            self.doc["pipelines"][pipeline]["init_table"] = node
        calls.append(
            {"name": node, "id": len(calls), "action_id": len(actions) - 1, "next_node": None}
        )

    def table_action(self, name: str, widths: list[int], *primitives: Json) -> str:
        """Add an action for tables, with parameters of these widths."""
        actions = self.doc["actions"]
        params = [{"name": f"p{i}", "bitwidth": bits} for i, bits in enumerate(widths)]
        actions.append(
            {
                "name": name,
                "id": len(actions),
                "runtime_data": params,
                "primitives": list(primitives),
            }
        )
        return name

    def table(
        self,
        name: str,
        key: list[Json],
        following: dict[str, str | None],
        actions: list[str],
        default: str,
        **more: Any,
    ) -> None:
        """Add a table of ingress, the first one being where it starts.

        The default takes no data.
        """
        pipeline = self.doc["pipelines"][0]
        ids = {action["name"]: action["id"] for action in self.doc["actions"]}
        matches = [part["match_type"] for part in key]
        kind = next((m for m in ("range", "ternary", "lpm") if m in matches), "exact")
        pipeline["tables"].append(
            {
                "name": name,
                "id": len(pipeline["tables"]),
                "key": key,
                "match_type": kind,
                "type": "simple",
                "max_size": 16,
                "action_ids": [ids[action] for action in actions],
                "actions": actions,
                "next_tables": following,
                "base_default_next": None,
                "default_entry": {"action_id": ids[default], "action_data": []},
                **more,
            }
        )
        if pipeline["init_table"] is None:
            pipeline["init_table"] = name

    def json(self) -> Json:
        """Return the document."""
        return self.doc


def goto(
    target: str | None, value: str | None = None, mask: str | None = None, kind: str = ""
) -> Json:
    """Return a parser transition: default without a value."""
    kind = kind or ("default" if value is None else "hexstr")
    return {"type": kind, "value": value, "mask": mask, "next_state": target}


def extract(name: str, kind: str = "regular") -> Json:
    """Return the extract operation."""
    return {"op": "extract", "parameters": [{"type": kind, "value": name}]}


def run(
    document: Json, packets: list[bytes], work: Path, *, port: int = 1, entries: bool = False
) -> list[Ran]:
    """Build and run a document under sanitizers; one result a packet.

    Tables miss, or with `entries` hit and miss at random and run any action.
    """
    source, binary = work / "pipeline.c", work / "pipeline"
    source.write_text(generate_c(Bmv2Program.from_json(document)))
    flags = [
        flag for flag in (*FLAGS, *STRICT, *SANITIZE) if flag not in ("-shared", "-fPIC", "-O2")
    ]
    flags.append("-Wno-type-limits")  # what a test's program compares may well be constant
    command = ["gcc", *flags, "-O0", f"-I{INCLUDE}", f"-I{ABI}", str(source), str(HARNESS)]
    done = subprocess.run(
        [*command, "-o", str(binary)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]
    lines = "".join(f"{port} {packet.hex() or '-'}\n" for packet in packets)
    command = [str(binary), *(["random"] if entries else [])]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    results = []
    for line in done.stdout.splitlines():
        *numbers, headers = line.split()
        data = b"" if headers == "-" else bytes.fromhex(headers)
        results.append(Ran(*(int(n) for n in numbers), headers=data))
    assert len(results) == len(packets)
    return results
