"""p4runtime-shell in a script: build/p4rt-shell-venv/bin/python with_shell.py ADDRESS DEVICE_ID.

A third word is the name of a role, or a number: an election id.
It becomes primary, adds a multicast group, and leaves when its input ends (Ctrl-D).
"""

import sys
import time

import p4runtime_sh.shell as sh

address, device_id = sys.argv[1], int(sys.argv[2])
word = sys.argv[3] if len(sys.argv) > 3 else ""
sh.setup(
    device_id=device_id,
    grpc_addr=address,
    # Without one: above that of the last primary.
    election_id=(0, int(word) if word.isdecimal() else time.time_ns()),
    role_name=None if word.isdecimal() else word or None,
)
print("primary", flush=True)
group = sh.MulticastGroupEntry(77)
group.add(1, 1)
group.insert()
print("written", flush=True)
sys.stdin.read()
sh.teardown()
