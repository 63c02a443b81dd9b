// feature: multicast, drop, truncate, recirculate, resubmit and clones with @field_list (v1model)
// feature: mark_to_drop; a multicast group beats egress_spec (v1model)
// feature: standard metadata: ingress_port, packet_length, instance_type, egress_rid (v1model)
#include "begin.p4"

header in_t { bit<8> op; bit<8> a; bit<8> round; bit<8> kept; }
header out_t { bit<8> port; bit<16> length; bit<8> kind; bit<8> rid; }

struct headers_t { in_t i; out_t o; }
struct metadata_t {
    @field_list(1, 2)
    bit<8> one;
    @field_list(2)
    bit<8> two;
    bit<8> lost;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.i.op == 1) {
            mark_to_drop(std);
        } else if (hdr.i.op == 2) {
            std.mcast_grp = 1;
        } else if (hdr.i.op == 3) {
            meta.one = 0x11;
            meta.two = 0x22;
            meta.lost = 0x33;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            hdr.i.round = 9;
        } else if (hdr.i.op == 4) {
            if (std.instance_type == 0) {
                meta.one = 0x11;
                meta.two = 0x22;
                hdr.i.round = 7;
                resubmit_preserving_field_list(2);
            } else {
                hdr.i.kept = meta.one + meta.two;
            }
        } else if (hdr.i.op == 6) {
            truncate(6);
        } else if (hdr.i.op == 8) {
            mark_to_drop(std);
            std.egress_spec = 2;
        } else if (hdr.i.op == 9) {
            clone(CloneType.I2E, 5);
            mark_to_drop(std);
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.o.setValid();
        hdr.o.port = (bit<8>)std.ingress_port;
        hdr.o.length = (bit<16>)std.packet_length;
        hdr.o.kind = (bit<8>)std.instance_type;
        hdr.o.rid = (bit<8>)std.egress_rid;
        if (hdr.i.op == 3) {
            hdr.i.kept = meta.one + meta.two + meta.lost;
        } else if (hdr.i.op == 5 && hdr.i.round < 2) {
            hdr.o.setInvalid();
            hdr.i.round = hdr.i.round + 1;
            meta.one = hdr.i.round;
            recirculate_preserving_field_list(1);
        } else if (hdr.i.op == 5) {
            hdr.i.kept = meta.one;
        } else if (hdr.i.op == 7 && std.instance_type == 0) {
            meta.two = 0x44;
            hdr.i.round = 3;
            clone_preserving_field_list(CloneType.E2E, 6, 2);
            mark_to_drop(std);
        } else if (hdr.i.op == 7) {
            hdr.i.kept = meta.two;
        } else if (hdr.i.op == 10) {
            mark_to_drop(std);
        }
    }
}

#define EGRESS Out
#include "end.p4"
