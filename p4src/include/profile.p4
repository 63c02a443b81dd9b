// What a build of fabric.p4 holds. A part that is left out leaves no table, field or statement.
//
//   fabric.p4                                   everything: all features, all mechanisms
//   -DPROFILE                                   the core: admission, routes, next hops, checksums
//   -DPROFILE -DWITH_ARP                        the core and one feature
//   -DPROFILE -DWITH_FABRIC -DWITH_<MECHANISM>  all features and one mechanism
//
// The features, all of which WITH_FABRIC selects:
//
//   WITH_PARAMETERS      the switch's MAC address, and the queue of each DSCP
//   WITH_HOST_GUARD      hosts can't send what only switches may
//   WITH_ARP             ARP is answered in the data plane
//   WITH_ACL             rules before forwarding; needs WITH_CPU, to which they send
//   WITH_OWN_ADDRESSES   accepts only packets to its MAC address, and answers pings to its IP ones
//   WITH_CPU             packet-out and packet-in
//   WITH_PORT_COUNTERS   packets and bytes of each port, and its RoCEv2 packets
//   WITH_DROP_COUNTERS   drops by reason
//
// And one that only a mechanism which needs it selects, or -D:
//
//   WITH_NOTIFICATIONS   notifications in datagrams: switches make, take and relay them
//
// A mechanism selects the features that it needs, WITH_CONGESTION_SIGNAL if it reads or writes that,
// WITH_MARKING_THRESHOLDS if it writes those, and WITH_TELEMETRY if it writes into packets for their senders (include/telemetry.p4),
// WITH_TELEMETRY_ROOM if packets become longer by it, WITH_TELEMETRY_WORD if there is one word for the whole path, and
// WITH_TELEMETRY_SHARED if a switch puts it in. All are
// defined as 1, as by -D, so that several may select the same one.

#ifndef WEFT_PROFILE_P4
#define WEFT_PROFILE_P4

#include "hooks.p4"

#ifndef PROFILE
#define WITH_FABRIC 1
#endif

#define HOOK HOOK_PROFILE
#include "../mechanisms.p4"
#undef HOOK

#ifdef WITH_FABRIC
#define WITH_PARAMETERS 1
#define WITH_HOST_GUARD 1
#define WITH_ARP 1
#define WITH_ACL 1
#define WITH_OWN_ADDRESSES 1
#define WITH_PORT_COUNTERS 1
#define WITH_DROP_COUNTERS 1
#endif

#ifdef WITH_ACL
#define WITH_CPU 1
#endif

#ifdef WITH_NOTIFICATIONS
#define WITH_HOST_GUARD 1
#endif

#endif
