"""From run files to flows, streams, messages and script."""

from __future__ import annotations

import cProfile

import numpy as np
import pytest

from simulator.core.binding import Engine
from tests.call_count import total_calls
from topologies import TopologyError
from workloads.loader import load_run_file, read_run
from workloads.model import FLOW, MESSAGE, NEVER_PS, STREAM, SpanKind, Traffic
from workloads.plan import plan

# 100 Gb/s: a byte time is 80 ps. Two hosts under one switch: two links.
ONE = """\
topology:
  generator: single
  hosts: 4
  link: {rate: 100Gbps, delay: 1us, queue: 1MB, mtu: 4200B}
  classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
until: 1ms
traffic:
"""

FATTREE = """\
topology: {generator: fat_tree, k: 4, link: {rate: 400Gbps, delay: 500ns, queue: 1MB, mtu: 4200B}}
job:
"""


def planned(text: str, seed: int | None = None) -> Traffic:
    return plan(read_run(text), seed)


def spans(traffic: Traffic, kind: SpanKind) -> list[str]:
    return [span.name for span in traffic.spans if span.kind is kind]


def order_of(traffic: Traffic) -> None:
    """Check that messages wait for as many as point to them."""
    arrays = traffic.messages
    waits = np.bincount(arrays.next, minlength=len(arrays))
    assert np.array_equal(waits, arrays.messages["waits"])
    assert int(arrays.first[-1]) == len(arrays.next)
    assert (np.diff(arrays.first.astype(np.int64)) >= 0).all()


def test_cbr_is_a_stream_at_the_wire_rate() -> None:
    found = planned(ONE + "  - cbr: {from: h1, to: h2, rate: 50Gbps, start: 1us, packets: 7}\n")
    flow, stream = found.flow(0), found.streams[0]
    assert (str(flow), flow.payload, flow.dscp, flow.queue) == ("h1->h2", 4096, 26, 3)
    assert flow.udp_port >= 49152
    # 4096 + 82 bytes at 50 Gb/s
    assert int(stream["interval_ps"]) == 4178 * 160
    assert (int(stream["start_ps"]), int(stream["stop_ps"])) == (1_000_000, NEVER_PS)
    assert (int(stream["packets"]), int(stream["kind"])) == (7, 0)


def test_settings_of_flows_are_kept() -> None:
    entry = "{from: h1, to: all, rate: 1Gbps, dscp: 0, payload: 100B, udp_port: 50000, queue: 5}"
    found = planned(ONE + f"  - poisson: {entry}\n")
    assert [str(found.flow(i)) for i in range(3)] == ["h1->h2", "h1->h3", "h1->h4"]
    flow = found.flow(2)
    assert (flow.dscp, flow.payload, flow.udp_port, flow.queue) == (0, 100, 50000, 5)
    assert found.streams["kind"].tolist() == [1, 1, 1]
    assert len(set(found.streams["seed"].tolist())) == 3


def test_a_message_alone_takes_its_ideal_time() -> None:
    found = planned(ONE + "  - message: {from: h1, to: h2, bytes: 10000B, count: 3, gap: 5us}\n")
    # Three packets: 10000 + 3 * 82 bytes on the first link, the first packet again on the second.
    alone = (10_000 + 3 * 82 + 4178) * 80 + 2 * 1_000_000
    assert found.ideal_ps.tolist() == [alone] * 3
    assert found.spans[0].ideal_ps == 3 * alone + 2 * 5_000_000
    assert found.messages.messages["waits"].tolist() == [0, 1, 1]
    order_of(found)


def test_incast_is_bound_by_the_receiver() -> None:
    found = planned(ONE + "  - incast: {to: h1, senders: 3, bytes: 8192B, rounds: 2}\n")
    assert [str(found.flow(i)) for i in range(3)] == ["h2->h1", "h3->h1", "h4->h1"]
    assert spans(found, SpanKind.TRAFFIC) == ["incast 0 round 0", "incast 0 round 1"]
    busy = 3 * 2 * 4178 * 80
    assert found.spans[0].ideal_ps == busy + 2 * 1_000_000 + 4178 * 80
    assert found.messages.messages["waits"].tolist() == [0, 0, 0, 3, 3, 3]
    timed = planned(ONE + "  - incast: {to: h1, from: all, bytes: 1kB, rounds: 2, every: 9us}\n")
    assert timed.messages.messages["start_ps"].tolist() == [0] * 3 + [9_000_000] * 3
    assert timed.spans[1].ideal_ps == timed.spans[0].ideal_ps


