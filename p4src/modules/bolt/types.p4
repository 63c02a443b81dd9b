// Of Bolt: ids, constants, the word that packets ask in, and the body of a notification.

#ifndef WEFT_BOLT_TYPES_P4
#define WEFT_BOLT_TYPES_P4

// Bolt (12)
#define ACTION_ID_SUPPLY_PORT           0x01001201
#define ACTION_ID_GRANT_QUEUE           0x01001202
#define ACTION_ID_SKIP_SUPPLY           0x01001203
#define TABLE_ID_BOLT_QUEUE             0x02001201
#define REGISTER_ID_BOLT_CAME           0x16001201
#define REGISTER_ID_BOLT_LEFT           0x16001202
#define REGISTER_ID_BOLT_SUPPLY         0x16001203
#define REGISTER_ID_BOLT_SUPPLY_AT      0x16001204
#define REGISTER_ID_BOLT_PROMISED       0x16001205
#define COUNTER_ID_BOLT                 0x12000012

const bit<8> TELEMETRY_GRANTS = 3;          // the format, as in hostagent/include/telemetry.h
const bit<32> BOLT_SESSION = 522;           // clone session to RECIRCULATION_PORT
const bit<32> BOLT_OVERHEAD = 24;           // on the line, besides what std.packet_length counts: FCS, preamble, gap
const bit<32> BOLT_FRAME_LEAST = 60;
const bit<16> BOLT_PROMISED_MOST = 256;     // packets
const bit<64> BOLT_DRAINS_MOST = 0xfffff;   // ns: what a notification holds

// Supply is kept in 1/2^32 bytes above a debt of 2^26 bytes, so that it is never negative.
const bit<64> BOLT_NO_SUPPLY = 64w1 << 58;

// Bits of the word that packets ask in.
const bit<32> GRANT_MORE   = 0x80000000;    // the source asks for one packet more
const bit<32> GRANT_QUEUED = 0x40000000;    // a switch has notified it
const bit<32> GRANT_FIRST  = 0x20000000;    // nothing has come back yet
const bit<32> GRANT_LAST   = 0x10000000;    // what follows fits into the window

// What becomes of a packet that asks; the index of its counter.
enum bit<8> BoltOutcome {
    NOTIFIED  = 0,      // it met a long queue: its source is notified
    QUEUED    = 1,      // the same, but a switch before this one has notified it, or the packet has another copy
    PROMISED  = 2,      // its flow ends: what it leaves is promised
    TAKEN     = 3,      // granted what an ending flow leaves
    GRANTED   = 4,      // granted from supply
    REFUSED   = 5,      // it asked, and there is nothing
    SILENT    = 6       // it asked for nothing
}

// The body of a notification of a queue: the PSN of the packet that met it.
header queued_packet_t {
    bit<24> sequence;
    bit<8>  reserved;
}

#endif
