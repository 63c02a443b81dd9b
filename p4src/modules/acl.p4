// Rules that come before forwarding: deny, or send to the controller. Each entry counts.

#ifndef WEFT_ACL_P4
#define WEFT_ACL_P4

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/ids.p4"

control Acl(in headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    @id(DIRECT_COUNTER_ID_ACL_HITS)
    direct_counter(CounterType.packets_and_bytes) acl_hits;

    @id(ACTION_ID_PERMIT_PACKET)
    action permit_packet() {
        acl_hits.count();
    }

    @id(ACTION_ID_DENY_PACKET)
    action deny_packet() {
        acl_hits.count();
        meta.drop_reason = DropReason.ACL_DENIED;
    }

    @id(ACTION_ID_TRAP_TO_CPU)
    action trap_to_cpu(@id(1) bit<7> reason) {
        acl_hits.count();
        meta.cpu_reason = reason;
        meta.drop_reason = DropReason.FORWARDED;
        std.egress_spec = CPU_PORT;
    }

    @id(TABLE_ID_ACL)
    table acl {
        key = {
            std.ingress_port: ternary @name("ingress_port");
            hdr.ethernet.type: ternary @name("ether_type");
            hdr.ipv4.src: ternary @name("src");
            hdr.ipv4.dst: ternary @name("dst");
            meta.flow.protocol: ternary @name("protocol");
            meta.flow.dst_port: ternary @name("dst_port");
        }
        actions = { permit_packet; deny_packet; trap_to_cpu; }
        default_action = permit_packet();
        counters = acl_hits;
        size = ACL_ENTRIES;
    }

    apply {
        acl.apply();
    }
}

#endif
