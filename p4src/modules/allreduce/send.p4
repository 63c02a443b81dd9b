// Where a packet goes, and how it is addressed there.

#ifndef WEFT_ALLREDUCE_SEND_P4
#define WEFT_ALLREDUCE_SEND_P4

const ipv4_addr_t ALLREDUCE_SOURCE = 0xc0000008;        // 192.0.0.8: a node without an address that counts (RFC 7600)
const ipv4_addr_t ALLREDUCE_NEIGHBOURS = 0xe00000fe;    // 224.0.0.254: whatever switch is at the link's other end
const mac_addr_t ALLREDUCE_NEIGHBOURS_MAC = 0x01005e0000fe;
const bit<8> ALLREDUCE_NEIGHBOUR_TTL = 255;
const bit<8> ALLREDUCE_HOST_TTL = 64;

control SendAllReduce(inout headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std,
                      in allreduce_place_t place, in AllReduceOutcome outcome, in bit<16> newest) {
    action send_to(port_t port) {
        meta.allreduce.sent = 1;
        std.egress_spec = port;
    }

    action send_to_group(bit<16> group) {
        meta.allreduce.sent = 1;
        std.mcast_grp = group;
    }

    // All that follows the header is cut off: a move has no lanes.
    action make_move(bit<16> epoch) {
        hdr.allreduce.kind = AllReduceKind.MOVE;
        hdr.allreduce.overflow = 0;
        hdr.allreduce.congestion = 0;
        hdr.allreduce.exponent_only = 0;
        hdr.allreduce.from_root = 0;
        hdr.allreduce.epoch = epoch;
        hdr.allreduce.exponent = 0;
        hdr.allreduce.lanes = 0;
        hdr.allreduce_lanes.setInvalid();
        hdr.udp.length = ALLREDUCE_UDP_BYTES;
        hdr.ipv4.length = ALLREDUCE_UDP_BYTES + 20;
        truncate(ALLREDUCE_UDP_BYTES + 34);
    }

    apply {
        std.priority = place.class_of_service;
        hdr.udp.src_port = ALLREDUCE_PORT;
        hdr.udp.checksum = 0;
        switch (outcome) {
            AllReduceOutcome.SUMMED: {
                if (place.root == 1) {
                    hdr.allreduce.kind = AllReduceKind.RESULT;
                    send_to_group(place.children_group);
                } else {
                    send_to(place.parent);
                }
            }
            AllReduceOutcome.REPEATED: {
                send_to(place.parent);
            }
#ifdef WITH_BEST_EFFORT
            AllReduceOutcome.PASSED: {
                send_to(place.parent);
            }
            AllReduceOutcome.FLUSHED: {
                send_to(place.parent);
            }
#endif
            AllReduceOutcome.RESULT: {
                send_to_group(place.children_group);
            }
            AllReduceOutcome.ANSWERED: {
                hdr.allreduce.kind = AllReduceKind.RESULT;
                send_to(std.ingress_port);
            }
            AllReduceOutcome.STALE: {
                make_move(newest);
                send_to(std.ingress_port);
            }
            AllReduceOutcome.MOVED: {
                if (place.from_child == 1) {
                    hdr.allreduce.from_root = place.root;
                }
                if (place.from_child == 1 && place.root == 0) {
                    send_to(place.parent);
                } else {
                    send_to_group(place.children_group);
                }
            }
            AllReduceOutcome.BLOCK: {
                meta.allreduce.flooded = 1;
                send_to_group(place.flood_group);
            }
            default: { }
        }
    }
}

control AddressAllReduce(inout headers_t hdr, in local_metadata_t meta, inout standard_metadata_t std) {
    @id(ACTION_ID_ADDRESS_ALLREDUCE_TO_HOST)
    action address_allreduce_to_host(@id(1) mac_addr_t src_mac, @id(2) mac_addr_t dst_mac,
                                     @id(3) ipv4_addr_t address) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.src = ALLREDUCE_SOURCE;
        hdr.ipv4.dst = address;
        hdr.ipv4.ttl = ALLREDUCE_HOST_TTL;
    }

    @id(ACTION_ID_ADDRESS_ALLREDUCE_TO_NEIGHBOUR)
    action address_allreduce_to_neighbour(@id(1) mac_addr_t src_mac) {
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = ALLREDUCE_NEIGHBOURS_MAC;
        hdr.ipv4.src = ALLREDUCE_SOURCE;
        hdr.ipv4.dst = ALLREDUCE_NEIGHBOURS;
        hdr.ipv4.ttl = ALLREDUCE_NEIGHBOUR_TTL;
    }

    @id(ACTION_ID_SKIP_ALLREDUCE_PORT)
    action skip_allreduce_port() { }

    // Who is behind a port.
    @id(TABLE_ID_ALLREDUCE_PORT)
    table allreduce_port {
        key = { std.egress_port: exact @name("port"); }
        actions = {
            address_allreduce_to_host;
            address_allreduce_to_neighbour;
            @defaultonly skip_allreduce_port;
        }
        const default_action = skip_allreduce_port();
        size = PORTS;
    }

    apply {
        if (meta.allreduce.flooded == 1 && std.egress_port == std.ingress_port) {
            mark_to_drop(std);
        } else {
            allreduce_port.apply();
        }
    }
}

#endif
