// The maps, in bcc's macros. One set serves all hosts of a run: keys name the host by its address.
#ifndef WEFT_ROCE_MAPS_H
#define WEFT_ROCE_MAPS_H

#include "roce_consts.h"
#include "roce_structs.h"

// Congestion control by queue pair; endpoints and the agent map it into their memory, read-only.
BPF_F_TABLE("array", u32, struct cc_slot, cc_slots, CC_SLOTS, BPF_F_MMAPABLE);
// Which slot a queue pair has.
BPF_HASH(cc_index, struct queue_pair_key, u32, CC_SLOTS);
// Which AF_XDP socket takes a host's packets; none: its packets go up the stack.
BPF_HASH(endpoints, u32, u32, ENDPOINTS);
BPF_XSKMAP(sockets, ENDPOINTS);
BPF_PERCPU_ARRAY(counters, u64, ROCE_COUNTERS);

#endif
