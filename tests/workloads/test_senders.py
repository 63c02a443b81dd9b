"""A sender more for a while: run files name it meanwhile, and not before or after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from topologies.errors import TopologyError
from workloads.loader import read_run
from workloads.senders import (
    Sender,
    name_of,
    running,
    senders,
    titles,
    why_not_together,
    with_sender,
)
from workloads.transport import transport_for

RUN = """
topology: {generator: single, hosts: 3, link: {rate: 100Gbps, delay: 1us, queue: 1MB}}
transport: {congestion_control: mine}
traffic: [{incast: {to: h1, from: [h2, h3], bytes: 1MB}}]
"""


@dataclass(frozen=True)
class Mine:
    """Parameters of the line alone."""

    line_rate_bps: int
    receiver_cnp_interval_ns: int | None = None

    def fields(self) -> Mapping[str, int]:
        return {"line_rate": self.line_rate_bps}

    def with_time_scale(self, scale: int) -> Mine:
        return Mine(self.line_rate_bps // scale)


MINE = Sender("mine", "mine", "my_algorithm", lambda _, line_rate_bps: Mine(line_rate_bps))


def assert_unknown() -> None:
    with pytest.raises(TopologyError, match="congestion_control"):
        read_run(RUN)


def test_run_file_names_it_meanwhile_and_no_longer() -> None:
    before = senders()
    assert_unknown()
    for _ in range(2):
        with with_sender(MINE):
            entry: Any = read_run(RUN).transport
            assert entry.congestion_control == "mine"
            planned = transport_for(entry, 10**11)
            assert planned.fields(10) == {"my_algorithm": {"line_rate": 10**10}}
            assert read_run(RUN.replace("mine", "none")).transport is not None
        assert senders() == before
        assert_unknown()


def test_sender_is_gone_after_an_error() -> None:
    before = senders()
    with pytest.raises(ZeroDivisionError), with_sender(MINE):
        _ = 1 // 0
    assert senders() == before


def test_name_that_is_there_already_is_refused() -> None:
    before = senders()
    words = "two mechanisms' senders have mine"
    with with_sender(MINE), pytest.raises(ValueError, match=words), with_sender(MINE):
        pass
    assert senders() == before


def test_two_senders_run_together() -> None:
    run = read_run(RUN.replace("mine", "encc+fast-cnp"))
    entry: Any = run.transport
    assert {each.name for each in running(entry)} == {"encc", "fast-cnp", "dcqcn"}
    planned = transport_for(entry, 10**11, topology=run.topology)
    assert planned.congestion_control == "encc+fast-cnp"
    assert set(planned.algorithms) == {"encc", "fast_cnp", "dcqcn"}
    assert set(name_of(planned.algorithms).split("+")) == {"encc", "fast-cnp"}
    assert titles("encc+fast-cnp").count(" and ") == 2
    stock = transport_for(entry, 10**11, stock=True, topology=run.topology)
    assert stock.congestion_control == "encc"  # it does not hear what rates switches say
    assert set(stock.algorithms) == {"encc", "dcqcn"}


@pytest.mark.parametrize("control", ["encc+bolt", "powertcp+swift+bolt"])
def test_senders_that_need_another_shim_do_not_run_together(control: str) -> None:
    with pytest.raises(TopologyError, match="a packet has one telemetry shim, which"):
        read_run(RUN.replace("mine", control))
    for fine in ("encc+powertcp", "bolt+swift", "bolt+fast-cnp"):
        assert why_not_together(fine) == ""


@pytest.mark.parametrize("control", ["encc+", "encc+encc", "encc+none", "+", "", "encc + swift"])
def test_what_does_not_run_together_is_refused(control: str) -> None:
    with pytest.raises(TopologyError, match="encc, powertcp, swift, bolt, none, or two that run"):
        read_run(RUN.replace("mine", repr(control)))
