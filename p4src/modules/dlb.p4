// Load balancing: which of several equally short paths a packet takes, by the policy of its class.
// docs/load-balancing.md explains the policies with numbers.
//
//   a packet to another leaf, by a group of ports   -> BalanceLoad   its class's policy chooses one of them
//   any packet that leaves by a port to a switch    -> WeighPort     how long that port is busy now, and how busy it was
//   reports of neighbours, and to them              -> dlb/paths.p4  what lies behind each port (WITH_GLB)
//
// A class without a policy is left to the ECMP hash (modules/routing.p4). What stands below in mechanisms.p4 overrides
// whatever is chosen here.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_GLB 1
#define WITH_DLB_WEIGHTS 1
#endif
#ifdef WITH_GLB                 // reports of what lies behind ports, for GLB policies
#define WITH_DLB 1
#define WITH_NOTIFICATIONS 1
#ifndef GLB_LEAVES
#define GLB_LEAVES 64           // 256 at most, since BMv2 shifts by 8 bits
#endif
#endif
#ifdef WITH_DLB_WEIGHTS         // ports of unequal rates, for policies that draw one
#define WITH_DLB 1
#endif
#ifdef WITH_DLB
#ifndef DLB_FLOWLETS
#define DLB_FLOWLETS 4096       // flows that are told apart; others share a cell, and are one flow
#endif
#endif

#elif defined(WITH_DLB)
#if HOOK == HOOK_TYPES

#define DLB_PORTS 64            // a switch's ports to other switches

typedef bit<64> port_set_t;

enum bit<8> Balance {
    ECMP_QP      = 1,           // by a hash of the flow and of its queue pair
    ROUND_ROBIN  = 2,           // each packet by the next port
    SPRAY        = 3,           // each packet by any port
    FLOWLET      = 4,           // each flowlet by any port
    FLOWLET_DLB  = 5,           // each flowlet by one of the best ports
    PACKET_DLB   = 6,           // each packet by one of the best ports
    FLOWLET_GLB  = 7,           // as FLOWLET_DLB, where what lies behind the port counts, too
    PACKET_GLB   = 8
}

#ifdef WITH_GLB
typedef bit<GLB_LEAVES> leaves_t;           // a set of them, by the controller's numbers
typedef bit<4 * GLB_LEAVES> bands_t;        // of each a band: four such sets, of those whose band has bit 3, 2, 1 and 0

// The body of a report.
header path_quality_t {
    bands_t bands;
}

struct glb_t {
    bit<1> counts;              // how long it waits says how good a port is
}
#endif

#elif HOOK == HOOK_HEADERS
#ifdef WITH_GLB
    path_quality_t path_quality;
#endif

#elif HOOK == HOOK_METADATA
#ifdef WITH_GLB
    glb_t glb;
#endif

#elif HOOK == HOOK_METADATA_START
#ifdef WITH_GLB
        meta.glb.counts = 0;
#endif

#elif HOOK == HOOK_NOTIFICATION_BODIES
#ifdef WITH_GLB
            NotificationType.PATH_QUALITY: parse_path_quality;
#endif

#elif HOOK == HOOK_PARSER_STATES
#ifdef WITH_GLB
    // A switch of another size numbers leaves differently.
    state parse_path_quality {
        transition select(hdr.notification.destination_qp) {
            GLB_LEAVES: parse_path_bands;
            default: accept;
        }
    }

    state parse_path_bands {
        packet.extract(hdr.path_quality);
        transition accept;
    }
#endif

#elif HOOK == HOOK_BODY_DEPARSER
#ifdef WITH_GLB
        packet.emit(hdr.path_quality);
#endif

#elif HOOK == HOOK_CONTROLS

#include "../include/bit_sets.p4"
#include "dlb/ids.p4"
#include "dlb/quality.p4"
#ifdef WITH_GLB
#include "dlb/paths.p4"
#endif
#include "dlb/balance.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    BalanceLoad() balance_load;
    WeighPort() weigh_port;
#ifdef WITH_GLB
    ReportPaths() report_paths;
    TakeReport() take_report;
#endif

#elif HOOK == HOOK_EGRESS_INSTANCES
#ifdef WITH_GLB
    MeasureQueue() measure_queue;
#endif

#elif HOOK == HOOK_NOTIFICATION_TAKEN
#ifdef WITH_GLB
            if (hdr.notification.type == NotificationType.PATH_QUALITY && hdr.path_quality.isValid()) {
                if (std.ingress_port == TICKER_PORT) {
                    report_paths.apply(hdr, meta, std);
                } else {
                    take_report.apply(hdr, std);
                }
            }
#endif

#elif HOOK == HOOK_EGRESS
#ifdef WITH_GLB
        measure_queue.apply(meta, std);
#endif

#elif HOOK == HOOK_PATH_CHOICE
            balance_load.apply(hdr, meta, std);

#elif HOOK == HOOK_INGRESS_FORWARDED
        weigh_port.apply(meta, std);

#endif
#endif
