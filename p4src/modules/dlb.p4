// Load balancing: which of several equally short paths a packet takes, by the policy of its class.
// docs/load-balancing.md explains the policies with numbers.
//
//   a packet to another leaf, by a group of ports   -> BalanceLoad   its class's policy chooses one of them
//   any packet that leaves by a port to a switch    -> WeighPort     how long that port is busy now, and how busy it was
//
// A class without a policy is left to the ECMP hash (modules/routing.p4). What stands below in mechanisms.p4 overrides
// whatever is chosen here.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
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
    PACKET_DLB   = 6            // each packet by one of the best ports
}

#elif HOOK == HOOK_CONTROLS

#include "../include/bit_sets.p4"
#include "dlb/ids.p4"
#include "dlb/quality.p4"
#include "dlb/balance.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    BalanceLoad() balance_load;
    WeighPort() weigh_port;

#elif HOOK == HOOK_PATH_CHOICE
            balance_load.apply(hdr, meta, std);

#elif HOOK == HOOK_INGRESS_FORWARDED
        weigh_port.apply(meta, std);

#endif
#endif
