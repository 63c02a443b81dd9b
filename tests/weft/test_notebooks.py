"""The notebooks: their cells run, in IPython and in a kernel of Jupyter's; `%%p4`; the command."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import weft
from observe.errors import UsageError
from weft import cli, locked_packages, notebook

MOST_CPU_S = 30.0
"""Of one notebook, on a machine that does other things too; alone each takes 2 to 15 s."""

NAMES = notebook.available()
FIRST = """#include <core.p4>
#include <v1model.p4>
struct headers { }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action never() { }
    apply { s.egress_spec = PORT; }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out p, in headers h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def document(name: str) -> dict[str, Any]:
    """Return a notebook as it ships."""
    found: dict[str, Any] = json.loads((notebook.FOLDER / f"{name}.ipynb").read_text())
    return found


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[InteractiveShell]:
    """Yield what a kernel runs cells with, in an empty folder."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    made.restore_sys_module_state()


def run(shell: InteractiveShell, text: str) -> Any:
    """Run a cell, and return what it ends with. Raises what it raises."""
    done = shell.run_cell(text, store_history=False)
    done.raise_error()
    return done.result


def test_there_are_five_in_order() -> None:
    assert [name[:2] for name in NAMES] == ["01", "02", "03", "04", "05"]


@pytest.mark.parametrize("name", NAMES)
def test_it_ships_without_outputs_and_says_what_it_teaches(name: str) -> None:
    found = document(name)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    cells = found["cells"]
    assert len({each["id"] for each in cells}) == len(cells)
    code = [each for each in cells if each["cell_type"] == "code"]
    assert all(each["outputs"] == [] and each["execution_count"] is None for each in code)
    first = "".join(cells[0]["source"])
    assert first.startswith("# ") and "**What you learn:**" in first and "**It takes**" in first
    text = "".join("".join(each["source"]) for each in cells)
    assert text.count("**Question.**") >= 2 and "plt.subplots" in text


@pytest.mark.parametrize("name", NAMES)
def test_its_links_lead_somewhere(name: str) -> None:
    text = json.dumps(document(name))
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    for link in links:
        assert (notebook.FOLDER / link).exists(), link


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_runs(name: str, shell: InteractiveShell) -> None:
    before = cpu_s()
    for each in document(name)["cells"]:
        if each["cell_type"] == "code":
            run(shell, "".join(each["source"]))
    assert cpu_s() - before < MOST_CPU_S
    assert list(Path.cwd().iterdir()) == []  # nothing is written beside it
    CHECKS.get(name, lambda names: None)(shell.user_ns)


def cpu_s() -> float:
    """Return what this process and its children have used."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def check_first(names: dict[str, Any]) -> None:
    """65 of 100 packets get out: one on the line, 64 in the queue."""
    assert len(names["outputs"]) == 65
    assert names["again"].send(names["packet"]("10.0.3.7", ttl=1)) == []


def check_ecmp(names: dict[str, Any]) -> None:
    """Check by intervals what the text says of hashing and of choosing for every packet."""
    times = [names["policies"].estimate("slowest_us", place) for place in range(4)]
    ecmp, _, spray, packet_dlb = times
    assert ecmp.low > 1.5 * packet_dlb.high and spray.high < 200 and packet_dlb.high < 175


def check_control(names: dict[str, Any]) -> None:
    """Queues that the text compares are apart, and goodputs are as it says."""
    numbers, place = names["numbers"], list(names["CONTROLS"]).index
    peak = {name: numbers.estimate("peak_queue", place(name)) for name in names["CONTROLS"]}
    goodput = {name: numbers.estimate("goodput", place(name)) for name in names["CONTROLS"]}
    assert peak["encc"].high < peak["fast-cnp"].low < peak["fast-cnp"].high < peak["dcqcn"].low
    assert goodput["encc"].high < goodput["fast-cnp"].low
    assert names["alone"].metric("peak_queue") > 25e6 and names["alone"].metric("pauses") > 0


def check_link(names: dict[str, Any]) -> None:
    """With the seed of the text: one flow up, one down, and what it says of both."""
    assert names["link_users"](names["healthy"]) == {"s1 -> s5": [1], "s5 -> s1": [14]}
    hurt = names["hurt"]
    assert set(hurt) == {1, 14} and hurt[1] > 4000 and 1000 <= hurt[14] < 1100
    assert max(names["silence_us"](names["fast"]).values()) <= 30
    with_dpfr = [names["silences"].estimate("longest_silence_us", place) for place in (2, 3)]
    assert max(each.high for each in with_dpfr) <= 30


def check_allreduce(names: dict[str, Any]) -> None:
    """Switches beat ring and tree at both sizes, by the intervals."""
    sizes = names["sizes"]
    for first in (0, 3):
        ring, tree, switches = (sizes.estimate("time_us", first + place) for place in range(3))
        assert switches.high < min(ring.low, tree.low) / 3
    assert sum(each["counters"]["wrong"] for each in names["workers"]) == 0


CHECKS = {
    "01-first-p4": check_first,
    "02-ecmp-collisions": check_ecmp,
    "03-congestion-control": check_control,
    "04-a-link-dies": check_link,
    "05-allreduce-in-the-switch": check_allreduce,
}


