"""BMv2's numbers for what P4Runtime names otherwise, kept in the switch from session to session.

An entry's handle is its place, the lowest that was free, and in the upper byte how often that place
was freed: so a handle of an entry that has gone is never that of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softswitch.diagnostics import DiagnosticsClient, DiagnosticsError
from softswitch.p4runtime.protos import p4r

PLACE_BITS = 24
_PLACE = (1 << PLACE_BITS) - 1
_VERSION = 0xFF


class Section:
    """Rows of the switch's ledger (softswitch.diagnostics_ledger), and a copy of them here.

    A switch without one (BMv2) has only the copy: it ends with the session.
    """

    def __init__(self, diagnostics: DiagnosticsClient, name: str) -> None:
        self.rows: dict[str, Any] = {}
        self._diagnostics = diagnostics
        self._name = name
        self._revision = -1
        self._is_kept = True

    def look(self) -> bool:
        """Fetch what others changed; whether there was something."""
        return self._exchange({}, (), clear=False)

    def add(self, put: Mapping[str, Any]) -> bool:
        """Set rows, unless others have changed any since: then False, and `rows` are theirs."""
        if self._exchange(put, (), clear=False, guarded=True):
            return False
        self.rows.update(put)
        return True

    def change(
        self, put: Mapping[str, Any], drop: Iterable[str] = (), *, clear: bool = False
    ) -> None:
        """Set and remove rows."""
        gone = [name for name in drop if name in self.rows]
        if clear:
            self.rows.clear()
        for name in gone:
            self.rows.pop(name, None)
        self.rows.update(put)
        if put or gone or clear:
            self._exchange(put, gone, clear=clear)

    def _exchange(
        self, put: Mapping[str, Any], drop: Iterable[str], *, clear: bool, guarded: bool = False
    ) -> bool:
        if not self._is_kept:
            return False
        try:
            self._revision, rows = self._diagnostics.ledger(
                self._name,
                put=put or None,
                drop=list(drop) or None,
                clear=clear or None,
                revision=self._revision,
                guarded=guarded or None,
            )
        except DiagnosticsError:
            self._is_kept = False
            return False
        if rows is None:
            return False
        self.rows = rows
        return True


@dataclass(slots=True)
class Place:
    """A table's place: how often it was freed, and the key of the entry that is in it, if any.

    `given` are values of LPM fields as they were written, by field id: BMv2 shows all their bits.
    """

    version: int = 0
    key: p4r.TableEntry | None = None
    given: dict[int, int] = field(default_factory=dict)


class Handles:
    """The handles of one table's entries."""

    def __init__(self, section: Section, table_id: int) -> None:
        self._section = section
        self._table_id = table_id
        self._places: list[Place] = []
        self._by_key: dict[bytes, int] = {}
        self._lowest = 0  # no place below it is free

    def look(self) -> bool:
        """Take over what other sessions numbered; whether there is anything."""
        if self._section.look():
            self._read()
        return bool(self._places)

    def meet(self, entries: Iterable[p4r.TableEntry]) -> None:
        """Make the numbers those of these entries: new ones get a place, others lose theirs."""
        changed: set[int] = set()
        there = set()
        for entry in entries:
            name = identity(entry)
            at = self._by_key.get(name)
            if at is None:
                at = self._take(entry, {})
                changed.add(at)
            there.add(at)
        for at in set(self._by_key.values()) - there:
            self._free(at)
            changed.add(at)
        self._keep(changed)

    def add(self, entries: Sequence[tuple[p4r.TableEntry, dict[int, int]]]) -> list[int]:
        """Add entries, each with its `Place.given`, and return their handles."""
        while True:
            places = [self._take(entry, given) for entry, given in entries]
            if self._section.add(self._rows(places)):
                return [self._handle(at) for at in places]
            self._read()  # another session gave out numbers meanwhile, perhaps these

    def remove(self, *handles: int) -> None:
        """Remove the handles of deleted entries."""
        places = [handle & _PLACE for handle in handles]
        for at in places:
            self._free(at)
        self._keep(places)

    def clear(self) -> None:
        """Remove all handles: all entries were deleted at once, and numbers start again."""
        self._places, self._by_key, self._lowest = [], {}, 0
        self._section.change({}, clear=True)

    def find(self, handle: int) -> Place | None:
        """Return the place of that handle with its entry, or None."""
        at, version = handle & _PLACE, handle >> PLACE_BITS
        if handle < 0 or at >= len(self._places):
            return None
        place = self._places[at]
        return place if place.key is not None and place.version == version else None

    def freed(self, handle: int) -> bool:
        """Return whether that handle's place has another entry now."""
        at = handle & _PLACE
        return 0 <= at < len(self._places) and self._places[at].key is not None

    def of(self, entry: p4r.TableEntry) -> int | None:
        """Return the handle of an entry with that key, or None."""
        at = self._by_key.get(identity(entry))
        return None if at is None else self._handle(at)

    def __iter__(self) -> Iterator[tuple[int, Place]]:
        for at, place in enumerate(self._places):
            if place.key is not None:
                yield self._handle(at), place

    def __len__(self) -> int:
        return len(self._by_key)

    def _handle(self, at: int) -> int:
        return self._places[at].version << PLACE_BITS | at

    def _take(self, entry: p4r.TableEntry, given: dict[int, int]) -> int:
        name = identity(entry)
        at = self._by_key.get(name)  # another session may have met it already
        if at is None:
            while self._lowest < len(self._places) and self._places[self._lowest].key is not None:
                self._lowest += 1
            at = self._by_key[name] = self._lowest
            if at == len(self._places):
                self._places.append(Place())
        key = p4r.TableEntry(table_id=self._table_id, match=entry.match, priority=entry.priority)
        self._places[at].key, self._places[at].given = key, given
        return at

    def _free(self, at: int) -> None:
        place = self._places[at]
        if place.key is not None:
            self._by_key.pop(identity(place.key), None)
        place.key, place.version = None, place.version + 1 & _VERSION
        self._lowest = min(self._lowest, at)

    def _keep(self, places: Iterable[int]) -> None:
        self._section.change(self._rows(places))

    def _rows(self, places: Iterable[int]) -> dict[str, Any]:
        rows = {}
        for at in places:
            place = self._places[at]
            key = None if place.key is None else place.key.SerializeToString().hex()
            rows[str(at)] = [place.version, key, {str(n): v for n, v in place.given.items()}]
        return rows

    def _read(self) -> None:
        self._places, self._by_key, self._lowest = [], {}, 0
        for name, (version, key, given) in sorted(
            self._section.rows.items(), key=lambda row: int(row[0])
        ):
            while len(self._places) < int(name):
                self._places.append(Place())
            place = Place(version, given={int(n): v for n, v in given.items()})
            if key is not None:
                place.key = p4r.TableEntry.FromString(bytes.fromhex(key))
                self._by_key[identity(place.key)] = len(self._places)
            self._places.append(place)


def identity(entry: p4r.TableEntry) -> bytes:
    """Return what identifies an entry within its table: its key and priority."""
    matches = sorted(each.SerializeToString(deterministic=True) for each in entry.match)
    return b"%d " % entry.priority + b"".join(b"%d:%s" % (len(m), m) for m in matches)


def is_same_entry(entry: p4r.TableEntry, key: p4r.TableEntry) -> bool:
    """Return whether an entry has that key: a read by a key without fields yields all entries."""
    return identity(entry) == identity(key)
