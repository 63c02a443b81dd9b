"""SimAI's workload text becomes a job; what does not fit is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import TopologyError
from workloads.loader import load_run_file, read_run
from workloads.simai import read_simai

HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 "
HEAD += "all_gpus: 8 checkpoints: 1 0 checkpoint_initiates: 1 1 pp_comm: 0"
STEP = f"""{HEAD}
2
first -1 1000 ALLREDUCE 4096 200 NONE 0 30 ALLGATHER_DP_EP 8192 100
second\t-1\t5000\tALLTOALL_EP\t2048\t600\tREDUCESCATTER\t1\t70\tNONE\t0\t100
"""
RUN = """\
topology: fattree4
job:
  simai: step.txt
  placement: stride
"""


def phases(without: tuple[str, ...] = ()) -> list[str]:
    found = read_simai(STEP, "step.txt", without)["phases"]
    assert isinstance(found, list)
    words = []
    for phase in found:
        if "compute" in phase:
            words.append(phase["compute"])
            continue
        kind = next(key for key in phase if key not in ("name", "background"))
        what = f"{kind} {phase[kind]['bytes']} {phase[kind]['over']}"
        words.append(f"{phase['name']}: {what}{' behind' if phase['background'] else ''}")
    return words


def test_a_step_goes_forward_and_back() -> None:
    found = read_simai(STEP, "step.txt")
    assert {key: found[key] for key in ("ranks", "tp", "pp", "ep")} == {
        "ranks": 8,
        "tp": 2,
        "pp": 1,
        "ep": 2,
    }
    assert phases() == [
        "1000ns",
        "first forward: allreduce 4096B tp",
        "5000ns",
        "second forward: alltoall 2048B ep",
        "1000ns",
        "first forward again: allreduce 4096B tp",  # layer 1 begins at checkpoint 0
        "600ns",
        "second input gradient: reducescatter 2B tp",  # a byte for each rank at least
        "300ns",
        "first weight gradient: allgather 8192B dp_ep behind",
    ]


def test_what_stays_inside_a_server_is_computing_only() -> None:
    assert phases(("tp", "dp_ep")) == ["6000ns", "second forward: alltoall 2048B ep", "1900ns"]


def test_a_run_file_takes_it(tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text(STEP)
    job = read_run(RUN, directory=tmp_path).jobs[0]
    assert (job.ranks, job.tp, job.ep, job.placement, len(job.phases)) == (8, 2, 2, "stride", 10)
    listed = RUN.replace("job:\n", "jobs:\n  -\n").replace("\n  simai", "\n    simai")
    listed = listed.replace("\n  placement", "\n    placement")
    assert read_run(listed, directory=tmp_path).jobs == (job,)


def test_the_shipped_one_is_whole() -> None:
    run = load_run_file("simai-small")
    assert (run.jobs[0].ranks, run.jobs[0].ep) == (16, 4)
    assert sum(phase.background for phase in run.jobs[0].phases) == 2


# (what is replaced, by what, the one problem)
MISTAKES = [
    (HEAD, "DATA 1", "step.txt:1:1: no SimAI workload: the first line begins with HYBRID_TRANSF"),
    ("ep: 2", "ep: x", "step.txt:1:61: ep: a number has to follow"),
    ("ep: 2", "ep: 0", "step.txt:1:61: ep: must be at least 1"),
    ("all_gpus: 8", "", "step.txt:1:1: all_gpus: is missing in the first line"),
    ("checkpoints: 1 0", "checkpoints: 2 0", "checkpoints: a count, then so many layers"),
    ("initiates: 1 1", "initiates: 1 7", "checkpoint_initiates: no layer 7: there are 0 to 1"),
    ("\n2\n", "\n3\n", "step.txt:2:1: 3 layers, but 2 lines follow"),
    ("\n2\n", "\ntwo\n", "step.txt:2:1: the second line is the number of layers, not 'two'"),
    ("-1 1000", "1000", "step.txt:3:1: 11 columns: a layer has 12"),
    ("ALLREDUCE", "ALREDUCE", "step.txt:3:15: no communication 'ALREDUCE'; did you mean 'ALLREDU"),
    ("ALLREDUCE", "BROADCAST", "no communication 'BROADCAST'; available: NONE, ALLREDUCE, ALLGATH"),
    ("4096", "4k", "step.txt:3:25: '4k' is not a number of bytes"),
    ("5000", "5us", "step.txt:4:11: '5us' is not a number of nanoseconds"),
]


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_a_mistake_is_one_line(old: str, new: str, expected: str) -> None:
    assert old in STEP
    with pytest.raises(TopologyError) as raised:
        read_simai(STEP.replace(old, new, 1), "step.txt")
    assert len(raised.value.problems) == 1
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("step.txt", "stop.txt", "run.yaml:3:3: job.simai: stop.txt: can't be read: No such file"),
        ("step.txt", "[1]", "run.yaml:3:3: job.simai: must be a file, not [1]"),
        ("placement: stride", "ranks: 8", "4:3: job.ranks: 'simai' says the ranks already: leave"),
        ("placement: stride", "without: [xp]", "4:3: job.without: no group 'xp'"),
        ("placement: stride", "placment: stride", "4:3: job.placment: unknown key 'placment'; did"),
    ],
)
def test_a_mistake_of_the_run_file(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (tmp_path / "step.txt").write_text(STEP)
    with pytest.raises(TopologyError) as raised:
        read_run(RUN.replace(old, new, 1), file="run.yaml", directory=tmp_path)
    assert len(raised.value.problems) == 1
    assert expected in str(raised.value)
