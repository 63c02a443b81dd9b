"""`weft cli`: an old lab's commands, on a switch behind gRPC, and what they print."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.bmv2_cli.program import Program
from compat.bmv2_cli.values import CommandError, KeyField, KeyValueError, key_value, value
from softswitch.core import CLOSED_QUEUE
from softswitch.diagnostics import DiagnosticsClient
from softswitch.p4runtime.protos import p4r
from tests.compat.switch_cli_bench import Bench, bench_of, compile_into
from weft.cli import main

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header address_t { bit<32> low; bit<128> high; }
struct headers_t { ethernet_t ethernet; address_t address; }
struct meta_t { bit<16> hash; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); p.extract(h.address); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<80>>(4) cells;
    counter(3, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    meter(2, MeterType.bytes) speed;
    action_selector(HashAlgorithm.crc16, 8, 16) ways;
    action drop() { mark_to_drop(s); }
    action forward(bit<48> to, bit<9> port) { h.ethernet.dst = to; s.egress_spec = port; }
    table lpm {
        key = { h.address.low: lpm; }
        actions = { forward; drop; NoAction; }
        default_action = drop();
        counters = hits;
    }
    table acl {
        key = { h.ethernet.type: ternary; s.ingress_port: range; h.address.low: optional; }
        actions = { forward; drop; }
    }
    table spread {
        key = { h.ethernet.src: exact; m.hash: selector; }
        actions = { forward; NoAction; }
        implementation = ways;
    }
    apply {
        bit<80> old;
        bit<8> colour;
        cells.read(old, 0);
        cells.write(0, old + 1);
        seen.count(1);
        speed.execute_meter(0, colour);
        lpm.apply();
        acl.apply();
        spread.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); p.emit(h.address); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "lab.p4").write_text(PROGRAM)
    return compile_into(folder, folder / "lab.p4")


@pytest.fixture
def bench(compiled: Path) -> Iterator[Bench]:
    with bench_of(compiled) as bench:
        yield bench


def test_an_entry_is_added_shown_changed_and_removed(bench: Bench) -> None:
    assert bench.done("table_add I.lpm forward 10.0.1.7/24 => 00:00:0a:00:01:01 3") == [
        "Adding entry to lpm match table I.lpm",
        "match key:           LPM-0a:00:01:07/24",
        "action:              forward",
        "runtime data:        00:00:0a:00:01:01\t00:03",
        "Entry has been added with handle 0",
    ]
    bench.done("table_add lpm drop 0/0 =>")
    assert bench.done("table_dump lpm") == [
        "==========",
        "TABLE ENTRIES",
        "**********",
        "Dumping entry 0x0",
        "Match key:",
        "* address.low         : LPM       0a000107/24",
        "Action entry: I.forward - 0a000101, 03",
        "**********",
        "Dumping entry 0x1",
        "Match key:",
        "* address.low         : LPM       00000000/0",
        "Action entry: I.drop - ",
        "==========",
        "Dumping default entry",
        "Action entry: I.drop - ",
        "==========",
    ]
    bench.done("table_modify lpm NoAction 0")
    assert "Action entry: NoAction - " in bench.done("table_dump_entry lpm 0")
    assert bench.done("table_delete lpm 0", "table_num_entries lpm") == [
        "Deleting entry 0 from lpm",
        "1",
    ]
    assert bench.done("table_add lpm drop 1.2.3.4/32 =>")[-1].endswith("handle 16777216")
    assert bench.done("table_clear lpm", "table_num_entries lpm") == ["0"]
    assert bench.shell.failures == 0


def test_less_wins_as_in_bmv2_and_keys_of_all_kinds_are_read(bench: Bench) -> None:
    bench.done("table_add acl drop 0x0800&&&0xff00 1->3 10.0.0.1&&&0xffffffff => 10")
    bench.done("table_add acl drop 0&&&0 0->511 0&&&0 => 20")
    text = bench.done("table_dump acl")
    assert "* ethernet.type                 : TERNARY   0800 &&& ff00" in text
    assert "* standard_metadata.ingress_port: RANGE     0001 -> 0003" in text
    assert "* address.low                   : TERNARY   0a000001 &&& ffffffff" in text
    assert "* address.low                   : TERNARY   00000000 &&& 00000000" in text
    assert [line for line in text if line.startswith("Priority")] == [
        "Priority: 10",
        "Priority: 20",
    ]
    entries = list(bench.shell.switch.read(table_entry=p4r.TableEntry()))
    of_acl = [each.table_entry for each in entries if each.table_entry.priority]
    assert of_acl[0].priority == of_acl[1].priority + 10
    assert bench.done("table_dump_entry_from_key acl 0&&&0 0->511 0&&&0 20")[0] == (
        "Dumping entry 0x1"
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("table_add none drop 1 =>", "Error: Invalid table name (none)"),
        ("table_add lpm fly 1/1 =>", "Error: Table lpm has no action fly"),
        ("table_add lpm", "Error: Insufficient number of args"),
        ("table_add lpm drop 1 =>", "Invalid match key: Invalid LPM value 1, use '/'"),
        ("table_add lpm drop 1.2.3/8 =>", "Invalid match key: Error while parsing 1.2.3 - "),
        ("table_add lpm drop 1/8 2/8 =>", "Error: Table lpm needs 1 key fields"),
        ("table_add lpm forward 1/8 => 1", "Error: Action I.forward needs 2 parameters"),
        ("table_add lpm forward 1/8 => 1 65536", "Invalid runtime data: Error while parsing 65536"),
        ("table_add acl drop 1&&&1 1->2 0&&&0 =>", "Error: Table is ternary, but could not"),
        ("table_delete lpm 9", "Invalid table operation (INVALID_HANDLE)"),
        ("table_info", "Error: Wrong number of args, expected 1 but got 0"),
        ("register_read cells 4", "Invalid register operation (INVALID_INDEX)"),
        ("register_write cells 0 x", "Error: Bad format for value, must be an integer"),
        ("meter_set_rates speed 0 1:1", "Error: Invalid number of rates, expected 2 but got 1"),
        ("mirroring_get 7", "Invalid mirroring operation (SESSION_NOT_FOUND)"),
        ("mc_mgrp_create 0", "Invalid PRE operation (ERROR)"),
        ("fly away", "*** Unknown syntax: fly away"),
        # Numbers that no message of P4Runtime's can have.
        ("table_indirect_add spread 1 => -2", "Invalid table operation (INVALID_MBR_HANDLE)"),
        (f"table_indirect_add spread 1 => {1 << 32}", "Error: Bad format for handle"),
        (f"act_prof_delete_member ways {1 << 32}", "Error: Bad format for member handle"),
        (f"table_delete lpm {1 << 64}", "Error: Bad format for entry handle"),
        (f"counter_write seen 0 {1 << 63} 0", "Error: Bad format for packets"),
        ("counter_write seen 0 -1 0", "Invalid counter operation (ERROR)"),
        ("meter_set_rates speed 0 1e30:1 1e30:1", "Error: Error while parsing rates"),
        ("mc_node_create -1 1", "Error: rid -1 is out of range"),
        (f"mc_node_create {1 << 32} 1", "Error: rid 4294967296 is out of range"),
    ],
)
def test_a_command_that_fails_says_why_in_one_line(bench: Bench, line: str, says: str) -> None:
    printed = bench.done(line)
    assert printed[-1].startswith(says)
    assert bench.shell.failures == 1


def test_what_is_there_twice_has_bmv2s_name(bench: Bench) -> None:
    bench.done("table_add lpm drop 10.0.0.0/8 =>")
    printed = bench.done("table_add lpm NoAction 10.0.0.0/8 =>")
    assert printed[-1].startswith("Invalid table operation (DUPLICATE_ENTRY)")


def test_default_actions(bench: Bench) -> None:
    bench.done("table_set_default lpm forward aa:bb:cc:dd:ee:ff 7")
    assert bench.done("table_dump lpm")[-2] == "Action entry: I.forward - aabbccddeeff, 07"
    bench.done("table_reset_default lpm")
    assert bench.done("table_dump lpm")[-2] == "Action entry: I.drop - "


def test_registers(bench: Bench) -> None:
    bench.done(f"register_write cells 2 {1 << 79}", "register_write I.cells 3 0x10")
    assert bench.done("register_read cells 2") == [f"cells[2]= {1 << 79}"]
    assert bench.done("register_read cells") == [f"cells= 0, 0, {1 << 79}, 16"]
    assert bench.done("register_reset cells", "register_read cells") == ["cells= 0, 0, 0, 0"]


def test_counters_direct_ones_by_their_entries(bench: Bench) -> None:
    assert bench.done("counter_write seen 1 3 400", "counter_read seen 1") == [
        "seen[1] has been updated",
        "seen[1]= (400 bytes, 3 packets)",
    ]
    bench.done("table_add lpm drop 10.0.0.0/8 =>", "counter_write hits 0 2 90")
    assert bench.done("counter_read hits 0") == [
        "this is the direct counter for table I.lpm",
        "hits[0]= (90 bytes, 2 packets)",
    ]
    bench.done("table_add lpm drop 0/0 =>", "counter_write hits 1 1 1")
    assert bench.done("counter_read hits 1")[1:] == ["hits[1]= (1 bytes, 1 packets)"]
    bench.done("counter_reset hits", "counter_reset seen")
    assert bench.done("counter_read hits 0")[-1] == "hits[0]= (0 bytes, 0 packets)"
    assert bench.done("counter_read seen 1") == ["seen[1]= (0 bytes, 0 packets)"]


def test_meters(bench: Bench) -> None:
    bench.done("meter_array_set_rates speed 0.5:1000 1:2000", "meter_set_rates speed 1 2:1 3:1")
    assert bench.done("meter_get_rates speed 0") == [
        "0: info rate = 0.5, burst size = 1000",
        "1: info rate = 1.0, burst size = 2000",
    ]
    assert bench.done("meter_get_rates speed 1")[0] == "0: info rate = 2.0, burst size = 1"


def test_members_and_groups(bench: Bench) -> None:
    assert bench.done("act_prof_create_member ways forward 1 1") == [
        "Member has been created with handle 0"
    ]
    bench.done("act_prof_create_member ways forward 2 2")
    assert bench.done("act_prof_create_group ways") == ["Group has been created with handle 0"]
    bench.done("act_prof_add_member_to_group ways 0 0", "act_prof_add_member_to_group ways 1 0")
    assert bench.done("table_indirect_add_with_group spread 00:00:00:00:00:01 => 0")[-1] == (
        "Entry has been added with handle 0"
    )
    bench.done("table_indirect_add spread 2 => 1", "act_prof_modify_member ways forward 1 2 3")
    text = bench.done("table_dump spread")
    assert "Index: group(0)" in text and "Index: member(1)" in text
    assert "Members: [0, 1]" in text
    assert "Action entry: I.forward - 02, 03" in text
    bench.done("act_prof_remove_member_from_group ways 0 0")
    assert bench.done("act_prof_dump_group ways 0") == ["Dumping group 0", "Members: [1]"]
    assert bench.shell.failures == 0


def test_multicast_and_mirroring_are_there_for_the_next_session(bench: Bench) -> None:
    assert bench.done("mc_mgrp_create 1", "mc_node_create 5 1 2", "mc_node_associate 1 0") == [
        "Creating multicast group 1",
        "Creating node with rid 5 , port map 110 and lag map ",
        "node was created with handle 0",
        "Associating node 0 to multicast group 1",
    ]
    bench.done("mirroring_add 100 2", "mirroring_add_mc 101 1", "mc_node_update 0 1 2 3")
    assert bench.done("mirroring_get 100") == ["MirroringSessionConfig(port=2, mgid=None)"]
    assert bench.done("mirroring_get 101") == ["MirroringSessionConfig(port=None, mgid=1)"]
    bench.done("mirroring_add 100 1", "mirroring_delete 101")
    bench.shell = bench.open()
    assert "  -> (L1h=0, rid=5) -> (ports=[1, 2, 3], lags=[])" in bench.done("mc_dump")
    assert bench.done("mirroring_get 100") == ["MirroringSessionConfig(port=1, mgid=None)"]
    bench.done("mc_node_destroy 0", "mc_mgrp_destroy 1")
    assert not [line for line in bench.done("mc_dump") if line.startswith("mgrp")]
    assert bench.shell.failures == 0


def test_mirroring_session_zero(bench: Bench) -> None:
    """BMv2 has it; P4Runtime has not."""
    missing = ["Invalid mirroring operation (SESSION_NOT_FOUND)"]
    assert bench.done("mirroring_get 0") == missing
    assert bench.done("mirroring_delete 0") == missing
    bench.shell.failures = 0
    bench.done("mirroring_add 0 2", "mirroring_add 7 1")
    assert bench.done("mirroring_get 0") == ["MirroringSessionConfig(port=2, mgid=None)"]
    bench.done("mirroring_add_mc 0 5")
    bench.shell = bench.open()
    assert bench.done("mirroring_get 0") == ["MirroringSessionConfig(port=None, mgid=5)"]
    assert bench.done("mirroring_delete 0", "mirroring_get 0") == missing
    assert bench.done("mirroring_get 7") == ["MirroringSessionConfig(port=1, mgid=None)"]


def test_queues_and_ports(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.done("set_queue_rate 100", "set_queue_depth 30 2")
    with DiagnosticsClient(bench.address) as client:
        ports = client.port_stats()
    assert [ports[port]["link"]["rate_pps"] for port in (1, 2)] == [100, 100]
    assert [ports[port]["link"]["queue_packets"] for port in (1, 2)] == [64, 30]
    bench.done("set_queue_depth 20 2 1", "set_queue_rate 50 1 0", "set_queue_depth 9 9")
    with DiagnosticsClient(bench.address) as client:
        ports = client.port_stats()
    assert ports[2]["link"]["queues"] == {"1": {"queue_packets": 20, "rate_pps": 100}}
    assert ports[1]["link"]["queues"] == {"0": {"queue_packets": 64, "rate_pps": 50}}
    bench.done("set_queue_depth 0 1")
    with DiagnosticsClient(bench.address) as client:
        assert client.port_stats()[1]["link"]["queue_packets"] == CLOSED_QUEUE
    assert bench.done("set_queue_depth 20 2 2") == ["Error: port 2 has no queue 2: 0 to 1"]
    assert [line.split() for line in bench.done("show_ports")[2:]] == [
        ["1", "s1-eth1", "UP"],
        ["2", "s1-eth2", "UP"],
    ]
    refused = ["Invalid device manager operation (ERROR)"]
    assert bench.done("port_add no-such-interface 3") == refused
    assert "no-such-interface" in capsys.readouterr().err
    assert bench.done("port_remove 9") == refused
    assert "there is no port 9" in capsys.readouterr().err


def test_the_program_is_told(bench: Bench) -> None:
    tables = bench.done("show_tables")
    assert [line.split()[0] for line in tables] == [
        *("I.acl", "I.lpm", "I.spread", tables[3].split()[0])
    ]
    assert tables[1].endswith("[implementation=None, mk=address.low(lpm, 32)]")
    assert "I.forward                      [to(48),\tport(9)]" in bench.done("table_info lpm")
    assert bench.done("help table_delete") == [
        "Remove an entry: table_delete <table name> <entry handle>"
    ]


def test_names_are_completed(bench: Bench) -> None:
    shell = bench.shell
    assert shell.completedefault("I.l", "table_dump I.l", 0, 0) == ["I.lpm"]
    assert shell.completedefault("I.f", "table_add I.lpm I.f", 0, 0) == ["I.forward"]
    assert shell.completedefault("I.f", "table_add lpm I.f", 0, 0) == ["I.forward"]
    assert shell.completedefault("I.f", "table_add nosuch I.f", 0, 0) == []
    assert shell.completedefault("", "register_read ", 0, 0) == ["I.cells"]


def test_an_empty_line_is_the_line_before_once_more(bench: Bench) -> None:
    assert bench.done("mc_node_create 1 1", "")[-1] == "node was created with handle 1"
    assert bench.done("mc_node_create 1 1", "# a comment", "")[-1].endswith("handle 2")
    bench.shell.repeats = False
    assert bench.done("mc_node_create 1 1", "")[-1].endswith("handle 3")


def test_bits_beyond_a_width_are_cut_off_as_in_bmv2(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = bench.done("table_add lpm forward 1.0.0.0/8 => 1 513")
    assert printed[3:] == [
        "runtime data:        00:00:00:00:00:01\t02:01",
        "Entry has been added with handle 0",
    ]
    assert "port has 9 bits: 513 becomes 1" in capsys.readouterr().err
    bench.done("register_write cells 0 -1")
    assert bench.done("register_read cells 0") == [f"cells[0]= {(1 << 80) - 1}"]


def test_comments_are_nothing_and_others_may_write(bench: Bench) -> None:
    bench.done("table_add lpm drop 10.0.0.0/8 =>", "# table_clear lpm", "// this neither")
    first, second = bench.shell, bench.open()
    bench.shell = second
    assert bench.done("table_add lpm drop 11.0.0.0/8 =>")[-1].endswith("handle 1")
    bench.shell = first
    assert bench.done("table_add lpm drop 12.0.0.0/8 =>", "table_num_entries lpm")[-1] == "3"


@pytest.mark.parametrize(
    ("more", "code", "entries"), [((), 0, 2), (("--strict",), 1, 1)], ids=["goes on", "strict"]
)
def test_a_file_of_commands_on_standard_input(
    bench: Bench, more: tuple[str, ...], code: int, entries: int
) -> None:
    text = "table_add lpm drop 10.0.0.0/8 =>\nfly\ntable_add lpm drop 11.0.0.0/8 =>\n"
    command = [sys.executable, "-m", "weft.cli", "cli", "--grpc", bench.address, *more]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith("Obtaining JSON from switch...\nDone\nControl utility for")
    assert "RuntimeCmd: Adding entry to lpm match table lpm\n" in done.stdout
    assert "RuntimeCmd: *** Unknown syntax: fly\n" in done.stdout
    assert bench.done("table_num_entries lpm") == [str(entries)]


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"\xff",
        b"[1]",
        b'{"actions": 3}',
        b'{"actions": [{"name": "I.drop"}]}',
        b'{"pipelines": [{"tables": [{"name": "I.lpm"}]}]}',
        b'{"header_types": [{"name": "h", "fields": [1]}]}',
    ],
)
def test_what_is_not_bmv2s_gives_no_names(bench: Bench, config: bytes) -> None:
    info = bench.shell.switch.config().p4info
    assert Program.of(info, config) == Program.of(info)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--json", "none.json"), "none.json: No such file"),
        (("--json", "."), "Is a directory"),
        (("--json", "list.json"), "is not BMv2 JSON"),
        (("--device-id", "-1"), "'-1' is not a number from 0 to"),
        (("--election-id", f"{1 << 64}"), "is not a number from 0 to"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("list.json").write_text("[1]")
    assert main(["cli", "--grpc", "127.0.0.1:1", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_switch_that_is_not_there_is_said(bench: Bench) -> None:
    command = [sys.executable, "-m", "weft.cli", "cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "weft cli s1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "bitwidth", "number"),
    [
        ("10", 16, 10),
        ("0x1F", 9, 31),
        ("10.0.0.1", 32, 0x0A000001),
        ("00:00:00:00:00:ff", 48, 255),
        ("2001:db8::1", 128, 0x20010DB8 << 96 | 1),
    ],
)
def test_values(text: str, bitwidth: int, number: int) -> None:
    assert value(text, bitwidth) == number


@pytest.mark.parametrize(("text", "bitwidth"), [("256", 8), ("-1", 8), ("x", 8), ("1:2", 48)])
def test_no_values(text: str, bitwidth: int) -> None:
    with pytest.raises(CommandError):
        value(text, bitwidth)


def test_a_range_goes_upwards() -> None:
    with pytest.raises(KeyValueError, match="greater"):
        key_value(KeyField(1, "port", "range", 9), "5->4")
