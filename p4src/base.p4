// The smallest router made of the fabric's own parts: routes, next hops, TTL, checksum. To learn
// from, to measure, and the start of programs that add one module.

#include <core.p4>
#include <v1model.p4>

#include "include/parser.p4"
#include "include/checksums.p4"
#include "include/deparser.p4"
#include "modules/admission.p4"
#include "modules/routing.p4"
#include "modules/next_hop.p4"

control BaseIngress(inout headers_t hdr, inout local_metadata_t meta,
                    inout standard_metadata_t std) {
    Admission() admission;
    Routing() routing;
    NextHop() forwarding;

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        admission.apply(meta, std);
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            routing.apply(hdr, meta);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            forwarding.apply(hdr, meta, std);
        }
    }
}

control BaseEgress(inout headers_t hdr, inout local_metadata_t meta,
                   inout standard_metadata_t std) {
    apply {
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), BaseIngress(), BaseEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
