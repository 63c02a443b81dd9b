// Every kind of table and array that a controller writes, for random writes.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<16> b;
    bit<32> c;
    bit<12> d;
    bit<4> e;
}
struct headers_t {
    h_t h;
}
struct metadata_t {
    bit<8> colour;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.packets) rate;
    action forward(bit<9> port) {
        std.egress_spec = port;
    }
    action rewrite(bit<12> d, bit<32> c) {
        hdr.h.d = d;
        hdr.h.c = c;
    }
    action nothing() { }
    table exact_one {
        key = { hdr.h.a : exact; hdr.h.d : exact; }
        actions = { forward; rewrite; nothing; }
        default_action = nothing();
        size = 8;
    }
    table prefix {
        key = { hdr.h.c : lpm; }
        actions = { forward; nothing; }
        const default_action = nothing();
    }
    direct_counter(CounterType.packets) ranked_count;
    table ranked {
        key = { hdr.h.b : ternary; hdr.h.e : optional; hdr.h.d : range; }
        actions = { forward; rewrite; @defaultonly nothing; }
        default_action = nothing();
        counters = ranked_count;
    }
    table fixed {
        key = { hdr.h.e : exact; }
        actions = { forward; nothing; }
        const entries = { 1 : forward(1); 2 : forward(2); }
    }
    @max_group_size(4)
    action_selector(HashAlgorithm.crc16, 16, 16) ways;
    table spread {
        key = { hdr.h.a : exact; hdr.h.c : selector; }
        actions = { forward; nothing; }
        implementation = ways;
    }
    apply {
        exact_one.apply();
        prefix.apply();
        ranked.apply();
        fixed.apply();
        spread.apply();
        seen.count((bit<32>)hdr.h.a[1:0]);
        rate.execute_meter((bit<32>)hdr.h.a[1:0], meta.colour);
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}
control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}
V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
