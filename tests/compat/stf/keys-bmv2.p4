// A table for each kind of key; the answer asked for says which, and what it found is written there.
#include "frame.p4"

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) asked;

    action answer(bit<8> value, bit<9> port) {
        hdr.probe.answer = value;
        std.egress_spec = port;
    }
    action refuse() {
        mark_to_drop(std);
    }
    table by_level {
        key = { hdr.probe.level : exact; }
        actions = { answer; refuse; }
        counters = asked;
        default_action = refuse();
    }
    table by_target {
        key = { hdr.probe.target : lpm; }
        actions = { answer; refuse; }
        default_action = refuse();
    }
    table by_kind {
        key = { hdr.probe.kind : ternary; hdr.notes[0].isValid() : exact; }
        actions = { answer; refuse; }
        default_action = refuse();
    }
    apply {
        if (hdr.probe.answer == 0) {
            by_level.apply();
        } else if (hdr.probe.answer == 1) {
            by_target.apply();
        } else {
            by_kind.apply();
        }
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

V1Switch(FrameParser(), Unchecked(), ProbeIngress(), ProbeEgress(), Unchecked(), FrameDeparser()) main;
