// The mechanisms, one line each: its file modules/NAME.p4, where everything of it is.
//
// This file is included once for each hook, with HOOK set to the hook's number; a mechanism's file
// gives what it has at that place:
//
//   #if HOOK == HOOK_PROFILE
//   #ifndef PROFILE
//   #define WITH_NAME 1                  // without -DPROFILE a build holds everything
//   #endif
//   #elif defined(WITH_NAME)
//   #if HOOK == HOOK_METADATA
//       name_t name;
//   #elif HOOK == HOOK_EGRESS
//           name.apply(hdr, meta, std);
//   #endif
//   #endif
//
//   hook                 where                          what a mechanism gives there
//   PROFILE              include/profile.p4             WITH_ of the features that it needs
//   TYPES                before headers_t               ids, constants, header and metadata types
//   HEADERS              in headers_t                   fields: its headers, which follow UDP
//   METADATA             in local_metadata_t            one field: a struct of its own
//   METADATA_START       the parser's first state       first values of that struct's fields
//   UDP_PORTS            the parser's select of UDP     cases: destination port -> its state
//   PARSER_STATES        in the parser                  states
//   DEPARSER             between UDP and BTH            emit() of its headers
//   CONTROLS             before the pipeline's controls its controls
//   INGRESS_INSTANCES    in FabricIngress               instances of them
//   INGRESS_BEGIN        first in ingress               what also sees recirculated packets
//   INGRESS_ADMITTED     after admission and guard      what consumes signals of other switches
//   PATH_CHOICE          before the next hop            writes meta.next_hop; the last one wins
//   INGRESS_FORWARDED    after the next hop             what sees only packets that go on
//   EGRESS_INSTANCES     in FabricEgress                instances of its controls
//   EGRESS               in egress, before packet-in    what sees the queue that the packet was in
//   EGRESS_END           last in egress                 what sees a packet as it leaves, or that it was dropped
//
// and of notifications in datagrams, for mechanisms that select WITH_NOTIFICATIONS (modules/notification.p4):
//
//   NOTIFICATION_BODIES  the parser's select of types   cases: type -> the state that reads its body
//   BODY_DEPARSER        behind the notification        emit() of bodies
//   NOTIFICATION_TAKEN   where one is for this switch   what its type means; asks for it to be relayed
//
// At each hook they come in the order of this list. So the list is also who wins (modules/next_hop.p4)
// and who reads whose signals: what sets meta.congestion or meta.marking stands above what reads it.

#include "modules/dlb.p4"
#include "modules/iglb.p4"
#include "modules/dpfr.p4"
#include "modules/fast_cnp.p4"
#include "modules/ecn_tuning.p4"
#include "modules/dcqcn.p4"
#include "modules/path_telemetry.p4"
#include "modules/bolt.p4"
#include "modules/allreduce.p4"
