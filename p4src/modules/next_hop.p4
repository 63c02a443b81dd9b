// Sends the packet to the next hop that was chosen. All reflexes and plans meet in meta.next_hop,
// and who wins when they disagree is the order in which they write it, the strongest last:
//
//   4. the ECMP hash          Routing
//   3. the DLB / GLB choice
//   2. the controller's pinned path
//   1. a dead port or path
//                 |
//                 v
//          [ next_hop ]  port, MAC addresses, TTL
//
// A feature that chooses paths is a control of its own, applied between Routing and NextHop at its
// place in this order. Next hop 0 is nobody's.

#ifndef WEFT_NEXT_HOP_P4
#define WEFT_NEXT_HOP_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

control NextHop(inout headers_t hdr, inout local_metadata_t meta,
                inout standard_metadata_t std) {
    @id(0x01000601)
    action forward_to(@id(1) port_t port, @id(2) mac_addr_t src_mac, @id(3) mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.drop_reason = DropReason.FORWARDED;
    }

    @id(0x01000602)
    action no_next_hop() {
        meta.drop_reason = DropReason.NO_NEXT_HOP;
    }

    @id(0x02000601)
    table next_hop {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { forward_to; @defaultonly no_next_hop; }
        const default_action = no_next_hop();
        size = NEXT_HOPS;
    }

    apply {
        next_hop.apply();
    }
}

#endif
