// Frames of an unknown destination go to the controller, which answers with an entry and the frame.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 300;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

@controller_header("packet_in")
header packet_in_t { bit<16> port; }

@controller_header("packet_out")
header packet_out_t { bit<16> port; }

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}
struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) { CPU_PORT: from_controller; default: ethernet; }
    }
    state from_controller { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet { packet.extract(hdr.ethernet); transition accept; }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets) learned;

    action forward(bit<9> port) { standard.egress_spec = port; }

    action ask() {
        learned.count(0);
        hdr.packet_in.setValid();
        hdr.packet_in.port = (bit<16>)standard.ingress_port;
        standard.egress_spec = CPU_PORT;
    }

    table known {
        key = { hdr.ethernet.destination: exact; }
        actions = { forward; ask; }
        default_action = ask();
        support_timeout = true;
        size = 64;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = (bit<9>)hdr.packet_out.port;
            hdr.packet_out.setInvalid();
        } else {
            known.apply();
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}
V1Switch(MyParser(), NoChecksum(), MyIngress(), NoEgress(), NoChecksum(), MyDeparser()) main;
