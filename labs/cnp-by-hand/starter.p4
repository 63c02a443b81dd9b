// A router that tells senders of congestion itself: the fast CNP, made by hand.
//
//            queue of a slow port
//   data ------> [||||||||] ------> data, unchanged                         (egress, first time)
//                            `----> clone -> rewritten into a CNP --.      (egress, as a clone)
//                                                                   | recirculate
//   CNP to the source <------------- routed as any packet <---------'     (ingress, second time)
//
// Compile:  weft compile labs/cnp-by-hand/starter.p4 -o build/cnp
// Grade:    weft grade cnp-by-hand --p4 labs/cnp-by-hand/starter.p4
//
// It compiles and routes as it is. The numbered TODOs make it send CNPs; README.md explains each.
// What the compiler calls unused is there for them.

#include <core.p4>
#include <v1model.p4>

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<24> qp_t;                   // an InfiniBand queue pair's number
typedef bit<19> depth_t;                // of a queue, in the switch's unit: cells of 256 bytes,
                                        // or packets on BMv2
typedef bit<48> ticks_t;                // of the switch's clock: microseconds

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> ROCE_V2_PORT = 4791;

// What std.instance_type says of a packet that the switch made itself.
const bit<32> EGRESS_CLONE = 2;
const bit<32> RECIRCULATED = 4;

// The control plane has told the switch: clones of this session go to a port without a link.
const bit<32> CNP_SESSION = 1;

// Of a CNP.
const bit<8>  CNP_OPCODE = 0x81;
const bit<6>  CNP_DSCP = 48;
const bit<8>  CNP_TTL = 64;
const bit<16> CNP_UDP_LENGTH = 40;      // UDP 8, BTH 12, reserved 16, ICRC 4
const bit<16> CNP_IPV4_LENGTH = 60;     // and IPv4 20
const bit<32> CNP_FRAME_LENGTH = 74;    // and Ethernet 14

const bit<4>  CONGESTION = 1;           // a notification's type

const bit<32> FLOWS = 4096;

// ---------------------------------------------------------------- headers

header ethernet_t {
    mac_addr_t dst;
    mac_addr_t src;
    bit<16>    type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<6>      dscp;
    bit<2>      ecn;
    bit<16>     length;                 // of the packet from here on
    bit<16>     id;
    bit<1>      reserved;
    bit<1>      dont_fragment;
    bit<1>      more_fragments;
    bit<13>     fragment;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;                     // of the packet from here on
    bit<16> checksum;                   // RoCEv2 leaves it 0
}

// RoCEv2's base transport header (InfiniBand vol. 1, 9.2).
header bth_t {
    bit<8>  opcode;
    bit<1>  solicited;
    bit<1>  migrated;
    bit<2>  padding;
    bit<4>  version;
    bit<16> partition;                  // P_Key
    bit<1>  fecn;
    bit<1>  becn;
    bit<6>  reserved_6;
    qp_t    destination_qp;             // who receives; nothing says who sends
    bit<1>  acknowledge;
    bit<7>  reserved_7;
    bit<24> sequence;                   // PSN
}

// The 16 reserved bytes of a CNP. All zeros, or what a Weft switch says there
// (docs/wire-formats.md: the notification).
header notification_t {
    bit<4>      type;                   // 0: a stock CNP
    bit<4>      severity;               // of congestion 0
    bit<4>      hops;
    bit<4>      validity;               // holds for 2^validity units
    bit<16>     switch_id;
    bit<12>     port;                   // whose queue
    bit<12>     sequence;
    ipv4_addr_t destination;            // where the packet that met it was going
    qp_t        destination_qp;         // and to which queue pair
    bit<16>     queue;                  // of congestion: the rate that a source is to keep to
}

// The last four bytes of every RoCEv2 packet.
header icrc_t {
    bit<32> value;                      // least significant byte first
}

struct lab_headers_t {
    ethernet_t     ethernet;
    ipv4_t         ipv4;
    udp_t          udp;
    bth_t          bth;
    notification_t notification;        // the 16 reserved bytes of a CNP: zeros, or a notification
    icrc_t         icrc;
}

// A clone starts with zeros here, but for what @field_list(1) marks.
struct lab_metadata_t {
    bool     congested;                 // this packet waited in a queue that is too long
    depth_t  threshold;                 // from here on it is
    ticks_t  interval;                  // between two CNPs of a flow, in ticks of the switch
    bit<32>  flow;                      // its cell in the register
    bool     due;                       // the flow's interval is over
    bit<16>  switch_id;                 // for the notification: who we are,
    bit<16>  rate;                      // how fast sources may send,
    bit<4>   validity;                  // for how long it holds
    // TODO 3: a clone has to keep the next two.
    qp_t     source_qp;                 // who sends: BTH only says who receives
    port_t   port;                      // whose queue is too long
}

