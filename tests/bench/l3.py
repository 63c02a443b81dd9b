"""The base L3 path for benchmarks: tests/golden/l3.json, 1 000 routes, frames of several flows.

ports 1 and 2 face each other: routes 10.1.i.0/24 (and some /16 and /32) lead to port 2
"""

from __future__ import annotations

import struct
from pathlib import Path

from softswitch.codegen import Bmv2Program, build_pipeline
from softswitch.core import CoreConfig, Spec, SwitchCore

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "l3.json"
P4INFO = GOLDEN.with_name("l3.p4info.txtpb")
MAC_IN, MAC_OUT = bytes.fromhex("020000000001"), 0x020000000002
OUT_PORT = 2


def routes() -> list[tuple[int, int]]:
    """1 000 prefixes (value, length) within 10/8: 96 % /24, the rest /16 and /32."""
    prefixes = [(0x0A000000 | i << 8, 24) for i in range(256, 256 + 960)]
    prefixes += [(0x0A000000 | (100 + i) << 16, 16) for i in range(20)]
    prefixes += [(0x0A640000 | i, 32) for i in range(20)]
    return prefixes


def switch(config: CoreConfig | None = None) -> SwitchCore:
    """Return a switch with the compiled program and its routes."""
    core = SwitchCore(config or CoreConfig())
    load(core, build_pipeline(Bmv2Program.from_json(GOLDEN)))
    return core


def load(core: SwitchCore, so: Path) -> None:
    """Load a compiled l3 and fill its table."""
    descriptor = core.load(so)
    table = descriptor.table("I.route")
    forward = next(a.index for a in descriptor.actions if a.name == "I.fwd")
    spec = Spec.of_action(forward, [MAC_OUT, OUT_PORT])
    for value, length in routes():
        mask = ((1 << length) - 1) << (32 - length)
        core.table_insert(table.index, value.to_bytes(4, "big"), mask.to_bytes(4, "big"), 0, spec)


def write_routes(address: str) -> None:
    """Write the same routes over P4Runtime into a daemon that runs l3."""
    import grpc

    from softswitch import Switch
    from softswitch.p4runtime.protos import p4r

    with Switch.from_json(GOLDEN, P4INFO) as like, grpc.insecure_channel(address) as channel:
        for value, length in routes():
            parameters = {"mac": MAC_OUT, "port": OUT_PORT}
            like.table_add("I.route", {"h.ip.dst": (value, length)}, "I.fwd", parameters)
        request = p4r.WriteRequest(device_id=0)
        table_id = like.names.table("I.route").id
        for entity in like.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id))):
            request.updates.add(type=p4r.Update.INSERT, entity=entity)
        write = channel.unary_unary(
            "/p4.v1.P4Runtime/Write",
            request_serializer=p4r.WriteRequest.SerializeToString,
            response_deserializer=p4r.WriteResponse.FromString,
        )
        write(request, timeout=30)


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frames(flows: int, size: int = 64) -> list[bytes]:
    """One frame a flow, each to another route; `size` as on the wire: 4 bytes of it are the FCS."""
    every = routes()
    result = []
    for i in range(flows):
        destination = every[i * 37 % len(every)][0] | 0x5 * (every[i * 37 % len(every)][1] < 32)
        payload = bytes(size - 4 - 14 - 28)
        header = struct.pack(
            ">BBHHHBBH4sI",
            0x45,
            0,
            size - 18,
            i,
            0,
            64,
            17,
            0,
            bytes([192, 168, 0, 1]),
            destination,
        )
        header = header[:10] + _checksum(header).to_bytes(2, "big") + header[12:]
        udp = struct.pack(">HHHH", 1024 + i, 4000, 8 + len(payload), 0)
        result.append(MAC_IN + bytes.fromhex("020000000099") + b"\x08\x00" + header + udp + payload)
    return result
