// Bolt (Arslan et al., NSDI 2023): a switch notifies the source of a packet that meets a queue, and grants others one packet more
// where their line has room. docs/bolt.md explains it with numbers.
//
//   any packet goes to a port (ingress)           -> Supply    what the line could have carried since the last one, less this one
//   a data packet that asks goes to a queue       -> AskMore   long queue: notify the source. Else grant from what flows that end
//                                                              leave, then from supply; or clear what it asks
//   a packet leaves its queue (egress)            -> NoteQueue what had come by then, and what waits
//   the copy of a packet that met a queue         -> NameQueued  names that packet in the notification's body
//
// Packets ask in a word that the source's card writes (docs/wire-formats.md); receivers return it with acknowledgements. A queue is
// what has come to it and not left, exactly, and corrected by each packet that leaves: what other stages drop does not add up.

#if HOOK == HOOK_PROFILE

#ifndef PROFILE
#define WITH_BOLT 1
#endif
#ifdef WITH_BOLT
#define WITH_TELEMETRY 1
#define WITH_TELEMETRY_WORD 1
#define WITH_NOTIFICATIONS 1
#endif

#elif defined(WITH_BOLT)
#if HOOK == HOOK_TYPES

#include "bolt/types.p4"

#elif HOOK == HOOK_HEADERS
    queued_packet_t queued_packet;

#elif HOOK == HOOK_NOTIFICATION_BODIES
            NotificationType.QUEUE: parse_queued_packet;

#elif HOOK == HOOK_PARSER_STATES
    state parse_queued_packet {
        packet.extract(hdr.queued_packet);
        transition accept;
    }

#elif HOOK == HOOK_BODY_DEPARSER
        packet.emit(hdr.queued_packet);

#elif HOOK == HOOK_CONTROLS

#include "bolt/supply.p4"
#include "bolt/ask_more.p4"

#elif HOOK == HOOK_INGRESS_INSTANCES
    AskMore() ask_more;

#elif HOOK == HOOK_INGRESS_FORWARDED
        if (meta.drop_reason == DropReason.FORWARDED) {
            ask_more.apply(hdr, meta, std);
        }

#elif HOOK == HOOK_EGRESS_INSTANCES
    NoteQueue() note_queue;
    NameQueued() name_queued;

#elif HOOK == HOOK_EGRESS
        if (std.egress_port != RECIRCULATION_PORT) {
            note_queue.apply(std);
        } else {
            name_queued.apply(hdr, meta);
        }

#endif
#endif
