// A flow's port as the plan has it.

#ifndef WEFT_IGLB_FOLLOW_P4
#define WEFT_IGLB_FOLLOW_P4

#define IGLB_PORTS 512

// Counted by the port that a packet came by.
enum bit<8> PlanOutcome {
    PINNED    = 0,          // took the port of its flow's pin
    UNPLANNED = 1,          // RoCE data from a host, of a class that is planned: of a flow without a pin
    PORT_DOWN = 2           // its pin's port is down, so hash or load chose
}

control FollowPlan(in headers_t hdr, inout local_metadata_t meta, in standard_metadata_t std) {
    bit<1> following = 0;
    bit<16> version = 0;
    next_hop_id_t pinned = 0;
    bit<1> taken = 0;

    @id(COUNTER_ID_IGLB)
    counter(PORTS * 4, CounterType.packets) iglb;           // by port and PlanOutcome

    @id(DIRECT_COUNTER_ID_IGLB_PINS)
    direct_counter(CounterType.packets_and_bytes) iglb_pins;

    @id(ACTION_ID_FOLLOW_PLAN)
    action follow_plan(@id(1) bit<16> number) {
        following = 1;
        version = number;
    }

    @id(ACTION_ID_IGNORE_PLANS)
    action ignore_plans() { }

    // Keyless: the version of the plan that this switch follows.
    @id(TABLE_ID_IGLB_PLAN)
    table iglb_plan {
        actions = { follow_plan; ignore_plans; }
        default_action = ignore_plans();
    }

    @id(ACTION_ID_PIN_FLOW)
    action pin_flow(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop) {
        pinned = next_hop;
    }

    @id(ACTION_ID_SKIP_PIN)
    action skip_pin() { }

    @id(TABLE_ID_IGLB_PIN)
    table iglb_pin {
        key = {
            version: exact @name("version");
            hdr.ipv4.src: exact @name("src");
            hdr.ipv4.dst: exact @name("dst");
            hdr.udp.src_port: exact @name("udp_port");
        }
        actions = { pin_flow; @defaultonly skip_pin; }
        const default_action = skip_pin();
        counters = iglb_pins;
        size = IGLB_PINS;
    }

    @id(SELECTOR_ID_IGLB_PORTS)
    action_selector(HashAlgorithm.crc16, IGLB_PORTS, 16) iglb_ports;

    @id(ACTION_ID_USE_PINNED_PORT)
    action use_pinned_port(@id(1) @refers_to(next_hop, next_hop) next_hop_id_t next_hop) {
        meta.next_hop = next_hop;
        taken = 1;
    }

    // A group of one member, empty while its port is down. The hash has nothing to choose.
    @id(TABLE_ID_IGLB_PORT)
    table iglb_port {
        key = {
            pinned: exact @name("next_hop");
            meta.flow.src_port: selector;
        }
        actions = { use_pinned_port; @defaultonly NoAction; }
        implementation = iglb_ports;
        size = IGLB_PORTS;
    }

    @id(ACTION_ID_EXPECT_PINS)
    action expect_pins() { }

    @id(ACTION_ID_SKIP_SOURCE_PORT)
    action skip_source_port() { }

    // Ports to hosts, and the DSCPs of classes whose flows are planned.
    @id(TABLE_ID_IGLB_SOURCE)
    table iglb_source {
        key = {
            std.ingress_port: exact @name("port");
            hdr.ipv4.dscp: exact @name("dscp");
        }
        actions = { expect_pins; @defaultonly skip_source_port; }
        const default_action = skip_source_port();
        size = 1024;
    }

    apply {
        if (hdr.bth.isValid() && meta.group != 0) {
            iglb_plan.apply();
            if (following == 1) {
                bit<32> cell = (bit<32>)std.ingress_port << 2;
                if (iglb_pin.apply().hit) {
                    iglb_port.apply();
                    if (taken == 1) {
                        iglb.count(cell | (bit<32>)(bit<8>)PlanOutcome.PINNED);
                    } else {
                        iglb.count(cell | (bit<32>)(bit<8>)PlanOutcome.PORT_DOWN);
                    }
                } else if ((bit<8>)hdr.bth.opcode & 0x1f < 0x0c && iglb_source.apply().hit) {
                    iglb.count(cell | (bit<32>)(bit<8>)PlanOutcome.UNPLANNED);
                }
            }
        }
    }
}

#endif
