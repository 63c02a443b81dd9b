// Toy: counts the packets that leave a port with CE.
//
// [ toy_port ] holds the ports that count.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_TOY 1
#endif

#elif defined(WITH_TOY)
#if HOOK == HOOK_CONTROLS

control Toy(in headers_t hdr, in standard_metadata_t std) {
    @id(0x12000f01)
    counter(PORTS, CounterType.packets) toy_marked;

    @id(0x01000f01)
    action count_port() {
    }

    @id(0x01000f02)
    action skip_port() {
    }

    @id(0x02000f01)
    table toy_port {
        key = { std.egress_port: exact @name("port"); }
        actions = { count_port; @defaultonly skip_port; }
        const default_action = skip_port();
        size = PORTS;
    }

    apply {
        if (toy_port.apply().hit && hdr.ipv4.isValid() && hdr.ipv4.ecn == Ecn.CONGESTED) {
            toy_marked.count((bit<32>)std.egress_port);
        }
    }
}

#elif HOOK == HOOK_EGRESS_INSTANCES
    Toy() toy;

#elif HOOK == HOOK_EGRESS
        toy.apply(hdr, std);

#endif
#endif
