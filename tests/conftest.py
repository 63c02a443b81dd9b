"""Which tests can run on this machine, and the rule that CI skips no others.

- `@pytest.mark.root` tests are skipped unless pytest runs as root.
- `@pytest.mark.reference("p4c-bm2-ss", ...)` tests are skipped unless all the programs named are
  on PATH (without names: both p4c-bm2-ss and simple_switch_grpc);
  `@pytest.mark.reference(variable="NAME", names="a checkout of ...")` ones unless the environment
  has that variable.

How many tests were skipped is printed above pytest's closing line. Where the environment has
CI=true, the run fails if a test other than a `reference` one was skipped, or if more were
skipped than `--most-skipped` allows: coverage cannot fade away unseen.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator

import pytest

REFERENCE_PROGRAMS = ("p4c-bm2-ss", "simple_switch_grpc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-skipped", type=int, metavar="N", help="in CI: fail if more reference tests skip"
    )


# What `make test ARGS=...` hands on: a `make` that a test starts must not take it for its own.
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS")


def pytest_configure(config: pytest.Config) -> None:
    for variable in OF_MAKE:
        os.environ.pop(variable, None)
    # In the background of a script Ctrl-C is ignored, by all that tests start as well: what a test
    # interrupts would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    in_ci = os.environ.get("CI") == "true"
    config.pluginmanager.register(SkipLedger(config.getoption("most_skipped"), in_ci))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        reference = item.get_closest_marker("reference")
        if reference:
            why = absence(*reference.args, **reference.kwargs)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


def absence(*programs: str, variable: str | None = None, names: str = "anything") -> str:
    """What a test with this `reference` marker lacks, "" if it can run."""
    if variable is not None and not os.environ.get(variable):
        return f"{variable} does not name {names}"
    wanted = programs or (REFERENCE_PROGRAMS if variable is None else ())
    missing = [name for name in wanted if not shutil.which(name)]
    return f"not on PATH: {', '.join(missing)}" if missing else ""


class SkipLedger:
    """Counts what is skipped, reports it, and in CI fails the run for what must not be."""

    def __init__(self, most_reference: int | None, in_ci: bool) -> None:
        self.most_reference = most_reference
        self.in_ci = in_ci
        self.reference: list[str] = []
        self.others: list[str] = []

    def problems(self) -> list[str]:
        """What CI must not accept, one line each."""
        found = [f"{test} was skipped" for test in self.others]
        skipped, most = len(self.reference), self.most_reference
        if most is not None and skipped > most:
            found.append(f"{skipped} reference tests were skipped, at most {most} expected")
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            reference = item.get_closest_marker("reference")
            (self.reference if reference else self.others).append(item.nodeid)
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # a whole module, by importorskip
            self.others.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.in_ci and self.problems() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"skipped: {len(self.reference)} that compare with p4c or BMv2, "
            f"{len(self.others)} others"
        )
        if self.in_ci:
            for problem in self.problems():
                terminalreporter.write_line(f"CI: {problem}", red=True)
