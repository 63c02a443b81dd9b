// Every header that the fabric reads, and what a packet carries through the pipeline.

#ifndef WEFT_HEADERS_P4
#define WEFT_HEADERS_P4

#include "types.p4"
#include "notification.p4"

// ---------------------------------------------------------------- with the controller

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> reason;              // what the entry that sent it here was given
}

@controller_header("packet_out")
header packet_out_t {
    port_t egress_port;
    @padding bit<7> unused;
}

// ---------------------------------------------------------------- layers 2 to 4

header ethernet_t {
    mac_addr_t dst;
    mac_addr_t src;
    EtherType  type;
}

// For IPv4 over Ethernet; the parser checks that it is that.
header arp_t {
    bit<16>      hardware;
    bit<16>      protocol;
    bit<8>       hardware_length;
    bit<8>       protocol_length;
    ArpOperation operation;
    mac_addr_t   sender_mac;
    ipv4_addr_t  sender_ip;
    mac_addr_t   target_mac;
    ipv4_addr_t  target_ip;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<6>      dscp;
    Ecn         ecn;
    bit<16>     length;
    bit<16>     id;
    bit<1>      reserved;
    bit<1>      dont_fragment;
    bit<1>      more_fragments;
    bit<13>     fragment;
    bit<8>      ttl;
    IpProtocol  protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header ipv4_options_t {
    varbit<320> data;
}

header icmp_t {
    IcmpType type;
    bit<8>   code;
    bit<16>  checksum;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header tcp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// ---------------------------------------------------------------- RoCEv2 (InfiniBand vol. 1, 9.2)
// The ICRC at a packet's end is payload here, except of packets that a switch makes. It covers no field that a router changes: TTL,
// DSCP, ECN and the IPv4 checksum are masked in it.

header bth_t {
    BthOpcode opcode;
    bit<1>    solicited;
    bit<1>    migrated;
    bit<2>    padding;
    bit<4>    version;
    bit<16>   partition;
    bit<1>    fecn;
    bit<1>    becn;
    bit<6>    reserved_6;       // between switches; lowest bit: the flow's source has been told
    qp_t      destination_qp;
    bit<1>    acknowledge;
    bit<7>    reserved_7;
    bit<24>   sequence;
}

header reth_t {
    bit<64> address;
    bit<32> key;
    bit<32> length;
}

header aeth_t {
    bit<1>   reserved;
    AethKind kind;
    bit<5>   value;             // credits of an ACK, timer of an RNR NAK, code of a NAK
    bit<24>  message_sequence;
}

header icrc_t {
    bit<32> value;              // least significant byte first
}

struct headers_t {
    packet_out_t   packet_out;
    packet_in_t    packet_in;
    ethernet_t     ethernet;
    arp_t          arp;
    ipv4_t         ipv4;
    ipv4_options_t ipv4_options;
    icmp_t         icmp;
    tcp_t          tcp;
    udp_t          udp;
    bth_t          bth;
    reth_t         reth;
    aeth_t         aeth;
    notification_t notification;    // of a CNP: its 16 reserved bytes
    icrc_t         icrc;
}

// ---------------------------------------------------------------- what the stages tell each other

const bit<8> FAST_CNP = 1;          // field list: from a packet to its copy that becomes a fast CNP
const bit<8> NOTHING = 2;           // field list: to a recirculated packet (what it says is set anew)

// Of the flow: what the balancing hash reads beside the addresses. Zero where there is none
// (fragments have no ports, so that all of a packet's fragments take one path).
struct flow_t {
    bit<8>  protocol;
    bit<16> src_port;
    bit<16> dst_port;
}

// When a queue marks: never up to `low`, always above `high`, with a rising probability between.
struct ecn_t {
    depth_t       low;
    depth_t       high;
    probability_t slope;            // for each unit of depth above `low`
}

// What a switch that makes fast CNPs knows of a packet and its queue (modules/fast_cnp.p4). Fields in
// the list FAST_CNP are what the copy that becomes the CNP is told.
struct fast_cnp_t {
    @field_list(FAST_CNP, NOTHING) bit<1> made;     // this packet is such a copy
    @field_list(FAST_CNP) bit<4>      severity;
    @field_list(FAST_CNP) bit<4>      validity;
    @field_list(FAST_CNP) bit<12>     sequence;
    @field_list(FAST_CNP) bit<16>     queue;        // in cells of 256 bytes
    @field_list(FAST_CNP) qp_t        source_qp;    // 0: the source resolves the notification itself
    @field_list(FAST_CNP) port_t      port;
    @field_list(FAST_CNP) mac_addr_t  router_mac;
    bit<1>  on;
    bit<6>  dscp;                   // of CNPs
    bit<16> switch_id;
    bit<1>  understood;             // the source reads notifications
    bit<1>  told;                   // it hears of this queue by itself: no CE
    bit<1>  must_mark;              // it was told by a plain CNP: CE, too
}

struct local_metadata_t {
    flow_t        flow;
    DropReason    drop_reason;
    mac_addr_t    router_mac;       // of this switch
    group_id_t    group;            // the route's set of next hops, if it has several
    next_hop_id_t next_hop;
    bit<7>        cpu_reason;
    ecn_t         ecn;
    fast_cnp_t    fast_cnp;
}

#endif
