// A router that marks packets while their queue is long: ECN, written by hand.
//
//   ingress: route -> [ queue of the port: packets wait ] -> egress: how many still wait? -> mark
//
//   probability   1 |             +-----      below kmin never, above kmax always, and between them
//                   |             |           with a probability that grows by `step` for each packet
//            p(max) |          _ -+
//                   |      _ -                RED, as switches that carry DCQCN have it
//                 0 +-----+-------+-----> packets that wait
//                        kmin   kmax
//
// Compile:  weft compile labs/ecn-by-hand/starter.p4 -o build/ecn
// Grade:    weft grade ecn-by-hand --p4 labs/ecn-by-hand/starter.p4
//
// It compiles and routes as it is, and marks nothing. The numbered TODOs make it mark; README.md
// explains each. Variables that the compiler calls unused are there for them.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<19> depth_t;                // of a queue, in packets
typedef bit<24> chance_t;               // a probability, in units of 2^-24

const bit<16> ETHERTYPE_IPV4 = 0x0800;

// The two bits of ECN (RFC 3168). 1 and 2 are ECT: an ECN-capable transport sent this packet.
const bit<2> NOT_ECT = 0;               // its sender does not know ECN
const bit<2> CE = 3;                    // congestion experienced: the mark

header ethernet_t {
    mac_addr_t dst;
    mac_addr_t src;
    bit<16>    type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<6>      dscp;
    bit<2>      ecn;
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

struct lab_headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct lab_metadata_t {
    depth_t  kmin;
    depth_t  kmax;
    chance_t step;                      // what each packet above kmin adds to the probability
}

parser LabParser(packet_in packet, out lab_headers_t hdr, inout lab_metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    action forward(port_t port, mac_addr_t src_mac, mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table route {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        if (std.parser_error == error.NoError && hdr.ipv4.isValid() && hdr.ipv4.ihl == 5 &&
            hdr.ipv4.ttl > 1) {
            route.apply();
        }
    }
}

// ---------------------------------------------------------------- marking

control LabEgress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                  inout standard_metadata_t std) {
    action set_marking(depth_t kmin, depth_t kmax, chance_t step) {
        meta.kmin = kmin;
        meta.kmax = kmax;
        meta.step = step;
    }

    // A port without an entry marks nothing.
    table marking {
        key = { std.egress_port: exact @name("port"); }
        actions = { set_marking; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 256;
    }

    // Packets that were marked, by port.
    counter(512, CounterType.packets) marked;

    apply {
        if (marking.apply().hit) {
            // What still waited in the queue when this packet left it.
            depth_t depth = std.deq_qdepth;
            bool marks = false;
            // TODO 1: above kmax every packet is marked.
            // TODO 2: above kmin, up to kmax, with probability (depth - kmin) * step: draw a number of
            //         24 bits. Does the product fit into them?
            // TODO 3: only packets of ECN-capable senders get the mark; DSCP stays what it is.
            // TODO 4: count by port the packets that this switch has marked.
            if (marks) {
            }
        }
    }
}

control LabComputeChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length,
              hdr.ipv4.id, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(), LabComputeChecksum(),
         LabDeparser()) main;
