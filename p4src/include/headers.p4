// Every header that the fabric reads, and what a packet carries through the pipeline.

#ifndef WEFT_HEADERS_P4
#define WEFT_HEADERS_P4

#include "profile.p4"
#include "types.p4"
#include "notification.p4"
#ifdef WITH_TELEMETRY
#include "telemetry.p4"
#endif

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

#ifdef WITH_NOTIFICATIONS
const bit<8> NOTIFICATION_COPY = 3;     // field list: from a packet to its copy that becomes a notification

// Of notifications in datagrams (modules/notification.p4). What a mechanism wants to be sent it writes here.
struct notifying_t {
    bit<1>  datagram;       // this packet came to their UDP port, whatever it is
    bit<1>  taken;          // and is one for this switch
    bit<1>  on;
    bit<3>  class_of_service;
    bit<16> relay;          // a mechanism asks: multicast group to which what was taken goes on; 0: it ends here
    bit<1>  relayed;
    bit<32> session;        // a mechanism asks: clone session by which a new one leaves; 0: none
    @field_list(NOTIFICATION_COPY) bit<1>      made;       // a copy of this packet becomes it:
    @field_list(NOTIFICATION_COPY) bit<4>      type;
    @field_list(NOTIFICATION_COPY) bit<4>      severity;
    @field_list(NOTIFICATION_COPY) bit<4>      hops;
    @field_list(NOTIFICATION_COPY) bit<4>      validity;
    @field_list(NOTIFICATION_COPY) bit<12>     port;
    @field_list(NOTIFICATION_COPY) ipv4_addr_t destination;
    @field_list(NOTIFICATION_COPY) qp_t        destination_qp;
    @field_list(NOTIFICATION_COPY) bit<16>     queue;
    @field_list(NOTIFICATION_COPY) bit<16>     body;       // bytes behind it: a mechanism's own header
    @field_list(NOTIFICATION_COPY) ipv4_addr_t to;         // a host behind other switches; 0: as the port says
    @field_list(NOTIFICATION_COPY) bit<12>     sequence;   // the rest is not the mechanism's
    @field_list(NOTIFICATION_COPY) bit<16>     switch_id;
    @field_list(NOTIFICATION_COPY) bit<6>      dscp;
    @field_list(NOTIFICATION_COPY) mac_addr_t  mac;        // of this switch
}
#endif

#define HOOK HOOK_TYPES
#include "../mechanisms.p4"
#undef HOOK

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
#ifdef WITH_TELEMETRY
    telemetry_t         telemetry;
    telemetry_written_t telemetry_written;
#endif
#ifdef WITH_TELEMETRY_WORD
    telemetry_word_t    telemetry_word;
#endif
    bth_t          bth;
    reth_t         reth;
    aeth_t         aeth;
    notification_t notification;    // of a CNP: its 16 reserved bytes; or first in a datagram
    icrc_t         icrc;
#define HOOK HOOK_HEADERS
#include "../mechanisms.p4"
#undef HOOK
}

// ---------------------------------------------------------------- what the stages tell each other

// Of the flow: what the balancing hash reads beside the addresses. Zero where there is none
// (fragments have no ports, so that all of a packet's fragments take one path).
struct flow_t {
    bit<8>  protocol;
    bit<16> src_port;
    bit<16> dst_port;
}

#ifdef WITH_CONGESTION_SIGNAL
// What a mechanism that signals congestion to the source by itself says to one that marks packets.
struct congestion_signal_t {
    bit<1> told;                    // the source hears of this queue by itself: no CE
    bit<1> must_mark;               // the signal needs CE beside it
}
#endif

#ifdef WITH_MARKING_THRESHOLDS
// When the packet's queue marks, where a mechanism says it in the place of what is installed for the queue: never up to
// `low`, always above `high`, and with a probability that grows by `slope` (in 1/2^32) with each unit of depth between.
struct marking_thresholds_t {
    bit<1>  given;
    depth_t low;
    depth_t high;
    bit<32> slope;
}
#endif

struct local_metadata_t {
    flow_t        flow;
    DropReason    drop_reason;
    mac_addr_t    router_mac;       // of this switch
    group_id_t    group;            // the route's set of next hops, if it has several
    next_hop_id_t next_hop;
#ifdef WITH_CPU
    bit<7>        cpu_reason;
#endif
#ifdef WITH_CONGESTION_SIGNAL
    congestion_signal_t congestion;
#endif
#ifdef WITH_MARKING_THRESHOLDS
    marking_thresholds_t marking;
#endif
#ifdef WITH_NOTIFICATIONS
    notifying_t notifying;
#endif
#define HOOK HOOK_METADATA
#include "../mechanisms.p4"
#undef HOOK
}

#ifdef WITH_TELEMETRY_ROOM
#include "telemetry_room.p4"
#endif

#endif
