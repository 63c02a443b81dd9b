"""Which tests can run on this machine, which run together, and the rule that CI skips no others.

- `@pytest.mark.root` tests are skipped unless pytest runs as root.
- `@pytest.mark.reference("p4c-bm2-ss", ...)` tests are skipped unless all the programs named are
  on PATH (without names: both p4c-bm2-ss and simple_switch_grpc);
  `@pytest.mark.reference(variable="NAME", names="a checkout of ...")` ones unless the environment
  has that variable; `@pytest.mark.reference(module="torch", names="make setup-torch")` ones unless
  Python has that module (and where programs are named beside it, those are on PATH).

`make test` leaves out what is `long`, which `make test-long` runs. In both, tests run side by side
on all cores, and then, with nothing beside them, those that are `realtime`. Single tests are marked
so where they are; for whole files and folders TIERS says it. Whatever needs root is `realtime`,
except ROOT_BESIDE.

How many tests were skipped is printed above pytest's closing line. Where the environment has
CI=true, the run fails if a test other than a `reference` one was skipped, or if more were
skipped than `--most-skipped` allows: coverage cannot fade away unseen.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
from fnmatch import fnmatch
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

# Markers of whole files, by patterns of their paths below this folder.
TIERS = {
    "long": (
        # once more, under the sanitizers
        "*/test_*_sanitized.py",
        # random programs, models that results are held against, fabrics of all sizes
        "random_programs/*",
        "fuzz/*",
        "mechanisms/dcqcn/test_dcqcn_fluid.py",
        "weft/test_every_command.py",
        "weft/test_generated_fabrics.py",
        # beside p4c and BMv2, and in their place
        "compat/*",
        "tutorials/*",
        "softswitch/test_pushback_targets.py",
        # whole runs, each with a fabric of its own
        "hostagent/test_fast_cnp_live.py",
        "experiments/test_live.py",
        "experiments/test_live_interfaces.py",
        "experiments/test_live_programs.py",
        "weft/test_live_run.py",
        "weft/test_perf_live.py",
        "mechanisms/fast_cnp/test_prompt_fast_cnp.py",
        "mechanisms/test_toy_mechanism.py",
        "shipped/test_goldens.py",
        "weft/test_readme.py",
        # real training jobs
        "hostagent/test_process_group.py",
        "weft/test_train_live.py",
        "weft/test_train_bmv2.py",
        # tools round about
        "bench/*",
        "labs/test_cnp_by_hand*.py",
        "labs/test_flowlets_by_hand_run.py",
        "experiments/test_grade.py",
        "labs/test_long_haul_fast_cnp.py",
        "experiments/test_sweep.py",
        "experiments/test_sweep_dask.py",
        "weft/test_locked_venv.py",
        "weft/test_skip_rule.py",
        "weft/test_sweep_command.py",
        "weft/test_test_phases.py",
    ),
    "realtime": (
        "bench/*",  # they measure
        "experiments/test_sweep_dask.py",  # workers with deadlines
        "softswitch/test_core_sanitized.py",  # the packet loop is among what it runs
        "tutorials/*",
        "weft/test_top.py",  # rates
    ),
}
# Root only to load programs into the kernel, which runs them on packets that the test hands it.
ROOT_BESIDE = {
    "hostagent/test_dcqcn_kernel.py",
    "hostagent/test_fast_cnp_kernel.py",
}

WRONG = ("failed", "error")
REFERENCE_PROGRAMS = ("p4c-bm2-ss", "simple_switch_grpc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tally", type=Path, metavar="FILE", help="write there how many passed, failed, skipped"
    )
    parser.addoption(
        "--only",
        type=Path,
        metavar="FILE",
        help="of the tests only those that it names, one a line",
    )
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
    if hasattr(config, "workerinput"):
        return  # what a worker of pytest-xdist reports is counted where all of it arrives
    in_ci = os.environ.get("CI") == "true"
    ledger = SkipLedger(config.getoption("most_skipped"), in_ci)
    config.pluginmanager.register(ledger)
    if config.getoption("tally"):
        config.pluginmanager.register(Tally(config.getoption("tally"), ledger))


# Called after those of the folders' own conftest.py, which may mark tests, and before `-m` selects.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("only"):
        names = set(config.getoption("only").read_text().splitlines())
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in names])
        items[:] = [each for each in items if each.nodeid in names]
    for item in items:
        for marker in _tier(item):
            item.add_marker(marker)
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        reference = item.get_closest_marker("reference")
        if reference:
            why = absence(*reference.args, **reference.kwargs)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


def _tier(item: pytest.Item) -> set[str]:
    """Return the markers that a test has by its place, or because it needs root."""
    path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
    markers = {
        marker for marker, places in TIERS.items() if any(fnmatch(path, place) for place in places)
    }
    if item.get_closest_marker("root") and path not in ROOT_BESIDE:
        markers.add("realtime")
    return markers


def absence(
    *programs: str,
    variable: str | None = None,
    module: str | None = None,
    names: str = "anything",
) -> str:
    """Return what a test with this `reference` marker lacks, "" if it can run."""
    if module is not None and not importlib.util.find_spec(module):
        return f"no module {module}: {names}"
    if module is not None and not programs:
        return ""
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
        """Return what CI must not accept, one line each."""
        found = [f"{test} was skipped" for test in self.others]
        skipped, most = len(self.reference), self.most_reference
        if most is not None and skipped > most:
            found.append(f"{skipped} reference tests were skipped, at most {most} expected")
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reference = "reference" in report.keywords  # the names of its markers are among them
            (self.reference if reference else self.others).append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # a whole module, by importorskip
            self.others.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.in_ci and self.problems() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"skipped: {len(self.reference)} that need what set-up does not install, "
            f"{len(self.others)} others"
        )
        if self.in_ci:
            for problem in self.problems():
                terminalreporter.write_line(f"CI: {problem}", red=True)


class Tally:
    """Leaves for tests/run.py how many tests passed, failed, were skipped; and which failed."""

    def __init__(self, path: Path, ledger: SkipLedger) -> None:
        self.path, self.ledger = path, ledger

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stats = terminalreporter.stats
        count = {name: len(reports) for name, reports in stats.items()}
        tally = {
            "passed": count.get("passed", 0),
            "failed": sum(count.get(name, 0) for name in WRONG),
            "skipped": count.get("skipped", 0),
            "reference": len(self.ledger.reference),
            "problems": len(self.ledger.problems()) if self.ledger.in_ci else 0,
            "wrong": sorted({each.nodeid for name in WRONG for each in stats.get(name, ())}),
        }
        self.path.write_text(json.dumps(tally))
