// Floods by a multicast group unless settings[0] says no; counts, meters, and has a selector.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t { bit<2> colour; }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<48>>(64) last_source;
    register<bit<16>>(8) settings;
    counter(64, CounterType.packets_and_bytes) arrived;
    meter(64, MeterType.packets) pace;
    action_selector(HashAlgorithm.crc16, 32w16, 32w8) ways;

    action drop() { mark_to_drop(standard); }
    action flood(bit<16> group) { standard.mcast_grp = group; }
    action forward(bit<9> port) { standard.egress_spec = port; }

    table by_destination {
        key = { hdr.ethernet.destination: ternary; }
        actions = { flood; drop; }
        default_action = flood(1);
        size = 64;
    }

    table spread {
        key = { hdr.ethernet.ether_type: exact; hdr.ethernet.source: selector; }
        actions = { forward; drop; }
        implementation = ways;
        size = 16;
    }

    apply {
        bit<16> closed;
        settings.read(closed, 0);
        arrived.count((bit<32>)standard.ingress_port);
        pace.execute_meter((bit<32>)standard.ingress_port, meta.colour);
        last_source.write((bit<32>)standard.ingress_port, hdr.ethernet.source);
        by_destination.apply();
        if (hdr.ethernet.ether_type != 0x0800) { spread.apply(); }
        if (closed != 0) { drop(); standard.mcast_grp = 0; }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { if (standard.egress_port == standard.ingress_port) { mark_to_drop(standard); } }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
