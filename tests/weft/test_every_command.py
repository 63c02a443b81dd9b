"""Every command of the prompt with every kind of program, after all kinds of other clients.

The commands come from the prompt itself: one that has no line here fails the test. After each line
every switch still runs the program that it was asked to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from tests.weft.other_clients import KINDS, client
from tests.weft.prompt_lab import PATIENCE_S, REPOSITORY, Lab, opened, rows, until
from weft import p4rt_shell

pytestmark = pytest.mark.root

PROGRAMS = Path(__file__).resolve().parent / "programs"

FABRIC = "leafspine"
OWN = str(REPOSITORY / "docs" / "my-own-p4" / "net.yaml")
STATEFUL = str(PROGRAMS / "stateful" / "net.yaml")
TABLE = {FABRIC: "ipv4_route", OWN: "route", STATEFUL: "by_destination"}

# What to try of each command, and the beginning of the error where one is right.
LINES: Mapping[str, Mapping[str, str]] = {
    "HOST": {"h1 true": "", "h1": "a command is missing"},
    "pingall": {"pingall": "?"},  # not every program forwards between all hosts
    "iperf": {"iperf h1 h2 1": "?"},
    "perf": {"perf write h1 h2 --bw -n 5": "?"},
    "exec": {"exec h2 true": ""},
    "xterm": {"xterm h1": "?"},
    "capture": {"capture": "", "capture s1-1 /dev/null": "", "capture s1-1 stop": ""},
    "links": {"links": ""},
    "link": {"link s1 s3 down": "", "link s1 s3 up": "", "link s1 s9 up": "there is no link"},
    "counters": {"counters": ""},
    "tables": {"tables s1": "", "tables s1 TABLE": "", "tables s1 none": "the program has no"},
    "queue-pairs": {"queue-pairs": ""},
    "fast-cnp": {"fast-cnp": "", "fast-cnp on": "no class of"},
    "dlb": {"dlb": "", "dlb off": "has no load_balancing"},
    "dpfr": {"dpfr": "", "dpfr off": "has no dpfr"},
    "iglb": {"iglb": "", "iglb off": "has no iglb"},
    "allreduce": {"allreduce": "", "allreduce off": "has no allreduce"},
    "ecn": {"ecn": "", "ecn off": "has no ecn_tuning"},
    "plane": {"plane": "", "plane drain A": "has no planes"},
    "reload": {"reload s1": "", "reload all": "", "reload s9": "no switch", "reload s2 x.p4": "?"},
    "job": {"job list": "no planner uses jobs", "job end": "say which jobs"},
    "trace": {"trace s1 --count 1": "", "trace s9": "no switch"},
    "path": {"path h1 h2 --count 1": "?", "path h1 h1": "?"},
    "top": {"top": ""},
    "agent": {"agent": "", "agent h9": "?"},
    "p4rt-shell": {"p4rt-shell s9": "no switch"},
    "controller": {"controller restart": "", "controller restart --election-id x": "controller"},
    "registers": {"registers s1": "", "registers": "a switch is missing"},
    "register": {"register s1 none": "the program has no register", "register s1": "register"},
    "nodes": {"nodes": ""},
    "net": {"net": ""},
    "dump": {"dump": ""},
    "sh": {"sh true": ""},
    "py": {"py h1.address": "", "py sorted(controller.programs)": ""},
    "help": {"help": "", "help reload": ""},
    "exit": {"exit now": "exit takes no arguments"},
}
if p4rt_shell.is_ready():
    LINES = {**LINES, "p4rt-shell": {**LINES["p4rt-shell"], "p4rt-shell s1": ""}}

NEVER = ("Traceback", "bug in Weft", "loop is closed", "RuntimeWarning", "P4Info has no", "UNKNOWN")


def listed(lab: Lab) -> set[str]:
    """Return the commands that the prompt has, by its own list."""
    return {line.split()[0] for line in lab.do("help").splitlines()}


def tables_of(address: str) -> set[str]:
    """Return the tables of the program that a switch runs."""
    kinds = p4r.GetForwardingPipelineConfigRequest
    with grpc.insecure_channel(address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        number = stub_device(stub)
        config = stub.GetForwardingPipelineConfig(kinds(device_id=number)).config
    return {table.preamble.alias for table in config.p4info.tables}


def stub_device(stub: p4r_grpc.P4RuntimeStub) -> int:
    """Return the id of the one device behind an address."""
    for number in range(1, 10):
        try:
            kinds = p4r.GetForwardingPipelineConfigRequest
            request = kinds(device_id=number, response_type=kinds.COOKIE_ONLY)
            stub.GetForwardingPipelineConfig(request)
        except grpc.RpcError:
            continue
        return number
    raise AssertionError("no device answers")


def programs_of(lab: Lab) -> dict[str, set[str]]:
    """Return the tables of each switch's program."""
    return {name: tables_of(address) for name, address in lab.result["p4runtime"].items()}


def all_work(lab: Lab, topology: str) -> None:
    """Give every command, and hold what it says and what the switches run."""
    before = programs_of(lab)
    assert all(TABLE[topology] in tables for tables in before.values())
    assert listed(lab) == set(LINES), "a new command needs a line in LINES"
    lab.do("h1 ping -i 0.2 -w 60 h2 >/dev/null 2>&1 &")  # what trace shows
    for lines in LINES.values():
        for line, error in lines.items():
            said = lab.do(line.replace("TABLE", TABLE[topology]))
            assert not any(word in said for word in NEVER), f"{line}: {said}"
            if error != "?":
                assert ("error: " in said) is bool(error), f"{line}: {said}"
                assert error in said, f"{line}: {said}"
            assert programs_of(lab) == before, f"{line} loaded another program"


