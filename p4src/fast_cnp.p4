// Fast CNP alone: the base router, the parameters that it needs, and the switch that tells sources of
// a long queue by itself. ECN is here too, because the two agree on who marks what.

#include <core.p4>
#include <v1model.p4>

#include "include/parser.p4"
#include "include/checksums.p4"
#include "include/deparser.p4"
#include "modules/admission.p4"
#include "modules/parameters.p4"
#include "modules/host_guard.p4"
#include "modules/arp.p4"
#include "modules/routing.p4"
#include "modules/next_hop.p4"
#include "modules/drops.p4"
#include "modules/ecn.p4"
#include "modules/fast_cnp.p4"

control FastCnpIngress(inout headers_t hdr, inout local_metadata_t meta,
                       inout standard_metadata_t std) {
    FastCnpReturn() fast_cnp_return;
    Admission() admission;
    HostGuard() host_guard;
    IngressParameters() parameters;
    Arp() arp;
    Routing() routing;
    NextHop() forwarding;
    DropCounters() drop_counters;

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        fast_cnp_return.apply(std);
        admission.apply(meta, std);
        host_guard.apply(hdr, meta, std);
        if (meta.drop_reason == DropReason.UNDECIDED) {
            parameters.apply(hdr, meta, std);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.arp.isValid()) {
            arp.apply(hdr, meta, std);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            routing.apply(hdr, meta);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            forwarding.apply(hdr, meta, std);
        }
        drop_counters.apply(meta);
    }
}

control FastCnpEgress(inout headers_t hdr, inout local_metadata_t meta,
                      inout standard_metadata_t std) {
    EgressParameters() parameters;
    FastCnp() fast_cnp;
    EcnMarking() ecn_marking;

    apply {
        parameters.apply(meta, std);
        fast_cnp.apply(hdr, meta, std);
        ecn_marking.apply(hdr, meta, std);
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FastCnpIngress(), FastCnpEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
