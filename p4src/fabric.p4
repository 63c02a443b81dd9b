// The fabric switch, leaf or spine: a router for RoCEv2 clusters. The tables decide which it is.
//
//  ingress
//   count -> packet-out? ----------------------------------------------------> port
//        `-> trust it? -> parameters -> acl -> arp? --------------------------> same port
//                                           `-> ours? -> echo -> route -> next hop -> port
//        whatever nobody forwards is dropped and counted by reason
//  egress
//   count -> tell the source if the queue is long -> or ECN mark -> packet-in header if to the controller
//
// fabric.p4info.txtpb beside this file is the interface to controllers, made by
//   weft compile p4src/fabric.p4 -o build && cp build/fabric.p4info.txtpb p4src/

#include <core.p4>
#include <v1model.p4>

#include "include/parser.p4"
#include "include/checksums.p4"
#include "include/deparser.p4"
#include "modules/port_counters.p4"
#include "modules/cpu.p4"
#include "modules/admission.p4"
#include "modules/parameters.p4"
#include "modules/acl.p4"
#include "modules/roce_counters.p4"
#include "modules/arp.p4"
#include "modules/echo.p4"
#include "modules/routing.p4"
#include "modules/next_hop.p4"
#include "modules/drops.p4"
#include "modules/ecn.p4"
#include "modules/host_guard.p4"
#include "modules/fast_cnp.p4"
#include "modules/queue_pairs.p4"

control FabricIngress(inout headers_t hdr, inout local_metadata_t meta,
                      inout standard_metadata_t std) {
    FastCnpReturn() fast_cnp_return;
    ReceiveCounters() receive_counters;
    PacketOut() from_controller;
    Admission() admission;
    HostGuard() host_guard;
    IngressParameters() parameters;
    Acl() access;
    RoceCounters() roce_counters;
    Arp() arp;
    EchoResponder() echo;
    Routing() routing;
    NextHop() forwarding;
    QueuePairs() queue_pairs;
    DropCounters() drop_counters;

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        fast_cnp_return.apply(std);
        if (std.instance_type != RECIRCULATED) {
            receive_counters.apply(std);
            roce_counters.apply(hdr, std);
        }
        if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, meta, std);
        } else {
            admission.apply(meta, std);
            host_guard.apply(hdr, meta, std);
        }
        if (meta.drop_reason == DropReason.UNDECIDED) {
            parameters.apply(hdr, meta, std);
            access.apply(hdr, meta, std);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.arp.isValid()) {
            arp.apply(hdr, meta, std);
        } else if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            if (hdr.ethernet.dst != meta.router_mac) {
                meta.drop_reason = DropReason.NOT_OUR_MAC;
            } else {
                echo.apply(hdr, meta);
            }
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            routing.apply(hdr, meta);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            forwarding.apply(hdr, meta, std);
        }
        if (meta.drop_reason == DropReason.FORWARDED && hdr.bth.isValid()) {
            queue_pairs.apply(hdr, std);
        }
        drop_counters.apply(meta);
    }
}

control FabricEgress(inout headers_t hdr, inout local_metadata_t meta,
                     inout standard_metadata_t std) {
    TransmitCounters() transmit_counters;
    EgressParameters() parameters;
    EcnMarking() ecn_marking;
    FastCnp() fast_cnp;
    PacketIn() to_controller;

    apply {
        if (std.egress_port != RECIRCULATION_PORT) {
            transmit_counters.apply(std);
        }
        parameters.apply(meta, std);
        fast_cnp.apply(hdr, meta, std);
        ecn_marking.apply(hdr, meta, std);
        if (std.egress_port == CPU_PORT) {
            to_controller.apply(hdr, meta, std);
        }
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