def test_a_persistent_incast_never_ends() -> None:
    found = planned(ONE + "  - incast: {to: h1, senders: 3, persistent: true, start: 1us}\n")
    assert int(found.messages.messages["bytes"].min()) * 8 > 100 * 999_000
    assert found.spans[0].ideal_ps == 0
    assert (found.messages.messages["start_ps"] == 1_000_000).all()


def test_a_mix_has_its_load_and_its_sizes() -> None:
    text = ONE.replace("until: 1ms", "until: 1s") + "  - mix: {sizes: %s, load: 50%%, stop: %s}\n"
    for sizes, stop in (("websearch", "300ms"), ("hadoop", "20ms")):
        found = planned(text % (sizes, stop))
        size = found.messages.messages["bytes"].astype(np.int64)
        wire = int((size + 82 * -(-size // 4096)).sum())
        capacity = 4 * 100e9 / 8 * int(found.messages.messages["start_ps"].max()) / 1e12
        assert len(size) > 1000
        assert wire / capacity == pytest.approx(0.5, rel=0.1)
        ends = [(row["src"], row["dst"]) for row in found.flows]
        assert all(a != b for a, b in ends)
        assert len(set(ends)) == 12
        assert len(found.flows) == len(size)


def test_published_sizes_come_as_often_as_published() -> None:
    text = ONE + "  - mix: {sizes: hadoop, load: 100%, stop: 10ms}\n"
    size = planned(text.replace("until: 1ms", "until: 1s")).messages.messages["bytes"]
    for limit, share in ((300, 0.05), (500, 0.3), (1000, 0.6), (50_000, 0.82), (1_000_000, 0.975)):
        assert (size <= limit).mean() == pytest.approx(share, abs=0.03)
    assert size.max() <= 10_000_000


def test_a_seed_changes_only_what_is_random() -> None:
    text = ONE + "  - mix: {sizes: hadoop, load: 10%, stop: 1ms}\n"
    text += "  - cbr: {from: h1, to: h2, rate: 1Gbps}\n"
    one, same, other = planned(text), planned(text, 1), planned(text, 2)
    assert one.messages.messages.tobytes() == same.messages.messages.tobytes()
    assert one.flows.tobytes() == same.flows.tobytes()
    assert one.messages.messages.tobytes() != other.messages.messages.tobytes()
    assert one.streams["interval_ps"].tolist() == other.streams["interval_ps"].tolist()
    # The same on every machine: integers only.
    assert one.messages.messages["bytes"][:4].tolist() == [196163, 1077, 408, 526]
    assert one.messages.messages["start_ps"][:2].tolist() == [9184315, 37055780]


def test_a_script_is_frames() -> None:
    entries = "{at: 2us, from: h1, to: h3, bytes: 1000B, dscp: 10, udp: {sport: 7, dport: 9}}, "
    entries += "{at: 1us, from: h2, hex: 'ff:ff:ff:ff:ff:ff 0200 0a00 0101 88b5 00', "
    entries += "times: 3, every: 1us}"
    found = planned(ONE + f"  - script: [{entries}]\n").script
    assert [packet.at_ps for packet in found] == [1_000_000, 2_000_000, 2_000_000, 3_000_000]
    made = next(packet for packet in found if packet.source.node == "h1")
    assert (len(made.data), made.tail_length) == (42, 958)
    assert made.tail_seed != 0
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    frame = Ether(made.data + bytes(958))
    assert (frame[IP].src, frame[IP].dst, frame[IP].tos >> 2) == ("10.0.1.1", "10.0.1.3", 10)
    assert (frame[IP].len, frame[UDP].sport, frame[UDP].dport) == (986, 7, 9)
    checksum = frame[IP].chksum
    del frame[IP].chksum
    assert Ether(bytes(frame))[IP].chksum == checksum
    assert frame.dst == "02:01:00:00:00:01"  # the gateway answers with the leaf's address


def test_groups_are_megatrons() -> None:
    text = FATTREE + "  {ranks: 16, tp: 2, pp: 2, dp: 4, ep: 2, phases: [{allgather: {bytes: 1MB, "
    expected = {
        "tp": (8, [0, 1]),
        "dp": (4, [0, 2, 4, 6]),
        "pp": (8, [0, 8]),
        "ep": (8, [0, 2]),
        "dp_ep": (8, [0, 4]),
        "all": (1, list(range(16))),
    }
    for over, (count, first) in expected.items():
        found = planned(text + f"over: {over}}}}}]}}\n")
        collectives = [span for span in found.spans if span.kind is SpanKind.COLLECTIVE]
        assert len(collectives) == count
        rows = found.messages.messages[collectives[0].first : collectives[0].stop]
        sources = {found.flow(int(flow)).src.node for flow in rows["flow"]}
        assert sources == {f"h{1 + rank}" for rank in first}


def test_stride_leads_into_another_pod() -> None:
    text = FATTREE + "  {ranks: 16, placement: %s, phases: [{allreduce: {bytes: 1MB}}]}\n"
    far, near = planned(text % "stride"), planned(text % "linear")
    assert far.core_share == 1.0
    assert near.core_share == pytest.approx(4 / 16)
    assert str(far.flow(0)) == "h1->h5"
    one, other = planned(text % "random"), planned(text % "random", 2)
    assert one.flows.tobytes() == planned(text % "random", 1).flows.tobytes()
    assert one.flows.tobytes() != other.flows.tobytes()


def test_a_job_in_turn() -> None:
    text = FATTREE + "  ranks: 4\n  iterations: 2\n  start: 3us\n  phases:\n"
    text += "    - compute: 10us\n    - {name: sum, allreduce: {bytes: 4kB, repeat: 2}}\n"
    text += "    - parallel: [{alltoall: {bytes: 3kB}}, {compute: 7us}]\n"
    found = planned(text)
    order_of(found)
    assert spans(found, SpanKind.JOB) == ["job"]
    assert spans(found, SpanKind.PHASE) == [
        f"job iteration {i} phase {name}" for i in (0, 1) for name in ("1 sum", "2 parallel")
    ]
    assert spans(found, SpanKind.COLLECTIVE)[:3] == [
        "job iteration 0 phase 1 sum round 0",
        "job iteration 0 phase 1 sum round 1",
        "job iteration 0 phase 2 parallel alltoall",
    ]
    job, phases = found.spans[0], [s for s in found.spans if s.kind is SpanKind.PHASE]
    assert (job.start_ps, job.first, job.stop) == (3_000_000, 0, len(found.messages))
    # Each iteration computes 10 us, then sums twice, then exchanges beside 7 us of computing.
    assert job.ideal_ps >= 2 * (10_000_000 + phases[0].ideal_ps + 7_000_000)
    assert job.ideal_ps <= 2 * (10_000_000 + phases[0].ideal_ps + phases[1].ideal_ps)


def test_what_is_in_the_background_is_waited_for_at_the_end() -> None:
    text = FATTREE + "  ranks: 4\n  phases:\n"
    text += (
        "    - {allreduce: {bytes: 400kB}%s}\n    - compute: 1ms\n    - alltoall: {bytes: 3kB}\n"
    )
    plain, behind = planned(text % ""), planned(text % ", background: true")
    assert behind.spans[0].ideal_ps < plain.spans[0].ideal_ps
    assert behind.spans[0].ideal_ps > 1_000_000_000
    order_of(behind)


def test_the_pipelines_ideal_is_its_bubble_formula() -> None:
    """1F1B and GPipe both take (m + p - 1) x (forward + backward) where sending costs little."""
    text = FATTREE + "  {ranks: 4, pp: 4, phases: [{pipeline: {bytes: 256B, microbatches: 8, "
    text += "forward: 100us, backward: 200us, schedule: %s}}]}\n"
    for schedule in ("1f1b", "gpipe"):
        found = planned(text % schedule)
        order_of(found)
        bubble = (8 + 4 - 1) * 300_000_000
        assert bubble < found.spans[0].ideal_ps < bubble * 1.03


def test_a_ring_in_an_empty_fabric() -> None:
    """2(n-1) steps, each a piece on six links of three-tier distance at most."""
    text = FATTREE + "  {ranks: 16, placement: stride, phases: [{allreduce: {bytes: 65536B}}]}\n"
    found = planned(text)
    step = 6 * 4178 * 20 + 6 * 500_000
    assert [span.ideal_ps for span in found.spans] == [30 * step] * 3


def test_all_to_all_is_bound_by_the_nic() -> None:
    text = FATTREE + "  {ranks: 16, phases: [{alltoall: {bytes: 15MB}}]}\n"
    found = planned(text)
    packets = 15 * -(-1_000_000 // 4096)
    busy = (15_000_000 + packets * 82) * 20
    nearest = 2 * 500_000 + 4178 * 20
    assert found.spans[2].ideal_ps == busy + nearest


@pytest.mark.parametrize(
    ("name", "share", "packets"),
    [("allreduce-1024", 1.0, 33_521_664), ("alltoall-1024", 0.9375, 8_126_464)],
)
def test_the_large_files_cross_the_core_and_end_in_time(
    name: str, share: float, packets: int
) -> None:
    profile = cProfile.Profile()
    found = profile.runcall(plan, load_run_file(name))
    assert total_calls(profile) < 10_000_000  # arrays, and not packet by packet
    assert found.core_share == pytest.approx(share)
    size = found.messages.messages["bytes"].astype(np.int64)
    payload = found.flows["payload"].astype(np.int64)[found.messages.messages["flow"]]
    assert int((-(-size // payload)).sum()) == packets  # times 5 switches: 168 and 41 million hops


def test_a_random_placement_that_does_not_work_is_told() -> None:
    text = "topology: dualplane\njob: {ranks: 2, interfaces: all, placement: random, "
    text += "phases: [{allreduce: {bytes: 1MB}}]}\nseed: %d\n"
    works: dict[int, bool] = {}
    for seed in range(12):
        try:
            works[seed] = bool(read_run(text % seed))
        except TopologyError as error:
            assert "rank 0 (h" in str(error) and "place them in one plane" in str(error)
            works[seed] = False
    assert set(works.values()) == {True, False}
    run = read_run(text % next(seed for seed, fine in works.items() if fine))
    for seed, fine in works.items():
        if fine:
            assert len(plan(run, seed).flows) == 2
        else:
            with pytest.raises(TopologyError, match="can't reach rank"):
                plan(run, seed)


def test_arrays_have_the_engines_layout() -> None:
    engine = Engine()
    for ours, theirs in (
        (FLOW, engine.flow_dtype),
        (STREAM, engine.stream_dtype),
        (MESSAGE, engine.message_dtype),
    ):
        assert ours.names == theirs.names
        assert ours.itemsize == theirs.itemsize
        for name in ours.names or ():
            assert ours.fields is not None and theirs.fields is not None
            assert ours.fields[name] == theirs.fields[name]
    engine.close()


def test_who_only_receives_still_computes() -> None:
    text = FATTREE + "  {ranks: 2, phases: [{incast: {bytes: 1kB, compute: 1ms}}, {compute: 1ms}, "
    text += "{incast: {bytes: 1kB, root: 1}}]}\n"
    assert planned(text).spans[0].ideal_ps > 2_000_000_000


def test_paths_that_are_known_are_found_again_and_no_others() -> None:
    """What is kept of one topology is not taken for another's."""
    text = FATTREE + "  {ranks: 16, phases: [{allreduce: {bytes: 16kB}}]}\n"
    slower = text.replace("400Gbps", "100Gbps")
    one, other = read_run(text), read_run(slower)
    alone = plan(one), plan(other)
    again = plan(one), plan(one), plan(other)
    assert again[0].spans == again[1].spans == alone[0].spans
    assert again[2].spans == alone[1].spans
    assert alone[0].spans != alone[1].spans


def computed(text: str, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return what each rank computes before a collective, in ps: a row a phase."""
    rows = planned(text, seed).messages.messages
    return rows["gap_ps"][rows["gap_ps"] > 0].astype(np.int64).reshape(-1, 4)


def test_jitter_makes_each_rank_compute_longer_by_the_seed() -> None:
    job = "  ranks: 4\n  %sphases: [{compute: 100us}, {allreduce: {bytes: 1MB}}, {compute: 50us}]\n"
    plain = FATTREE + job % ""
    jittered = FATTREE + job % "jitter: 10%\n  "
    exact = np.array([[100], [50]]) * 10**6
    assert (computed(plain, 1) == exact).all()
    one, same, other = (computed(jittered, seed) for seed in (1, 1, 2))
    assert (one >= exact).all() and (one <= exact * 11 // 10).all()
    assert len(set(one.ravel().tolist())) == one.size
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_a_hierarchy_s_ideal_has_the_distance_once() -> None:
    text = """\
topology: {generator: data_centres, centres: 2, spines: 1, leaves: 1, hosts_per_leaf: 4, %s}
job: {ranks: 8, phases: [{allreduce: {bytes: 4MB, algorithm: %s}}]}
"""
    links = "link: {rate: 400Gbps, delay: 500ns, queue: 1GB, mtu: 4200B}, long_link: {length: %s}"

    def ideal(algorithm: str, length: str) -> int:
        (job,) = (s for s in planned(text % (links % length, algorithm)).spans if not s.parent + 1)
        return job.ideal_ps

    over_places = "hierarchical, inside: 4"
    assert ideal(over_places, "100km") - ideal(over_places, "0m") == 500 * 10**6
    # A piece goes 14 steps round a ring of eight, which crosses twice a turn.
    assert ideal("ring", "100km") - ideal("ring", "0m") == 4 * 500 * 10**6
