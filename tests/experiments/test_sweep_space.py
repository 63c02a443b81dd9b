"""Where a sweep looks: ranges, grids, draws."""

from __future__ import annotations

import re

import pytest

from experiments.sweep_space import Draw, Span, draw, grid, parse_path

HYPERCUBE = Draw(points=16, seed=3, stratified=True)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"from": 1, "to": 5, "steps": 3}, [1, 3, 5]),
        ({"from": 1, "to": 3, "steps": 9}, [1, 2, 3]),  # no value twice
        ({"from": 0.0, "to": 1, "steps": 5}, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"from": "1us", "to": "3us", "steps": 3}, ["1us", "2us", "3us"]),
        ({"from": "64kB", "to": "1MB", "steps": 2}, ["64kB", "1MB"]),
        ({"from": "100km", "to": "300km", "steps": 3}, ["100km", "200km", "300km"]),
        (
            {"from": "10Mbps", "to": "10Gbps", "steps": 4, "scale": "log"},
            ["10Mbps", "100Mbps", "1Gbps", "10Gbps"],
        ),
        (
            {"from": 0.001, "to": 0.01, "steps": 3, "scale": "log"},
            [0.001, 0.003162, 0.01],
        ),  # 10^-2.5, to four digits
    ],
)
def test_a_range_has_its_ends_and_even_steps(
    given: dict[str, object], values: list[object]
) -> None:
    assert Span.of(given).values() == values


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"from": 1}, "two ends"),
        ({"from": 1, "to": 2, "step": 3}, "unknown key 'step'"),
        ({"from": 2, "to": 1}, "goes up"),
        ({"from": 0, "to": 1, "scale": "log"}, "above 0"),
        ({"from": 1, "to": 2, "scale": "square"}, "linear or log"),
        ({"from": 1, "to": 2, "steps": 1}, "from 2"),
        ({"from": "1us", "to": "1MB"}, "no range"),
        ({"from": "1us", "to": 5}, "no range"),
        ({"from": True, "to": 5}, "no range"),
    ],
)
def test_what_is_no_range(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Span.of(given)


def test_a_grid_has_every_combination_the_last_changing_fastest() -> None:
    points = grid({"a": [1, 2], "b": Span.of({"from": 0, "to": 10, "steps": 2}), "c": ["x"]})
    assert points == [
        {"a": 1, "b": 0, "c": "x"},
        {"a": 1, "b": 10, "c": "x"},
        {"a": 2, "b": 0, "c": "x"},
        {"a": 2, "b": 10, "c": "x"},
    ]
    assert grid({}) == [{}]


def test_a_hypercube_uses_every_part_of_every_range_once() -> None:
    vary = {
        "linear": Span.of({"from": 0.0, "to": 16.0}),
        "log": Span.of({"from": 1.0, "to": 65536.0, "scale": "log"}),
        "choice": ["a", "b", "c", "d"],
    }
    points = draw(vary, HYPERCUBE)
    assert sorted(int(point["linear"]) for point in points) == list(range(16))
    assert sorted(len(bin(int(point["log"]))) - 3 for point in points) == list(range(16))
    assert sorted(point["choice"] for point in points) == [c for c in "abcd" for _ in range(4)]
    assert [point["linear"] for point in points] != sorted(point["linear"] for point in points)


@pytest.mark.parametrize("stratified", [True, False])
def test_the_seed_decides_what_is_drawn(stratified: bool) -> None:
    vary = {"t": Span.of({"from": "1us", "to": "1ms", "scale": "log"})}
    first = draw(vary, Draw(20, 1, stratified))
    assert first == draw(vary, Draw(20, 1, stratified))
    assert first != draw(vary, Draw(20, 2, stratified))


def test_what_is_drawn_does_not_hang_on_the_other_parameters() -> None:
    span = Span.of({"from": 0.0, "to": 1.0})
    alone, both = draw({"a": span}, HYPERCUBE), draw({"b": span, "a": span}, HYPERCUBE)
    assert [point["a"] for point in alone] == [point["a"] for point in both]
    assert [point["a"] for point in both] != [point["b"] for point in both]


def test_these_points_are_drawn_on_every_machine() -> None:
    vary = {"gain": Span.of({"from": 0.001, "to": 1.0, "scale": "log"}), "n": [2, 4, 8]}
    assert draw(vary, Draw(3, 7, stratified=True)) == [
        {"gain": 0.001999, "n": 4},
        {"gain": 0.842, "n": 2},
        {"gain": 0.03172, "n": 8},
    ]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("transport.overrides.gain", "transport.overrides.gain"),
        ("traffic[0].incast.to", "traffic.0.incast.to"),
        ("traffic.0.incast.from[2]", "traffic.0.incast.from.2"),
    ],
)
def test_paths_have_dots(text: str, path: str) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a..b", "a."])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        parse_path(text)
