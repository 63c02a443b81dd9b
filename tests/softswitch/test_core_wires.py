"""What goes wrong on the wire: counted, drawn from the port's own seeded generators, repeatable.

inject -> [receive wire] -> ingress ... egress -> port -> [send wire] -> output
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import pytest

from softswitch.core import CoreError, Direction, ImpairStats, PortConfig, PortImpair, PortState
from softswitch.impairments import fixed_point, impair

NS = 1_000
US = 1_000_000
SECOND = 1_000_000_000_000
HEADER = 32
RATE = 10_000_000_000
SLOT = 67_200  # 84 B at 10 Gb/s, ps
GAP = 100 * NS  # between the packets of `run`
N = 20_000


def sent(core: Any, port: int = 1) -> ImpairStats:
    stats: ImpairStats = core.port_impair_stats(port, Direction.SEND)
    return stats


def numbers(outputs: list[Any]) -> list[int]:
    """Return the numbers that `run` gave the packets, in order of arrival at the far end."""
    return [int.from_bytes(o.data[4:8], "big") for o in outputs]


def run(
    toy: Any, frame: Callable[..., bytes], n: int = N, port: int = 1, **fields: Any
) -> list[Any]:
    """`n` numbered packets to `port`, one every 100 ns; everything that came of them."""
    packets = [(0, frame(out=port, key32=i, **fields), GAP * (i + 1)) for i in range(n)]
    outputs = []
    for start in range(0, n, 256):
        batch = packets[start : start + 256]
        toy.core.inject_batch(batch, now_ps=batch[-1][2])
        outputs += toy.take(until=batch[-1][2])
    toy.core.advance(GAP * (n + 1) + SECOND)
    return outputs + toy.take()


def test_a_good_wire_counts_nothing(toy: Any, frame: Callable[..., bytes]) -> None:
    for direction in Direction:
        assert toy.core.port_impair(1, direction) == PortImpair()
        toy.core.impair_port(1, direction, PortImpair())
    assert numbers(run(toy, frame, 300)) == list(range(300))
    assert sent(toy.core) == ImpairStats()


# Expected share, and the exact number that seed 1 gives: another number is another generator.
@pytest.mark.parametrize(
    ("setting", "counter", "share", "exact"),
    [
        ({"loss": "1%"}, "lost", 0.01, 192),
        ({"loss": 0.5}, "lost", 0.5, 10_053),
        ({"corrupt": "1%"}, "corrupted", 0.01, 182),
        ({"duplicate": "1%"}, "duplicated", 0.01, 206),
        ({"reorder": ("1%", 10 * US)}, "reordered", 0.01, 203),
        # 32 B are padded to 60 B, and the FCS may be hit too: 512 bits
        ({"bit_errors": "1e-4"}, "lost_fcs", 1 - (1 - 1e-4) ** 512, 1_000),
        ({"burst": ("1%", "19%")}, "lost", 0.05, 924),
        ({"burst": ("1%", "19%", "50%"), "loss": "1%"}, "lost", 0.05 * 0.5 + 0.95 * 0.01, 671),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_shares(
    toy: Any,
    frame: Callable[..., bytes],
    setting: dict[str, Any],
    counter: str,
    share: float,
    exact: int,
) -> None:
    toy.core.impair_port(1, Direction.SEND, impair(**setting))
    outputs = run(toy, frame)
    stats = sent(toy.core)
    counted = getattr(stats, counter)
    spread = 4 * (N * share * (1 - share)) ** 0.5
    if "burst" in setting:
        spread *= 4  # losses come together, so that their number varies more
    assert abs(counted - N * share) < spread
    assert counted == exact
    assert stats.frames == N
    lost = stats.lost + stats.lost_fcs
    assert len(outputs) == N - lost + stats.duplicated
    assert toy.core.port_stats(1).tx_packets == N  # the port did its part


def splitmix64(state: int) -> int:
    """Apply the generator's mixing function (Steele, Lea and Flood 2014)."""
    word = (1 << 64) - 1
    state &= word
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & word
    state = (state ^ state >> 27) * 0x94D049BB133111EB & word
    return state ^ state >> 31