@pytest.mark.long
@pytest.mark.reference(module="nbclient", names="make setup-notebook installs Jupyter")
@pytest.mark.parametrize("name", ["02-ecmp-collisions"])
def test_a_kernel_runs_it_and_shows_tables_and_figures(name: str, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    # As many processes as the notebook forks, from a kernel that has threads.
    read = nbformat.read(notebook.FOLDER / f"{name}.ipynb", 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(read, timeout=300, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", ())]
    kinds = [kind for output in outputs for kind in output.get("data", ())]
    assert kinds.count("image/svg+xml") == 1  # the topology
    assert kinds.count("image/png") == 2  # the reader's own figure, after ours, and the sweep's
    tables = [output["data"].get("text/html", "") for output in outputs if "data" in output]
    assert sum("<table>" in each for each in tables) == 3
    assert not any("<progress" in each for each in tables)  # nothing is left of bars


# --- %%p4 ----------------------------------------------------------------------------------------


def test_a_cell_binds_a_program(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%load_ext weft")
    run(shell, "%load_ext weft")  # twice is as good
    program = run(shell, f"%%p4 mine -D PORT=3\n{FIRST}")
    assert program is shell.user_ns["mine"]
    assert program.name == "mine.p4"
    assert re.search(
        r"mine\.p4:10:\d+: warning: .*never.*\n.*action never", capsys.readouterr().err
    )
    assert run(shell, f"%%p4 mine -q -D PORT=4\n{FIRST}") is None
    switch = weft.Switch(shell.user_ns["mine"])
    assert [each.port for each in switch.send(bytes(60))] == [4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mine", r'^mine\.p4:11:29: error: unknown name "PORT"(.|\n)*\^$'),
        ("mine -D PORT=3 --Werror", r"^mine\.p4:10:\d+: error:"),
        ("", "NAME .*: the following arguments are required: name"),
        ("my-name -D PORT=3", "'my-name' is not one of these"),
        ("mine -D PORT=3 -x", "'-x' is not one of these"),
        ("mine 'x", "No closing quotation"),
    ],
)
def test_what_is_wrong_with_a_cell_is_shown_without_a_trace(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    run(shell, "%load_ext weft")
    with pytest.raises(weft.WeftError, match=message):
        run(shell, f"%%p4 {line}\n{FIRST}")
    assert "Traceback" not in capsys.readouterr().out
    assert "mine" not in shell.user_ns


def test_errors_of_calls_are_shown_without_a_trace(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(weft.InputError):
        run(shell, "import weft\nweft.simulate({'topology': 'leafspin', 'traffic': []})")
    said = capsys.readouterr().out
    assert said.startswith(
        "InputError: topology: no topology 'leafspin'; did you mean 'leafspine'?"
    )


# --- the commands --------------------------------------------------------------------------------


def test_notebook_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["notebook", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert lines[3].endswith("A link dies")


@pytest.mark.parametrize("given", ["02", "ecmp", "02-ecmp-collisions", "02-ecmp-collisions.ipynb"])
def test_a_notebook_is_chosen_by_how_it_begins(given: str) -> None:
    assert notebook.chosen(given) == "02-ecmp-collisions"
    with pytest.raises(UsageError, match="no notebook '0': there is 01-first-p4"):
        notebook.chosen("0")


def test_copies_are_made_once_and_kept(tmp_path: Path) -> None:
    made = notebook.copied(tmp_path / "mine")
    assert [path.stem for path in made] == list(NAMES)
    made[0].write_text("a reader's work")
    made[1].unlink()
    assert notebook.copied(tmp_path / "mine") == [made[1]]
    assert made[0].read_text() == "a reader's work"


def test_an_unknown_notebook_and_a_missing_jupyter_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(locked_packages.LockedPackages, "is_ready", lambda self: False)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["notebook", "02-ecmp-colisions"]) == 2
    assert "did you mean '02-ecmp-collisions'" in capsys.readouterr().err
    assert cli.main(["notebook"]) == 1
    assert "make setup-notebook" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_packages_that_cannot_be_installed_say_what_pip_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("no-such-package-of-weft==1\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    packages = locked_packages.LockedPackages(lock, "Some", "make some")
    assert not packages.is_ready()
    with pytest.raises(
        locked_packages.PackagesError, match=r"Some can't be installed: .*\n?.*no-such"
    ):
        packages.ensure()


@pytest.mark.long
@pytest.mark.reference(module="jupyterlab", names="make setup-notebook installs Jupyter")
def test_jupyter_starts_in_the_folder_of_the_copies(tmp_path: Path) -> None:
    """Jupyter itself is asked for its version alone, by a script in its place."""
    script = (
        "import os, sys\nfrom weft import cli\n"
        "os.execv = lambda path, words: (print(os.getcwd(), *words[1:]), sys.exit())[1]\n"
        f"cli.main(['notebook', '04-a-link-dies', '--in', {str(tmp_path / 'mine')!r}])\n"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    root = " --allow-root" if os.geteuid() == 0 else ""
    expected = f"{tmp_path / 'mine'} -m jupyterlab 04-a-link-dies.ipynb{root}"
    assert done.stdout.strip() == expected
    assert shutil.which("jupyter-lab", path=str(Path(sys.executable).parent))
