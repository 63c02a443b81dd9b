// DPFR: the data plane detects dead links itself, reroutes around them, and notifies other switches where it can't.
// docs/dpfr.md explains it with numbers.
//
//   a ticker's packet, once a period for each way      -> HeartbeatTick   is the way alive? a heartbeat leaves by it
//   a heartbeat, or any packet that comes by a way     -> HearWay         it is alive
//   any packet that comes by a way, or leaves          -> BeginDpfr, CountSent    counted: heartbeats compare both ends
//   a fault notification                               -> TakeFault       that destination can't be reached by that way
//   a packet on its way to another leaf                -> ChooseWay       not by a dead way, nor by one that can't reach it
//   a port that loses its carrier                      -> TakePortState   dead at once, where the target reports it
//   a packet for a host behind such a port             -> TellSender      dropped, and its sender is notified
//
// A *way* is a port to another switch, numbered from 0 to 63. A *destination* is a leaf, or a group of leaves that are
// behind the same switches (a pod); both have numbers of one kind. For each destination the controller installs the ways
// that lead there, up and then down, all of them; the rest happens here:
//
//   usable = candidates of the leaf & ~down & ~mask of the leaf & ~mask of its group
//   of these only such as lose no packets, here or further on, if there are any
//
// Where that is empty, the switch notifies its neighbours (LINK_DOWN), which mask the way by which that arrives, and
// relay it when they too have nothing left. A mask holds for a time, and is refreshed while the fault lasts. Where what is
// left loses packets, they are warned in the same way (DEGRADED), and avoid it as long as they have another way.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_DPFR 1
#endif
#ifdef WITH_DPFR
#define WITH_NOTIFICATIONS 1
#ifndef DPFR_DESTINATIONS
#define DPFR_DESTINATIONS 256
#endif
#endif

#elif defined(WITH_DPFR)
#if HOOK == HOOK_TYPES

#define DPFR_WAYS 64
#define DPFR_CLAIMS (DPFR_DESTINATIONS * DPFR_WAYS)

typedef bit<8>  way_t;
typedef bit<64> ways_t;             // a set of them
typedef bit<16> destination_t;      // number of a leaf or a group
typedef bit<32> round_t;            // periods of heartbeats since the switch began

const bit<4> DEAF = 15;             // a heartbeat's severity: nothing arrives at its sender from the receiver
#define DROP_PORT 511               // what mark_to_drop writes, unless a target was started with another one

// A heartbeat's fields, where they differ from other notifications'. It goes from one end of a link to the other.
//
//   severity      0: the origin gets what the receiver sends; 1 to 14: all but a share of about 2^-severity; 15, DEAF:
//                 nothing
//   sequence      the origin's period
//   destination   how many packets the origin has sent by this link, this one included; it wraps. Written in egress,
//                 where the order on the wire is fixed

struct dpfr_t {
    bit<1>  on;
    bit<1>  known;                  // the packet came by a way
    way_t   way;                    // that one
    way_t   ways;                   // how many there are
    round_t misses;                 // a way is down by which nothing arrived for more periods
    round_t hold;                   // and up again after so many good ones, doubled with each flap
    bit<16> weight;                 // so many packets that come make up for one that was lost; 0: losses do not matter
    bit<32> most;                   // the most that one heartbeat adds to a way's score
    bit<32> limit;                  // the score at which too many are lost
    bit<16> copies;                 // of each notification
    round_t refresh;                // periods after which it is repeated
    bit<4>  validity;               // it holds for 2^validity periods
    bit<4>  hops;
    bit<16> listeners;              // multicast group and clone session of who goes through here to a destination
    destination_t destinations;     // how many there are
    round_t round;
}

#elif HOOK == HOOK_METADATA
    dpfr_t dpfr;

#elif HOOK == HOOK_METADATA_START
        meta.dpfr.on = 0;
        meta.dpfr.known = 0;
        meta.dpfr.way = 0;
        meta.dpfr.ways = 0;
        meta.dpfr.round = 0;

#elif HOOK == HOOK_CONTROLS

#include "dpfr/ids.p4"
#include "../include/bit_sets.p4"
#include "dpfr/state.p4"
#include "dpfr/loss.p4"
#include "dpfr/liveness.p4"
#include "dpfr/ports.p4"
#include "dpfr/faults.p4"
#include "dpfr/choose.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    BeginDpfr() begin_dpfr;
    HearWay() hear_way;
    DpfrNotices() dpfr_notices;
    ChooseWay() choose_way;
    TellSender() tell_sender;

#elif HOOK == HOOK_EGRESS_INSTANCES
    CountSent() count_sent;

#elif HOOK == HOOK_EGRESS_END
        count_sent.apply(hdr, meta, std);

#elif HOOK == HOOK_INGRESS_BEGIN
        begin_dpfr.apply(meta, std);

#elif HOOK == HOOK_NOTIFICATION_TAKEN
            dpfr_notices.apply(hdr, meta, std);

#elif HOOK == HOOK_INGRESS_ADMITTED
        hear_way.apply(hdr, meta, std);

#elif HOOK == HOOK_PATH_CHOICE
            choose_way.apply(hdr, meta, std);

#elif HOOK == HOOK_INGRESS_FORWARDED
        tell_sender.apply(hdr, meta, std);

#endif
#endif