def test_draws_are_those_of_an_independent_generator(
    make_toy: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    switch_seed, seed, port, loss_kind = 77, 5, 3, 2
    toy = make_toy(seed=switch_seed)
    toy.core.impair_port(port, Direction.SEND, impair(loss="10%", seed=seed))
    mixed = splitmix64(switch_seed) ^ splitmix64(seed + 1) ^ (port << 1 | Direction.SEND)
    state = splitmix64(splitmix64(mixed) + loss_kind)
    arrive = []
    for n in range(2000):
        state += 0x9E3779B97F4A7C15
        if splitmix64(state) >> 32 >= fixed_point("10%"):
            arrive.append(n)
    assert numbers(run(toy, frame, 2000, port=port)) == arrive


def test_always_and_never(toy: Any, frame: Callable[..., bytes]) -> None:
    assert fixed_point(1) == 1 << 32
    toy.core.impair_port(1, Direction.SEND, impair(loss=1))
    assert run(toy, frame, 500) == []
    assert sent(toy.core).lost == 500
    toy.core.impair_port(1, Direction.SEND, impair(burst=(1, 0)))
    assert run(toy, frame, 500) == []
    toy.core.impair_port(1, Direction.SEND, impair(burst=("50%", 1, 0), bit_errors="1e-15"))
    assert len(run(toy, frame, 500)) == 500


def fates(
    make_toy: Callable[..., Any], frame: Callable[..., bytes], setting: PortImpair, **where: int
) -> list[tuple[int, int, bytes]]:
    toy = make_toy(seed=where.get("switch_seed", 7))
    port = where.get("port", 1)
    direction = Direction(where.get("direction", 0))
    toy.core.impair_port(0 if direction is Direction.RECEIVE else port, direction, setting)
    outputs = run(toy, frame, 3000, port=port)
    return [(o.at_ps, n, o.data[16:]) for o, n in zip(outputs, numbers(outputs), strict=True)]


def test_the_same_seed_gives_the_same_fates(
    make_toy: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    everything = impair(
        loss="1%",
        burst=("1%", "20%"),
        bit_errors="1e-5",
        corrupt="5%",
        duplicate="5%",
        reorder=("5%", 3 * US),
        jitter_ps=200 * NS,
    )
    first = fates(make_toy, frame, everything)
    assert first == fates(make_toy, frame, everything)
    assert len(first) > 1000


@pytest.mark.parametrize(
    "other", [{"switch_seed": 8}, {"port": 2}, {"direction": 1}, {"seed": 1}], ids=str
)
def test_other_seeds_and_ports_have_other_fates(
    make_toy: Callable[..., Any], frame: Callable[..., bytes], other: dict[str, int]
) -> None:
    seed = other.pop("seed", 0)
    here = {n for _, n, _ in fates(make_toy, frame, impair(loss="20%"))}
    there = {n for _, n, _ in fates(make_toy, frame, impair(loss="20%", seed=seed), **other)}
    both_lost = 3000 - len(here | there)
    assert 60 < both_lost < 180  # 120 if they have nothing to do with each other, 600 if equal


def test_one_impairment_leaves_the_draws_of_others_alone(
    make_toy: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    alone = {n for _, n, _ in fates(make_toy, frame, impair(loss="5%"))}
    among = {
        n for _, n, _ in fates(make_toy, frame, impair(loss="5%", duplicate="9%", jitter_ps=9))
    }
    assert alone == among


def test_settings_again_go_on_with_the_draws(toy: Any, frame: Callable[..., bytes]) -> None:
    setting = impair(loss="20%")
    toy.core.impair_port(1, Direction.SEND, setting)
    whole = numbers(run(toy, frame, 100)) + numbers(run(toy, frame, 100))
    toy.core.impair_port(1, Direction.SEND, impair(loss="20%", seed=1))
    toy.core.impair_port(1, Direction.SEND, setting)  # another seed in between: from the start
    first = numbers(run(toy, frame, 100))
    toy.core.impair_port(1, Direction.SEND, PortImpair())
    toy.core.impair_port(1, Direction.SEND, setting)
    assert first + numbers(run(toy, frame, 100)) == whole


def test_bursts_have_their_length(toy: Any, frame: Callable[..., bytes]) -> None:
    toy.core.impair_port(1, Direction.SEND, impair(burst=("1%", "20%")))
    arrived = set(numbers(run(toy, frame)))
    lengths = [
        len(list(group))
        for is_lost, group in groupby(i not in arrived for i in range(N))
        if is_lost
    ]
    mean = sum(lengths) / len(lengths)
    assert 4.3 < mean < 5.7  # 1 / 20 %
    assert 140 < len(lengths) < 245  # one per 1 / 1 % + 1 / 20 % = 105 frames


def test_bit_errors_grow_with_the_frame(make_toy: Callable[..., Any]) -> None:
    lost = {}
    for length in (1500, 9000):
        toy = make_toy()
        toy.core.impair_port(1, Direction.SEND, impair(bit_errors="1e-6"))
        for i in range(4000):
            toy.send(payload=bytes(length - HEADER), at=i)
            toy.take()
        lost[length] = sent(toy.core).lost_fcs
        expected = 4000 * (1 - (1 - 1e-6) ** (8 * (length + 4)))
        assert abs(lost[length] - expected) < 4 * expected**0.5
    assert lost[9000] > 5 * lost[1500]


def test_corruption_flips_one_bit_behind_the_ethernet_header(
    make_toy: Callable[..., Any], frame: Callable[..., bytes]
) -> None:
    good, bad = make_toy(), make_toy()
    bad.core.impair_port(1, Direction.SEND, impair(corrupt=1))
    hit = set()
    for as_sent, arrived in zip(
        run(good, frame, 2000, payload=bytes(8)),
        run(bad, frame, 2000, payload=bytes(8)),
        strict=True,
    ):
        assert len(as_sent.data) == len(arrived.data)
        difference = int.from_bytes(as_sent.data, "big") ^ int.from_bytes(arrived.data, "big")
        assert difference.bit_count() == 1
        hit.add(8 * len(as_sent.data) - difference.bit_length())
    assert hit == set(range(8 * 14, 8 * 40))  # every bit of the rest, in time
    assert sent(bad.core).corrupted == 2000


def test_a_frame_without_payload_is_not_corrupted(toy: Any) -> None:
    toy.core.impair_port(0, Direction.RECEIVE, impair(corrupt=1))
    toy.core.inject(0, bytes(14), 0)
    toy.core.inject(0, bytes(15), 0)
    assert toy.core.port_impair_stats(0, Direction.RECEIVE).corrupted == 1


def test_duplicates_take_their_time_on_the_wire(toy: Any) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=RATE, tx_delay_ps=5 * NS))
    toy.core.impair_port(1, Direction.SEND, impair(duplicate=1))
    for i in range(3):
        toy.send(key32=i)
    toy.core.advance(US)
    outputs = toy.take()
    assert numbers(outputs) == [0, 0, 1, 1, 2, 2]
    assert [o.at_ps for o in outputs] == [n * SLOT + 5 * NS for n in range(1, 7)]
    assert outputs[0].data == outputs[1].data
    assert (sent(toy.core).duplicated, toy.core.port_stats(1).tx_packets) == (3, 3)


def test_reordering_is_bounded(toy: Any, frame: Callable[..., bytes]) -> None:
    held_by = 35 * GAP // 10
    toy.core.impair_port(1, Direction.SEND, impair(reorder=("10%", held_by)))
    outputs = run(toy, frame, 5000)
    held = {
        n
        for o, n in zip(outputs, numbers(outputs), strict=True)
        if o.at_ps == GAP * (n + 1) + held_by
    }
    assert len(held) == sent(toy.core).reordered > 400
    assert sorted(numbers(outputs)) == list(range(5000))
    rest = [n for n in numbers(outputs) if n not in held]
    assert rest == sorted(rest)  # the others keep their order
    displaced = [place - n for place, n in enumerate(numbers(outputs))]
    assert max(displaced) == 3 and min(displaced) >= -3  # 3.5 packets' time: at most 3 overtake


def test_jitter_delays_and_keeps_the_order(toy: Any, frame: Callable[..., bytes]) -> None:
    toy.core.configure_port(1, PortConfig(rate_bps=RATE))
    toy.core.impair_port(1, Direction.SEND, impair(jitter_ps=5 * GAP))
    outputs = run(toy, frame, 5000)
    assert numbers(outputs) == list(range(5000))
    late = [o.at_ps - GAP * (n + 1) - SLOT for n, o in enumerate(outputs)]
    assert min(late) >= 0 and 4 * GAP < max(late) <= 5 * GAP + 8 * SLOT
    assert len(set(late)) > 1000
    assert min(b.at_ps - a.at_ps for a, b in pairwise(outputs)) >= SLOT  # never beats the rate


def test_the_receiving_side(toy: Any) -> None:
    toy.core.configure_port(0, PortConfig(rx_delay_ps=US))
    toy.core.impair_port(0, Direction.RECEIVE, impair(loss="50%"))
    for i in range(200):
        toy.send(port=0, key32=i, at=i)
    toy.core.advance(2 * US)
    outputs = toy.take()
    stats = toy.core.port_impair_stats(0, Direction.RECEIVE)
    assert len(outputs) == 200 - stats.lost == toy.core.port_stats(0).rx_packets
    assert 60 < stats.lost < 140
    assert [o.at_ps for o in outputs] == [n + US if n else US for n in numbers(outputs)]
    assert sent(toy.core, 0) == ImpairStats()

    toy.core.impair_port(0, Direction.RECEIVE, impair(duplicate=1, reorder=("50%", US)))
    for i in range(100):
        toy.send(port=0, key32=i, at=10 * US + i)
    toy.core.advance(20 * US)
    outputs = toy.take()
    assert sorted(numbers(outputs)) == sorted([*range(100)] * 2)
    assert all(
        o.at_ps in (11 * US + n, 12 * US + n)
        for o, n in zip(outputs, numbers(outputs), strict=True)
    )


def test_on_a_port_that_is_down_nothing_is_drawn(toy: Any) -> None:
    for direction in Direction:
        toy.core.impair_port(1, direction, impair(loss=1))
    toy.core.set_port(1, PortState.DOWN)
    toy.send(out=1)
    toy.send(port=1, out=2)
    assert toy.core.port_stats(1).drop_down == 2
    for direction in Direction:
        assert toy.core.port_impair_stats(1, direction).frames == 0


@pytest.mark.parametrize(
    "wrong",
    [
        PortImpair(loss=(1 << 32) + 1),
        PortImpair(flow_loss=1 << 33),
        PortImpair(reorder_ps=-1),
        PortImpair(jitter_ps=-1),
        PortImpair(reorder_ps=(1 << 60) + 1),
        PortImpair(jitter_ps=(1 << 60) + 1),
        PortImpair(flow_protocol=256),
        PortImpair(flow_dport=65536),
    ],
)
def test_values_out_of_range_change_nothing(toy: Any, wrong: PortImpair) -> None:
    good = impair(loss="1%", jitter_ps=5, seed=3)
    toy.core.impair_port(1, Direction.SEND, good)
    with pytest.raises(CoreError):
        toy.core.impair_port(1, Direction.SEND, wrong)
    assert toy.core.port_impair(1, Direction.SEND) == good
    with pytest.raises(CoreError):
        toy.core.impair_port(65536, Direction.SEND, good)
