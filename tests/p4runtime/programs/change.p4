/* One program in several editions (see test_reconcile.py): a switch on Ethernet addresses with one of each object that
 * P4Runtime can write to. */
#include <core.p4>
#include <v1model.p4>

#ifdef NEW_IDS
#define ID(n) @id(n)
#else
#define ID(n)
#endif
#ifndef CELLS
#define CELLS 8
#endif
#ifndef PORT_WORD
#define PORT_WORD bit<32>
#endif

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
#ifdef MORE
    bit<128> label;
#endif
    bit<2> colour;
    bit<16> hash;
}

struct seen_t {
    bit<48> src;
    bit<9> port;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply { } }

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<PORT_WORD>(CELLS) arrivals;
    counter(CELLS, CounterType.packets_and_bytes) arrived;
    meter(CELLS, MeterType.packets) limits;
    direct_counter(CounterType.packets_and_bytes) forwarded;
    direct_meter<bit<2>>(MeterType.packets) limited;
    action_selector(HashAlgorithm.crc16, 32w64, 32w16) uplinks;

    ID(0x01000071) action drop() { mark_to_drop(standard); }
#ifdef TAGGED
    action to_port(bit<9> port, bit<16> type) {
        hdr.ethernet.type = type;
#else
    ID(0x01000072) action to_port(ID(5) bit<9> port) {
#endif
        standard.egress_spec = port;
#ifdef MORE
        meta.label = 7;
#endif
    }
    ID(0x01000073) action to_group(bit<16> group) { standard.mcast_grp = group; }
    ID(0x01000074) action mirror() { clone(CloneType.I2E, 5); }
    ID(0x01000075) action learn() { digest<seen_t>(1, {hdr.ethernet.src, standard.ingress_port}); }

#ifdef MORE
    @id(0x02000001) table more {
        key = { hdr.ethernet.type: exact; meta.label: ternary; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 64;
    }
#endif

#ifndef RENAMED
#define FORWARD forward
#else
#define FORWARD onward
#endif
#ifdef RENAMED
    @id(0x02000042)
#elif defined(FIXED_ID)
    @id(0x02000042)
#else
    ID(0x02000078)
#endif
    table FORWARD {
        key = {
            hdr.ethernet.dst: exact @name("dst");
#ifdef BY_PORT
            standard.ingress_port: exact @name("port");
#endif
        }
        actions = { to_port; to_group; drop; }
        default_action = drop();
        counters = forwarded;
        meters = limited;
        support_timeout = true;
        size = 1024;
    }

#ifndef NO_ACL
    ID(0x02000079) table acl {
        key = { hdr.ethernet.src: ternary @name("src") ID(3); hdr.ethernet.type: ternary @name("type"); }
#ifdef NO_MIRROR
        actions = { drop; learn; NoAction; }
#else
        actions = { drop; mirror; learn; NoAction; }
#endif
        default_action = NoAction();
        size = 16;
    }
#endif

    table balance {
        key = { hdr.ethernet.type: exact; hdr.ethernet.src: selector; }
        actions = { to_port; }
        implementation = uplinks;
        size = 16;
    }

    table own {
        key = { hdr.ethernet.type: exact @name("type"); }
        actions = { to_port; drop; }
        default_action = drop();
        size = 16;
#ifdef OTHER_OWN
        entries = { 0x9001: drop(); 0x9003: drop(); }
#else
        entries = { 0x9001: drop(); 0x9002: drop(); }
#endif
    }

    apply {
        PORT_WORD n;
        arrivals.read(n, (bit<32>)standard.ingress_port);
        arrivals.write((bit<32>)standard.ingress_port, n + 1);
        arrived.count((bit<32>)standard.ingress_port);
        limits.execute_meter((bit<32>)standard.ingress_port, meta.colour);
        if (meta.colour == 2) {
            drop();
        } else {
            limited.read(meta.colour);
#ifdef MORE
            more.apply();
#endif
#ifndef NO_ACL
            acl.apply();
#endif
            if (hdr.ethernet.type == 0x8888) {
                balance.apply();
            } else if (hdr.ethernet.type[15:4] == 0x900) {
                own.apply();
            } else {
                FORWARD.apply();
            }
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
