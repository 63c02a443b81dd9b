// Tables, entries, parser states and names.
#include <core.p4>
#include <v1model.p4>

header tag_t { bit<8> kind; bit<8> level; }
struct headers_t { tag_t tag; }
struct meta_t { bit<8> level; }

const bit<8> NOT_USED = 1; // warns: unused
@noWarn("unused") const bit<8> NOT_TOLD = 1;
const bit<8> SEVEN = 7;

parser P(packet_in packet, out headers_t hdr, inout meta_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.tag);
        transition select(SEVEN) {
            1: other;
            7: other;
            2: accept; // warns: parser-transition
        }
    }
    state other {
        transition select(hdr.tag.kind) {
            1: accept;
            default: last;
            3: accept; // warns: parser-transition
        }
    }
    state last { // warns: parser-transition, unsupported*
    }
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets) idle; // warns: unused
    @deprecated("use set_level") action old_level() { meta.level = 0; }
    action set_level(bit<8> level, bit<8> unused) { // warns: unused
        meta.level = level;
    }
    table keyless { // warns: mismatch
        actions = { set_level; old_level; } // warns: deprecated
        size = 4;
    }
    table ranked { // warns: mismatch
        key = { hdr.tag.kind: ternary; 8w3: exact; } // warns: ignore-prop, mismatch
        actions = { set_level; NoAction; }
        size = 10;
        const entries = {
            (0x13 &&& 0x0F, 3): set_level(1, 0); // warns: mismatch
            (0x02 &&& 0x0F, 3): set_level(2, 0);
        }
        sise = 4; // warns: ignore-prop
    }
    table ordered {
        key = { hdr.tag.kind: ternary; }
        actions = { set_level; NoAction; }
        entries = {
            const priority = 10: (1): set_level(1, 0); // warns: entries-out-of-priority-order
            const priority = 20: (2): set_level(2, 0); // warns: duplicate-priorities
            const priority = 20: (3): set_level(3, 0);
        }
    }
    table never { // warns: unused
        actions = { NoAction; }
    }
    apply {
        keyless.apply();
        ranked.apply();
        ordered.apply();
        meta.level = 300; // warns: overflow
        meta.level = meta.level << 9; // warns: overflow
        meta.level = -1; // warns: mismatch
    }
}

control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
