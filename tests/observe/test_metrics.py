"""Samples, rates between them, and the text that Prometheus scrapes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import topologies
from mechanisms.fast_cnp.counters import FAST_CNPS, OUTCOMES
from observe.metrics_exposition import Exposed, exposition
from observe.metrics_reader import drop_counts, port_sample
from observe.samples import (
    DROP_REASONS,
    PortRates,
    PortSample,
    SwitchSample,
    fabric_bps,
    rates,
)

P4SRC = Path(__file__).resolve().parents[2] / "p4src"
S = 1_000_000_000


def port(rx: tuple[int, int] = (0, 0), tx: tuple[int, int] = (0, 0), **more: object) -> PortSample:
    """Return a port on a link of 8 kb/s; counts as (packets, bytes)."""
    return PortSample(*rx, *tx, rate_bps=8000, **more)  # type: ignore[arg-type]


def one(sample: PortSample, at_s: float = 0.0) -> dict[str, SwitchSample]:
    return {"s1": SwitchSample(int(at_s * S), {1: sample})}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (port(), port(), PortRates()),
        # 2 packets of 226 B in 2 s; on the wire 250 B each, which is a quarter of 8 kb/s
        (port(), port(rx=(2, 452)), PortRates(rx_bps=1808, rx_pps=1, rx_load=0.25)),
        (port(tx=(5, 900)), port(tx=(7, 1352)), PortRates(tx_bps=1808, tx_pps=1, tx_load=0.25)),
        (port(marked_packets=3), port(marked_packets=7), PortRates(marks_ps=2)),
        (
            port(counters={"fast_cnps": {"sent": 3, "interval": 1}}),
            port(counters={"fast_cnps": {"sent": 7, "interval": 99}}),
            PortRates(counters={"fast_cnps": {"sent": 2, "interval": 49}}),
        ),
        (
            port(drops={"queue": 1, "down": 2}),
            port(drops={"queue": 4, "down": 3}),
            PortRates(drops_ps=2),
        ),
        # started again in between: what it has counted since is what there is
        (
            port(rx=(100, 90000), drops={"queue": 9}),
            port(rx=(2, 452), drops={"queue": 2}),
            PortRates(rx_bps=1808, rx_pps=1, rx_load=0.25, drops_ps=1),
        ),
        # a target that does not tell
        (port(), port(marked_packets=None), PortRates()),
    ],
    ids=["idle", "rx", "tx", "marks", "fast CNPs", "drops", "reset", "unknown"],
)
def test_rates_of_a_port(before: PortSample, now: PortSample, expected: PortRates) -> None:
    found = rates(one(before), one(now, at_s=2.0))
    assert found["s1"].ports[1] == expected
    assert found["s1"].ports[1].load == max(expected.rx_load, expected.tx_load)


def test_a_link_without_a_rate_has_no_load() -> None:
    before = PortSample(0, 0, 0, 0, rate_bps=0)
    now = PortSample(9, 900, 0, 0, rate_bps=0)
    assert rates(one(before), one(now, 1.0))["s1"].ports[1].load == 0.0


def test_rates_of_a_switch() -> None:
    before = {"s1": SwitchSample(0, drops={"no_route": 4, "egress": 7}, cpu_ns=1 * S)}
    now = {"s1": SwitchSample(4 * S, drops={"no_route": 12, "egress": 7, "new": 2}, cpu_ns=2 * S)}
    found = rates(before, now)["s1"]
    assert found.drops_ps == {"no_route": 2.0, "egress": 0.0, "new": 0.5}
    assert found.cpu == 0.25


def test_switches_that_were_not_read_twice_have_no_rates() -> None:
    good, gone = SwitchSample(S), SwitchSample(S, error="no answer")
    assert rates({"s1": gone, "s2": good}, {"s1": good, "s2": gone, "s3": good}) == {}


def test_the_fabric_is_faster_by_the_time_scale() -> None:
    assert fabric_bps(40_000_000, 10_000) == 400e9


def enum_of(file: Path, name: str) -> dict[int, str]:
    """Return the values of a P4 enum and their names, in small letters."""
    body = re.search(rf"enum bit<8> {name} \{{(.*?)\}}", file.read_text(), re.DOTALL)
    assert body is not None
    return {int(value): name.lower() for name, value in re.findall(r"(\w+)\s*= (\d+)", body[1])}


def test_drop_reasons_are_those_of_the_program() -> None:
    values = enum_of(P4SRC / "include" / "types.p4", "DropReason")
    assert values.pop(0) == "forwarded"
    assert dict(DROP_REASONS) == values


def test_fast_cnp_outcomes_are_those_of_the_program() -> None:
    module = P4SRC / "modules"
    values = enum_of(module / "fast_cnp" / "claim.p4", "FastCnpOutcome")
    assert FAST_CNPS.cells(0) == values
    assert list(OUTCOMES) == list(FAST_CNPS.labels) == list(values.values())
    # port and outcome make the index
    assert "std.egress_spec << 3" in (module / "fast_cnp.p4").read_text()
    assert FAST_CNPS.cells(2) == {16 + each: name for each, name in values.items()}


CELLS = {
    "port_marked": {1: (5, 0)},
    "roce_rx": {1: (64, 70272)},
    "dropped": {9: (3, 300), 4: (1, 60)},
    "fast_cnps": {8: (12, 0), 9: (340, 0), 23: (9, 0), 1: (77, 0)},
}
ROW = {
    "interface": "w-s1-1", "state": "down", "pause_mask": 0,
    "rx_packets": 1, "rx_bytes": 2, "tx_packets": 3, "tx_bytes": 4,
    "drop_down": 5, "drop_queue": 6, "depth_packets": 7, "depth_bytes": 8, "max_depth_packets": 9,
    "link": {"rate_bps": 10, "queue_bytes": 11, "queue_packets": 64},
}  # fmt: skip


def told(**counts: int) -> dict[str, dict[str, int]]:
    return {"fast_cnps": {outcome: counts.get(outcome, 0) for outcome in OUTCOMES}}


def test_a_sample_of_the_side_channel_and_the_counters() -> None:
    assert port_sample(1, 999, ROW, CELLS) == PortSample(
        rx_packets=1, rx_bytes=2, tx_packets=3, tx_bytes=4, rate_bps=10, marked_packets=5,
        roce_packets=64, roce_bytes=70272, roce_naks=None, drops={"down": 5, "queue": 6},
        queue_packets=7, queue_bytes=8, queue_packets_max=9, queue_limit_bytes=11, up=False,
        counters=told(sent=12, interval=340),
    )  # fmt: skip


def test_a_sample_of_the_counters_alone() -> None:
    cells = {**CELLS, "port_rx": {2: (1, 100)}, "port_tx": {}}
    assert port_sample(2, 999, {}, cells) == PortSample(
        1, 100, 0, 0, rate_bps=999, marked_packets=0, roce_packets=0, roce_bytes=0,
        counters=told(ambiguous_qp=9),
    )  # fmt: skip
    without = {name: counted for name, counted in cells.items() if name != "fast_cnps"}
    assert port_sample(2, 999, {}, without).counters == {}
    assert port_sample(2, 999, {}, without).count(FAST_CNPS) is None
    assert port_sample(1, 999, {}, cells).count(FAST_CNPS) == 12


def test_drops_inside_are_told_by_the_program_where_it_does() -> None:
    switch = {
        "switch": {"ingress": 90, "drop_ingress": 4, "drop_egress": 2, "drop_no_pipeline": 1},
        "loop": {"rx": 90, "rx_dropped": 7, "tx_errors": 0},
    }
    rest = {"egress": 2, "no_program": 1, "receive_overrun": 7, "send_error": 0}
    assert drop_counts(switch, {}) == {"ingress": 4, **rest}
    told = drop_counts(switch, CELLS)
    assert {why: count for why, count in told.items() if count} == {
        "acl_denied": 1, "no_route": 3, "egress": 2, "no_program": 1, "receive_overrun": 7,
    }  # fmt: skip
    assert "ingress" not in told
    assert drop_counts({}, {}) == {}


# --- Prometheus -----------------------------------------------------------------------------------


def exposed(sample: dict[str, SwitchSample]) -> str:
    return exposition(
        Exposed("w0001", "softswitch", topologies.load("leafspine"), sample, 0.01)
    ).decode()


FULL = {
    "s1": SwitchSample(
        0, {1: port_sample(1, 0, ROW, CELLS)}, {"no_route": 3}, cpu_ns=1_500_000_000
    ),
    "s2": SwitchSample(0, error="no switch answers"),
}


def test_the_exposition_says_what_was_counted() -> None:
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposed(FULL))
        for sample in family.samples
    }
    here = (("peer", "h1"), ("port", "1"), ("switch", "s1"))
    assert found["weft_port_receive_bytes_total", here] == 2
    assert found["weft_port_transmit_packets_total", here] == 3
    assert found["weft_port_roce_receive_packets_total", here] == 64
    assert found["weft_port_ecn_marked_packets_total", here] == 5
    assert found["weft_port_queue_bytes", here] == 8
    assert found["weft_port_speed_bytes_per_second", here] == 10 / 8
    assert found["weft_port_up", here] == 0
    queue = (("peer", "h1"), ("port", "1"), ("reason", "queue"), ("switch", "s1"))
    assert found["weft_port_dropped_packets_total", queue] == 6
    for outcome, count in {"sent": 12, "interval": 340, "nobody": 0}.items():
        at = (("outcome", outcome), *here)
        assert found["weft_port_fast_cnps_total", at] == count
    inside = (("reason", "no_route"), ("switch", "s1"))
    assert found["weft_switch_dropped_packets_total", inside] == 3
    assert found["weft_switch_up", (("switch", "s1"),)] == 1
    assert found["weft_switch_up", (("switch", "s2"),)] == 0
    assert found["weft_switch_packet_loop_cpu_seconds_total", (("switch", "s1"),)] == 1.5
    assert found["weft_time_scale", ()] == 10000
    facts = {name: value for (name, labels), value in found.items() for _ in [0] if "info" in name}
    assert facts == {"weft_run_info": 1}
    assert 'runtime="softswitch"' in exposed(FULL)
    assert 'time_scale="10000"' in exposed(FULL)


def test_names_and_help_follow_the_conventions() -> None:
    text = exposed(FULL)
    families = list(text_string_to_metric_families(text))
    assert len(families) > 15
    for family in families:
        assert re.fullmatch(r"weft_[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert family.samples, f"{family.name}: a metric that nothing has is left out"
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
    # a target that tells no queue has no such metric, rather than zeros
    bare = exposed({"s1": SwitchSample(0, {1: port()})})
    assert "weft_port_queue" not in bare
    assert "weft_port_fast_cnps" not in bare


def test_no_fabric_is_a_metric_too() -> None:
    (family,) = text_string_to_metric_families(exposition(None).decode())
    assert (family.name, family.samples[0].value) == ("weft_run_up", 0)
