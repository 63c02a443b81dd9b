"""`weft uninstall`: it says first, removes what is Weft's, and nothing of anybody else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from emulation import run_state, teardown
from emulation.run_state import Run
from weft import on_machine, uninstall

REPOSITORY = Path(uninstall.__file__).resolve().parent.parent
NOBODY = 65534


@dataclass
class Machine:
    """A clone, the home of its user, and where runs and programs are: all below one folder."""

    base: Path
    tree: Path

    def run(self, *words: str, user: int | None = NOBODY) -> subprocess.CompletedProcess[str]:
        """Call `make uninstall`, as a user whose home is nowhere but here."""
        places = {
            "HOME": "home",
            "WEFT_BIN_DIR": "bin",
            "WEFT_RUN_DIR": "run",
            "WEFT_LOG_DIR": "log",
        }
        environment = {name: str(self.base / place) for name, place in places.items()}
        return subprocess.run(
            ["make", "uninstall", f"ARGS={' '.join(words)}"],
            cwd=self.tree, env={"PATH": os.environ["PATH"], **environment}, timeout=120,
            user=user, group=user, extra_groups=None if user is None else [],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip


CLONE = [("clone", name) for name in ("weft", "emulation", "setup")]
BYSTANDERS = {
    "home/.cache/weft/mine.txt",
    "home/.cache/other/x",
    "home/.local/state/weft/mine.txt",
    "log/mine.txt",
    "bin/other",
    "clone/results/report.html",
}
WEFTS = {
    "home/.cache/weft/pipelines/0a.so",
    "home/.cache/weft/programs/0b/x.json",
    "home/.local/state/weft/crash-20261123-141145-23138.log",
    "home/.local/state/weft/clones",
    "home/.local/state/weft/debian-packages",
    "log/w12ab/s1.log",
    "log/prompt-history",
    "clone/build/logs/x",
    "clone/.venv/bin/weft",
    "clone/softswitch/core/_core.cpython-311-x86_64-linux-gnu.so",
    "clone/weft.egg-info/PKG-INFO",
}


@pytest.fixture
def machine() -> Iterator[Machine]:
    with TemporaryDirectory(prefix="weft-test-") as folder:
        found = Machine(Path(folder), Path(folder) / "clone")
        for name in ("weft", "emulation", "setup"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, found.tree / name, ignore=ignore)
        shutil.copy(REPOSITORY / "Makefile", found.tree)
        # This machine may have a launcher of its own, and so another clone.
        code = found.tree / "weft/on_machine.py"
        text, nowhere = code.read_text(), str(found.base / "no-such-folder")
        assert text.count(str(on_machine.ROOTS_PROGRAMS)) == 1
        code.write_text(text.replace(str(on_machine.ROOTS_PROGRAMS), nowhere))
        for name in BYSTANDERS | WEFTS:
            path = found.base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
        (found.base / "home/.local/state/weft/clones").write_text(f"{found.tree}\n/gone\n")
        (found.base / "home/.local/state/weft/debian-packages").write_text("mininet\nclang\n")
        (found.tree / ".venv/bin/weft").chmod(0o755)
        for path in (found.base, *found.base.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        put = f"source setup/setup.sh; WEFT_BIN_DIR={found.base}/bin put_launcher"
        subprocess.run(["bash", "-c", put], cwd=found.tree, check=True, user=NOBODY, group=NOBODY)
        yield found


def everything(machine: Machine) -> set[str]:
    return {
        str(path.relative_to(machine.base))
        for path in machine.base.rglob("*")
        if not path.is_dir() and path.relative_to(machine.base).parts[:2] not in CLONE
    } - {"clone/Makefile"}


@pytest.mark.root
def test_it_says_first_then_removes_all_of_it_and_then_nothing_is_left(machine: Machine) -> None:
    before = everything(machine)
    assert before == BYSTANDERS | WEFTS | {"bin/weft"}
    shown = machine.run("--dry-run")
    assert shown.returncode == 0, shown.stderr
    for part in (
        "bin/weft",
        "home/.cache/weft",
        "home/.local/state/weft",
        "/log",
        "build",
        ".venv",
    ):
        assert part in shown.stdout
    assert (
        "Debian packages that set-up installed stay: apt-get remove clang mininet" in shown.stdout
    )
    asked = machine.run()
    assert asked.returncode != 0
    assert (
        "there is no terminal for the question" in asked.stderr
        and "remedy: say --yes" in asked.stderr
    )
    assert everything(machine) == before

    done = machine.run("--yes", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["removed"] and report["schema"] == 1
    assert report["debian_packages"] == {"noted": True, "names": ["clang", "mininet"]}
    assert everything(machine) == BYSTANDERS
    again = machine.run("--yes")
    assert again.returncode == 0
    assert again.stdout == f"there is nothing left of this clone but its folder: {machine.tree}\n"
    assert json.loads(machine.run("--json").stdout)["items"] == []
    assert everything(machine) == BYSTANDERS


@pytest.mark.root
def test_what_another_clone_uses_stays(machine: Machine) -> None:
    other = machine.base / "other"
    (other / ".venv/bin").mkdir(parents=True)
    shutil.copy(machine.tree / ".venv/bin/weft", other / ".venv/bin")
    notes = machine.base / "home/.local/state/weft/clones"
    notes.write_text(f"{machine.tree}\n{other}\n")
    launcher = machine.base / "bin/weft"
    launcher.write_text(launcher.read_text().replace(str(machine.tree), str(other)))
    done = machine.run("--yes")
    assert done.returncode == 0, done.stderr
    assert f"stays: weft on PATH, {launcher}: it starts {other}" in done.stdout
    assert f"stays: cache of compiled programs, {machine.base}/home/.cache/weft" in done.stdout
    gone = {name for name in WEFTS if name.startswith("clone/")}
    stays = {"bin/weft", "other/.venv/bin/weft"}
    assert everything(machine) == (BYSTANDERS | WEFTS | stays) - gone
    assert notes.read_text() == f"{other}\n"
    assert "there is nothing left" in machine.run("--yes").stdout


@pytest.mark.root
def test_what_needs_root_is_said_before_anything_is_removed(machine: Machine) -> None:
    before = everything(machine)
    log = machine.base / "log"
    os.chown(log, 0, 0)
    done = machine.run("--yes")
    assert done.returncode != 0
    assert f"nothing was removed: {log} can't be removed by user id {NOBODY}" in done.stderr
    assert "remedy: sudo make uninstall" in done.stderr
    assert everything(machine) == before


RUNNER = """
import signal, subprocess
from emulation import run_state, teardown
from emulation.run_state import Run
lock, _ = teardown.claim()
run = Run.start(lock, "test")
run.will_make(links=["wtestlink0"], namespaces=[run.name + "-h1"])
subprocess.run(["ip", "netns", "add", run.name + "-h1"], check=True)
print(run.name, flush=True)
signal.pause()
"""


@pytest.mark.root
@pytest.mark.parametrize("whose", ["ours", "another clone's", "crashed"])
def test_a_run_that_is_up_is_ended_first_if_it_is_this_clones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setenv("WEFT_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("WEFT_LOG_DIR", str(tmp_path / "log"))
    monkeypatch.setattr(on_machine, "homes", list)
    monkeypatch.setattr(on_machine, "ROOTS_PROGRAMS", tmp_path)
    tree = tmp_path / "clone"
    shutil.copytree(REPOSITORY / "setup", tree / "setup")
    for module in (on_machine, uninstall):
        monkeypatch.setattr(module, "ROOT", tree if whose == "another clone's" else REPOSITORY)
    monkeypatch.setattr(uninstall, "_built", lambda: iter(()))
    python = shutil.which("python") or "python3"
    command = [python, "-c", RUNNER]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        run = runner.stdout.readline().strip()
        try:
            if whose == "crashed":
                runner.kill()
                runner.wait()
            plan = uninstall.look()
            if whose == "another clone's":
                assert plan.items == []
                assert [kept[0] for kept in plan.kept] == ["run that is up", "logs of runs"]
                assert uninstall.run(yes=True, dry_run=False, as_json=False) == 0
                assert Path("/run/netns", f"{run}-h1").exists() and runner.poll() is None
                return
            assert plan.items[0].what.startswith("run that" if whose == "ours" else "crashed run")
            assert uninstall.run(yes=True, dry_run=False, as_json=False) == 0
            assert not Path("/run/netns", f"{run}-h1").exists()
            assert not (tmp_path / "run").exists() and not (tmp_path / "log").exists()
        finally:
            runner.kill()
            runner.wait()
            teardown.clean()


def test_the_wanted_packages_are_set_ups() -> None:
    wanted = uninstall.wanted_packages()
    assert {"mininet", "clang", "libxdp-dev"} <= set(wanted)
    assert all(name.replace("-", "").replace(".", "").isalnum() for name in wanted)


def test_a_live_run_names_its_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("WEFT_LOG_DIR", str(tmp_path / "log"))
    assert run_state.holders_clone() is None
    lock, _ = teardown.claim()
    run = Run.start(lock, "test")
    assert run_state.holders_clone() == REPOSITORY
    teardown.remove(run.record)
    run.finish()
