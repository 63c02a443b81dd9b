// Frames that say where they go and in which queue, and learn how long that was and how long they waited.

#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_REPORT = 0x88b5;

header report_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
    bit<8>  port;
    bit<8>  class;
    bit<32> number;
    bit<32> enq_timestamp;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
}

struct headers_t {
    report_t report;
}

struct metadata_t { }

parser DepthParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.report);
        transition accept;
    }
}

control NoCheck(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DepthIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    apply {
        if (hdr.report.type == TYPE_REPORT) {
            standard.egress_spec = (bit<9>) hdr.report.port;
            standard.priority = (bit<3>) hdr.report.class;
        } else {
            mark_to_drop(standard);
        }
    }
}

control DepthEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    apply {
        hdr.report.enq_timestamp = standard.enq_timestamp;
        hdr.report.enq_qdepth = (bit<32>) standard.enq_qdepth;
        hdr.report.deq_qdepth = (bit<32>) standard.deq_qdepth;
        hdr.report.deq_timedelta = standard.deq_timedelta;
    }
}

control DepthDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
    }
}

V1Switch(DepthParser(), NoCheck(), DepthIngress(), DepthEgress(), NoCheck(), DepthDeparser()) main;
