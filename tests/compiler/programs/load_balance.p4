// Load balancing by hash, a stateful firewall's Bloom filter, and a tunnel: registers and hashes.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_TUNNEL = 0x1212;
#define FILTER_ENTRIES 4096

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tunnel_t { bit<16> proto; bit<16> dst; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<6> dscp; bit<2> ecn; bit<16> total_len; bit<16> id; bit<3> flags;
    bit<13> frag; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header tcp_t {
    bit<16> sport; bit<16> dport; bit<32> seq; bit<32> ack; bit<4> offset; bit<4> reserved;
    bit<1> cwr; bit<1> ece; bit<1> urg; bit<1> ackf; bit<1> psh; bit<1> rst; bit<1> syn; bit<1> fin;
    bit<16> window; bit<16> checksum; bit<16> urgent;
}
struct metadata { bit<14> chosen; }
struct headers { ethernet_t ethernet; tunnel_t tunnel; ipv4_t ipv4; tcp_t tcp; }

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_TUNNEL: parse_tunnel;
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_tunnel {
        packet.extract(hdr.tunnel);
        transition select(hdr.tunnel.proto) { TYPE_IPV4: parse_ipv4; default: accept; }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 6: parse_tcp; default: accept; }
    }
    state parse_tcp { packet.extract(hdr.tcp); transition accept; }
}

control MyVerify(inout headers hdr, inout metadata meta) { apply { } }

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    register<bit<1>>(FILTER_ENTRIES) filter_1;
    register<bit<1>>(FILTER_ENTRIES) filter_2;
    bit<32> place_1;
    bit<32> place_2;
    bit<1> seen_1;
    bit<1> seen_2;
    bit<1> direction;

    action drop() { mark_to_drop(sm); }
    action places(bit<32> a, bit<32> b, bit<16> c, bit<16> d) {
        hash(place_1, HashAlgorithm.crc16, 32w0, { a, b, c, d, hdr.ipv4.protocol }, (bit<32>)FILTER_ENTRIES);
        hash(place_2, HashAlgorithm.crc32, 32w0, { a, b, c, d, hdr.ipv4.protocol }, (bit<32>)FILTER_ENTRIES);
    }
    action set_ecmp_select(bit<16> base, bit<32> count) {
        hash(meta.chosen, HashAlgorithm.crc16, base,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.tcp.sport, hdr.tcp.dport }, count);
    }
    action set_nhop(bit<48> mac, bit<9> port) {
        hdr.ethernet.dst = mac;
        sm.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action tunnel_forward(bit<9> port) { sm.egress_spec = port; }
    action set_direction(bit<1> way) { direction = way; }

    table ecmp_group {
        key = { hdr.ipv4.dst: lpm; }
        actions = { drop; set_ecmp_select; }
        size = 1024;
    }
    table ecmp_nhop {
        key = { meta.chosen: exact; }
        actions = { drop; set_nhop; }
        size = 16;
    }
    table tunnels {
        key = { hdr.tunnel.dst: exact; }
        actions = { tunnel_forward; drop; }
        default_action = drop();
    }
    table check_ports {
        key = { sm.ingress_port: exact; sm.egress_spec: exact; }
        actions = { set_direction; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.tunnel.isValid()) {
            tunnels.apply();
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 0) {
            ecmp_group.apply();
            ecmp_nhop.apply();
            if (hdr.tcp.isValid()) {
                direction = 0;
                if (check_ports.apply().hit) {
                    if (direction == 0) {
                        places(hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.sport, hdr.tcp.dport);
                    } else {
                        places(hdr.ipv4.dst, hdr.ipv4.src, hdr.tcp.dport, hdr.tcp.sport);
                    }
                    if (direction == 0) {
                        if (hdr.tcp.syn == 1) {
                            filter_1.write(place_1, 1);
                            filter_2.write(place_2, 1);
                        }
                    } else {
                        filter_1.read(seen_1, place_1);
                        filter_2.read(seen_2, place_2);
                        if (seen_1 != 1 || seen_2 != 1) { drop(); }
                    }
                }
            }
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action mark_ecn() { hdr.ipv4.ecn = 3; }
    action rewrite(bit<48> mac) { hdr.ethernet.src = mac; }
    action drop() { mark_to_drop(sm); }
    table send_frame {
        key = { sm.egress_port: exact; }
        actions = { rewrite; drop; }
        size = 256;
    }
    apply {
        if (hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2) {
            if (sm.enq_qdepth >= 10) { mark_ecn(); }
        }
        send_frame.apply();
    }
}

control MyCompute(inout headers hdr, inout metadata meta) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.tunnel); packet.emit(hdr.ipv4); packet.emit(hdr.tcp); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
