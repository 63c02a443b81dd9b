"""A finsy client: python with_finsy.py ADDRESS DEVICE_ID [ROLE|ID].

A third word is the name of a role, or a number: an election id.
It becomes primary, adds a multicast group, and leaves when its input ends (Ctrl-D).
"""

import asyncio
import sys
import time

import finsy
from google.protobuf.empty_pb2 import Empty

address, device_id = sys.argv[1], int(sys.argv[2])
word = sys.argv[3] if len(sys.argv) > 3 else ""
role = "" if word.isdecimal() else word
# Without one: above that of the last primary.
election_id = int(word) if word.isdecimal() else time.time_ns()


async def main() -> None:
    options = finsy.SwitchOptions(
        device_id=device_id,
        initial_election_id=election_id,
        role_name=role,
        role_config=Empty() if role else None,  # finsy wants one: an Empty is full access
    )
    async with finsy.Switch("switch", address, options) as switch:
        print("primary" if switch.is_primary else "backup", flush=True)
        await switch.insert([finsy.P4MulticastGroupEntry(77, replicas=[1])])
        print("written", flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
