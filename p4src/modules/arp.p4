// Answers ARP in the data plane, so that the first packet of a pair isn't lost and hosts need no
// static neighbours. A leaf answers for its gateway address and, as proxy, for every other host
// of the subnet, always with its own MAC address: all traffic is routed.
//
//   who has 10.0.1.2?  tell 10.0.1.1   ->   10.0.1.2 is at <the leaf>, out of the same port
//
// A host that asks for its own address (or before it has one) is looking for duplicates; an answer
// would make it give its address up, so there is none.

#ifndef WEFT_ARP_P4
#define WEFT_ARP_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

control Arp(inout headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    @id(ACTION_ID_ANSWER_REQUEST)
    action answer_request(@id(1) mac_addr_t mac) {
        ipv4_addr_t asked = hdr.arp.target_ip;
        hdr.arp.operation = ArpOperation.REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = mac;
        hdr.arp.sender_ip = asked;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        std.egress_spec = std.ingress_port;
        meta.drop_reason = DropReason.FORWARDED;
    }

    @id(ACTION_ID_IGNORE_REQUEST)
    action ignore_request() {
        meta.drop_reason = DropReason.ARP_UNKNOWN;
    }

    @id(TABLE_ID_ARP_TARGETS)
    table arp_targets {
        key = { hdr.arp.target_ip: exact @name("target_ip"); }
        actions = { answer_request; @defaultonly ignore_request; }
        const default_action = ignore_request();
        size = ARP_TARGETS;
    }

    apply {
        if (hdr.arp.operation == ArpOperation.REQUEST && hdr.arp.sender_ip != 0 &&
            hdr.arp.sender_ip != hdr.arp.target_ip) {
            arp_targets.apply();
        } else {
            ignore_request();
        }
    }
}

#endif
