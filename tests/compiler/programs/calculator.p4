// A calculator in the network: two operands and an operator in, the result back to the sender.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header calc_t { bit<8> p; bit<8> four; bit<8> version; bit<8> op; bit<32> a; bit<32> b; bit<32> result; }
struct headers { ethernet_t ethernet; calc_t calc; }
struct metadata { }

const bit<16> TYPE_CALC = 0x1234;

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { TYPE_CALC: check; default: accept; }
    }
    state check {
        transition select(packet.lookahead<calc_t>().p, packet.lookahead<calc_t>().four,
                          packet.lookahead<calc_t>().version) {
            (0x50, 0x34, 0x01): parse_calc;
            default: accept;
        }
    }
    state parse_calc { packet.extract(hdr.calc); transition accept; }
}

control MyVerify(inout headers hdr, inout metadata meta) { apply { } }

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action send_back(bit<32> result) {
        bit<48> tmp = hdr.ethernet.dst;
        hdr.calc.result = result;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = tmp;
        sm.egress_spec = sm.ingress_port;
    }
    action operation_add() { send_back(hdr.calc.a + hdr.calc.b); }
    action operation_sub() { send_back(hdr.calc.a - hdr.calc.b); }
    action operation_and() { send_back(hdr.calc.a & hdr.calc.b); }
    action operation_or() { send_back(hdr.calc.a | hdr.calc.b); }
    action operation_xor() { send_back(hdr.calc.a ^ hdr.calc.b); }
    action operation_mul() { send_back(hdr.calc.a * hdr.calc.b); }
    action operation_shl() { send_back(hdr.calc.a << hdr.calc.b[7:0]); }
    action operation_drop() { mark_to_drop(sm); }
    table calculate {
        key = { hdr.calc.op: exact; }
        actions = {
            operation_add; operation_sub; operation_and; operation_or; operation_xor;
            operation_mul; operation_shl; operation_drop;
        }
        const default_action = operation_drop();
        const entries = {
            0x2b: operation_add();
            0x2d: operation_sub();
            0x26: operation_and();
            0x7c: operation_or();
            0x5e: operation_xor();
            0x2a: operation_mul();
            0x3c: operation_shl();
        }
    }
    apply {
        if (hdr.calc.isValid()) {
            calculate.apply();
        } else {
            operation_drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control MyCompute(inout headers hdr, inout metadata meta) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
