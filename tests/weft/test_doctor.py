"""`weft doctor`: the single checks, the verdict, both forms of output, and that it only looks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from emulation import kernel_features
from weft import doctor
from weft.doctor import Check

REPOSITORY = Path(doctor.__file__).resolve().parent.parent
NOBODY = 65534


def test_lock_is_read_with_comments_and_any_spelling() -> None:
    text = "# name==0\nPyYAML==6.0.3\nruamel.yaml_clib==1.2\n\npip @ file:///x\n"
    assert doctor.parse_lock(text) == {"pyyaml": "6.0.3", "ruamel-yaml-clib": "1.2"}


@pytest.mark.parametrize(
    ("installed", "differences"),
    [
        ({"a": "1", "b": "2", "extra": "9"}, []),
        ({"a": "1"}, ["no b"]),
        ({"a": "1", "b": "3"}, ["b 3 instead of 2"]),
        ({}, ["no a", "no b"]),
    ],
)
def test_lock_differences(installed: dict[str, str], differences: list[str]) -> None:
    assert doctor.lock_differences({"a": "1", "b": "2"}, installed) == differences


def test_packages_are_those_that_the_interpreter_sees() -> None:
    assert doctor.installed_packages(sys.executable)["pytest"] == pytest.__version__
    assert doctor.installed_packages("/no/such/python") == {}


@pytest.mark.parametrize(
    ("state", "needed", "ready"),
    [
        ("ok", True, True),
        ("missing", True, False),
        ("missing", False, True),
        ("degraded", True, True),
    ],
)
def test_only_a_missing_thing_that_is_needed_stops_run_topo(
    state: doctor.State, needed: bool, ready: bool
) -> None:
    checks = [Check("other", "ok", ""), Check("thing", state, "", "c", "r", needed)]
    assert doctor.is_ready(checks) is ready


@pytest.mark.parametrize(
    ("installed", "state", "detail"),
    [
        ({"dask": "1", "distributed": "1"}, "ok", "1"),
        ({"distributed": "1"}, "degraded", "no dask"),
        ({"dask": "2", "distributed": "1"}, "degraded", "dask 2 instead of 1"),
        ({}, "missing", "not installed"),
    ],
)
def test_dask_is_named_where_it_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, str],
    state: str,
    detail: str,
) -> None:
    lock = tmp_path / "dask.lock"
    lock.write_text("dask==1\ndistributed==1\n")
    monkeypatch.setattr(doctor, "DASK_LOCK", lock)
    monkeypatch.setattr(doctor, "installed_packages", lambda _: installed)
    [check] = doctor.check_dask()
    assert (check.state, check.detail) == (state, detail)
    assert ("make setup-dask" in check.remedy) == (state != "ok")


def test_a_program_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    program = doctor._Program("thing", ("no-such-program-weft", "-V"), "the cost", "the remedy")
    check = doctor.check_program(program)
    assert (check.state, check.cost, check.remedy) == ("missing", "the cost", "the remedy")
    assert "no-such-program-weft" in check.detail


def test_a_program_that_prints_more_than_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "chatty-weft"
    program.write_text("#!/bin/sh\necho chatty2; echo; echo ' Version 1.2.5'; echo 2026\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    check = doctor.check_program(doctor._Program("thing", ("chatty-weft", "-V"), "c", "r"))
    assert (check.state, check.detail) == ("ok", "Version 1.2.5")


def test_a_program_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken-weft"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    check = doctor.check_program(doctor._Program("thing", ("broken-weft", "-V"), "c", "r"))
    assert check.state == "degraded"
    assert "`broken-weft -V` fails" in check.detail


def test_text_form_says_cost_and_remedy_of_what_is_missing_only() -> None:
    checks = [
        Check("here", "ok", "version 1", "unsaid cost", "unsaid remedy", needed=True),
        Check(
            "gone", "missing", "no gone on PATH", "the cost", "apt-get install gone", needed=True
        ),
    ]
    text = doctor.as_text(checks)
    assert "costs: the cost" in text
    assert "remedy: apt-get install gone" in text
    assert "unsaid" not in text
    assert text.endswith("`make run-topo` still needs: gone.")


def test_json_form_is_stable() -> None:
    check = Check("gone", "missing", "why", "cost", "remedy", needed=True)
    assert json.loads(doctor.as_json([check])) == {
        "schema": 1,
        "ready": False,
        "checks": [
            {
                "name": "gone", "state": "missing", "detail": "why", "cost": "cost",
                "remedy": "remedy", "needed": True, "part": doctor._FABRIC,
            }
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "header", "state", "says"),
    [
        (b"..libxdp.so.1..", True, "ok", ""),
        (b"..libc.so.6..", False, "missing", "apt-get install libxdp-dev libbpf-dev && make setup"),
        (b"..libc.so.6..", True, "degraded", "make setup"),
    ],
)
def test_the_endpoint_with_and_without_libxdp(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    header: bool,
    state: str,
    says: str,
) -> None:
    module = tmp_path / "_rnic.so"
    module.write_bytes(content)
    if header:
        (tmp_path / "xsk.h").touch()
    monkeypatch.setattr(doctor, "_first_line", lambda *_: str(module))
    built, libxdp = doctor.check_endpoint(tmp_path / "xsk.h")
    assert (built.state, libxdp.state, libxdp.remedy) == ("ok", state, says)
    assert ("AF_PACKET" in libxdp.cost) == (state != "ok")


def test_an_endpoint_that_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_first_line", lambda *_: None)
    (check,) = doctor.check_endpoint()
    assert (check.name, check.state, check.remedy) == ("RoCE endpoint", "missing", "make setup")


def test_a_bpf_file_system_that_is_not_mounted(tmp_path: Path) -> None:
    (check,) = doctor.check_bpf_mount(tmp_path)
    assert check.state == "degraded"
    assert f"mount -t bpf bpf {tmp_path}" in check.remedy


def left_behind() -> list[str]:
    """Return what the doctor leaves outside its namespace: devices, mounts, folders."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [
        *(path.name for path in Path("/sys/class/net").glob("weftdoc*")),
        *(mount for mount in mounts if "weft-doctor-" in mount),
        *(path.name for path in Path(tempfile.gettempdir()).glob("weft-doctor-*")),
    ]


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = doctor.run(json_output=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert left_behind() == []
    assert code == (0 if found["ready"] else 1)
    names = [check["name"] for check in found["checks"]]
    assert len(set(names)) == len(names)
    assert {*kernel_features.FEATURES, "root", "Mininet", "bcc", "gcc", "p4c"} <= set(names)
    for check in found["checks"]:
        assert set(check) == {each.name for each in fields(Check)}
        assert check["state"] in ("ok", "missing", "degraded")
        assert check["detail"], check["name"]
        if check["state"] != "ok":
            assert check["remedy"], check["name"]


def test_table_has_no_colours_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doctor._show([Check("gone", "missing", "[odd] detail", "the cost", "apt-get install gone")])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[odd] detail" in shown
    assert "remedy: apt-get install gone" in shown


@pytest.fixture
def bare_copy() -> Iterator[Path]:
    """Copy what the doctor needs of the repository, without .venv, readable by every user."""
    with tempfile.TemporaryDirectory(prefix="weft-test-") as folder:
        copy = Path(folder)
        for name in ("weft", "emulation", "hostagent", "setup"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / name, copy / name, ignore=ignore)
        shutil.copy(REPOSITORY / "requirements.lock", copy)
        copy.chmod(0o755)
        yield copy


def test_before_set_up_with_the_standard_library_alone(bare_copy: Path) -> None:
    command = ["/usr/bin/python3", "-I", "-S", "-c", _RUN_IN.format(folder=str(bare_copy))]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 1, run.stderr
    assert "no .venv" in run.stdout
    assert "remedy: make setup" in run.stdout


@pytest.mark.root
def test_without_root_it_says_what_it_could_not_try(bare_copy: Path) -> None:
    run = subprocess.run(
        ["/usr/bin/python3", "-m", "weft.doctor", "--json"],
        cwd=bare_copy, user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 1, run.stderr
    states = {check["name"]: check for check in json.loads(run.stdout)["checks"]}
    assert states["root"]["state"] != "ok"
    assert "needs root" in states["bpffs"]["detail"] or "not root" in states["bpffs"]["detail"]
    assert states["bpffs"]["state"] == "degraded"


_RUN_IN = """
import sys
sys.path.insert(0, {folder!r})
sys.argv = ["doctor"]
from weft import doctor
sys.exit(doctor.main())
"""


@pytest.mark.parametrize(
    ("installed", "imports", "state", "detail"),
    [
        ({"torch": "2+cpu", "sympy": "1"}, "2+cpu", "ok", "2+cpu"),
        ({"sympy": "1"}, None, "missing", "not installed"),
        ({"torch": "3", "sympy": "1"}, "3", "degraded", "torch 3 instead of 2"),
        ({"torch": "2", "sympy": "1"}, None, "degraded", "can't be imported"),
    ],
)
def test_torch_is_named_where_it_is_missing_or_of_another_build(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, str],
    imports: str | None,
    state: str,
    detail: str,
) -> None:
    lock = tmp_path / "torch.lock"
    lock.write_text("torch==2\nsympy==1\n")
    monkeypatch.setattr(doctor, "TORCH_LOCK", lock)
    monkeypatch.setattr(doctor, "installed_packages", lambda _: installed)
    monkeypatch.setattr(doctor, "_first_line", lambda *_: imports)
    [check] = doctor.check_torch()
    assert check.state == state
    assert detail in check.detail
    assert ("setup-torch" in check.remedy) == (state != "ok")
    assert not check.needed
