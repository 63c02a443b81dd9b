"""The `transport` of run files: what it comes to, and what is said of mistakes."""

from __future__ import annotations

import pytest

from mechanisms.dcqcn.parameters import SETS, DcqcnParameters, parameters
from topologies import TopologyError
from workloads.loader import read_run
from workloads.transport import Transport, transport_for

RUN = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 16MB, mtu: 4200B}
until: 1ms
transport: {congestion_control: dcqcn, window: 100}
traffic:
  - message: {from: h1, to: h2, bytes: 4KB}
  - cbr: {from: h1, to: h2, rate: 1Gbps}
  - message: {from: h1, to: h3, bytes: 4KB, transport: none}
job: {ranks: 4, phases: [{allreduce: {bytes: 1MB}}]}
"""
GBPS = 10**9


def planned(text: str, rate_bps: int = 100 * GBPS) -> Transport:
    entry = read_run(text).transport
    assert entry is not None
    return transport_for(entry, rate_bps)


def dcqcn(transport: Transport) -> DcqcnParameters:
    found = transport.algorithms["dcqcn"]
    assert isinstance(found, DcqcnParameters)
    return found


def with_(fields: str) -> str:
    return RUN.replace("window: 100", fields)


def test_nothing_given_takes_the_defaults() -> None:
    found = planned(RUN.replace("{congestion_control: dcqcn, window: 100}", "{}"))
    assert found == Transport(
        retransmission="go-back-n",
        operation="write",
        ack_every=8,
        window_packets=0,
        timeout_ps=4_200_000_000,
        retries=7,
        udp_ports=1,
        line_rate_bps=100 * GBPS,
        congestion_control="dcqcn",
        algorithms={"dcqcn": parameters("hpcc-dcqcn", 100 * GBPS)},
    )


def test_without_one_flows_are_open_loop() -> None:
    assert read_run(RUN.replace("transport: {cong", "# {cong")).transport is None


def test_no_congestion_control() -> None:
    found = planned(RUN.replace(": dcqcn", ": none"))
    assert (found.congestion_control, dict(found.algorithms)) == ("none", {})


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_that_of_the_line(name: str) -> None:
    for rate in (25 * GBPS, 400 * GBPS):
        found = planned(with_(f"parameters: {name}"), rate)
        assert found.algorithms == {"dcqcn": parameters(name, rate)}


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ("min_rate: 10Mbps", "min_rate_bps", 10**7),
        ("rate_ai: 100Mbps", "rate_ai_bps", 10**8),
        ("rate_hai: 1Gbps", "rate_hai_bps", 10**9),
        ("alpha_timer: 2us", "alpha_timer_ns", 2000),
        ("increase_timer: 55us", "increase_timer_ns", 55_000),
        ("cut_interval: 0us", "cut_interval_ns", 0),
        ("cnp_interval: 50us", "cnp_interval_ns", 50_000),
        ("byte_counter: 10MB", "byte_counter", 10**7),
        ("fast_recovery: 5", "fast_recovery", 5),
        ("clamp_target_rate: true", "clamp_target_rate", True),
        ("gain: 0.0625", "gain_q16", 4096),
    ],
)
def test_an_override_changes_one_number_and_the_name(given: str, field: str, value: int) -> None:
    found = dcqcn(planned(with_(f"overrides: {{{given}}}")))
    plain = parameters("hpcc-dcqcn", 100 * GBPS)
    assert getattr(found, field) == value
    assert found.name == "hpcc-dcqcn (changed)"
    same = set(plain.__dataclass_fields__) - {field, "name"}
    assert all(getattr(found, each) == getattr(plain, each) for each in same)


def test_no_rate_is_above_the_line() -> None:
    found = dcqcn(planned(with_("overrides: {min_rate: 5Tbps, rate_hai: 500Gbps}")))
    assert (found.min_rate_bps, found.rate_hai_bps) == (100 * GBPS, 100 * GBPS)


# (what the transport says, the one problem)
CHOSEN = "retransmission: selective-repeat, reorder: 10us, path_choice"
MISTAKES = [
    ("path_choice: {kind: hash}", "'single', 'oblivious', 'bitmap', 'reps' or 'plb', not 'hash'"),
    (f"{CHOSEN}: {{kind: reps, paths: 100}}", "must be a power of two from 2 to 256, not 100"),
    (f"{CHOSEN}: {{kind: reps, paths: 512}}", "paths: must be at most 256, not 512"),
    (
        "path_choice: {kind: reps}",
        "transport.path_choice: reps needs what came by other paths to be kept, and go-back-n "
        "keeps nothing that comes early: write retransmission: selective-repeat",
    ),
    (
        "retransmission: selective-repeat, path_choice: {kind: oblivious}",
        "transport.path_choice: oblivious lets packets overtake each other, and without 'reorder'",
    ),
    (f"{CHOSEN}: {{kind: reps}}, udp_ports: 4", "leave 'udp_ports' out"),
    (f"{CHOSEN}: {{kind: reps}}, operation: read", "use write or send"),
    (f"{CHOSEN}: {{kind: bitmap, rounds: 3}}", "'rounds' is for plb, not for bitmap"),
    ("queue_pairs: 65", "transport.queue_pairs: must be at most 64, not 65"),
    ("queue_pairs: 2", "transport.queue_pairs: messages of jobs and traces are striped"),
    ("striping: adaptive", "must be 'equal' or 'as-drained', not 'adaptive'"),
    ("striping: as-drained, piece: 100B", "transport.piece: a piece has 256B to 1GiB, not 100B"),
    ("striping: as-drained, outstanding: 0", "transport.outstanding: must be at least 1, not 0"),
    ("piece: 1MB", "transport.piece: it is for messages that are dealt out: write striping: as-"),
    ("outstanding: 4", "transport.outstanding: it is for messages that are dealt out"),
    (
        "parameters: hpcc",
        "6:40: transport.parameters: there is no parameter set 'hpcc': choose ns3-rdma, "
        "hpcc-dcqcn-paper, hpcc-dcqcn",
    ),
    ("windw: 8", "transport.windw: unknown key 'windw'; did you mean 'window'?"),
    ("window: 0", "transport.window: must be at least 1, not 0"),
    ("window: 4194305", "transport.window: go-back-n has at most 4194304 packets on the way"),
    (
        "retransmission: selective-repeat, window: 8193",
        "transport.window: selective-repeat has at most 8192 packets on the way",
    ),
    ("retransmission: ack", "must be 'go-back-n' or 'selective-repeat', not 'ack'"),
    ("operation: atomic", "transport.operation: must be 'write', 'send' or 'read', not 'atomic'"),
    ("mtu: 1500B", "a RoCE MTU is 256B, 512B, 1024B, 2048B or 4096B, not 1500B"),
    ("timeout: 0us", "transport.timeout: a timer is at least 1ns"),
    ("timeout: 4", "transport.timeout: 4 has no unit: write 4 with one of ps"),
    ("ack_every: 0", "transport.ack_every: must be at least 1, not 0"),
    ("retries: -1", "transport.retries: "),
    ("udp_ports: 2000", "transport.udp_ports: must be at most 1024, not 2000"),
    ("overrides: {alpha: 1us}", "transport.overrides.alpha: unknown key 'alpha'"),
    ("overrides: {rate_ai: 100}", "transport.overrides.rate_ai: 100 has no unit"),
    ("overrides: {gain: 2}", "transport.overrides.gain: must be at most 1.0, not 2"),
    ("overrides: {alpha_timer: 0us}", "overrides.alpha_timer: a timer is at least 1ns"),
]


def problem(text: str) -> str:
    with pytest.raises(TopologyError) as caught:
        read_run(text, file="run.yaml")
    (found,) = caught.value.problems
    return str(found)


@pytest.mark.parametrize(("fields", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(fields: str, message: str) -> None:
    found = problem(with_(fields))
    assert found.startswith("run.yaml:6:")
    assert message in found


def test_congestion_control_is_known() -> None:
    found = problem(RUN.replace(": dcqcn", ": timely"))
    assert "6:13: transport.congestion_control: no congestion control 'timely': " in found
    assert "dcqcn, fast-cnp, " in found


def test_packets_have_to_fit_the_links() -> None:
    found = problem(with_("mtu: 4096B").replace("mtu: 4200B", "mtu: 4100B"))
    assert "transport.mtu: 4096B do not fit the MTU of 4100B behind 44B of headers" in found
    assert "'mtu: 4140B'" in found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "to: h2, bytes: 4KB",
            "to: h2, bytes: 4KB, payload: 1000B",
            "8:45: traffic[0].message.payload: with a transport a packet carries 256B, 512B, 1024B",
        ),
        (
            "transport: none",
            "transport: none, operation: read",
            "traffic[2].message.operation: an open-loop flow has no operations",
        ),
        (
            "rate: 1Gbps",
            "rate: 1Gbps, operation: send",
            "traffic[1].cbr.operation: packets at given times are always open loop",
        ),
        ("transport: none", "transport: tcp", "traffic[2].message.transport: must be 'none', not"),
    ],
)
def test_what_an_entry_may_not_say(old: str, new: str, message: str) -> None:
    found = problem(RUN.replace(old, new))
    assert message in found


def test_the_ports_of_a_queue_pair_end() -> None:
    found = problem(
        with_("udp_ports: 4").replace("to: h2, bytes", "to: h2, udp_port: 65533, bytes")
    )
    assert "8:33: traffic[0].message.udp_port: 4 UDP ports from 65533 on end behind 65535" in found
    assert "at most 65532" in found
    read_run(with_("udp_ports: 3").replace("to: h2, bytes", "to: h2, udp_port: 65533, bytes"))


def test_operations_need_a_transport() -> None:
    text = RUN.replace("transport: {cong", "# {cong").replace("transport: none", "operation: read")
    assert "give the run a 'transport'" in problem(text)


def test_a_job_s_packets_are_a_transport_s_too() -> None:
    found = problem(RUN.replace("{ranks: 4,", "{ranks: 4, payload: 1000B,"))
    assert found.startswith("run.yaml:11:17: job.payload: a transport's payloads are powers of two")


def test_a_line_beyond_dcqcn_is_told() -> None:
    found = problem(RUN.replace("rate: 100Gbps", "rate: 5Tbps"))
    assert "transport.parameters: a line of 5000000000000 bits/s" in found
