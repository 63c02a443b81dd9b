"""A P4Runtime client of grpcio and the stubs alone: python plain.py ADDRESS DEVICE_ID [ROLE|ID].

A third word is the name of a role, or a number: an election id.
It becomes primary, adds a multicast group, and leaves when its input ends (Ctrl-D).
"""

import queue
import sys
import time

import grpc
from finsy.proto import p4r, p4r_grpc  # any stubs made of p4runtime.proto will do

address, device_id = sys.argv[1], int(sys.argv[2])
word = sys.argv[3] if len(sys.argv) > 3 else ""
role = "" if word.isdecimal() else word
# Without one: above that of the last primary.
election_id = p4r.Uint128(low=int(word) if word.isdecimal() else time.time_ns())

requests: queue.SimpleQueue = queue.SimpleQueue()
with grpc.insecure_channel(address) as channel:
    stub = p4r_grpc.P4RuntimeStub(channel)
    stream = stub.StreamChannel(iter(requests.get, None))
    arbitration = p4r.MasterArbitrationUpdate(device_id=device_id, election_id=election_id)
    if role:
        arbitration.role.name = role
    requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
    answer = next(stream).arbitration
    print("primary" if answer.status.code == 0 else answer.status.message, flush=True)

    update = p4r.Update(type=p4r.Update.INSERT)
    group = update.entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = 77
    group.replicas.add(egress_port=1, instance=1)
    write = p4r.WriteRequest(
        device_id=device_id, election_id=election_id, role=role, updates=[update]
    )
    stub.Write(write)
    print("written", flush=True)
    sys.stdin.read()
    requests.put(None)
    for _ in stream:  # until the switch has closed it, too
        pass
