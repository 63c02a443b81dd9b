"""The house stays as it is: no mechanism named outside its room, and no room too large to read."""

from __future__ import annotations

import pytest

from tests.mechanisms import house

LARGEST_ROOM = 30_000  # lines of Python, C and P4
COMMAND_LINE = 10_800


@pytest.mark.parametrize("mechanism", house.NAMES)
def test_no_product_file_outside_room_and_lists_names_a_mechanism(mechanism: str) -> None:
    assert house.strangers(mechanism) == {}


def test_lists_are_few_and_name_every_mechanism_once() -> None:
    from mechanisms.registry import mechanisms  # the registry loads every mechanism

    senders = {each.name for each in mechanisms() if each.sender is not None}
    assert len(house.LISTS) <= 4
    for path in house.LISTS[:3]:
        lines = (house.ROOT / path).read_text().splitlines()
        code = [line for line in lines if not line.lstrip().startswith(("//", "*", "/*", "#:"))]
        for mechanism in house.NAMES:
            if path.endswith("cc_algorithms.h") and mechanism not in senders:
                continue
            if path.endswith("mechanisms.p4") and not has_module(mechanism):
                continue
            named = [line for line in code if f'"{mechanism}' in line or f"/{mechanism}." in line]
            assert len(named) == 1, (path, mechanism, named)


def has_module(mechanism: str) -> bool:
    return (house.ROOT / "p4src" / "modules" / f"{mechanism}.p4").exists()


def test_names_cover_the_registry() -> None:
    from mechanisms.registry import NAMES  # the registry loads every mechanism

    assert set(NAMES) == set(house.NAMES)


def test_rooms_are_of_a_size_to_be_read() -> None:
    lines = house.room_lines()
    assert max(lines.values()) <= LARGEST_ROOM
    assert lines["weft"] <= COMMAND_LINE
