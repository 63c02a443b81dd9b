// The controller's port. A packet-out leaves by the port that its header names and meets no other
// stage of ingress; a packet-in carries the port it came from and the reason that the entry
// which trapped it was given.

#ifndef WEFT_CPU_P4
#define WEFT_CPU_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

control PacketOut(in headers_t hdr, inout local_metadata_t meta,
                  inout standard_metadata_t std) {
    apply {
        std.egress_spec = hdr.packet_out.egress_port;
        meta.drop_reason = DropReason.FORWARDED;
    }
}

control PacketIn(inout headers_t hdr, in local_metadata_t meta, in standard_metadata_t std) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = std.ingress_port;
        hdr.packet_in.reason = meta.cpu_reason;
    }
}

#endif
