"""`failover:` of a run's transport: what it comes to, and what is said of mistakes."""

from __future__ import annotations

import pytest

from hostagent.rnic.planes import FIRST_HASH, NO_PLANES, PlaneConfig, PlaneUse
from mechanisms.dual_plane.lint import failover_remarks
from mechanisms.dual_plane.parameters import DualPlaneParameters
from topologies import TopologyError
from topologies.lint.findings import Severity
from workloads.lint_transport import transport_faults
from workloads.loader import read_run
from workloads.senders import choices, name_of, running
from workloads.transport import Transport, transport_for
from workloads.transport_schema import PLANES_LINK_DELAY_PS

US, MS, S = 10**6, 10**9, 10**12
GBPS = 10**9
RUN = """\
topology:
  switches: [s1, s2]
  hosts: [h1, h2]
  link: {rate: 200Gbps, delay: 500ns, queue: 4MB, mtu: 4200B}
  links:
    - {a: "h1:0", b: s1:1}
    - {a: "h2:0", b: s1:2}
    - {a: "h1:1", b: s2:1}
    - {a: "h2:1", b: s2:2}
  classes: {roce: {dscp: 26, queue: 3}}
until: 1ms
transport: {congestion_control: none, retransmission: selective-repeat, interfaces: all, %s}
traffic:
  - incast: {to: h2, from: h1, persistent: true}
"""


def planned(keys: str) -> Transport:
    entry = read_run(RUN % keys).transport
    assert entry is not None
    return transport_for(entry, 400 * GBPS, interfaces=2)


def test_true_is_all_defaults_of_one_plane() -> None:
    found = planned("failover: true")
    assert found == planned("failover: {}")
    assert found.planes == PlaneConfig(PlaneUse.SHARED, 3, 50 * US, MS)
    assert found.algorithms["dual_plane"] == DualPlaneParameters(
        line_rate_bps=200 * GBPS,
        min_rate_bps=GBPS // 2,
        hold_ns=10_000_000,
        hold_most_ns=10_000_000_000,
        stable_ns=2_000_000_000,
        ramp_ns=100_000,
        answers=5,
    )
    assert found.link_delay_ps == PLANES_LINK_DELAY_PS


def test_one_plane_at_a_time_is_path_migration() -> None:
    found = planned("failover: {mode: migrate, first: hash, switch: 10ms, back: 200ms}")
    assert found.planes == PlaneConfig(
        PlaneUse.SINGLE,
        first=FIRST_HASH,
        tries=1,
        by_link=True,
        switch_ps=10 * MS,
        return_ps=200 * MS,
    )
    assert not found.algorithms  # nothing is to be decided on planes
    text = (RUN % "failover: {mode: migrate}").replace("selective-repeat", "go-back-n")
    assert read_run(text).transport is not None


def test_without_it_interfaces_are_lines_of_one_device() -> None:
    for keys in ("reorder: 10us", "failover: false"):
        found = planned(keys)
        assert (found.planes, found.link_delay_ps) == (NO_PLANES, 0)
        assert not found.algorithms


def test_it_runs_beside_whatever_congestion_control_there_is() -> None:
    entry = read_run((RUN % "failover: true").replace(": none", ": fast-cnp")).transport
    assert entry is not None
    assert [each.name for each in running(entry)] == ["dcqcn", "fast-cnp", "dual-plane"]
    found = transport_for(entry, 400 * GBPS, interfaces=2)
    assert found.congestion_control == "fast-cnp"
    assert {each.line_rate_bps for each in found.algorithms.values()} == {200 * GBPS}
    assert name_of(found.algorithms) == "fast-cnp"
    assert name_of({"dual_plane"}) == "none"
    assert "dual-plane" not in [each.name for each in choices()]


def test_times_and_rates_are_scaled() -> None:
    found = planned("failover: {silence: 40us, hold: 1ms}, link_delay: 5us")
    assert found.planes.with_time_scale(100).silence_ps == 4 * MS
    fields = found.fields(100)["dual_plane"]
    assert (fields["hold_ns"], fields["line_rate"]) == (100_000_000, 2 * GBPS)
    assert (fields["answers"], found.link_delay_ps) == (5, 5 * US)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("interfaces: all", "interfaces: one", "write interfaces: all"),
        ("selective-repeat", "go-back-n", "write retransmission: selective-repeat"),
        ("failover: true", "failover: {mode: migrate, hold: 1ms}", "'hold' is for mode share"),
        ("failover: true", "failover: {tries: 2}", "'tries' is for mode migrate"),
        ("failover: true", "failover: {mode: migrate, tries: 9}", "after 8 time-outs"),
        ("failover: true", "failover: {hold: 11s}", "hold is above hold_most, 10s"),
        ("failover: true", "failover: {misses: 256}", "at most 255, not 256"),
        ("failover: true", "failover: {answers: 0}", "answers"),
        ("failover: true", "failover: {silence: 0ns}", "a timer is at least 1ns"),
        ("failover: true", "failover: {silent: 1us}", "did you mean 'silence'"),
        ("failover: true", "failover: yes please", "failover"),
        ("failover: true", "failover: true, queue_pairs: 2", "interfaces: one"),
        (
            '    - {a: "h1:1", b: s2:1}\n    - {a: "h2:1", b: s2:2}\n',
            "    - {a: s1:9, b: s2:9}\n",
            "h1 has one interface, and 'failover' needs two planes",
        ),
        ("  classes:", '    - {a: "h1:2", b: s1:3}\n  classes:', "as many at both ends"),
        ("  classes:", "  stock_nics: [h2]\n  classes:", "h2 has a stock NIC"),
    ],
)
def test_mistakes_are_told_once(before: str, after: str, told: str) -> None:
    text = RUN % "failover: true"
    assert before in text
    with pytest.raises(TopologyError) as error:
        read_run(text.replace(before, after))
    assert len(error.value.problems) == 1, str(error.value)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("keys", "severity", "told"),
    [
        ("failover: {silence: 1us}", Severity.WARNING, "is less than a round trip"),
        ("failover: true, timeout: 200us", Severity.WARNING, "a time-out of 200us comes before"),
        ("failover: {hold: 4ms}", Severity.INFO, "5 probes take 5ms"),
    ],
)
def test_lint_finds_times_that_contradict_each_other(
    keys: str, severity: Severity, told: str
) -> None:
    (remark,) = failover_remarks(read_run(RUN % keys))
    assert remark.severity is severity
    assert told in remark.message


def test_lint_has_nothing_to_say_of_the_defaults_or_without_it() -> None:
    for keys in ("failover: true, reorder: 160us", "failover: true", "reorder: 1us"):
        assert not list(failover_remarks(read_run(RUN % keys)))


def test_lint_asks_for_reorder_only_where_nothing_tells_what_came_by_each_plane() -> None:
    def asked(keys: str) -> bool:
        found = transport_faults(read_run(keys))
        return any("several interfaces" in each.message for each in found)

    assert not asked(RUN % "failover: true")
    assert asked(RUN % "failover: true, operation: read")
    assert not asked(RUN % "failover: true, operation: read, reorder: 100us")
    assert asked(RUN % "window: 256")
