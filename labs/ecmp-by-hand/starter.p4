// A router that spreads flows over several equally short paths: ECMP, written by hand.
//
//                                              +--- member 0 ---> next switch
//   packet -> route -> group -> flow's hash ---+--- member 1 ---> next switch
//                                              +--- member 2 ---> next switch
//
// Compile:  weft compile labs/ecmp-by-hand/starter.p4 -o build/ecmp
// Grade:    weft grade ecmp-by-hand --p4 labs/ecmp-by-hand/starter.p4
//
// It compiles and routes as it is, but every packet of a group takes member 0. The numbered TODOs in
// Choose make it ECMP; README.md explains each. Variables that the compiler calls unused are for them.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<16> group_t;                // paths to the same destinations; 0: none
typedef bit<16> member_t;               // one path of a group, from 0
typedef bit<16> members_t;              // a set of them: bit n is member n

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> ROCE_PORT = 4791;

header ethernet_t {
    mac_addr_t dst;
    mac_addr_t src;
    bit<16>    type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      tos;
    bit<16>     length;
    bit<16>     id;
    bit<1>      reserved;
    bit<1>      dont_fragment;
    bit<1>      more_fragments;
    bit<13>     fragment;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

// What TCP and UDP begin with. ICMP and fragments have no ports.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

// The rest of a UDP header, parsed in RoCEv2 packets only.
header udp_rest_t {
    bit<16> length;
    bit<16> checksum;
}

// RoCEv2's base transport header.
header bth_t {
    bit<8>  opcode;
    bit<8>  flags;
    bit<16> partition;
    bit<8>  reserved;
    bit<24> queue_pair;                 // the destination's
    bit<8>  ack_request;
    bit<24> sequence;                   // of the packet: each has another one
}

struct lab_headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
    udp_rest_t udp_rest;
    bth_t      bth;
}

struct lab_metadata_t {
    bit<16>   src_port;                 // 0 in packets without ports
    bit<16>   dst_port;
    group_t   group;
    bit<16>   count;                    // members of the group, up or down
    members_t live;                     // those that are up
    bit<16>   live_count;
    bit<32>   seed;                     // a random number of this switch's own
    bit<1>    use_queue_pair;           // 1: queue pairs are flows of their own
    bit<32>   hash;
    bit<16>   number;                   // a number below live_count
    member_t  member;                   // the choice
}

parser LabParser(packet_in packet, out lab_headers_t hdr, inout lab_metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        meta.src_port = 0;
        meta.dst_port = 0;
        meta.group = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment,
                          hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_TCP): parse_ports;
            (5, 0, 0, PROTOCOL_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        meta.src_port = hdr.ports.src;
        meta.dst_port = hdr.ports.dst;
        transition select(hdr.ipv4.protocol, hdr.ports.dst) {
            (PROTOCOL_UDP, ROCE_PORT): parse_bth;
            default: accept;
        }
    }

    state parse_bth {
        packet.extract(hdr.udp_rest);
        packet.extract(hdr.bth);
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

// ---------------------------------------------------------------- which member

// Sets meta.member, to a member of meta.group that is up.
control Choose(in lab_headers_t hdr, inout lab_metadata_t meta) {
    action take(member_t member) {
        meta.member = member;
    }

    // The members that are up, numbered from 0 to live_count - 1.
    table live_member {
        key = {
            meta.group: exact @name("group");
            meta.number: exact @name("number");
        }
        actions = { take; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        // One next hop for everything.
        meta.member = 0;
        // TODO 1: hash the flow's five fields into meta.hash, and make a member of it: 0 to count - 1.
        // TODO 2: where meta.use_queue_pair is 1, the queue pair of RoCEv2 packets belongs to the flow.
        // TODO 3: mix meta.seed in, so that the next switch's choice does not follow from this one's.
        // TODO 4: a member that is down: choose again, among the live_count that are up. When is that, and
        //         which bits of the hash are still random there?
        meta.number = 0;
        if (meta.live == 0) {
            live_member.apply();
        }
    }
}

// ---------------------------------------------------------------- where to

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    Choose() choose;

    action forward(port_t port, mac_addr_t src_mac, mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action to_group(group_t group) {
        meta.group = group;
    }

    // A host that is here, or the group of paths to those elsewhere.
    table route {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { forward; to_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    action set_members(bit<16> count, members_t live, bit<16> live_count, bit<32> seed,
                       bit<1> use_queue_pair) {
        meta.count = count;
        meta.live = live;
        meta.live_count = live_count;
        meta.seed = seed;
        meta.use_queue_pair = use_queue_pair;
    }

    table members {
        key = { meta.group: exact @name("group"); }
        actions = { set_members; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    // A member that is down has no entry: what takes it is lost.
    table next_hop {
        key = {
            meta.group: exact @name("group");
            meta.member: exact @name("member");
        }
        actions = { forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        if (std.parser_error == error.NoError && hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 &&
            hdr.ipv4.ttl > 1) {
            route.apply();
            if (meta.group != 0 && members.apply().hit) {
                choose.apply(hdr, meta);
                next_hop.apply();
            }
        }
    }
}

control LabEgress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                  inout standard_metadata_t std) {
    apply {
    }
}

control LabComputeChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.udp_rest);
        packet.emit(hdr.bth);
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(), LabComputeChecksum(),
         LabDeparser()) main;
