// feature: registers (v1model) of bit and int, widths over 64 bits
// feature: counters and direct counters (v1model), random, log_msg, assert, assume
#include "begin.p4"

header in_t { bit<8> op; bit<8> index; bit<100> wide; bit<4> pad; }
header out_t { bit<100> wide; bit<4> pad; bit<16> small; }

struct headers_t { in_t i; out_t o; }
struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control Main(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<100>>(8) wides;
    register<int<16>>(8) signed;
    register<bit<1>>(8) flags;
    counter(4, CounterType.packets) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    action count() { hits.count(); }
    table by_index {
        key = { hdr.i.index: exact; }
        actions = { count; NoAction; }
        counters = hits;
    }
    apply {
        std.egress_spec = 1;
        hdr.o = { 0, 0, 0 };
        bit<32> i = (bit<32>)hdr.i.index;
        if (hdr.i.op == 0) {
            wides.read(hdr.o.wide, i);
            wides.write(i, hdr.i.wide + 1);
        } else if (hdr.i.op == 1) {
            int<16> s;
            signed.read(s, i);
            s = s - 1;
            if (s < 0) { hdr.o.wide = 1; }
            signed.write(i, s);
            hdr.o.small = (bit<16>)s;
        } else if (hdr.i.op == 2) {
            bit<1> f;
            flags.read(f, i);
            flags.write(i, f ^ 1);
            hdr.o.small = (bit<16>)f;
        } else if (hdr.i.op == 3) {
            seen.count(i);
            by_index.apply();
        } else if (hdr.i.op == 4) {
            random(hdr.o.small, 16w5, 16w5);
            bit<100> r;
            random(r, 7, 9);
            if (r >= 7 && r <= 9) { hdr.o.wide = 1; }
        } else if (hdr.i.op == 5) {
            log_msg("index {} wide {}", { hdr.i.index, hdr.i.wide });
            log_msg("nothing");
            assert(hdr.i.index < 8);
            assume(hdr.i.index != 9);
        }
    }
}

#include "end.p4"
