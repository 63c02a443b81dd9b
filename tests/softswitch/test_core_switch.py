"""Loading, arrays, meters, clones, replication, recirculation and determinism of the core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.core import (
    CoreConfig,
    CoreError,
    CoreErrorCode,
    Counter,
    MeterConfig,
    OutputKind,
    PortState,
    Replica,
    Session,
    SwitchCore,
)

CLONE_INGRESS, RESUBMIT, LEARN, CLONE_EGRESS = 1, 2, 4, 8
TRUNCATE, DROP_EGRESS, METER, LOG = 16, 32, 64, 128
NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRC, REPLICATION, RESUBMITTED = 0, 1, 2, 4, 5, 6
EXACT = 0
US = 1_000_000
DROP = 511


# --- loading ------------------------------------------------------------------------------------


def test_descriptor(toy: Any) -> None:
    descriptor = toy.core.descriptor
    assert [t.name for t in descriptor.tables] == [
        "exact",
        "lpm",
        "ternary",
        "range",
        "select",
        "keyless",
    ]
    assert descriptor.table("exact").direct_meter == 1
    assert descriptor.table("select").profile == 0
    assert descriptor.table("lpm").profile is None
    assert [k.offset for k in descriptor.table("lpm").keys] == [0, 1]
    assert descriptor.action("wide").param_bits == (64, 72)
    assert descriptor.register("wide").bitwidth == 100
    assert descriptor.meter("direct").direct_table == EXACT
    with pytest.raises(KeyError):
        descriptor.table("nowhere")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param("int nothing;", "no symbol weft_pipeline", id="no symbol"),
        pytest.param(
            '#include "pipeline_abi.h"\nconst struct wp_pipeline weft_pipeline = {1};',
            "pipeline ABI 1",
            id="another ABI",
        ),
        pytest.param(
            '#include "pipeline_abi.h"\n'
            'const struct wp_key_desc k[] = {{"k", 0, 8192, 0, 1024}};\n'
            'const struct wp_table_desc t[] = {{.name = "big", .n_keys = 1, .keys = k,'
            " .key_bytes = 1024}};\n"
            "const struct wp_pipeline weft_pipeline = {WP_ABI_VERSION, 512, 0, 1, .tables = t};",
            "table big: a key of 1024 bytes",
            id="key too long",
        ),
    ],
)
def test_what_is_no_pipeline_changes_nothing(
    toy: Any, tmp_path: Path, compile_c: Callable[..., Path], source: str, says: str
) -> None:
    (tmp_path / "bad.c").write_text(source)
    bad = compile_c(tmp_path / "bad.c", tmp_path / "bad.so")
    toy.core.table_insert(EXACT, bytes(5), None, 0, toy.forward(7))
    with pytest.raises(CoreError, match=says) as error:
        toy.core.load(bad)
    assert error.value.code == CoreErrorCode.ELOAD
    assert toy.ask(table=1).port == 7


def test_files_that_cannot_be_loaded(toy: Any, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a shared object")
    for path in (tmp_path / "absent.so", tmp_path / "text.so"):
        with pytest.raises(CoreError, match=path.name):
            toy.core.load(path)


def test_load_forgets_everything(toy: Any, toy_so: Path) -> None:
    core = toy.core
    core.table_insert(EXACT, bytes(5), None, 0, toy.forward(7))
    core.multicast_set(1, [Replica(1)])
    core.clone_session_set(1, Session.to_port(3))
    core.register_set(0, 0, 9)
    core.set_port(1, 2)
    toy.send()  # waits at the blocked port
    toy.send(rounds=1, out=2)  # waits for recirculation
    core.load(toy_so)
    assert core.table_count(EXACT) == 0
    assert core.register_get(0, 0) == 0
    core.advance(10 * US)
    assert toy.take() == []
    assert core.port_stats(1).depth_packets == 0
    toy.send(group=1, flags=CLONE_INGRESS, session=1)
    stats = core.stats()
    assert (stats.multicast_unknown_group, stats.clone_unknown_session) == (1, 1)


def test_without_a_pipeline_packets_drop(make_core: Callable[..., Any]) -> None:
    with make_core() as core:
        core.inject(1, bytes(64), 5)
        assert core.take_output() == []
        assert core.stats().drop_no_pipeline == 1
        with pytest.raises(CoreError, match="no pipeline"):
            _ = core.descriptor


@pytest.mark.parametrize(
    "bad", [{"priorities": 0}, {"priorities": 9}, {"tick_ps": 0}, {"recirculate_ps": 0}]
)
def test_configurations_that_cannot_be(bad: dict[str, int]) -> None:
    with pytest.raises(CoreError):
        SwitchCore(CoreConfig(**bad))


# --- arrays and meters --------------------------------------------------------------------------


def test_registers_and_counters(toy: Any) -> None:
    core = toy.core
    for _ in range(3):
        toy.send(port=5, key8=2, out=2, payload=bytes(8))
    assert core.register_get(0, 5) == 3
    assert core.register_get(1, 0) == 3 << 63  # carries into the second limb
    core.register_set(1, 1, (1 << 100) - 1)
    assert core.register_get(1, 1) == (1 << 100) - 1
    assert core.counter_get(0, 2) == Counter(3, 120)
    core.counter_set(0, 2, Counter(1, 2))
    assert core.counter_get(0, 2) == Counter(1, 2)
    for call in (
        lambda: core.register_get(0, 8),
        lambda: core.register_get(2, 0),
        lambda: core.counter_get(0, 4),
        lambda: core.counter_get(1, 0),
        lambda: core.register_set(1, 0, 1 << 100),
        lambda: core.meter_set(1, 0, None),
    ):
        with pytest.raises(CoreError):
            call()


def test_meter_colours_by_packets(toy: Any) -> None:
    """1 000/s committed with a burst of 2, 2 000/s peak with a burst of 4."""
    config = MeterConfig(cir=1000, cburst=2, pir=2000, pburst=4)
    assert toy.core.meter_get(0, 1) is None
    toy.core.meter_set(0, 1, config)
    assert toy.core.meter_get(0, 1) == config
    colours = [toy.ask(flags=METER, arg=1).colour for _ in range(6)]
    assert colours == [0, 0, 1, 1, 2, 2]
    toy.core.advance(1000 * US)  # 1 ms: one committed, two peak tokens
    assert [toy.ask(flags=METER, arg=1).colour for _ in range(3)] == [0, 1, 2]
    assert toy.ask(flags=METER, arg=0).colour == 0  # not configured
    toy.core.meter_set(0, 1, None)
    assert toy.ask(flags=METER, arg=1).colour == 0


def test_direct_meter_counts_bytes(toy: Any) -> None:
    handle = toy.core.table_insert(EXACT, bytes(5), None, 0, toy.forward(1))
    toy.core.direct_meter_set(EXACT, handle, MeterConfig(0, 100, 0, 150))
    colours = [toy.ask(table=1, flags=METER, payload=bytes(18)).colour for _ in range(4)]
    assert colours == [0, 0, 1, 2]
    with pytest.raises(CoreError):
        toy.core.direct_meter_set(EXACT, handle, MeterConfig(2, 1, 1, 1))


# --- clones -------------------------------------------------------------------------------------


def test_ingress_clone_is_the_packet_as_received(toy: Any) -> None:
    toy.core.clone_session_set(9, Session.to_port(4))
    toy.send(port=6, flags=CLONE_INGRESS, session=9, table=1, out=2, payload=b"abc")
    clone, original = toy.take()
    assert (clone.port, clone.instance_type, clone.tag) == (4, INGRESS_CLONE, 0x77)
    assert clone.data[16:18] == bytes(2) and clone.ingress_port == 0
    assert (original.port, original.instance_type, original.tag) == (2, NORMAL, 0x77)
    assert original.ingress_port == 6
    assert clone.payload == original.payload == b"abc"


def test_egress_clone_is_the_packet_at_the_end_of_egress(toy: Any) -> None:
    toy.core.clone_session_set(9, Session.to_port(4))
    toy.send(port=6, flags=CLONE_EGRESS, session=9, out=2, payload=b"abc")
    original, clone, *rest = toy.take()
    assert (original.port, original.instance_type) == (2, NORMAL)
    # The clone ran egress itself (and asked for a clone, which takes time).
    assert (clone.port, clone.instance_type, clone.tag) == (4, EGRESS_CLONE, 0x66)
    assert clone.ingress_port == 6  # headers are as egress left them
    assert rest == []


def test_egress_clones_of_egress_clones_take_time(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(recirculate_packets=1)
    toy.core.clone_session_set(9, Session.to_port(4))
    toy.send(flags=CLONE_EGRESS, session=9, out=2)
    toy.core.advance(10 * US)
    times = [seen.at_ps for seen in toy.take()]
    assert times[:2] == [0, 0]
    assert times[-1] == 10 * US
    assert len(times) < 40


def test_clone_to_a_group_and_truncated(toy: Any) -> None:
    toy.core.multicast_set(40000, [Replica(4, 1), Replica(5, 2)])
    toy.core.clone_session_set(9, Session.to_group(40000, truncate=40))
    toy.send(flags=CLONE_INGRESS, session=9, out=2, payload=bytes(100))
    outputs = toy.take()
    assert [(o.port, len(o.data), o.rid) for o in outputs] == [(4, 40, 1), (5, 40, 2), (2, 132, 0)]
    assert toy.core.stats().cloned == 1


def test_clone_of_an_unknown_session(toy: Any) -> None:
    toy.send(flags=CLONE_INGRESS | CLONE_EGRESS, session=3)
    assert len(toy.take()) == 1
    assert toy.core.stats().clone_unknown_session == 2
    toy.core.clone_session_set(3, Session.to_port(1))
    toy.core.clone_session_set(3, None)
    with pytest.raises(CoreError):
        toy.core.clone_session_set(3, None)


def test_truncate_and_drop_in_egress(toy: Any) -> None:
    assert len(toy.ask(flags=TRUNCATE, arg=33, payload=bytes(100)).data) == 33
    assert len(toy.ask(flags=TRUNCATE, arg=200, payload=bytes(100)).data) == 132
    toy.send(flags=DROP_EGRESS)
    toy.send(out=DROP)
    assert toy.take() == []
    assert (toy.core.stats().drop_egress, toy.core.stats().drop_ingress) == (1, 1)


# --- replication, resubmit, recirculation ---------------------------------------------------------


def test_multicast_beats_unicast(toy: Any) -> None:
    toy.core.multicast_set(7, [Replica(3, 30), Replica(1, 10), Replica(3, 31)])
    toy.send(group=7, out=9, payload=b"xyz")
    outputs = toy.take()
    assert [(o.port, o.rid, o.instance_type) for o in outputs] == [
        (3, 30, REPLICATION),
        (1, 10, REPLICATION),
        (3, 31, REPLICATION),
    ]
    assert {o.payload for o in outputs} == {b"xyz"}
    toy.core.multicast_set(7, [])
    with pytest.raises(CoreError):
        toy.core.multicast_set(7, [])
    toy.send(group=7)
    assert toy.take() == []
    assert toy.core.stats().multicast_unknown_group == 1


@pytest.mark.parametrize(
    ("down", "copies"),
    [
        ((), [(3, 30), (1, 10)]),
        ((3,), [(4, 40), (1, 10)]),
        ((3, 4), [(5, 50), (1, 10)]),
        ((4,), [(3, 30), (1, 10)]),
        ((1,), [(3, 30), (6, 60)]),
        ((3, 1), [(4, 40), (6, 60)]),
        ((3, 4, 5), [(1, 10)]),  # one goes to port 3, which is down
        ((3, 4, 5, 1, 6), []),
    ],
)
def test_the_first_of_a_replica_and_its_backups_whose_port_is_up(
    toy: Any, down: tuple[int, ...], copies: list[tuple[int, int]]
) -> None:
    first = [Replica(3, 30), Replica(4, 40, backup=True), Replica(5, 50, backup=True)]
    toy.core.multicast_set(7, [*first, Replica(1, 10), Replica(6, 60, backup=True)])
    for port in down:
        toy.core.set_port(port, PortState.DOWN)
    toy.send(group=7)
    assert [(o.port, o.rid) for o in toy.take()] == copies
    assert toy.core.stats().replicated == 2
    for port in down:
        toy.core.set_port(port, PortState.UP)
    toy.send(group=7)
    assert [(o.port, o.rid) for o in toy.take()] == [(3, 30), (1, 10)]


def test_a_group_does_not_begin_with_a_backup(toy: Any) -> None:
    with pytest.raises(CoreError):
        toy.core.multicast_set(7, [Replica(3, 30, backup=True)])


def test_resubmit_starts_over_with_the_preserved_fields(toy: Any) -> None:
    toy.core.clone_session_set(9, Session.to_port(4))
    toy.send(port=6, flags=RESUBMIT | CLONE_INGRESS, session=9, out=2)
    (clone,) = toy.take()  # made before the original is resubmitted
    assert (clone.port, clone.instance_type) == (4, INGRESS_CLONE)
    toy.core.clone_session_set(9, None)
    toy.core.advance(US)
    (again,) = toy.take()
    assert (again.at_ps, again.port, again.ingress_port) == (US, 2, 0)
    assert again.instance_type == NORMAL  # ingress ends with it, as in BMv2
    assert toy.core.stats().resubmitted == 1


def test_recirculation_takes_time_and_comes_in_at_port_0(toy: Any) -> None:
    toy.send(port=6, out=2, rounds=2, table=9, payload=b"p")
    assert toy.take() == []
    assert toy.core.next_event() == US
    toy.core.advance(5 * US)
    (seen,) = toy.take()
    assert (seen.at_ps, seen.port, seen.ingress_port) == (2 * US, 2, 0)
    # Each of three egress passes put 4 bytes in front of the payload.
    assert seen.payload == b"\xde\xad\xbe\xef" * 3 + b"p"
    # Counters add the length as recirculated.
    assert toy.core.counter_get(0, 0) == Counter(3, 33 + 37 + 41)


def test_the_recirculation_path_is_bounded(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(recirculate_packets=2)
    for _ in range(5):
        toy.send(rounds=1)
    assert toy.core.stats().drop_recirculate == 3
    toy.core.advance(US)
    assert len(toy.take()) == 2


def test_a_packet_that_grows_for_ever_is_dropped(toy: Any) -> None:
    toy.send(table=9, rounds=255, payload=bytes(16384 - 33))
    toy.core.advance(1000 * US)
    assert toy.take() == []
    assert toy.core.stats().drop_recirculate == 1


# --- digests, CPU port, log ---------------------------------------------------------------------


def test_digest(toy: Any) -> None:
    toy.send(flags=LEARN, key32=0x01020304, key8=9, out=2, at=7)
    digest, packet = toy.take()
    assert (digest.kind, digest.port, digest.data, digest.at_ps) == (
        OutputKind.DIGEST,
        0,
        bytes([1, 2, 3, 4, 9]),
        7,
    )
    assert toy.core.descriptor.learns[0].split(digest.data) == [0x01020304, 9]
    assert packet.kind is OutputKind.PACKET


def test_cpu_port(make_toy: Callable[..., Any]) -> None:
    toy = make_toy(cpu_port=255)
    assert toy.ask(out=255).kind is OutputKind.CPU
    assert toy.ask(out=254).kind is OutputKind.PACKET


def test_log_lines(toy: Any) -> None:
    lines: list[tuple[int, str]] = []
    toy.core.set_log(lambda level, line: lines.append((level, line)))
    toy.send(flags=LOG, port=3, key8=200)
    toy.core.set_log(None)
    toy.send(flags=LOG)
    assert lines == [(0, "key 200 on port 3"), (1, "assertion")]
    assert toy.core.stats().assert_failures == 2


def test_frames_of_every_size(toy: Any) -> None:
    for size in (0, 1, 31, 32, 33, 2047, 2048, 2049, 9018, 16384):
        data = (bytes(2) + b"\0\1" + bytes(28) + bytes(range(256)) * 64)[:size]
        toy.core.inject(2, data, 0)
        outputs = toy.take()
        if size < 32:  # the parser fails, the toy drops
            assert outputs == []
        else:
            assert outputs[0].payload == data[32:]
    toy.core.inject(2, bytes(16385), 0)
    assert toy.take() == []
    assert toy.core.stats().parser_errors == 3


def test_the_same_seed_gives_the_same_run(make_toy: Callable[..., Any]) -> None:
    def run(seed: int) -> list[Any]:
        toy = make_toy(seed=seed)
        toy.core.multicast_set(1, [Replica(1), Replica(2), Replica(3)])
        for i in range(50):
            toy.send(table=7, at=i * 1000, rounds=i % 3, group=i % 5 == 0)
        toy.core.advance(100 * US)
        return [(o.port, o.at_ps, o.data) for o in toy.take()]

    assert run(1) == run(1)
    assert run(1) != run(2)
