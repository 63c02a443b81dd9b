// Where an IPv4 packet should go: one next hop, or a group of equally short ones.
//
//   dst --[ ipv4_route: longest prefix ]--> next_hop ----------------------.
//                        `--> group --[ ecmp_group: hash of the flow ]--> next_hop
//
// Reads the packet and its flow, writes only meta. The hash is a CRC-32 of addresses, protocol
// and ports: a flow keeps its path, and flows that differ only in a port spread. (CRC-16's low bits,
// which choose among few members, depend on fewer bits of the input.)
//
// Each switch first multiplies the flow's ports, mixed with its addresses (a ping has no ports), by
// an odd number of its own. If all hashed alike, the flows that a leaf sends to its first spine
// would all take that spine's first core, and the other cores stay empty. A CRC is linear, so no
// seed that is only hashed along would change that.

#ifndef WEFT_ROUTING_P4
#define WEFT_ROUTING_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

const bit<32> GOLDEN_RATIO = 0x9e3779b1;  // 2^32 / 1.618, odd: Knuth's multiplicative hashing

control Routing(in headers_t hdr, inout local_metadata_t meta) {
    bit<32> own_mix;

    @id(SELECTOR_ID_ECMP_MEMBERS)
    action_selector(HashAlgorithm.crc32, ECMP_GROUPS * ECMP_GROUP_MEMBERS, 32) ecmp_members;

    @id(ACTION_ID_ROUTE_TO)
    action route_to(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop) {
        meta.next_hop = next_hop;
    }

    @id(ACTION_ID_ROUTE_TO_GROUP)
    action route_to_group(@id(1) @refers_to(ecmp_group, group) group_id_t group) {
        meta.group = group;
    }

    @id(ACTION_ID_DROP_UNROUTED)
    action drop_unrouted() {
        meta.drop_reason = DropReason.NO_ROUTE;
    }

    @id(ACTION_ID_CHOOSE_NEXT_HOP)
    action choose_next_hop(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop) {
        meta.next_hop = next_hop;
    }

    @id(TABLE_ID_IPV4_ROUTE)
    table ipv4_route {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { route_to; route_to_group; drop_unrouted; }
        const default_action = drop_unrouted();
        size = ROUTES;
    }

    @id(TABLE_ID_ECMP_GROUP)
    table ecmp_group {
        key = {
            meta.group: exact @name("group");
            hdr.ipv4.src: selector;
            hdr.ipv4.dst: selector;
            meta.flow.protocol: selector;
            own_mix: selector;
        }
        actions = { choose_next_hop; @defaultonly NoAction; }
        implementation = ecmp_members;
        size = ECMP_GROUPS;
    }

    apply {
        if (hdr.ipv4.ttl <= 1) {
            meta.drop_reason = DropReason.TTL_EXPIRED;
        } else {
            ipv4_route.apply();
            if (meta.group != 0) {
                bit<32> odd = (meta.router_mac[31:0] << 1) | 1;
                bit<32> ports = meta.flow.src_port ++ meta.flow.dst_port;
                own_mix = (ports ^ hdr.ipv4.src ^ hdr.ipv4.dst) * (odd * GOLDEN_RATIO);
                ecmp_group.apply();
            }
        }
    }
}

#endif
