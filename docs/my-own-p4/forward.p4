// Forwards IPv4 by the longest prefix, in 60 lines: a program of one's own to begin with.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

header ipv4_t {
    bit<64> first_words;   // version to fragment offset
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(256, CounterType.packets_and_bytes) to_port;

    action drop() { mark_to_drop(standard); }

    action forward(bit<48> destination, bit<9> port) {
        hdr.ethernet.destination = destination;
        standard.egress_spec = port;
        to_port.count((bit<32>)port);
    }

    table route {
        key = { hdr.ipv4.destination: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply { if (hdr.ipv4.isValid()) { route.apply(); } else { drop(); } }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}
V1Switch(MyParser(), NoChecksum(), MyIngress(), NoEgress(), NoChecksum(), MyDeparser()) main;