// ---------------------------------------------------------------- from bytes to headers

parser LabParser(packet_in packet, out lab_headers_t hdr, inout lab_metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            ROCE_V2_PORT: parse_bth;
            default: accept;
        }
    }

    // What follows BTH stays payload: other headers, data, the ICRC.
    state parse_bth {
        packet.extract(hdr.bth);
        transition accept;
    }
}

control LabVerifyChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
    }
}

// ---------------------------------------------------------------- where to

control LabIngress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                   inout standard_metadata_t std) {
    action forward(port_t port, mac_addr_t src_mac, mac_addr_t dst_mac) {
        std.egress_spec = port;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table route {
        key = { hdr.ipv4.dst: exact @name("dst"); }
        actions = { forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        // Forgetting to decide must never mean port 0.
        mark_to_drop(std);
        // Only CNPs come here a second time. What is behind them is left of the data.
        if (std.instance_type == RECIRCULATED) {
            // TODO 6: cut it off.
        }
        if (std.parser_error == error.NoError && hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            route.apply();
        }
    }
}

// ---------------------------------------------------------------- who is told what

// From packet to CNP: everything but the ICRC.
control MakeCnp(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    // Keyless: who this switch is, and what its notifications ask for.
    action be(bit<16> switch_id, bit<16> rate, bit<4> validity) {
        meta.switch_id = switch_id;
        meta.rate = rate;
        meta.validity = validity;
    }

    table identity {
        actions = { be; @defaultonly NoAction; }
        default_action = NoAction();
    }

    // The 16 reserved bytes, all zeros: what a stock CNP has there.
    action reserve() {
        // TODO 6
    }

    action notify() {
        // TODO 8, for more marks: what happened, where, and to which packet.
    }

    action turn_round() {
        // TODO 4: IPv4 and UDP, as the destination would send it.
    }

    action to_source_qp() {
        // TODO 5: BTH.
    }

    apply {
        reserve();
        identity.apply();
        notify();
        turn_round();
        to_source_qp();
    }
}

// CRC-32 over the packet from IPv4 on, in front of it 8 bytes of ones (the header that InfiniBand
// has there), and with ones where routers write: TOS, TTL, both checksums, BTH's fifth byte.
control MakeIcrc(inout lab_headers_t hdr) {
    apply {
        // TODO 7: hash(..., HashAlgorithm.crc32, ...) into hdr.icrc.value, and hdr.icrc valid.
    }
}

control LabEgress(inout lab_headers_t hdr, inout lab_metadata_t meta,
                  inout standard_metadata_t std) {
    register<ticks_t>(FLOWS) next_cnp;  // when a flow may be told again
    MakeCnp() make_cnp;
    MakeIcrc() make_icrc;

    // A queue of `threshold` and more is too long. A flow is told once in `interval` ticks.
    action watch(depth_t threshold, ticks_t interval) {
        meta.congested = false;         // TODO 1: std.deq_qdepth says how long it is
        meta.interval = interval;
    }

    action ignore() {
        meta.congested = false;
    }

    table congestion {
        key = { std.egress_port: exact @name("port"); }
        actions = { watch; ignore; }
        default_action = ignore();
        size = 512;
    }

    // Whose queue pair sends to queue pair `qp` of host `destination`.
    action source_is(qp_t qp) {
        meta.source_qp = qp;
    }

    table source_qp {
        key = {
            hdr.ipv4.dst: exact @name("destination");
            hdr.bth.destination_qp: exact @name("qp");
        }
        actions = { source_is; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    // One action, so that BMv2's egress threads can't come in between.
    action claim_interval() {
        meta.due = true;                // TODO 2: next_cnp says when the flow may be told again
    }

    apply {
        if (std.instance_type == EGRESS_CLONE) {
            make_cnp.apply(hdr, meta);
            make_icrc.apply(hdr);
            // TODO 3: let ingress route it.
        } else if (hdr.bth.isValid()) { // TODO 1: a CNP must never cause another
            congestion.apply();
            if (meta.congested && source_qp.apply().hit) {
                hash(meta.flow, HashAlgorithm.crc32, 32w0,
                     { hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src_port, hdr.bth.destination_qp },
                     FLOWS);
                claim_interval();
                if (meta.due) {
                    meta.port = std.egress_port;
                    // TODO 3: clone it to CNP_SESSION.
                }
            }
        }
    }
}

// ---------------------------------------------------------------- from headers to bytes

control LabComputeChecksum(inout lab_headers_t hdr, inout lab_metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length,
              hdr.ipv4.id, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LabDeparser(packet_out packet, in lab_headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
        packet.emit(hdr.notification);
        packet.emit(hdr.icrc);
    }
}

V1Switch(LabParser(), LabVerifyChecksum(), LabIngress(), LabEgress(),
         LabComputeChecksum(), LabDeparser()) main;
