// Names for widths, and for the numbers that protocols assign.

#ifndef WEFT_TYPES_P4
#define WEFT_TYPES_P4

#include "profile.p4"

typedef bit<9>  port_t;
typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<16> group_id_t;
typedef bit<16> next_hop_id_t;
typedef bit<24> qp_t;           // an InfiniBand queue pair number
#if defined(WITH_CONGESTION_SIGNAL) || defined(WITH_MARKING_THRESHOLDS)
typedef bit<19> depth_t;        // of a queue, in the target's unit: packets or cells
#endif

enum bit<16> EtherType {
    IPV4 = 0x0800,
    ARP  = 0x0806
}

enum bit<8> IpProtocol {
    ICMP = 1,
    TCP  = 6,
    UDP  = 17
}

enum bit<2> Ecn {
    NOT_CAPABLE = 0,
    CAPABLE_1   = 1,
    CAPABLE_0   = 2,
    CONGESTED   = 3
}

enum bit<16> ArpOperation {
    REQUEST = 1,
    REPLY   = 2
}

enum bit<8> IcmpType {
    ECHO_REPLY   = 0,
    ECHO_REQUEST = 8
}

// The BTH opcodes that are followed by a header we parse: transport (3 bits), operation (5 bits).
enum bit<8> BthOpcode {
    RC_WRITE_FIRST          = 0x06,
    RC_WRITE_ONLY           = 0x0a,
    RC_WRITE_ONLY_IMMEDIATE = 0x0b,
    RC_READ_REQUEST         = 0x0c,
    RC_READ_RESPONSE_FIRST  = 0x0d,
    RC_READ_RESPONSE_LAST   = 0x0f,
    RC_READ_RESPONSE_ONLY   = 0x10,
    RC_ACKNOWLEDGE          = 0x11,
    UC_WRITE_FIRST          = 0x26,
    UC_WRITE_ONLY           = 0x2a,
    UC_WRITE_ONLY_IMMEDIATE = 0x2b,
    CNP                     = 0x81
}

// What an acknowledgement says: the upper bits of AETH's syndrome.
enum bit<2> AethKind {
    ACK      = 0,
    RNR_NAK  = 1,           // receiver not ready
    RESERVED = 2,
    NAK      = 3            // sequence error and others: go-back-N starts here
}

// Why ingress drops a packet; the index of its counter. UNDECIDED is where every packet starts:
// a stage that decides sets FORWARDED or a reason, and later stages leave the packet alone.
enum bit<8> DropReason {
    FORWARDED      = 0,
    UNDECIDED      = 1,     // no stage knew the protocol
    PARSER_ERROR   = 2,     // cut short, or a header that contradicts itself
    BAD_CHECKSUM   = 3,
    ACL_DENIED     = 4,
    ARP_UNKNOWN    = 5,     // nobody we answer for, or no request
    NOT_OUR_MAC    = 6,
    NOT_FOR_HOSTS  = 7,     // to the switch's own address, and not an echo request
    TTL_EXPIRED    = 8,
    NO_ROUTE       = 9,
    NO_NEXT_HOP    = 10,
    SPOOFED        = 11,    // a host's packet that this host may not send
    BAD_NOTIFICATION = 12,  // a notification's datagram that is not as one has to be, or where they are off
    REFUSED        = 13     // a mechanism's packet that is not as it has to be, or from whom it may not come
}

#endif
