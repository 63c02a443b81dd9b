"""Path telemetry is the same in C and scapy (docs/wire-formats.md)."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from protocols.notification import rate_of
from protocols.path_telemetry import (
    HOP_BYTES,
    HOPS_MOST,
    QUEUE_BYTES,
    QUEUE_MOST,
    SENT_BYTES,
    USED_MOST,
    USED_ONE,
    WRAPS,
    PathFormat,
    PathHop,
    PathUse,
    hops_of,
    path_number,
    record,
)

INCLUDE = Path(__file__).parents[2] / "hostagent/include"

C_PROGRAM = """
#include <stdio.h>
#include "path_telemetry.h"

/* A line `format bytes hex` -> how many hops, each of PATH_HOPS_MOST + 1, the path's word. */
int main(void)
{
    static const int numbers[] = {
        PATH_TELEMETRY_HOPS, PATH_TELEMETRY_MOST_USED, PATH_HOP_BYTES, PATH_HOPS_MOST,
        PATH_SENT_BYTES, PATH_QUEUE_BYTES, PATH_QUEUE_MOST, PATH_WRAPS, PATH_USED_ONE,
        PATH_USED_MOST,
    };
    unsigned format, bytes;
    char hex[2 * CC_TELEMETRY_MOST + 1];
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        printf("%d ", numbers[i]);
    puts("");
    while (scanf("%u %u %128s", &format, &bytes, hex) == 3) {
        struct cc_telemetry t = {.format = (weft_u8)format, .bytes = bytes};
        const weft_u8 *data = t.data;
        for (unsigned i = 0; i < CC_TELEMETRY_MOST; i++) {
            unsigned value;
            sscanf(hex + 2 * i, "%2x", &value);
            t.data[i] = (weft_u8)value;
        }
        printf("%u", path_hops(&t));
        for (weft_u32 i = 0; i <= PATH_HOPS_MOST; i++) {
            struct path_hop hop;
            path_hop_read(&t, i, &hop);
            printf(" %u %llu", hop.hop, (unsigned long long)hop.rate);
            printf(" %u %u %u", hop.at, hop.sent, hop.queue);
        }
        printf(" %d %u %u", path_is_used(&t), path_number(&t), path_used(&t));
        printf(" %u\\n", path_number_with(data[0] << 8 | data[1], data[2] << 8 | data[3]));
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("path_telemetry")
    (folder / "reader.c").write_text(C_PROGRAM)
    program = folder / "reader"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-o", str(program)]
    subprocess.run([*command, str(folder / "reader.c")], check=True)
    return program


def read(program: Path, rows: list[tuple[int, bytes]]) -> list[list[int]]:
    text = "".join(f"{form} {len(data)} {data.hex():0<128}\n" for form, data in rows)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    return [[int(each) for each in line.split()] for line in done.stdout.splitlines()]


def test_numbers_are_one(in_c: Path) -> None:
    (said,) = read(in_c, [])
    numbers = [PathFormat.HOPS, PathFormat.MOST_USED, HOP_BYTES, HOPS_MOST, SENT_BYTES]
    assert said == [*numbers, QUEUE_BYTES, QUEUE_MOST, WRAPS, USED_ONE, USED_MOST]


def test_what_scapy_writes_c_reads(in_c: Path) -> None:
    chance = random.Random(1)
    rows = []
    for _ in range(50):
        hops = [
            PathHop(
                hop=chance.randrange(1, 1 << 16),
                rate=rate_of(chance.randrange(1 << 24)),
                at=chance.randrange(WRAPS),
                sent=chance.randrange(WRAPS),
                queue=chance.randrange(1 << 16),
            )
            for _ in range(chance.randrange(6))
        ]
        rest = chance.randbytes(4 * chance.randrange(3)) if len(hops) < 5 else chance.randbytes(4)
        rows.append((1, b"".join(map(bytes, hops)) + rest))
    for (_, data), values in zip(rows, read(in_c, rows)[1:], strict=True):
        hops = hops_of(data)
        assert values[0] == len(hops)
        for n in range(HOPS_MOST + 1):
            each = hops[n] if n < len(hops) else PathHop()
            there = [each.hop, each.rate_bps, each.at, each.sent, each.queue]
            assert values[1 + 5 * n : 6 + 5 * n] == there
        assert values[-4:-1] == [0, 0, 0]


def test_the_word_of_a_path(in_c: Path) -> None:
    word = bytes(PathUse(path=0x8123, used=USED_ONE))
    there, short, other = read(in_c, [(2, word), (2, b""), (1, word)])[1:]
    assert there == [0] * 31 + [1, 0x8123, USED_ONE, path_number([0x8123, USED_ONE])]
    assert short[:-1] == other[:-1] == [0] * 34
    assert path_number([]) == 0 and path_number([7]) == 7
    assert path_number([0x8001, 2]) == 0x0003 ^ 2
    assert path_number([5, 9]) != path_number([9, 5])


def test_a_record_of_numbers_is_in_the_units_of_the_wire() -> None:
    made = record(9, 400 * 10**9, WRAPS + 5, SENT_BYTES * WRAPS + 200, 3 * QUEUE_BYTES + 511)
    assert (made.hop, made.at, made.sent, made.queue) == (9, 5, 3, 3)
    assert 400e9 * (1 - 1 / 2048) < made.rate_bps <= 400e9
    assert record(1, 10**9, 0, 0, 10**9).queue == QUEUE_MOST
    assert len(bytes(made)) == HOP_BYTES
