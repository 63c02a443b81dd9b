"""Set-up: the lock, the stamp, the messages. What it installs is proved by `.ci/run` on a clone."""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from weft.doctor import parse_lock

REPOSITORY = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534


@pytest.fixture
def tree() -> Iterator[Path]:
    """Yield a copy of what set-up depends on, which every user may read and only we may write."""
    with tempfile.TemporaryDirectory(prefix="weft-test-") as folder:
        copy = Path(folder)
        for name in ("setup", "hostagent", "softswitch", "simulator", "mechanisms"):
            ignore = shutil.ignore_patterns("__pycache__", "*.so", "build")
            shutil.copytree(REPOSITORY / name, copy / name, ignore=ignore)
        for name in ("requirements.lock", "pyproject.toml", "Makefile"):
            shutil.copy(REPOSITORY / name, copy)
        copy.chmod(0o755)
        yield copy


def bash(tree: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `script` with the functions of setup.sh at hand."""
    return subprocess.run(
        ["bash", "-c", f"source setup/setup.sh\n{script}"],
        cwd=tree, env={**os.environ, **environment}, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


# --- the lock -----------------------------------------------------------------------------------


def test_lock_pins_everything_that_pyproject_asks_for() -> None:
    pins = parse_lock((REPOSITORY / "requirements.lock").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    todo = [(Requirement(text), "pyproject.toml") for text in wanted]
    problems, seen = [], set()
    while todo:
        requirement, asker = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in pins:
            problems.append(f"{asker} needs {requirement}, which is not pinned")
        elif not requirement.specifier.contains(pins[name], prereleases=True):
            problems.append(f"{asker} needs {requirement}, pinned is {pins[name]}")
        elif name not in seen:
            seen.add(name)
            needs = importlib.metadata.requires(name) or []
            todo += [(Requirement(text), name) for text in needs]
    assert not problems


def test_lock_holds_nothing_but_exact_pins() -> None:
    for line in (REPOSITORY / "requirements.lock").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


# --- the system ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ('ID=debian\nVERSION_ID="12"\n', ""),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "this is ubuntu 24.04; set-up is made for Debian 12"),
        (None, "this is an unknown system; set-up is made for Debian 12"),
    ],
)
def test_another_system_than_debian_12_is_named(
    tree: Path, tmp_path: Path, system: str | None, said: str
) -> None:
    path = tmp_path / "os-release"
    if system is not None:
        path.write_text(system)
    run = bash(tree, f"say_other_system {path}")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(said) and bool(run.stdout) is bool(said)


# --- the stamp ----------------------------------------------------------------------------------


def stamp(tree: Path, suffix: str = "") -> None:
    """Leave what a finished set-up leaves, as far as the stamp goes."""
    weft = tree / ".venv/bin/weft"
    weft.parent.mkdir(parents=True, exist_ok=True)
    weft.touch(mode=0o755)
    key = bash(tree, "setup_key").stdout.strip()
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build/.setup-stamp").write_text(f"{key} {suffix}\n")


def is_set_up(tree: Path, **environment: str) -> bool:
    return bash(tree, "is_set_up", **environment).returncode == 0


def test_a_fresh_stamp_makes_set_up_instant(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_BIN_DIR", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert not is_set_up(tree)
    stamp(tree)
    assert is_set_up(tree)

    def cpu_s(target: str) -> float:
        """Of make with this target, the least of several times."""
        took = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run = subprocess.run(["make", target], cwd=tree, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            assert (run.returncode, run.stderr) == (0, b"")
            assert (run.stdout == b"") is (target == "setup")
        return min(took)

    # The first one puts `weft` on PATH, and says so; then all is there.
    first = subprocess.run(["make", "setup"], cwd=tree, capture_output=True, text=True, check=True)
    assert first.stdout.startswith(f"weft on PATH: {tmp_path}/bin/weft")
    # Some 5 times what it takes to list the targets: on any machine nobody notices.
    assert cpu_s("setup") < 20 * cpu_s("help")


@pytest.mark.parametrize(
    "changed",
    ["requirements.lock", "pyproject.toml", "setup/setup.sh", "hostagent/bpf/probe.bpf.c",
     "softswitch/core/weft_switch.h", "simulator/core/sim.h"],
)  # fmt: skip
def test_the_stamp_is_stale_when_what_it_depends_on_changes(tree: Path, changed: str) -> None:
    stamp(tree)
    with (tree / changed).open("a") as file:
        file.write("\n")
    assert not is_set_up(tree)


def test_the_stamp_is_stale_without_the_environment_or_in_another_folder(tree: Path) -> None:
    stamp(tree)
    shutil.move(tree / ".venv", tree / "moved")
    assert not is_set_up(tree)
    shutil.move(tree / "moved", tree / ".venv")
    assert is_set_up(tree)
    copy = tree / "copy"
    shutil.copytree(tree, copy, ignore=shutil.ignore_patterns("copy"))
    assert not is_set_up(copy)


@pytest.mark.root
def test_what_was_lost_for_want_of_root_is_made_up_for_as_root(tree: Path) -> None:
    stamp(tree, "needs-root")
    assert not is_set_up(tree)


# --- the steps ----------------------------------------------------------------------------------


def test_only_packages_that_are_not_installed_are_missing(tree: Path) -> None:
    run = bash(tree, "missing_packages bash no-such-package-weft coreutils")
    assert run.stdout.split() == ["no-such-package-weft"]


def run_step(tree: Path, body: str) -> subprocess.CompletedProcess[str]:
    script = f"""
        mkdir -p "$LOGS"
        NOTE=build/note
        doing() {{ {body}; }}
        step "A title" doing "the remedy"
        echo went on
    """
    return bash(tree, script)


def test_a_step_that_works_is_one_line(tree: Path) -> None:
    run = run_step(tree, "echo noise; note done so much")
    assert re.fullmatch(r"\[1/7\] A title +done so much \(\d s\)\nwent on\n", run.stdout)
    assert run.returncode == 0


def test_a_step_that_fails_shows_its_log_and_the_remedy_and_stops(tree: Path) -> None:
    run = run_step(tree, "echo the reason; false; echo not reached")
    assert run.returncode == 1
    assert "went on" not in run.stdout
    assert "    the reason\n" in run.stderr
    assert "not reached" not in run.stderr
    assert "remedy: the remedy" in run.stderr


def test_a_step_that_is_impossible_here_is_lost_and_the_rest_goes_on(tree: Path) -> None:
    run = run_step(tree, 'note "no BPF, so no agents"; return "$LOST"')
    assert "LOST: no BPF, so no agents" in run.stdout
    assert run.stdout.endswith("went on\n")
    assert run.returncode == 0


def test_a_virtual_environment_from_another_folder_is_made_anew(tree: Path) -> None:
    programs = tree / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    (programs / "pip").write_text("#!/elsewhere/.venv/bin/python3\n")
    (tree / ".venv/pyvenv.cfg").write_text("include-system-site-packages = true\n")
    script = "NOTE=/dev/stdout; virtual_environment; head -n 1 .venv/bin/pip"
    made = bash(tree, script)
    assert made.stdout.startswith("made with Python 3"), made.stderr
    assert f"#!{tree}/.venv/bin/python" in made.stdout
    assert bash(tree, script).stdout.startswith("all there")


# --- without root -------------------------------------------------------------------------------


@pytest.fixture
def no_sudo(tmp_path: Path) -> Iterator[str]:
    """Yield a PATH with every program but sudo."""
    with tempfile.TemporaryDirectory(prefix="weft-test-") as folder:
        programs = Path(folder)
        programs.chmod(0o755)
        for source in (Path("/usr/sbin"), Path("/usr/bin")):
            for program in source.iterdir():
                link = programs / program.name
                if program.name != "sudo" and not link.is_symlink():
                    link.symlink_to(program)
        yield folder


def as_nobody(tree: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=tree, env={**os.environ, **environment}, timeout=300,
        user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.root
def test_packages_missing_without_root_or_sudo(tree: Path, no_sudo: str) -> None:
    tree.chmod(0o777)
    (tree / "empty/info").mkdir(parents=True)
    # dpkg's own variable: to it, nothing is installed on this machine.
    run = as_nobody(tree, "make", "setup", PATH=no_sudo, DPKG_ADMINDIR=str(tree / "empty"))
    assert run.returncode != 0
    assert "Debian packages are missing: mininet iproute2" in run.stderr
    assert "needs root, and there is no sudo" in run.stderr
    assert "remedy: it needs root or sudo, a network" in run.stderr
    assert not (tree / "build/.setup-stamp").exists()


@pytest.mark.root
def test_a_tree_that_the_user_cannot_write(tree: Path) -> None:
    run = as_nobody(tree, "make", "setup")
    assert run.returncode != 0
    assert re.search(r"error: \S+ is not writable by nobody", run.stderr)
    assert "remedy: clone the repository as nobody" in run.stderr


@pytest.mark.root
def test_run_topo_without_root_or_sudo(tree: Path, no_sudo: str) -> None:
    run = as_nobody(tree, "setup/as_root.sh", "true", PATH=no_sudo)
    assert run.returncode == 1
    assert "this needs root (network namespaces, links, eBPF); you are nobody" in run.stderr
    assert "remedy: run the same command as root, or install sudo" in run.stderr


# --- make ---------------------------------------------------------------------------------------


def test_make_alone_lists_every_target() -> None:
    run = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make ([a-z0-9-]+)", run.stdout, flags=re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert listed == set(phony.group(1).split())
