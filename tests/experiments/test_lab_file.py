"""lab.yaml: its variants, how overrides are merged, and where its mistakes are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import loader
from experiments.api import Runtime
from experiments.errors import LabError, LabFileError
from experiments.overrides import Merge
from tests.experiments import small_lab
from topologies.document import parse_document
from topologies.errors import TopologyError


def read(text: str) -> loader.Lab:
    return loader.read(text, name="small", folder=Path(), file="lab.yaml")


def merged(base: str, *overrides: str) -> object:
    text = f"base: {base}\n" + "".join(f"o{i}: {each}\n" for i, each in enumerate(overrides))
    merge = Merge(parse_document(text, "lab.yaml"), ("base",))
    for i in range(len(overrides)):
        merge.put((f"o{i}",))
    return merge.done().data


# RFC 7386, appendix A, where the target is an object; then what Weft adds: paths.
MERGES = [
    ("{a: b}", "{a: c}", {"a": "c"}),
    ("{a: b}", "{b: c}", {"a": "b", "b": "c"}),
    ("{a: b}", "{a: null}", {}),
    ("{a: b, b: c}", "{a: null}", {"b": "c"}),
    ("{a: [b]}", "{a: c}", {"a": "c"}),
    ("{a: c}", "{a: [b]}", {"a": ["b"]}),
    ("{a: {b: c}}", "{a: {b: d, c: null}}", {"a": {"b": "d"}}),
    ("{a: [{b: c}]}", "{a: [1]}", {"a": [1]}),
    ("{e: null}", "{a: 1}", {"e": None, "a": 1}),
    ("{}", "{a: {bb: {ccc: null}}}", {"a": {"bb": {}}}),
    ("{a: {b: 1, c: 2}}", "{a.b: 3}", {"a": {"b": 3, "c": 2}}),
    ("{a: {b: 1, c: 2}}", "{a.b: null}", {"a": {"c": 2}}),
    ("{}", "{a.b.c: 3}", {"a": {"b": {"c": 3}}}),
    ("{a: text}", "{a.b: 3}", {"a": {"b": 3}}),
    ("{a: [{b: 1}, {b: 2}]}", "{a.1.b: 3}", {"a": [{"b": 1}, {"b": 3}]}),
    ("{a: [{b: {c: 1}}]}", "{a.0.b: {d: 2}}", {"a": [{"b": {"c": 1, "d": 2}}]}),
    ("{a: {b: {c: 1, d: 1}}}", "{a: {b: {c: 2}}, a.b.d: 3}", {"a": {"b": {"c": 2, "d": 3}}}),
]


@pytest.mark.parametrize(("base", "override", "expected"), MERGES)
def test_overrides_merge(base: str, override: str, expected: object) -> None:
    assert merged(base, override) == expected


def test_a_merge_leaves_the_base_to_the_next_variant() -> None:
    document = parse_document("base: {a: {b: [1]}}\nset: {a.b.0: 2}\n", "lab.yaml")
    first = Merge(document, ("base",))
    first.put(("set",))
    assert first.done().data == {"a": {"b": [2]}}
    assert Merge(document, ("base",)).done().data == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("{a.7.b: 1}", "2:6: o0.a.7.b: no '7' here: a is a list of 1: write a number from 0 to 0"),
        ("{a.b: 1}", "2:6: o0.a.b: no 'b' here: a is a list of 1"),
        ("{c..d: 1}", "2:6: o0.c..d: no '' here: between two dots stands a key"),
    ],
)
def test_paths_that_lead_nowhere(override: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        merged("{a: [{b: 1}], c: {}}", override)
    assert message in str(caught.value)


def test_variants_are_the_product_of_the_axes_and_those_by_name() -> None:
    lab = read(small_lab.LAB)
    found = {each.variant.name: each for each in lab.variants(Runtime.SIMULATOR)}
    assert list(found) == ["one", "two", "slow"]
    assert [name for name, each in found.items() if each.variant.quick] == ["two"]
    assert found["slow"].variant.title == "a slow link"
    assert found["two"].variant.labels == {"senders": "two"}
    senders = [each.mapping["traffic"][0]["incast"]["from"] for each in found.values()]
    assert senders == [["h2"], ["h2", "h3"], ["h2"]]
    rates = [each.mapping["topology"]["link"]["rate"] for each in found.values()]
    assert rates == ["100Gbps", "100Gbps", "50Gbps"]
    lab.check()


def test_a_runtime_has_its_own_seeds_scale_and_variants() -> None:
    lab = read(small_lab.LAB)
    assert (lab.seeds(Runtime.SIMULATOR), lab.time_scale(Runtime.SIMULATOR)) == ((1, 2), 1)
    assert (lab.seeds(Runtime.SOFTSWITCH), lab.time_scale(Runtime.BMV2)) == ((3,), 100)
    assert [each.variant.name for each in lab.variants(Runtime.BMV2)] == ["one", "slow"]


AXES = """\
title: A grid
runtimes: [simulator, softswitch]
base: {topology: leafspine, until: 1us}
axes:
  end: {near: {until: 2us}, far: }
  senders: {2: , 4: , 8: {seed: 8}}
