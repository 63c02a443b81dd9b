// Rules that come before forwarding: deny, or send to the controller. Each entry counts.

#ifndef WEFT_ACL_P4
#define WEFT_ACL_P4

#include "../include/constants.p4"
#include "../include/headers.p4"

control Acl(in headers_t hdr, inout local_metadata_t meta, inout standard_metadata_t std) {
    @id(0x13000001)
    direct_counter(CounterType.packets_and_bytes) acl_hits;

    @id(0x01000201)
    action permit() {
        acl_hits.count();
    }

    @id(0x01000202)
    action deny() {
        acl_hits.count();
        meta.drop_reason = DropReason.ACL_DENIED;
    }

    @id(0x01000203)
    action trap_to_cpu(@id(1) bit<7> reason) {
        acl_hits.count();
        meta.cpu_reason = reason;
        meta.drop_reason = DropReason.FORWARDED;
        std.egress_spec = CPU_PORT;
    }

    @id(0x02000201)
    table acl {
        key = {
            std.ingress_port: ternary @name("ingress_port");
            hdr.ethernet.type: ternary @name("ether_type");
            hdr.ipv4.src: ternary @name("src");
            hdr.ipv4.dst: ternary @name("dst");
            meta.flow.protocol: ternary @name("protocol");
            meta.flow.dst_port: ternary @name("dst_port");
        }
        actions = { permit; deny; trap_to_cpu; }
        default_action = permit();
        counters = acl_hits;
        size = ACL_ENTRIES;
    }

    apply {
        acl.apply();
    }
}

#endif
