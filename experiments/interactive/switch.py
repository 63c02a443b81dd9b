"""A switch in this process: a program, entries by name, packets in and out, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.interactive import html
from experiments.interactive.errors import WeftError, plainly
from experiments.interactive.program import Program, compile

if TYPE_CHECKING:
    import softswitch
    from softswitch.p4runtime.names import MatchValue, Value

_LAST_PORT = 511  # v1model's ports have 9 bits

_IDLE_NS = 10**9
"""How long a packet may be on its way: a second of the switch's time."""


@dataclass(frozen=True)
class Sent:
    """A packet that left the switch at `port`; `at_ns` is the switch's time."""

    port: int
    data: bytes
    at_ns: int

    @cached_property
    def packet(self) -> Any:
        """The packet as scapy reads it, from Ethernet on."""
        # Here, so that using one name of `weft` does not load what the others need.
        from scapy.layers.l2 import Ether

        import protocols.rocev2  # noqa: F401 - it binds the layers of RoCEv2

        return Ether(self.data)

    def __repr__(self) -> str:
        return f"port {self.port}: {self.packet.summary()} ({len(self.data)} B)"


class Trace(str):
    """What happened to packets, as text that shows itself as it is."""

    def __repr__(self) -> str:
        return str(self)


class Switch:
    """A switch that runs a program; time passes when a packet is sent.

    `inner` is the `softswitch.Switch` below, which can do more: P4Runtime's messages, packet-outs,
    rates of ports, ports that go down, time by the nanosecond.
    """

    @plainly
    def __init__(self, program: Program | str | Path, **options: int) -> None:
        """`program`: compiled, or what `compile` takes.

        `options`: cpu_port=255, drop_port, priorities (queues a port), queue_packets, tick_ps (unit
        of timestamps), depth_cell_bytes, seed. Raises CompileError, WeftError.
        """
        # Here, so that using one name of `weft` does not load what the others need.
        import softswitch
        from softswitch.core import CoreConfig
        from softswitch.p4runtime.pipeline import parse_p4info

        known = CoreConfig.__dataclass_fields__
        for name in options:
            if name not in known:
                raise WeftError(f"no option {name!r} of a switch: there is {', '.join(known)}")
        self.program = program if isinstance(program, Program) else compile(program)
        made = self.program.compiled
        self.inner: softswitch.Switch = softswitch.Switch(CoreConfig(**options))
        p4info = parse_p4info(made.p4info_text.encode(), self.program.name)
        self.inner.set_pipeline(p4info, made.device_config)

    # --- entries ------------------------------------------------------------------------------

    @plainly
    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str | None = None,
        params: Mapping[str, Value] | None = None,
        *,
        priority: int = 0,
    ) -> None:
        """Insert an entry by names.

            sw.insert("ipv4_lpm", {"hdr.ipv4.dstAddr": ("10.0.1.0", 24)}, "forward", {"port": 2})

        Values are numbers, "10.0.0.1" or "02:00:00:00:00:01"; a match is a value, (value, prefix
        length), (value, mask) or (low, high), by the field's kind. Ternary, range and optional
        fields need a `priority`. Raises WeftError for an unknown name, which says the closest one,
        and for an entry that the switch refuses.
        """
        _one(lambda: self.inner.table_add(table, match, action, params, priority=priority))

    @plainly
    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        """Delete the entry with this match. Raises WeftError."""
        _one(lambda: self.inner.table_delete(table, match, priority=priority))

    @plainly
    def default(self, table: str, action: str, params: Mapping[str, Value] | None = None) -> None:
        """Set a table's default action. Raises WeftError."""
        _one(lambda: self.inner.table_default(table, action, params))

    @plainly
    def entries(self) -> list[tuple[str, str, str, int]]:
        """Return all entries: table, key, action and priority (0: none)."""
        # Here, so that using one name of `weft` does not load what the others need.
        from controller.entries import decode
        from controller.table_rows import table_rows
        from softswitch.p4runtime.protos import p4r

        info = self.program.compiled.p4info
        found = self.inner.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=0)))
        decoded = (decode(each, info) for each in found)
        rows = table_rows((each for each in decoded if each is not None), info)
        return [(row.table, row.key, row.action, row.priority) for row in rows]

    # --- packets ------------------------------------------------------------------------------

    @plainly
    def send(self, packet: Any, port: int = 1) -> list[Sent]:
        """Send a packet (bytes, or scapy's) into a port; return what leaves, in order of time.

        Packets for the controller and digests are in `inner.packet_ins` and `inner.digests`.
        """
        self.inner.inject(_port(port), _bytes(packet))
        return [Sent(each.port, each.packet, each.at_ns) for each in self._until_idle()]

    @plainly
    def trace(self, packet: Any, port: int = 1) -> Trace:
        """Send a packet and return what happened to it: parser, tables, changes, queue, end."""
        # Here, so that using one name of `weft` does not load what the others need.
        from softswitch.tracing.text import render

        before = {trace.number for trace in self.inner.traced}
        with self.inner.trace():
            self.inner.inject(_port(port), _bytes(packet))
            self._until_idle()
        new = [trace for trace in self.inner.traced if trace.number not in before]
        return Trace("\n\n".join(render(trace) for trace in new))

    def _until_idle(self) -> list[softswitch.Output]:
        """Let time pass until nothing is on its way."""
        inner = self.inner
        found = inner.run_until(inner.now_ns)
        end_ns = inner.now_ns + _IDLE_NS
        while (at_ps := inner.core.next_event()) is not None:
            at_ns = -(-at_ps // 1000)
            if at_ns > end_ns:
                break
            found += inner.run_until(max(at_ns, inner.now_ns))
        return found

    # --- state --------------------------------------------------------------------------------

    @plainly
    def counter(self, name: str, index: int) -> tuple[int, int]:
        """Return packets and bytes of one cell of a counter array. Raises WeftError."""
        return self.inner.counter_read(name, index)

    @plainly
    def register(self, name: str, index: int) -> int:
        """Return one cell of a register array. Raises WeftError."""
        return self.inner.register_read(name, index)

    @plainly
    def set_register(self, name: str, index: int, value: int) -> None:
        """Set one cell of a register array. Raises WeftError."""
        self.inner.register_write(name, index, value)

    def __repr__(self) -> str:
        rows = [("table", "key", "action"), *self._rows()]
        return html.text(rows, title=f"switch with {self.program.name}")

    def _repr_html_(self) -> str:
        columns = ("table", "key", "action")
        return html.table(columns, self._rows(), title=f"switch with {self.program.name}")

    def _rows(self) -> list[tuple[str, str, str]]:
        entries = self.entries()
        empty = [name for name in self.program.tables if all(name != each[0] for each in entries)]
        return [*(each[:3] for each in entries), *((name, "no entries", "") for name in empty)]


def _one(write: Callable[[], None]) -> None:
    """Write one entry; its error needs no number. Raises WeftError."""
    # Here, so that using one name of `weft` does not load what the others need.
    from softswitch.p4runtime.status import WriteError

    try:
        write()
    except WriteError as error:
        raise WeftError("; ".join(map(str, error.statuses))) from None


def _port(port: int) -> int:
    if not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise WeftError(f"port {port!r}: a number from 0 to {_LAST_PORT}")
    return port


def _bytes(packet: Any) -> bytes:
    if isinstance(packet, str | int) or packet is None:
        raise WeftError(f"{packet!r} is no packet: give bytes, or one of scapy's")
    return bytes(packet)
