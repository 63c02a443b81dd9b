// AllReduce on the wire, and what a switch knows of a packet and its tree.
// Mirrored in hostagent/include/allreduce.h and protocols/allreduce.py; a test compares them.

#ifndef WEFT_ALLREDUCE_TYPES_P4
#define WEFT_ALLREDUCE_TYPES_P4

const bit<16> ALLREDUCE_PORT = 28792;
#define ALLREDUCE_UDP_BYTES 24              // UDP's header and ours

enum bit<8> AllReduceKind {
    CONTRIBUTION = 1,       // up
    RESULT       = 2,       // down
    MOVE         = 3,       // up, then down: go on with another tree
    BLOCK        = 4,       // of a broadcast
    PARTIAL      = 5        // up, to a job's server: the sum of the workers that it names
}

header allreduce_header_t {
    AllReduceKind kind;
    bit<3>  unused;
    bit<1>  again;          // of a partial: sent after a time-out
    bit<1>  exponent_only;
    bit<1>  from_root;      // of a move on its way down
    bit<1>  congestion;     // some contribution had ECN CE
    bit<1>  overflow;       // some addition left int32
    bit<16> job;
    bit<16> epoch;          // its low 3 bits are the tree
    bit<1>  version;
    bit<15> slot;
    bit<32> chunk;
    bit<8>  exponent;
    bit<8>  reserved;
    bit<16> lanes;          // int32 that follow
}

// Behind a partial's header: whose contributions it is the sum of, a bit a rank.
header allreduce_workers_t {
    bit<64> workers;
}
#define ALLREDUCE_WORKERS_BYTES 8

// The first of a pair in the upper half.
#define ALLREDUCE_FIELD(n) bit<64> pair_##n;
header allreduce_lanes_t {
    ALLREDUCE_EACH_PAIR(ALLREDUCE_FIELD)
}

struct allreduce_t {
    bit<1> datagram;        // this packet came to the UDP port, whatever it is
    bit<1> sent;            // and leaves as one
    bit<1> flooded;         // by all ports of the tree but the one that it came by
}

// Whom this switch has to do with in a job's tree, and where the packet came from.
struct allreduce_place_t {
    bit<1>  from_child;
    bit<64> own;            // the child's bit
    bit<64> children;       // the bits of all
    bit<1>  root;
    port_t  parent;
    bit<16> children_group;
    bit<16> flood_group;
    bit<3>  class_of_service;
    bit<32> base;           // the job's first slot in this switch
    bit<16> slots;          // how many it has, a power of two
    bit<1>  best_effort;    // the job has a server, and shares of the pool in place of slots
    bit<32> cells;          // of the pool, a power of two; 0: all goes to the server
    bit<32> stride;         // chunk c uses cell (c * stride + offset) mod cells
    bit<32> offset;
    bit<16> patience;       // a round as old as that, in 1024 ticks, gives its cell up
}

// What became of a packet.
enum bit<8> AllReduceOutcome {
    CONTRIBUTED = 0,        // added, and others are missing
    DUPLICATE   = 1,        // seen before, and others are missing
    LATE        = 2,        // its slot has gone on to a later chunk
    STALE       = 3,        // its slot knows a newer epoch: answered with a move
    SUMMED      = 4,        // the last of its round
    RESULT      = 5,        // stored, on its way to the children
    ANSWERED    = 6,        // seen before: answered with the stored result
    REPEATED    = 7,        // seen before, all are there: the sum goes up again
    REFUSED     = 8,        // from nobody of the tree, or not as it has to be
    OVERFLOWED  = 9,        // counted beside another outcome, as CONGESTED is
    MOVED       = 10,
    BLOCK       = 11,
    UNEXPECTED  = 12,       // a result that nobody waits for
    CONGESTED   = 13,
    PASSED      = 14,       // best effort: goes on to the server as it came
    FLUSHED     = 15        // best effort: a repeat took what was there along to the server
}

#endif
