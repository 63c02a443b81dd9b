// Sizes and numbers that are fixed when the program is compiled. Thresholds and timers are not
// here: those are action parameters that the controller installs (modules/parameters.p4). What only
// one mechanism has is in its own file.

#ifndef WEFT_CONSTANTS_P4
#define WEFT_CONSTANTS_P4

#include "types.p4"

// Table sizes, overridable with -D.
#ifndef ROUTES
#define ROUTES 4096
#endif
#ifndef NEXT_HOPS
#define NEXT_HOPS 1024
#endif
#ifndef ECMP_GROUPS
#define ECMP_GROUPS 512
#endif
#ifndef ECMP_GROUP_MEMBERS
#define ECMP_GROUP_MEMBERS 128
#endif
#ifndef ARP_TARGETS
#define ARP_TARGETS 1024
#endif
#ifndef ACL_ENTRIES
#define ACL_ENTRIES 256
#endif

// Counters are indexed by the whole 9-bit port, so that no port falls outside.
#define PORTS 512

const port_t CPU_PORT = 255;
#define RECIRCULATION_PORT 510      // no interface: what leaves here enters again
#define TICKER_PORT 509             // no link: the packets of tickers come in here (docs/topologies.md)
#define RECIRCULATED 4              // standard_metadata.instance_type, as BMv2 numbers it

const bit<16> ROCE_V2_PORT = 4791;

#ifdef WITH_NOTIFICATIONS
const bit<16> NOTIFICATION_PORT = 28791;                // docs/wire-formats.md says why
const ipv4_addr_t NOTIFICATION_NEIGHBOURS = 0xe00000fe; // 224.0.0.254: whatever switch is at the link's other end
const mac_addr_t NOTIFICATION_NEIGHBOURS_MAC = 0x01005e0000fe;
const ipv4_addr_t NOTIFICATION_SOURCE = 0xc0000008;     // 192.0.0.8: a node without an address that counts (RFC 7600)
const bit<8> NEIGHBOUR_TTL = 255;                       // of what no router has passed on (RFC 5082)
#endif

#endif
