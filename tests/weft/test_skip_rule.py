"""tests/conftest.py: what may be skipped, what CI says of it, and Ctrl-C in the background."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"
INI = "[pytest]\nmarkers =\n" + "".join(
    f"    {name}: {name}\n" for name in ("root", "reference", "long", "realtime")
)
REFERENCE = """
    import pytest

    @pytest.mark.reference("no-such-compiler")
    def test_compares(): raise AssertionError("must not run")

    @pytest.mark.reference("sh")
    def test_compares_with_a_program_that_is_there(): pass

    @pytest.mark.reference("sh", variable="PATH")
    def test_compares_with_what_a_variable_names(): pass
"""
VARIABLE = """
    import pytest

    @pytest.mark.reference(variable="NO_SUCH_VARIABLE", names="a checkout")
    def test_compares(): raise AssertionError("must not run")

    @pytest.mark.reference("no-such-compiler", variable="PATH")
    def test_compares_with_both(): raise AssertionError("must not run")
"""
OTHER = """
    import pytest

    @pytest.mark.skip(reason="tired")
    def test_other(): pass
"""
MODULE = """
    import pytest

    pytest.importorskip("no_such_module")
"""


@pytest.mark.parametrize(
    ("source", "ci", "arguments", "code", "line"),
    [
        (REFERENCE, "true", [], 0, "skipped: 1 that need what set-up does not install, 0 others"),
        (REFERENCE, "true", ["--most-skipped=1"], 0, "skipped: 1 that need*"),
        (
            REFERENCE,
            "true",
            ["--most-skipped=0"],
            1,
            "CI: 1 reference tests were skipped, at most 0*",
        ),
        (REFERENCE, "", ["--most-skipped=0"], 0, "skipped: 1 that need*"),
        (VARIABLE, "true", ["-rs"], 0, "SKIPPED*NO_SUCH_VARIABLE does not name a checkout"),
        (VARIABLE, "true", ["-rs"], 0, "SKIPPED*not on PATH: no-such-compiler"),
        (OTHER, "true", [], 1, "CI: *::test_other was skipped"),
        (OTHER, "", [], 0, "skipped: 0 that need what set-up does not install, 1 others"),
        (MODULE, "true", [], 1, "CI: *.py was skipped"),
    ],
)
def test_ci_fails_for_unexpected_skips_only(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    ci: str,
    arguments: list[str],
    code: int,
    line: str,
) -> None:
    monkeypatch.setenv("CI", ci)
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(source)
    # A test keeps the run from ending with "no tests collected".
    pytester.makepyfile(test_beside="def test_passes(): pass")
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == code
    result.stdout.fnmatch_lines([line])


def test_skips_in_workers_count_where_all_is_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make test` runs most tests in processes of pytest-xdist."""
    monkeypatch.setenv("CI", "true")
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(test_reference=REFERENCE, test_variable=VARIABLE, test_module=MODULE)
    result = pytester.runpytest_subprocess("-n2", "--most-skipped=2", "--tally=tally.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "skipped: 3 that need what set-up does not install, 1 others",
            "CI: *test_module.py was skipped",
            "CI: 3 reference tests were skipped, at most 2 expected",
        ]
    )
    result.stdout.fnmatch_lines(["*2 passed, 4 skipped*"])
    tally = json.loads((pytester.path / "tally.json").read_text())
    counts = {"passed": 2, "failed": 0, "skipped": 4, "reference": 3}
    assert tally == {**counts, "problems": 2, "wrong": []}


def test_in_the_background_what_tests_start_takes_ctrl_c(pytester: pytest.Pytester) -> None:
    """A shell without job control starts what it puts there with SIGINT ignored."""
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile("""
        import signal, subprocess, sys

        def test_interrupted():
            child = "import signal; signal.raise_signal(signal.SIGINT)"
            done = subprocess.run([sys.executable, "-c", child], stderr=subprocess.DEVNULL)
            assert done.returncode == -signal.SIGINT
    """)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = pytester.runpytest_subprocess()
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.ret == 0
