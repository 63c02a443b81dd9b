// Everything that the controller installs as a number rather than as forwarding state.
//
//   ingress:  [ router ] [ dscp_class ]  -> who we are, which queue
//   egress:   [ ecn_threshold ]          -> when a queue is too long
//
// P4Runtime can't write BMv2's registers and a program must run at any time scale, so thresholds
// and timers are action parameters. Until they are installed, the defaults mean: off.

#ifndef WEFT_PARAMETERS_P4
#define WEFT_PARAMETERS_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

typedef bit<3> class_t;         // a queue of the port; a higher number is served first

control IngressParameters(in headers_t hdr, inout local_metadata_t meta,
                          inout standard_metadata_t std) {
    @id(0x01000101)
    action be_router(@id(1) mac_addr_t mac) {
        meta.router_mac = mac;
    }

    @id(0x01000102)
    action use_class(@id(1) class_t class_of_service) {
        std.priority = class_of_service;
    }

    // Keyless: one MAC address for all ports of this switch.
    @id(0x02000101)
    table router {
        actions = { be_router; }
        default_action = be_router(0);
    }

    @id(0x02000102)
    table dscp_class {
        key = { hdr.ipv4.dscp: exact @name("dscp"); }
        actions = { use_class; }
        default_action = use_class(0);
        size = 64;
    }

    apply {
        router.apply();
        if (hdr.ipv4.isValid()) {
            dscp_class.apply();
        }
    }
}

control EgressParameters(inout local_metadata_t meta, in standard_metadata_t std) {
    // A queue deeper than this marks. The unit is the target's: packets, or cells of 256 bytes.
    @id(0x01000103)
    action mark_above(@id(1) depth_t threshold) {
        meta.ecn.low = threshold;
        meta.ecn.high = threshold;
    }

    // No queue is deeper than the largest number: nothing is marked.
    @id(0x01000104)
    action never_mark() {
        meta.ecn.low = 0x7ffff;
        meta.ecn.high = 0x7ffff;
    }

    // From `low` on ever more packets are marked, above `high` all. `slope`: what each unit of
    // depth adds to the probability, in 1/2^32.
    @id(0x01000105)
    action mark_between(@id(1) depth_t low, @id(2) depth_t high, @id(3) probability_t slope) {
        meta.ecn.low = low;
        meta.ecn.high = high;
        meta.ecn.slope = slope;
    }

    @id(0x02000103)
    table ecn_threshold {
        key = {
            std.egress_port: exact @name("port");
            std.priority: exact @name("class");
        }
        actions = { mark_above; mark_between; never_mark; }
        default_action = never_mark();
        size = PORTS * 8;
    }

    apply {
        ecn_threshold.apply();
    }
}

#endif
