"""P4Info as p4c writes it beside the JSON: keys of type `error`, which have no width there, and
tables that the JSON lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.status import Code, PipelineError, WriteError
from softswitch.switch import Switch

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> v; }
struct headers { h_t h; }
struct meta_t { error e; }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    action fwd(bit<9> port) { s.egress_spec = port; }
    table t { key = { m.e: exact; } actions = { fwd; } }
    apply { m.e = s.parser_error; t.apply(); }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PACKET_TOO_SHORT = 1
ERROR_BITS = 32  # as p4c and BMv2 keep an error


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    source = tmp_path / "errors.p4"
    source.write_text(PROGRAM)
    with Switch.from_p4(source) as switch:
        (field,) = switch.device.pipeline.p4info.tables[0].match_fields  # type: ignore[union-attr]
        assert (field.name, field.bitwidth) == ("m.e", 0)
        yield switch


def test_a_packet_matches_by_its_error(switch: Switch) -> None:
    for error, port in ((0, 2), (PACKET_TOO_SHORT, 3)):
        switch.table_add("I.t", {"m.e": error}, "I.fwd", {"port": port})
    for packet in (bytes(2), b"", bytes(3)):
        switch.inject(1, packet)
    assert [output.port for output in switch.run_until(1_000_000)] == [2, 3, 2]
    query = p4r.Entity(table_entry=p4r.TableEntry())
    keys = [entity.table_entry.match[0].exact.value for entity in switch.read(query)]
    assert keys == [b"\0", b"\1"]


def test_a_value_has_no_more_than_the_programs_bits(switch: Switch) -> None:
    largest = (1 << ERROR_BITS) - 1
    switch.table_add("I.t", {"m.e": largest}, "I.fwd", {"port": 2})
    with pytest.raises(WriteError) as caught:
        switch.table_add("I.t", {"m.e": largest + 1}, "I.fwd", {"port": 2})
    assert [status.code for status in caught.value.statuses] == [Code.OUT_OF_RANGE]


def test_a_type_that_p4info_does_not_explain_is_refused(switch: Switch) -> None:
    pipeline = switch.device.pipeline
    assert pipeline is not None
    pipeline.p4info.tables[0].match_fields[0].type_name.name = "name_t"
    with pytest.raises(PipelineError, match="has no bit width"):
        switch.set_pipeline(pipeline.p4info, pipeline.device_config)


def test_all_tables_may_be_gone_from_the_json() -> None:
    """p4c drops what is never applied from the JSON alone; calls of actions become tables there."""
    document = json.loads((GOLDEN / "l3.json").read_text())
    ingress = document["pipelines"][0]
    ingress["tables"] = [table for table in ingress["tables"] if table["name"] != "I.route"]
    ingress |= {"init_table": ingress["tables"][0]["name"], "conditionals": []}
    for table in ingress["tables"]:
        table["base_default_next"] = None
        table["next_tables"] = dict.fromkeys(table["next_tables"])
    data = json.dumps(document).encode()
    with Switch.from_json(data, GOLDEN / "l3.p4info.txtpb") as switch:
        info = switch.device.pipeline.p4info  # type: ignore[union-attr]
        entry = p4r.TableEntry(table_id=info.tables[0].preamble.id)
        update = p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=entry))
        (status,) = switch.try_write([update])
        assert status.code is Code.UNIMPLEMENTED and "I.route" in status.message