@pytest.mark.parametrize("topology", [FABRIC, OWN, STATEFUL], ids=["fabric", "forward", "stateful"])
def test_every_command_works_with_every_program(tmp_path: Path, topology: str) -> None:
    """Other clients have been primary of a switch and left, one after the other.

    Where nothing is planned they all have election id 1.
    """
    with opened(tmp_path, "softswitch", topology) as lab:
        lab.do("links")  # from here on somebody is told
        for kind in KINDS:
            lab.forget()
            with client(lab, kind, "s1", "" if topology == FABRIC else "1"):
                lab.hears("s1: another controller is primary now, with election id")
                assert "is primary, with election id" in lab.do("reload s1 --drop-entries")
                assert "multicast group   77" in lab.do("tables s1")
            lab.hears("s1: the other controller has left: ")
            assert "begins anew" in lab.do("reload s1 --drop-entries")
            assert "multicast group   77" not in lab.do("tables s1")
        all_work(lab, topology)
        if topology == STATEFUL:
            registers_hold_what_is_written(lab)
            replication_and_one_shots_are_shown(lab)


def registers_hold_what_is_written(lab: Lab) -> None:
    ping = "h1 ping -c 1 -W 5 10.0.1.2"
    assert " 0% packet loss" in lab.do(ping)
    assert ["last_source", "64", "48"] in rows(lab.do("registers s1"))
    h1 = int(lab.do("h1 cat /sys/class/net/h1-eth0/address").replace(":", ""), 16)
    assert lab.do("register s1 last_source 1") == f"last_source[1] = {h1} ({h1:#x})\n"
    assert "2 of 64 cells are not 0" in lab.do("register s1 last_source")
    assert lab.do("register s1 settings") == "settings of s1: all 8 cells are 0\n"
    assert lab.do("register s1 settings 0 0x1") == "settings[0] = 1 (0x1)\n"
    assert " 100% packet loss" in lab.do("h1 ping -c 1 -W 1 10.0.1.2")  # the program looks at it
    assert lab.do("register s1 MyIngress.settings 0 0") == "settings[0] = 0 (0x0)\n"
    assert " 0% packet loss" in lab.do(ping)
    for line, error in {
        "register s1 settings 8": "settings of s1 has no cell 8: its cells are 0 to 7",
        "register s1 settings 0 65536": "settings[0]: 65536 does not fit into 16 bits",
        "register s1 settings x": "INDEX is a number from 0 such as 7 or 0x2a, not 'x'",
        "register s1 settings 0 -1": "VALUE is a number from 0",
        "register s1 setting": "did you mean 'settings'?",
        "register s1 settings 0 1 2": "register SWITCH NAME",
    }.items():
        assert error in lab.do(line)


def replication_and_one_shots_are_shown(lab: Lab) -> None:
    with client(lab, "plain", "s1", "1"):
        pass
    shown = lab.do("tables s1")  # nothing is planned here, so what a client wrote stays
    assert "multicast group   77" in shown and "multicast group   1" in shown
    assert "port 1, port 2, port 3, port 4" in shown
    one_shot(lab.result["p4runtime"]["s1"])
    shown = lab.do("tables s1 spread")
    assert "one of forward(port=1) x2, forward(port=2) while port 2 is up" in shown


def one_shot(address: str) -> None:
    """Write an entry with an action set of its own, in a role."""
    import asyncio

    import finsy
    from google.protobuf.empty_pb2 import Empty

    async def write() -> None:
        options = finsy.SwitchOptions(device_id=1, role_name="mine", role_config=Empty())
        async with finsy.Switch("s1", address, options) as switch:
            ways = [
                (2, finsy.P4TableAction("forward", port=1)),
                ((1, 2), finsy.P4TableAction("forward", port=2)),
            ]
            match = finsy.P4TableMatch({"hdr.ethernet.ether_type": 0x9999})
            action = finsy.P4IndirectAction(ways)
            await switch.insert([finsy.P4TableEntry("spread", match=match, action=action)])

    asyncio.run(asyncio.wait_for(write(), PATIENCE_S))


# --- other clients --------------------------------------------------------------------------------


def test_clients_come_and_go_and_the_run_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, "softswitch", FABRIC) as lab:
        before = lab.do("tables s1")
        for kind in KINDS:
            with client(lab, kind, "s1", "mine"):  # beside the controller
                assert "the controller wrote 11 updates" in lab.do("link s1 s3 down")
                lab.do("link s1 s3 up")
            assert "1 updates written" in lab.do("controller restart")  # what the client wrote
            with client(lab, kind, "s1"):  # in its place
                until(lambda: "s1: another controller is primary" in lab.do("link s1 s3 down"))
                for line in ("controller restart", "link s1 s3 up", "reload s1 --drop-entries"):
                    said = lab.do(line)
                    assert "error: s1: another controller is primary, with election id" in said
                    assert "controller restart --election-id" in said
                assert "multicast group   77" in lab.do("tables s1")  # reading needs no place
            # It comes back by itself: what was to be written is, what the other wrote is not.
            until(lambda: lab.do("tables s1") == before)
            for line in ("link s1 s3 down", "link s1 s3 up", "reload s1", "controller restart"):
                assert "error: " not in lab.do(line)
            assert lab.do("tables s1") == before
        with client(lab, "plain", "s1") as other:  # one that stays is sent off
            lab.do("link s1 s3 down")
            said = lab.do(f"controller restart --election-id {1 << 100}")
            assert "0 programs loaded" in said
            assert "the controller wrote 11 updates" in lab.do("link s1 s3 up")
            assert lab.do("tables s1") == before
            other.kill()
        assert "0 updates written" in lab.do("controller restart")
