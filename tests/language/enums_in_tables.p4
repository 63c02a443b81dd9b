// feature: plain enums as data of actions and in registers (8.3, 14.1)
#include "begin.p4"

enum Colour { Red, Green, Blue }

header in_t { bit<8> op; bit<8> a; }
header out_t { bit<8> x; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { Colour colour; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<Colour>(4) colours;

    @hidden action paint(Colour colour) { meta.colour = colour; }
    @hidden table painted {
        key = { hdr.i.a: exact; }
        actions = { paint; }
        const default_action = paint(Colour.Green);
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0 };
        meta.colour = Colour.Red;
        if (hdr.i.op == 0) {
            painted.apply();
        } else if (hdr.i.op == 1) {
            colours.write(2, Colour.Blue);
        } else {
            colours.read(meta.colour, 2);
        }
        if (meta.colour == Colour.Blue) {
            hdr.o.x = 3;
        } else if (meta.colour == Colour.Green) {
            hdr.o.x = 2;
        } else if (meta.colour == Colour.Red) {
            hdr.o.x = 1;
        }
    }
}

#include "end.p4"
