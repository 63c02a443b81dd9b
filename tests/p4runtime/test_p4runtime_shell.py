"""p4lang's p4runtime-shell against our server, where its own virtual environment has been made.

python of build/p4rt-shell-venv (p4runtime-shell, protobuf 3.20) --TCP--> server - device
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from softswitch.p4runtime.protos import p4r

if TYPE_CHECKING:
    from conftest import Client, Running

PYTHON = Path(__file__).resolve().parents[2] / "build" / "p4rt-shell-venv" / "bin" / "python"
"""Made by `make setup-p4rt-shell`; without it there is nothing to test here."""

TIMEOUT_S = 60.0

SCRIPT = """
import sys
import p4runtime_sh.shell as sh

sh.setup(device_id=3, grpc_addr=sys.argv[1], election_id=(0, 1), role_name="shell")
entry = sh.TableEntry("FabricIngress.acl")(action="FabricIngress.to_cpu")
entry.match["hdr.ipv4.$valid$"] = "1"
entry.match["hdr.ipv4.src"] = "10.1.0.0/16"
entry.priority = 10
entry.insert()
print("tables", len(list(sh.TableEntry("FabricIngress.acl").read())))
print("cells", len(list(sh.CounterEntry("FabricIngress.port_counter").read())))
print("hits", [c.packet_count for c in sh.DirectCounterEntry("FabricIngress.acl_counter").read()])
group = sh.MulticastGroupEntry(7)
group.add(1, 1)
group.insert()
print("groups", [g.group_id for g in sh.MulticastGroupEntry().read()])
packet = sh.PacketOut(bytes(60), egress_port="255")
packet.send()
packet_ins, heard = sh.PacketIn(), []
while not heard:
    heard = [len(p.packet.payload) for p in packet_ins.sniff(timeout=1)]
print("packet-in", *heard)
sh.teardown()
"""

if PYTHON.exists():

    def test_the_shell_works_beside_the_controller(client: Client, running: Running) -> None:
        """In a role of its own the shell is a primary too, and the controller stays one."""
        client.set_config("features")
        done = subprocess.run(
            [str(PYTHON), "-c", SCRIPT, f"127.0.0.1:{running.server.port}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        words = ("tables", "cells", "hits", "groups", "packet-in")
        said = [line for line in done.stdout.splitlines() if line.startswith(words)]
        assert said == ["tables 1", "cells 512", "hits [0]", "groups [7]", "packet-in 58"]
        (kept,) = client.read(packet_replication_engine_entry=_group(0))
        assert kept.packet_replication_engine_entry.multicast_group_entry.multicast_group_id == 7
        client.write(p4r.Update.DELETE, packet_replication_engine_entry=_group(7))


def _group(number: int) -> p4r.PacketReplicationEngineEntry:
    entry = p4r.PacketReplicationEngineEntry()
    entry.multicast_group_entry.multicast_group_id = number
    return entry
