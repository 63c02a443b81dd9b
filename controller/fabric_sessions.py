"""Sessions with all switches of a fabric: what is read over them, and who is primary of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controller.entries import Entry, decode
from controller.entry_files import OwnEntries
from controller.errors import ControllerError, SeveralFailures, UnknownName
from controller.primacy import AT_REST, Standing
from controller.session import PacketHandler, SwitchSession
from controller.table_rows import TableRow, table_rows
from softswitch.p4runtime.protos import p4r
from topologies.model import Topology

T = TypeVar("T")


@dataclass(frozen=True)
class PortCounters:
    """What one port received and sent."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int


class FabricSessions:
    """All calls in one event loop. Nothing here writes to a switch."""

    def __init__(
        self,
        topology: Topology,
        sessions: Mapping[str, SwitchSession],
        own: Mapping[str, OwnEntries],
    ) -> None:
        """`own`: switches that nothing is planned for, and what each is given once."""
        self.topology = topology
        self.sessions = sessions
        self.own = dict(own)

    async def read_port_counters(self) -> dict[str, dict[int, PortCounters]]:
        """Return the counters of every port that has a link, by switch and port.

        Switches that run another program than the fabric's are left out.
        """
        return await self._on_all(self._port_counters, only=self.sessions.keys() - self.own.keys())

    async def _port_counters(self, session: SwitchSession) -> dict[int, PortCounters]:
        ports = [port.number for port in self.topology.ports_of(session.name)]
        rx = await self._counter(session, "port_rx", ports)
        tx = await self._counter(session, "port_tx", ports)
        return {port: PortCounters(*rx[port], *tx[port]) for port in ports}

    async def read_counter(self, switch: str, counter: str) -> dict[int, tuple[int, int]]:
        """Return the cells of a counter that aren't zero: index -> (packets, bytes)."""
        session = self._session(switch)
        known = session.p4info.counters[counter]
        entity = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=known.id))
        cells = {
            found.counter_entry.index.index: _data(found.counter_entry)
            for found in await session.read([entity])
        }
        return {index: data for index, data in sorted(cells.items()) if any(data)}

    async def read_register(
        self, switch: str, register: str, index: int | None = None
    ) -> dict[int, int]:
        """Return a register array's cells, or one of them: index -> value.

        Raises UnknownName; ReadFailed for an index beyond the array, and from BMv2, which can't.
        """
        session = self._session(switch)
        entry = p4r.RegisterEntry(register_id=session.p4info.registers[register].id)
        if index is not None:
            entry.index.index = index
        found = await session.read([p4r.Entity(register_entry=entry)])
        cells = (each.register_entry for each in found)
        return {cell.index.index: int.from_bytes(cell.data.bitstring, "big") for cell in cells}

    async def read_cells(
        self, counter: str, cells: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, int]]:
        """Return packets counted in cells of one counter: by switch, by index."""
        found: dict[str, dict[int, int]] = {}
        for switch, indexes in cells.items():
            read = await self._counter(self._session(switch), counter, list(indexes))
            found[switch] = {index: data[0] for index, data in read.items()}
        return found

    def has(self, switch: str, *, table: str = "", counter: str = "") -> bool:
        """Say whether a switch's program has a table and a counter."""
        known = self._session(switch).p4info
        return (not table or table in known.tables) and (not counter or counter in known.counters)

    async def _counter(
        self, session: SwitchSession, name: str, indexes: list[int]
    ) -> dict[int, tuple[int, int]]:
        number = session.p4info.counters[name].id
        entities = [
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=number, index=p4r.Index(index=i)))
            for i in indexes
        ]
        found = (entity.counter_entry for entity in await session.read(entities))
        return {entry.index.index: _data(entry) for entry in found}

    async def read_table(self, switch: str, table: str | None = None) -> list[TableRow]:
        """Return a table's entries (or all tables') with names, ready to print."""
        session = self._session(switch)
        entries = await session.read_entries(table)
        return table_rows(entries, session.p4info)

    async def read_entries(self, switch: str, table: str | None = None) -> tuple[Entry, ...]:
        """Return everything that a switch holds, in one table or in all."""
        return await self._session(switch).read_entries(table)

    async def read_hits(self, switch: str, table: str) -> tuple[tuple[Entry, int, int], ...]:
        """Return a table's entries, each with the packets and bytes that it counted itself."""
        session = self._session(switch)
        number = session.p4info.tables[table].id
        query = p4r.TableEntry(table_id=number, counter_data=p4r.CounterData())
        found = [each.table_entry for each in await session.read([p4r.Entity(table_entry=query)])]
        hits = (each.counter_data for each in found)
        entries = (decode(p4r.Entity(table_entry=each), session.p4info) for each in found)
        return tuple(
            (entry, count.packet_count, count.byte_count)
            for entry, count in zip(entries, hits, strict=True)
            if entry is not None
        )

    def on_packet(self, handler: PacketHandler) -> Callable[[], None]:
        """Call `handler` for each packet-in of any switch. Returns what takes it off again."""
        undo = [session.on_packet(handler) for session in self.sessions.values()]

        def take_off() -> None:
            for each in undo:
                each()

        return take_off

    # ---------------------------------------------------------------- who is primary

    def next_election_ids(self) -> dict[str, int]:
        """Return with what a controller that follows this one is primary in its place, or rests.

        It is not enough to take a switch from another controller that has it now.
        """
        return {
            name: AT_REST if session.yields else session.election_id + 1
            for name, session in self.sessions.items()
        }

    def lendable_id(self, switch: str) -> int:
        """Return another client's election id as a switch's primary. Raises NotPrimary."""
        session = self._session(switch)
        if session.standing is Standing.BACKUP:
            raise session.not_primary()
        return session.claimable_election_id if session.yields else session.election_id + 1

    def check_writable(self, switches: Collection[str]) -> None:
        """Raise NotPrimary while another controller is primary of one of these switches."""
        sessions = (self._session(name) for name in switches)
        held = [each.not_primary() for each in sessions if each.standing is Standing.BACKUP]
        if held:
            raise held[0] if len(held) == 1 else SeveralFailures(held)

    def check_beatable(self, election_ids: Mapping[str, int]) -> None:
        """Raise NotPrimary if these ids, by switch, do not take all switches from their present
        primary.
        """
        held = [
            session.not_primary()
            for name, session in self.sessions.items()
            if session.standing is Standing.BACKUP
            and session.highest_election_id >= election_ids[name] != AT_REST
        ]
        if held:
            raise held[0] if len(held) == 1 else SeveralFailures(held)

    # ---------------------------------------------------------------- one, and all at once

    def _session(self, switch: str) -> SwitchSession:
        if switch not in self.sessions:
            raise UnknownName(f"no switch {switch!r}; available: {', '.join(self.sessions)}")
        return self.sessions[switch]

    async def _on_all(
        self,
        work: Callable[[SwitchSession], Coroutine[Any, Any, T]],
        only: Collection[str] | None = None,
    ) -> dict[str, T]:
        """Do something on all switches at once. If several fail, the error has all their reasons.

        `only`: on these alone.
        """
        names = [name for name in self.sessions if only is None or name in only]
        results = await asyncio.gather(
            *(work(self.sessions[name]) for name in names), return_exceptions=True
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, ControllerError):
                raise failure
        told = [failure for failure in failures if isinstance(failure, ControllerError)]
        if len(told) == 1:
            raise told[0]
        if told:
            raise SeveralFailures(told)
        return {
            name: result
            for name, result in zip(names, results, strict=True)
            if not isinstance(result, BaseException)
        }


def _data(entry: p4r.CounterEntry) -> tuple[int, int]:
    return entry.data.packet_count, entry.data.byte_count
