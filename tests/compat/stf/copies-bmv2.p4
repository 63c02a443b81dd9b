// Groups and mirroring sessions: each copy says its replication id and what kind of copy it is.
#include "frame.p4"

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        std.mcast_grp = hdr.probe.kind;
        if (hdr.probe.level != 0) {
            meta.kept = 0x5a;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.probe.level, 1);
        }
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.probe.target = (bit<32>)std.egress_rid;
        hdr.probe.answer = meta.kept;
        if (std.instance_type != 1) {
            hdr.probe.answer = 0;
        }
    }
}

V1Switch(FrameParser(), Unchecked(), ProbeIngress(), ProbeEgress(), Unchecked(), FrameDeparser()) main;
