// What the programs of these tests share: one header, and a way to send it on.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<32> target;
    bit<16> kind;
    bit<8>  level;
    bit<8>  answer;
}

header note_t {
    bit<8> text;
}

struct headers_t {
    probe_t   probe;
    note_t[2] notes;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
}

parser FrameParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.probe);
        transition select(hdr.probe.kind) {
            16w0x00ff: parse_note;
            default: accept;
        }
    }
    state parse_note {
        packet.extract(hdr.notes.next);
        transition accept;
    }
}

control Unchecked(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control FrameDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
