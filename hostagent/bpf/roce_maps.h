// The maps, in bcc's macros. One set serves all hosts of a run: keys name the host by its address.
// PINS is a directory on a BPF file system: maps that are pinned there are taken up, others made
// and pinned, so that state outlives the program's loader. Without PINS they are private.
#ifndef WEFT_ROCE_MAPS_H
#define WEFT_ROCE_MAPS_H

#include "roce_consts.h"
#include "roce_structs.h"

#ifdef PINS
#define TABLE(type, key, leaf, name, size, flags) \
    BPF_TABLE_PINNED(type, key, leaf, name, size, PINS "/" #name, flags)
#define SOCKETS(name, size) BPF_XSKMAP(name, size, PINS "/" #name)
#else
#define TABLE(type, key, leaf, name, size, flags) BPF_F_TABLE(type, key, leaf, name, size, flags)
#define SOCKETS(name, size) BPF_XSKMAP(name, size)
#endif

// Congestion control by queue pair; endpoints and the agent map it into their memory, read-only.
TABLE("array", u32, struct cc_slot, cc_slots, CC_SLOTS, BPF_F_MMAPABLE);
// When a slot's queue pair sent its packets: endpoints write, if an algorithm wants round-trip times.
TABLE("array", u32, struct cc_sent, cc_sent, CC_SLOTS, BPF_F_MMAPABLE);
// Which slot a queue pair has.
TABLE("hash", struct queue_pair_key, u32, cc_index, CC_SLOTS, 0);
// The same by its peer; the last one that was joined to it.
TABLE("hash", struct peer_key, u32, cc_peers, CC_SLOTS, 0);
// Which AF_XDP socket takes a host's packets; none: its packets go up the stack.
TABLE("hash", u32, u32, endpoints, ENDPOINTS, 0);
SOCKETS(sockets, ENDPOINTS);
TABLE("percpu_array", u32, u64, counters, ROCE_COUNTERS, 0);
// The telemetry of the packet in hand, for which there is no room on the stack; the program's own.
BPF_F_TABLE("percpu_array", u32, struct cc_telemetry, telemetry, 1, 0);

#endif