variants: {extra: {runtimes: [softswitch]}}
without: [{end: far, senders: [2, 8]}]
quick: [{end: near, senders: 4}, {end: far}]
live: {set: {until: 3us}}
simulator: {without: [{senders: 8}]}
"""


def test_axes_selections_and_what_a_runtime_lays_over_the_base() -> None:
    lab = read(AXES)
    simulated = {each.variant.name: each for each in lab.variants(Runtime.SIMULATOR)}
    assert list(simulated) == ["near-2", "near-4", "far-4"]
    assert {name for name, each in simulated.items() if each.variant.quick} == {"near-4", "far-4"}
    live = {each.variant.name: each.mapping for each in lab.variants(Runtime.SOFTSWITCH)}
    assert list(live) == ["near-2", "near-4", "near-8", "far-4", "extra"]
    assert {name: each["until"] for name, each in live.items()} == {
        "near-2": "2us", "near-4": "2us", "near-8": "2us", "far-4": "3us", "extra": "3us",
    }  # fmt: skip
    assert live["near-8"]["seed"] == 8


# What is changed in lab.yaml, and what is said of it: line and column are those of the mistake.
MISTAKES = [
    ("title", "titel", "lab.yaml:1:1: titel: unknown key 'titel'; did you mean 'title'?"),
    ("title: Two share a link\n", "", "lab.yaml:1:1: title: 'title' is missing here"),
    ("[simulator,", "[simlator,", "lab.yaml:4:12: runtimes[0]: 'simlator' is not a runtime;"),
    ("seeds: [1, 2]", "seeds: []", "lab.yaml:5:1: seeds: must not be empty"),
    ("seeds: [1, 2]", "seeds: [1, 1]", "lab.yaml:5:1: seeds: each only once"),
    ("seeds: [1, 2]", "seeds: [1, x]", "lab.yaml:5:12: seeds[1]: must be a whole number, not 'x'"),
    ("{senders: two}", "{sender: two}", "lab.yaml:22:10: quick[0].sender: no variant has a label"),
    ("{senders: two}", "{senders: tow}", "no variant is senders 'tow'; did you mean 'two'?"),
    ("  slow:", "  two:", "lab.yaml:21:3: variants.two: two variants are called 'two'"),
    ("  slow:", "  a/b:", "lab.yaml:21:3: variants.a/b: 'a/b' is not a name"),
    ("quick:", "program: no.p4\nquick:", "lab.yaml:22:1: program: no such program: no.p4"),
    ("quick:", "program: ../no.p4\nquick:", "must be a path in the lab's folder"),
    ("time_scale: 100,", "time_scale: 0,", "lab.yaml:23:20: live.time_scale: must be at least 1"),
    ("base:", "base: [", "lab.yaml:9:14: not valid YAML"),
    # What shows only when a variant is checked as a run file.
    ("rate: 50Gbps", "rate: 50Gbsp", "lab.yaml:21:60: link.rate: 'Gbsp' is not a unit of a rate"),
    ("link.rate", "link.rat", "lab.yaml:21:60: link.rat: unknown key 'rat'; did you mean 'rate'?"),
    ("[h2, h3]", "[h2, h9]", "lab.yaml:19:39: traffic[0].incast.from[1]: no host is called 'h9'"),
    ("until: 100us", "until: 0us", "lab.yaml:12:3: until: has to be more than nothing"),
    ("traffic.0", "traffic.2", "lab.yaml:19:11: axes.senders.two.traffic.2.incast.from: no '2'"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_mistakes_are_shown_where_they_are(old: str, new: str, message: str) -> None:
    assert old in small_lab.LAB
    with pytest.raises(LabFileError) as caught:
        read(small_lab.LAB.replace(old, new, 1)).check()
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_mistake_of_the_base_is_said_once() -> None:
    with pytest.raises(LabFileError) as caught:
        read(small_lab.LAB.replace("hosts: 3", "hosts: none")).check()
    assert len(caught.value.problems) == 1


def test_labs_are_found_by_name(tmp_path: Path) -> None:
    small_lab.write(tmp_path)
    (tmp_path / "no_lab").mkdir()
    assert loader.available(tmp_path) == ("small",)
    with pytest.raises(LabError, match="no lab 'smal'; did you mean 'small'"):
        loader.load("smal", tmp_path)
    with pytest.raises(LabError, match="no such directory"):
        loader.available(tmp_path / "nowhere")


def test_labs_of_this_repository_can_be_read() -> None:
    for name in loader.available():
        loader.load(name).check()


def test_what_takes_long_runs_only_where_it_is_asked_for() -> None:
    text = small_lab.LAB.replace("quick:", "full: [{senders: two}]\nquick:")
    text = text.replace("{title: a slow link,", "{title: a slow link, full: true, seeds: [7, 8],")
    lab = read(text)
    found = {each.variant.name: each for each in lab.variants(Runtime.SIMULATOR)}
    assert {name: each.variant.full for name, each in found.items()} == {
        "one": False, "two": True, "slow": True,
    }  # fmt: skip
    assert (found["one"].seeds, found["slow"].seeds) == ((), (7, 8))
