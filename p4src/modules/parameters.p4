// What the controller installs as numbers rather than as forwarding state.
//
//   [ router ] [ dscp_class ]  -> the switch's MAC address, the packet's queue
//
// P4Runtime can't write BMv2's registers and a program must run at any time scale, so thresholds
// and timers are action parameters too, each in its mechanism's tables. Until they are installed,
// the defaults mean: off.

#ifndef WEFT_PARAMETERS_P4
#define WEFT_PARAMETERS_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

typedef bit<3> class_t;         // a queue of the port; a higher number is served first

control IngressParameters(in headers_t hdr, inout local_metadata_t meta,
                          inout standard_metadata_t std) {
    @id(ACTION_ID_SET_ROUTER_MAC)
    action set_router_mac(@id(1) mac_addr_t mac) {
        meta.router_mac = mac;
    }

    @id(ACTION_ID_SET_CLASS)
    action set_class(@id(1) class_t class_of_service) {
        std.priority = class_of_service;
    }

    // Keyless: one MAC address for all ports of this switch.
    @id(TABLE_ID_ROUTER)
    table router {
        actions = { set_router_mac; }
        default_action = set_router_mac(0);
    }

    @id(TABLE_ID_DSCP_CLASS)
    table dscp_class {
        key = { hdr.ipv4.dscp: exact @name("dscp"); }
        actions = { set_class; }
        default_action = set_class(0);
        size = 64;
    }

    apply {
        router.apply();
        if (hdr.ipv4.isValid()) {
            dscp_class.apply();
        }
    }
}

#endif
