"""Random P4Runtime writes: each has the one right kind of answer, and none is applied by half."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from compat.parity.stf_bmv2 import Bmv2Target
from compat.stf.statements import Expect
from softswitch import Switch
from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code
from tests.random_programs.draw_writes import WriteDraw
from tests.random_programs.ours import Target, compile_text, prepare

PROGRAM = Path(__file__).resolve().parent / "writes.p4"
SEEDS = 6
UPDATES = 250
REFUSALS = frozenset(
    [
        Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.PERMISSION_DENIED,
        Code.RESOURCE_EXHAUSTED, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE, Code.UNIMPLEMENTED,
    ]
)  # fmt: skip
"""What P4Runtime has for updates; UNKNOWN and INTERNAL would be faults of the switch."""


def everything(switch: Switch) -> list[str]:
    """All that a controller can read, in an order that does not matter."""
    wild = [p4r.Entity() for _ in range(6)]
    wild[0].table_entry.SetInParent()
    wild[1].action_profile_member.SetInParent()
    wild[2].action_profile_group.SetInParent()
    wild[3].counter_entry.SetInParent()
    wild[4].meter_entry.SetInParent()
    wild[5].packet_replication_engine_entry.multicast_group_entry.SetInParent()
    found = [entity.SerializeToString(deterministic=True).hex() for entity in switch.read(*wild)]
    for table in switch.names.schema.tables.values():
        default = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id, is_default_action=True))
        found += [e.SerializeToString(deterministic=True).hex() for e in switch.read(default)]
    return sorted(found)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_writes(seed: int) -> None:
    """Refused: nothing has changed. Taken: at most one entity has."""
    with Switch.from_p4(PROGRAM) as switch:
        draw = WriteDraw(seed, switch.names)
        codes: Counter[tuple[bool, Code]] = Counter()
        before = everything(switch)
        for at in range(UPDATES):
            update, changed = draw.update()
            (status,) = switch.try_write([update])
            after = everything(switch)
            where = f"seed {seed}, update {at}: {update}\n{status}"
            codes[changed, status.code] += 1
            if status.code is Code.OK:
                gone = len(Counter(before) - Counter(after))
                new = len(Counter(after) - Counter(before))
                assert gone <= 1 and new <= 1, where
            else:
                assert status.code in REFUSALS, where
                assert status.message and "\n" not in status.message, where
                assert after == before, where
            before = after
    assert codes[False, Code.OK] > UPDATES / 20
    assert codes[True, Code.INVALID_ARGUMENT] > UPDATES / 20


@pytest.mark.reference("simple_switch_grpc")
def test_well_formed_writes_are_answered_as_by_bmv2(tmp_path: Path) -> None:
    """The same code for each update, but where PI is laxer than P4Runtime or says UNKNOWN."""
    prepared = prepare(compile_text(PROGRAM.read_text()), Target(cache_dir=tmp_path))
    with Bmv2Target(prepared, [Expect(0, "expect", 1, None, False)]) as bmv2, Switch() as switch:
        switch.load(prepared)
        draw = WriteDraw(0, switch.names)
        others = [switch.names.table(name).id for name in ("In.fixed", "In.spread")]
        same = 0
        for _ in range(UPDATES):
            update, changed = draw.update()
            if changed or not _agreed(update, others):
                continue
            said = re.search(r"\(code (\d+)\)$", bmv2.write(update))
            theirs = Code(int(said.group(1))) if said else Code.OK
            (ours,) = switch.try_write([update])
            if {ours.code, theirs} == {Code.INVALID_ARGUMENT, Code.NOT_FOUND}:
                continue  # members and groups that are not there: P4Runtime says NOT_FOUND
            assert ours.code is theirs, f"{update}\nours {ours}, BMv2 {theirs.name}"
            same += 1
    assert same > UPDATES / 6


def _agreed(update: p4r.Update, others: list[int]) -> bool:
    """Whether PI keeps to P4Runtime there: see docs/parity.md."""
    match update.entity.WhichOneof("entity"):
        case "counter_entry" | "meter_entry":
            return update.type == p4r.Update.MODIFY  # PI takes DELETE and INSERT
        case "action_profile_group":
            return False  # PI changes groups that are not there, and takes any max_size
        case "table_entry":
            # PI says UNKNOWN for constant entries, and looks at members before the key.
            return update.entity.table_entry.table_id not in others
    return True
