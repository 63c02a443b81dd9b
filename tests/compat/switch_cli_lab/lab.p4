#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header address_t { bit<32> low; bit<128> high; bit<13> odd; bit<3> pad; }
struct headers_t { ethernet_t ethernet; address_t address; }
struct meta_t { bit<16> hash; bit<16> crc; bit<32> crc32; @field_list(1) bit<4> small; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) types;
    value_set<bit<13>>(4) odd_types;
    state start { p.extract(h.ethernet); transition select(h.ethernet.type) { types: more; default: accept; } }
    state more { p.extract(h.address); transition select(h.address.odd) { odd_types: accept; default: accept; } }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<80>>(4) cells;
    register<bit<8>>(2) bytes;
    counter(3, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    meter(2, MeterType.bytes) speed;
    direct_meter<bit<4>>(MeterType.packets) each;
    action_selector(HashAlgorithm.crc16, 8, 16) ways;
    action_profile(8) plain;
    action drop() { mark_to_drop(s); }
    action forward(bit<48> to, bit<9> port) { h.ethernet.dst = to; s.egress_spec = port; }
    action limited(bit<9> port) { each.read(m.small); s.egress_spec = port; }
    table lpm {
        key = { h.address.low: lpm; }
        actions = { forward; drop; NoAction; }
        default_action = drop();
        counters = hits;
    }
    table acl {
        key = { h.ethernet.type: ternary; s.ingress_port: range; h.address.low: optional; h.address.isValid(): exact @name("there"); }
        actions = { forward; drop; }
    }
    table spread {
        key = { h.ethernet.src: exact; m.hash: selector; }
        actions = { forward; NoAction; }
        implementation = ways;
    }
    table profiled {
        key = { h.address.odd: ternary; }
        actions = { forward; NoAction; }
        implementation = plain;
    }
    table aged {
        key = { h.ethernet.src: exact; h.address.high: exact @name("a_very_long_name_of_a_key_field"); }
        actions = { limited; drop; @defaultonly NoAction; }
        support_timeout = true;
        meters = each;
        default_action = NoAction();
    }
    table given {
        key = { h.ethernet.type: exact; }
        actions = { forward; NoAction; }
        const entries = { 0x0800: forward(1, 2); 0x86dd: NoAction(); }
    }
    table keyless { actions = { forward; NoAction; } default_action = forward(1, 1); }
    apply {
        bit<80> old;
        bit<8> colour;
        bytes.write(0, 1);
        cells.read(old, 0);
        cells.write(0, old + 1);
        seen.count(1);
        speed.execute_meter(0, colour);
        hash(m.crc, HashAlgorithm.crc16_custom, 16w0, { h.ethernet.dst }, 16w65535);
        hash(m.crc32, HashAlgorithm.crc32_custom, 32w0, { h.ethernet.dst }, 32w0xffffffff);
        if (m.crc == 5) { m.small = 3; }
        lpm.apply();
        acl.apply();
        spread.apply();
        profiled.apply();
        aged.apply();
        given.apply();
        keyless.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { action discard() { mark_to_drop(s); } table out_acl { key = { s.egress_port: exact; } actions = { discard; NoAction; } } apply { out_acl.apply(); } }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); p.emit(h.address); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
