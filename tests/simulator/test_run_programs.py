"""Programs that a run file puts on hosts, and what a wrong run file is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostagent.programs.program import ProgramError
from simulator.runner import Simulation
from tests.hostagent.stop_and_wait import Taker
from tests.simulator.fabric_program import fabric_program
from topologies.errors import TopologyError
from workloads.loader import read_run, run_of
from workloads.program_files import with_program_files

HOSTAGENT = Path(__file__).parents[1] / "hostagent"
RUN = """\
topology:
  time_scale: 1
  generator: leaf_spine
  spines: 2
  leaves: 2
  hosts_per_leaf: 2
  link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
programs:
  - {program: "stop_and_wait.py:Sender", hosts: h1, settings: {to: h3, messages: 30}}
  - {program: "tests.hostagent.stop_and_wait:Taker", hosts: [h3]}
"""


def simulation(text: str, **settings: int) -> Simulation:
    return Simulation(read_run(text, directory=HOSTAGENT), fabric_program(), **settings)


def test_programs_of_a_file_and_of_a_module_run_and_count(tmp_path: Path) -> None:
    ends = []
    for out in (tmp_path / "one", tmp_path / "two"):
        run = simulation(RUN)
        outcome = run.run(out)
        assert outcome.summary["end"]["reason"] == "done"
        told = json.loads((out / "summary.json").read_text())["programs"]
        assert told == [
            {
                "program": "stop_and_wait.py:Sender",
                "host": "h1",
                "counters": {"answered": 30},
            },
            {
                "program": "tests.hostagent.stop_and_wait:Taker",
                "host": "h3",
                "counters": {"taken": 30},
            },
        ]
        taker = run.programs[1].instance
        assert isinstance(taker, Taker) and taker.taken == list(range(30))
        ends.append(outcome.end.now_ps)
    assert ends[0] == ends[1]


def test_time_scale_slows_a_program_as_it_slows_the_fabric() -> None:
    once, slow = simulation(RUN).run(), simulation(RUN, time_scale=50).run()
    assert slow.end.now_ps == 50 * once.end.now_ps
    assert [each["counters"] for each in slow.end.programs] == [
        each["counters"] for each in once.end.programs
    ]


def test_a_run_without_programs_says_nothing_of_them(tmp_path: Path) -> None:
    message = "traffic: [{message: {from: h1, to: h3, bytes: 64kB}}]\n"
    outcome = simulation(RUN.partition("programs:")[0] + message).run(tmp_path)
    assert "programs" not in outcome.summary


SECOND = '"tests.hostagent.stop_and_wait:Taker"'
WRONG = [
    ("Sender", "Sendr", r"9:6: programs\[0\].program: .* no class 'Sendr'; did you mean 'Sender'"),
    (
        "stop_and_wait.py:Sender",
        "gone.py:Sender",
        r"programs\[0\].program: there is no file .*gone",
    ),
    (SECOND, '"no.such:Taker"', r"programs\[1\].program: there is no module 'no.such'"),
    (SECOND, "eccho", r"programs\[1\].program: no program 'eccho'; did you mean 'echo'"),
    (SECOND, '"pathlib:Path"', r"pathlib:Path is not a program: it has no started, packet, timer"),
    ("[h3]", "[h33]", r"10:54: programs\[1\].hosts: no host 'h33'; did you mean 'h3'"),
    ("[h3]", "[h3, h3]", r"programs\[1\].hosts: a host is named twice"),
    ("messages: 30", "message: 30", r"settings: .*Sender takes to, messages, size, timeout_ns"),
    (f"{SECOND}, hosts: [h3]", "echo, hosts: h3, settings: {port: x}", "port has to be a whole"),
]


@pytest.mark.parametrize(("right", "wrong", "why"), WRONG, ids=[wrong for _, wrong, _ in WRONG])
def test_a_wrong_entry_is_named_by_line_and_field(right: str, wrong: str, why: str) -> None:
    assert right in RUN
    with pytest.raises(TopologyError, match=why):
        read_run(RUN.replace(right, wrong), directory=HOSTAGENT)


def test_a_file_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    (tmp_path / "stop_and_wait.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(TopologyError, match=r"stop_and_wait.py can't be loaded: No module named"):
        read_run(RUN, directory=tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("[h3]", "all", r"Taker on h1 at 0 ns: UDP port 9000: another program of the host listens"),
        (f"{SECOND}, hosts: [h3]", "echo, hosts: h3, settings: {speed: 1}", "no setting speed"),
        ("to: h3", "to: h9", r"stop_and_wait.py:Sender on h1 at 0 ns: no host 'h9'"),
    ],
)
def test_what_shows_when_programs_start_names_program_and_host(
    right: str, wrong: str, why: str
) -> None:
    with pytest.raises(ProgramError, match=why):
        simulation(RUN.replace(right, wrong))


def test_a_failing_program_ends_the_run_and_leaves_no_results(tmp_path: Path) -> None:
    run = simulation(RUN.replace("messages: 30", "messages: many"))
    with pytest.raises(
        ProgramError, match=r"Sender on h1 at \d+ ns: TypeError: .*stop_and_wait.py"
    ):
        run.run(tmp_path / "out")
    assert not (tmp_path / "out" / "summary.json").exists()


def test_a_document_that_stands_alone_names_its_files_in_full(tmp_path: Path) -> None:
    file = tmp_path / "stop_and_wait.py"
    file.write_bytes((HOSTAGENT / "stop_and_wait.py").read_bytes())
    alone = with_program_files(read_run(RUN, directory=tmp_path).document, tmp_path)
    assert run_of(alone, "run", Path("/")).programs[0].program == f"{file}:Sender"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(TopologyError, match=r"programs.*sha256: .* is another file than the one"):
        run_of(alone, "run", Path("/"))
