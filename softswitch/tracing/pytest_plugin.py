"""For tests: when one fails, its report shows what the packets met that it sent.

pytest_plugins = ["softswitch.tracing.pytest_plugin"]      # in the top conftest.py

def test_it_is_routed(explained):
    switch = explained(Switch.from_p4("prog.p4"))
    switch.inject(1, frame)
    assert switch.run_until(1_000_000)[0].port == 2
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from softswitch.switch import Switch

LONGEST = 400
"""Lines of one switch's text in a report: the last ones."""

_SWITCHES = pytest.StashKey[list[Switch]]()


@pytest.fixture
def explained(request: pytest.FixtureRequest) -> Callable[[Switch], Switch]:
    """Return a function that turns tracing on for a switch and returns the switch."""
    switches: list[Switch] = request.node.stash.setdefault(_SWITCHES, [])

    def add(switch: Switch) -> Switch:
        switch.trace()
        switches.append(switch)
        return switch

    return add


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the traces of a failing test's switches to its report."""
    report = yield
    if call.when == "call" and report.failed:
        none: list[Switch] = []
        switches = item.stash.get(_SWITCHES, none)
        for number, switch in enumerate(switches):
            lines = switch.explain().splitlines()
            left_out = [f"({len(lines) - LONGEST} lines before)"] * (len(lines) > LONGEST)
            text = "\n".join([*left_out, *lines[-LONGEST:]])
            report.sections.append((f"packets of switch {number}", text))
    return report
