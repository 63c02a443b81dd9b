// Sends the packet to the next hop that was chosen. All reflexes and plans meet in meta.next_hop,
// and who wins when they disagree is the order in which they write it, the strongest last:
//
//   4. the ECMP hash          Routing
//   3. a choice by load
//   2. the controller's pinned path
//   1. a dead port or path
//                 |
//                 v
//          [ next_hop ]  port, MAC addresses, TTL
//
// A mechanism that chooses paths does so at HOOK_PATH_CHOICE, between Routing and NextHop; its place in
// mechanisms.p4 is its place in this order. Next hop 0 means that none was chosen.

#ifndef WEFT_NEXT_HOP_P4
#define WEFT_NEXT_HOP_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

control NextHop(inout headers_t hdr, inout local_metadata_t meta,
                inout standard_metadata_t std) {
    @id(ACTION_ID_FORWARD_TO)
    action forward_to(@id(1) port_t port, @id(2) mac_addr_t src_mac, @id(3) mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.drop_reason = DropReason.FORWARDED;
    }

    @id(ACTION_ID_DROP_UNRESOLVED)
    action drop_unresolved() {
        meta.drop_reason = DropReason.NO_NEXT_HOP;
    }

    @id(TABLE_ID_NEXT_HOP)
    table next_hop {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { forward_to; @defaultonly drop_unresolved; }
        const default_action = drop_unresolved();
        size = NEXT_HOPS;
    }

    apply {
        next_hop.apply();
    }
}

#endif
