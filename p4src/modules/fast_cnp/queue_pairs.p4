// Samples of the connections of stock NICs, for the controller that finds out which queue pair sends
// to which. BTH names only the destination's queue pair; but what one end acknowledges, the other
// one has just sent. So both directions are reported with their packet sequence number:
//
//   DATA               A -> B, to B's queue pair      |  the same numbers as
//   ACKNOWLEDGEMENT    B -> A, to A's queue pair      |
//
//   READ_REQUEST       A -> B, to B's queue pair      |  the same numbers as
//   READ_RESPONSE      B -> A, to A's queue pair      |  (here B sends the data)
//
// A packet is worth a report if the one who sends the data of its connection has a stock NIC, and
// only where it enters the fabric: at the port of the host whose address it bears. A host can't
// speak for others.
//
// Reports are rate-limited: a flow in its cell has one an interval, and after a number of them, by
// when the controller knows what it can know, one in a longer interval. Two flows in a cell take
// turns, at half of the interval.

#ifndef WEFT_QUEUE_PAIRS_P4
#define WEFT_QUEUE_PAIRS_P4

#include "../../include/constants.p4"
#include "../../include/headers.p4"
#include "ids.p4"

#ifndef QUEUE_PAIR_CELLS
#define QUEUE_PAIR_CELLS 65536      // a power of two
#endif
#ifndef STOCK_NICS
#define STOCK_NICS 4096
#endif

enum bit<8> SightingKind {
    DATA            = 0,        // SEND or WRITE
    ACKNOWLEDGEMENT = 1,
    READ_REQUEST    = 2,
    READ_RESPONSE   = 3
}

struct queue_pair_sighting {
    ipv4_addr_t source;
    ipv4_addr_t destination;
    qp_t        destination_qp;
    bit<24>     sequence;
    bit<8>      kind;           // SightingKind
    bit<32>     length;         // of a READ request, in bytes: its responses' numbers are taken by it
    bit<8>      reports;        // of this flow in a row, this one included; says when the next is due
    port_t      ingress_port;
}

control QueuePairs(in headers_t hdr, in standard_metadata_t std) {
    // Of each cell: when it last reported (48 bits), which flow (8), how often in a row (8).
    @id(REGISTER_ID_SIGHTINGS)
    register<bit<64>>(QUEUE_PAIR_CELLS) sightings;

    bit<48> first_interval;
    bit<48> later_interval;
    bit<8> first_reports;
    ipv4_addr_t sender;             // of the data
    SightingKind kind;
    bool of_interest;

    @id(ACTION_ID_SAMPLE_HOST)
    action sample_host(@id(1) bit<48> interval, @id(2) bit<48> later, @id(3) bit<8> reports) {
        first_interval = interval;
        later_interval = later;
        first_reports = reports;
    }

    @id(ACTION_ID_SKIP_HOST)
    action skip_host() {
    }

    // Whose packets are looked at: those of the host at this port, with its address.
    @id(TABLE_ID_QUEUE_PAIR_PORT)
    table queue_pair_port {
        key = {
            std.ingress_port: exact @name("port");
            hdr.ipv4.src: exact @name("source");
        }
        actions = { sample_host; @defaultonly skip_host; }
        const default_action = skip_host();
        size = PORTS;
    }

    @id(ACTION_ID_ACCEPT_SENDER)
    action accept_sender() {
    }

    @id(ACTION_ID_SKIP_SENDER)
    action skip_sender() {
    }

    @id(TABLE_ID_STOCK_NICS)
    table stock_nics {
        key = { sender: exact @name("address"); }
        actions = { accept_sender; @defaultonly skip_sender; }
        const default_action = skip_sender();
        size = STOCK_NICS;
    }

    // Reliable connections only, whose opcodes begin with three zeros.
    action classify_packet() {
        bit<8> opcode = (bit<8>)hdr.bth.opcode;
        bool send_or_write = opcode <= 0x0b || opcode == 0x16 || opcode == 0x17;
        bool request = hdr.bth.opcode == BthOpcode.RC_READ_REQUEST;
        bool response = opcode >= 0x0d && opcode <= 0x10;
        bool acknowledgement = hdr.bth.opcode == BthOpcode.RC_ACKNOWLEDGE;
        of_interest = send_or_write || request || response || acknowledgement;
        kind = request ? SightingKind.READ_REQUEST : SightingKind.DATA;
        kind = response ? SightingKind.READ_RESPONSE : kind;
        kind = acknowledgement ? SightingKind.ACKNOWLEDGEMENT : kind;
        sender = request || acknowledgement ? hdr.ipv4.dst : hdr.ipv4.src;
    }

    apply {
        first_interval = 0;
        later_interval = 0;
        first_reports = 0;
        if (queue_pair_port.apply().hit) {      // nowhere, where there are no stock NICs
            classify_packet();
            if (of_interest && stock_nics.apply().hit) {
                bit<32> mixed;
                hash(mixed, HashAlgorithm.crc32, 32w0, {
                    hdr.ipv4.src, hdr.ipv4.dst, hdr.bth.destination_qp, (bit<8>)kind
                }, 64w0x100000000);
                bit<32> cell = mixed & (QUEUE_PAIR_CELLS - 1);
                bit<8> tag = mixed[31:24];
                bit<64> last;
                sightings.read(last, cell);
                bool never = last[7:0] == 0;
                bool same = last[15:8] == tag && !never;
                bit<48> interval = last[7:0] < first_reports ? first_interval : later_interval;
                interval = same ? interval : first_interval >> 1;
                bit<48> now = std.ingress_global_timestamp;
                if (never || now - last[63:16] >= interval) {
                    bit<8> row = same ? last[7:0] |+| 1 : 1;
                    sightings.write(cell, now ++ tag ++ row);
                    bit<32> length = 0;
                    if (kind == SightingKind.READ_REQUEST) {
                        length = hdr.reth.length;
                    }
                    // The one digest of this kind: P4Info names it by its struct.
                    digest<queue_pair_sighting>(1, {
                        hdr.ipv4.src, hdr.ipv4.dst, hdr.bth.destination_qp, hdr.bth.sequence,
                        (bit<8>)kind, length, row, std.ingress_port
                    });
                }
            }
        }
    }
}

#endif
