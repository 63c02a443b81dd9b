"""p4runtime-shell in a script: build/p4rt-shell-venv/bin/python with_shell.py ADDRESS DEVICE_ID.

A third word is the name of a role.
It becomes primary, adds a multicast group, and leaves when its input ends (Ctrl-D).
"""

import sys
import time

import p4runtime_sh.shell as sh

address, device_id = sys.argv[1], int(sys.argv[2])
role = sys.argv[3] if len(sys.argv) > 3 else None
sh.setup(
    device_id=device_id,
    grpc_addr=address,
    election_id=(0, time.time_ns()),  # above whoever was primary before
    role_name=role,
)
print("primary", flush=True)
group = sh.MulticastGroupEntry(77)
group.add(1, 1)
group.insert()
print("written", flush=True)
sys.stdin.read()
sh.teardown()
