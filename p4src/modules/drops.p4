// Why packets end in ingress, counted by DropReason. Queue drops happen later, in the target.

#ifndef WEFT_DROPS_P4
#define WEFT_DROPS_P4

#include "../include/headers.p4"
#include "../include/ids.p4"

control DropCounters(in local_metadata_t meta) {
    @id(COUNTER_ID_DROPPED)
    counter(16, CounterType.packets_and_bytes) dropped;

    apply {
        if (meta.drop_reason != DropReason.FORWARDED) {
            dropped.count((bit<32>)(bit<8>)meta.drop_reason);
        }
    }
}

#endif
