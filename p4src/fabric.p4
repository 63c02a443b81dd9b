// The fabric switch, leaf or spine: a router for RoCEv2 clusters. The tables decide which it is, and
// the profile decides what it holds (include/profile.p4): compiled without -D, everything.
//
//  ingress
//   count -> packet-out? ----------------------------------------------------> port
//        `-> trust it? -> parameters -> acl -> arp? --------------------------> same port
//                                           `-> ours? -> echo -> route -> next hop -> port
//        whatever nobody forwards is dropped and counted by reason
//  egress
//   count -> signal congestion if the queue is long -> packet-in header if to the controller
//
// Mechanisms come in where HOOK is set: mechanisms.p4 lists them and says what each hook is for.
//
// fabric.p4info.txtpb beside this file is the interface to controllers, made by
//   weft compile p4src/fabric.p4 -o build && cp build/fabric.p4info.txtpb p4src/

#include <core.p4>
#include <v1model.p4>

#include "include/profile.p4"
#include "include/parser.p4"
#include "include/checksums.p4"
#include "include/deparser.p4"
#include "modules/admission.p4"
#include "modules/routing.p4"
#include "modules/next_hop.p4"
#ifdef WITH_PARAMETERS
#include "modules/parameters.p4"
#endif
#ifdef WITH_HOST_GUARD
#include "modules/host_guard.p4"
#endif
#ifdef WITH_NOTIFICATIONS
#include "modules/notification.p4"
#endif
#ifdef WITH_ARP
#include "modules/arp.p4"
#endif
#ifdef WITH_ACL
#include "modules/acl.p4"
#endif
#ifdef WITH_OWN_ADDRESSES
#include "modules/echo.p4"
#endif
#ifdef WITH_CPU
#include "modules/cpu.p4"
#endif
#ifdef WITH_PORT_COUNTERS
#include "modules/port_counters.p4"
#include "modules/roce_counters.p4"
#endif
#ifdef WITH_DROP_COUNTERS
#include "modules/drops.p4"
#endif

#define HOOK HOOK_CONTROLS
#include "mechanisms.p4"
#undef HOOK

control FabricIngress(inout headers_t hdr, inout local_metadata_t meta,
                      inout standard_metadata_t std) {
#ifdef WITH_PORT_COUNTERS
    ReceiveCounters() receive_counters;
    RoceCounters() roce_counters;
#endif
#ifdef WITH_CPU
    PacketOut() from_controller;
#endif
    Admission() admission;
#ifdef WITH_HOST_GUARD
    HostGuard() host_guard;
#endif
#ifdef WITH_NOTIFICATIONS
    TakeNotification() take_notification;
    SendNotification() send_notification;
#endif
#ifdef WITH_PARAMETERS
    IngressParameters() parameters;
#endif
#ifdef WITH_ACL
    Acl() access;
#endif
#ifdef WITH_ARP
    Arp() arp;
#endif
#ifdef WITH_OWN_ADDRESSES
    EchoResponder() echo;
#endif
    Routing() routing;
    NextHop() forwarding;
#ifdef WITH_DROP_COUNTERS
    DropCounters() drop_counters;
#endif
#define HOOK HOOK_INGRESS_INSTANCES
#include "mechanisms.p4"
#undef HOOK

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
#define HOOK HOOK_INGRESS_BEGIN
#include "mechanisms.p4"
#undef HOOK
#ifdef WITH_PORT_COUNTERS
        if (std.instance_type != RECIRCULATED) {
            receive_counters.apply(std);
            roce_counters.apply(hdr, std);
        }
#endif
#ifdef WITH_CPU
        if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, meta, std);
        } else
#endif
        {
            admission.apply(meta, std);
#ifdef WITH_HOST_GUARD
            host_guard.apply(hdr, meta, std);
#endif
        }
#ifdef WITH_NOTIFICATIONS
        take_notification.apply(hdr, meta, std);
        if (meta.notifying.taken == 1) {
#define HOOK HOOK_NOTIFICATION_TAKEN
#include "mechanisms.p4"
#undef HOOK
        }
#endif
#define HOOK HOOK_INGRESS_ADMITTED
#include "mechanisms.p4"
#undef HOOK
#if defined(WITH_PARAMETERS) || defined(WITH_ACL)
        if (meta.drop_reason == DropReason.UNDECIDED) {
#ifdef WITH_PARAMETERS
            parameters.apply(hdr, meta, std);
#endif
#ifdef WITH_ACL
            access.apply(hdr, meta, std);
#endif
        }
#endif
#ifdef WITH_ARP
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.arp.isValid()) {
            arp.apply(hdr, meta, std);
        }
#endif
#ifdef WITH_OWN_ADDRESSES
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            if (hdr.ethernet.dst != meta.router_mac) {
                meta.drop_reason = DropReason.NOT_OUR_MAC;
            } else {
                echo.apply(hdr, meta);
            }
        }
#endif
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
            routing.apply(hdr, meta);
        }
        if (meta.drop_reason == DropReason.UNDECIDED && hdr.ipv4.isValid()) {
#define HOOK HOOK_PATH_CHOICE
#include "mechanisms.p4"
#undef HOOK
            forwarding.apply(hdr, meta, std);
        }
#define HOOK HOOK_INGRESS_FORWARDED
#include "mechanisms.p4"
#undef HOOK
#ifdef WITH_NOTIFICATIONS
        send_notification.apply(hdr, meta, std);
#endif
#ifdef WITH_DROP_COUNTERS
        drop_counters.apply(meta);
#endif
    }
}

control FabricEgress(inout headers_t hdr, inout local_metadata_t meta,
                     inout standard_metadata_t std) {
#ifdef WITH_PORT_COUNTERS
    TransmitCounters() transmit_counters;
#endif
#ifdef WITH_CPU
    PacketIn() to_controller;
#endif
#ifdef WITH_NOTIFICATIONS
    AddressNotification() address_notification;
#endif
#define HOOK HOOK_EGRESS_INSTANCES
#include "mechanisms.p4"
#undef HOOK

    apply {
#ifdef WITH_PORT_COUNTERS
        if (std.egress_port != RECIRCULATION_PORT) {
            transmit_counters.apply(std);
        }
#endif
#define HOOK HOOK_EGRESS
#include "mechanisms.p4"
#undef HOOK
#ifdef WITH_NOTIFICATIONS
        address_notification.apply(hdr, meta, std);
#endif
#ifdef WITH_CPU
        if (std.egress_port == CPU_PORT) {
            to_controller.apply(hdr, meta, std);
        }
#endif
#define HOOK HOOK_EGRESS_END
#include "mechanisms.p4"
#undef HOOK
    }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(),
         FabricComputeChecksum(), FabricDeparser()) main;
