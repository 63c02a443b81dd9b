// AllReduce in the network: switches add up what their children send, and multicast the sum back down a tree.
// docs/allreduce.md explains it with numbers.
//
//   a datagram to ALLREDUCE_PORT
//     -> FindTree          from a child or the parent of that job's tree?         allreduce/trees.p4
//     -> contribution      -> Rounds: added, seen before, or late?                allreduce/rounds.p4
//                             all children there -> up to the parent, or from the root down to all children
//     -> result            -> Rounds: stored, down to all children
//     -> partial           -> Rounds, in a cell of the pool: added, or on to the job's server    allreduce/pool.p4
//     -> move              up to the root, then down to all children
//     -> block             to the parent and all children but the one it came from
//   egress
//     -> AddressAllReduce  each copy gets the address of who is behind its port   allreduce/send.p4
//
// Whatever it is, it ends in this module: nothing that came to the port is routed.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_ALLREDUCE 1
#define WITH_BEST_EFFORT 1
#endif
#ifdef WITH_BEST_EFFORT         // jobs with servers, which share a pool
#define WITH_ALLREDUCE 1
#ifndef ALLREDUCE_POOL
#define ALLREDUCE_POOL 64       // its cells: a power of two
#endif
#endif
#ifdef WITH_ALLREDUCE
#ifndef ALLREDUCE_LANES
#define ALLREDUCE_LANES 32      // int32 that are added in each packet: a power of two
#endif
#ifndef ALLREDUCE_SLOTS
#define ALLREDUCE_SLOTS 256     // of all jobs together
#endif
#endif

#elif defined(WITH_ALLREDUCE)
#if HOOK == HOOK_TYPES

#include "allreduce/lanes.p4"
#include "allreduce/types.p4"

#elif HOOK == HOOK_HEADERS
    allreduce_header_t allreduce;
#ifdef WITH_BEST_EFFORT
    allreduce_workers_t allreduce_workers;
#endif
    allreduce_lanes_t  allreduce_lanes;

#elif HOOK == HOOK_METADATA
    allreduce_t allreduce;

#elif HOOK == HOOK_METADATA_START
        meta.allreduce.datagram = 0;
        meta.allreduce.sent = 0;
        meta.allreduce.flooded = 0;

#elif HOOK == HOOK_UDP_PORTS
            ALLREDUCE_PORT: parse_allreduce;

#elif HOOK == HOOK_PARSER_STATES
    // A block's integers are payload. Of a contribution or a result with fewer than are added there is nothing to read:
    // it is refused.
    state parse_allreduce {
        meta.allreduce.datagram = 1;
        packet.extract(hdr.allreduce);
        transition select(hdr.allreduce.kind, hdr.allreduce.lanes) {
            (AllReduceKind.CONTRIBUTION, ALLREDUCE_LANES .. 65535): parse_allreduce_lanes;
            (AllReduceKind.RESULT, ALLREDUCE_LANES .. 65535): parse_allreduce_lanes;
#ifdef WITH_BEST_EFFORT
            (AllReduceKind.PARTIAL, 0 .. 65535): parse_allreduce_workers;
#endif
            default: accept;
        }
    }
#ifdef WITH_BEST_EFFORT

    state parse_allreduce_workers {
        packet.extract(hdr.allreduce_workers);
        transition select(hdr.allreduce.lanes) {
            ALLREDUCE_LANES .. 65535: parse_allreduce_lanes;
            default: accept;
        }
    }
#endif

    state parse_allreduce_lanes {
        packet.extract(hdr.allreduce_lanes);
        transition accept;
    }

#elif HOOK == HOOK_DEPARSER
        packet.emit(hdr.allreduce);
#ifdef WITH_BEST_EFFORT
        packet.emit(hdr.allreduce_workers);
#endif
        packet.emit(hdr.allreduce_lanes);

#elif HOOK == HOOK_CONTROLS

#include "allreduce/ids.p4"
#include "allreduce/trees.p4"
#include "allreduce/sums.p4"
#include "allreduce/rounds.p4"
#include "allreduce/send.p4"
#include "allreduce/take.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    TakeAllReduce() take_allreduce;

#elif HOOK == HOOK_INGRESS_ADMITTED
        if (meta.allreduce.datagram == 1) {
            take_allreduce.apply(hdr, meta, std);
        }

#elif HOOK == HOOK_EGRESS_INSTANCES
    AddressAllReduce() address_allreduce;

#elif HOOK == HOOK_EGRESS
        if (meta.allreduce.sent == 1) {
            address_allreduce.apply(hdr, meta, std);
        }

#endif
#endif
