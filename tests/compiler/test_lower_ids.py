"""P4Info ids, aliases and member numbers."""

from __future__ import annotations

import pytest

from compiler.errors import CompileError, Pos
from compiler.p4info.ids import ResourceType, SymbolTable, name_hash, number_members

HERE = Pos("p.p4", 3, 7)


def table_of(*symbols: tuple[ResourceType, str, int | None]) -> SymbolTable:
    symbols_table = SymbolTable()
    for kind, name, user_id in symbols:
        symbols_table.add(kind, name, user_id, HERE)
    symbols_table.assign()
    return symbols_table


@pytest.mark.parametrize(
    ("kind", "name", "number"),
    [
        (ResourceType.TABLE, "I.route", 49275211),
        (ResourceType.ACTION, "I.drop", 32117294),
        (ResourceType.ACTION, "NoAction", 21257015),
        (ResourceType.ACTION_PROFILE, "FabricIngress.balance.members", 298800137),
        (ResourceType.DIGEST, "flow_digest_t", 397109657),
        (ResourceType.CONTROLLER_HEADER, "packet_in_t", 80671331),
    ],
)
def test_ids_are_those_of_p4c(kind: ResourceType, name: str, number: int) -> None:
    assert table_of((kind, name, None)).id_of(kind, name) == number


def test_user_ids_win_with_or_without_prefix() -> None:
    symbols = table_of((ResourceType.TABLE, "c.t", 7), (ResourceType.ACTION, "c.a", 0x01000008))
    assert symbols.id_of(ResourceType.TABLE, "c.t") == 0x02000007
    assert symbols.id_of(ResourceType.ACTION, "c.a") == 0x01000008


def test_taken_ids_are_stepped_over() -> None:
    natural = name_hash("c.t") & 0xFFFFFF
    symbols = table_of((ResourceType.TABLE, "c.u", natural), (ResourceType.TABLE, "c.t", None))
    assert symbols.id_of(ResourceType.TABLE, "c.t") == 0x02000000 | (natural + 1)


@pytest.mark.parametrize("user_id", [0x03000001, -1])
def test_wrong_prefix_is_refused(user_id: int) -> None:
    with pytest.raises(CompileError, match=r"p\.p4:3:7: error: .*wrong 8-bit prefix"):
        table_of((ResourceType.TABLE, "c.t", user_id))


def test_an_id_serves_once() -> None:
    with pytest.raises(CompileError, match="more than one object"):
        table_of((ResourceType.TABLE, "c.t", 5), (ResourceType.TABLE, "c.u", 5))


def test_aliases_are_the_shortest_unique_suffixes() -> None:
    names = ["I.a.t", "I.b.t", "I.b.u", "NoAction", "x.y", "y"]
    symbols = table_of(*((ResourceType.TABLE, name, None) for name in names))
    assert [symbols.alias_of(n) for n in names] == ["a.t", "b.t", "u", "NoAction", "x.y", "y"]


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ([], []),
        ([None, None, None], [1, 2, 3]),
        ([None, 7, None], [1, 7, 2]),
        ([2, None, None], [2, 3, 4]),
        ([None, 1, None], [2, 1, 3]),
    ],
)
def test_members_are_numbered_around_user_ids(given: list[int | None], numbers: list[int]) -> None:
    assert number_members(given) == numbers
