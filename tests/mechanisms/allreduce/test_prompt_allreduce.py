"""`allreduce` at the prompt of a real run: jobs, their trees, and what operators do with them.

h1, h2 -- s1 == s3, s4 == s2 -- h3, h4      two roots; slots for one job at a time
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weft.prompt_lab import Lab, opened, rows

pytestmark = pytest.mark.root

TOPOLOGY = """
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
time_scale: 10000
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
allreduce:
  lanes: 2
  slots: 8
  jobs:
    training: {slots: 8}
    other: {workers: [h2, h3], slots: 8, start: false}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root: Path = tmp_path_factory.mktemp("lab")
    topology = root / "sums.yaml"
    topology.write_text(TOPOLOGY)
    with opened(root, "softswitch", str(topology)) as lab:
        yield lab


def jobs(lab: Lab, word: str = "") -> dict[str, list[str]]:
    """Return what `allreduce` prints of each job."""
    found = {row[0]: row[1:] for row in rows(lab.do(f"allreduce {word}".strip()))}
    return {name: found[name] for name in ("training", "other")}


def held(lab: Lab) -> list[list[str]]:
    """Return the trees that s3 holds: the row of each."""
    return [row for row in rows(lab.do("tables s3 allreduce_tree")) if row[0] == "allreduce_tree"]


def test_jobs_with_their_slots_and_roots(lab: Lab) -> None:
    found = jobs(lab)
    assert found["training"] == ["1", "4", "0 to 7", " ".join(["s3", "s4"] * 4), "-", "0"]
    assert found["other"] == ["2", "2", "-", "-", "-", "0"]


def test_trees_leave_a_link_that_is_down_and_stay_where_they_are(lab: Lab) -> None:
    lab.do("link s1 s3 down")
    assert jobs(lab)["training"][2:] == ["0 to 7", " ".join(["s4"] * 8), "-", "4"]
    lab.do("link s1 s4 down")
    assert jobs(lab)["training"][4] == "0 1 2 3 4 5 6 7"
    lab.do("link s1 s4 up")
    lab.do("link s1 s3 up")
    assert jobs(lab)["training"][2:] == ["0 to 7", " ".join(["s4"] * 8), "-", "4"]
    # A start takes the trees as they were planned.
    assert jobs(lab, "start training")["training"][2:] == [
        "0 to 7", " ".join(["s3", "s4"] * 4), "-", "0",
    ]  # fmt: skip


def test_a_job_that_ends_makes_room(lab: Lab) -> None:
    assert "end at 16, and a switch has 8" in lab.do("allreduce start other")
    assert jobs(lab, "end training")["training"][2] == "-"
    assert jobs(lab, "start other")["other"][2] == "0 to 7"
    assert len(held(lab)) == 4
    lab.do("allreduce end other")
    lab.do("allreduce start training")


def test_off_and_on(lab: Lab) -> None:
    assert "AllReduce in the network is off" in lab.do("allreduce off")
    assert held(lab) == []
    assert "AllReduce in the network is on" in lab.do("allreduce on")
    assert len(held(lab)) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("allreduce sum", "allreduce [on|off|start JOB|end JOB], not 'sum'"),
        ("allreduce start", "allreduce [on|off|start JOB|end JOB], not 'start'"),
        ("allreduce end trainin", "no job 'trainin'; did you mean 'training'?"),
    ],
)
def test_words_that_are_wrong(lab: Lab, words: str, message: str) -> None:
    assert message in lab.do(words)
