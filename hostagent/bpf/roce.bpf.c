// A host's RoCEv2 packets as they arrive: counts them, keeps the congestion control of each queue
// pair up to date, and hands them to the host's endpoint.
//
//   wire -> parse -> queue pair's slot -> count -> CNP, ACK, answer to a probe -> congestion control
//        -> AF_XDP socket, or the stack
//             `-> a switch's notification in a datagram: counted and kept (notifications.h); of congestion: as a CNP
//
// Payloads are not looked at. Loaded by hostagent/agent.py with bcc.

#include <uapi/linux/bpf.h>

#include "cc_slot.h"
#include "notifications.h"
#include "roce_maps.h"
#include "roce_parse.h"

static inline void count(u32 what, u64 by)
{
    u64 *counter = counters.lookup(&what);

    if (counter)
        *counter += by;
}

static inline void count_kind(const struct roce *packet, u32 notified)
{
    if (packet->opcode == OPCODE_CNP) {
        count(notified ? ROCE_NOTIFIED : ROCE_CNPS, 1);
    } else if (packet->opcode == OPCODE_ACK) {
        count(packet->refused ? ROCE_NAKS : ROCE_ACKS, 1);
    } else if (packet->opcode == OPCODE_PROBE) {
        count(ROCE_PROBES, 1);
    } else if (packet->opcode == OPCODE_PROBE_ANSWER) {
        count(ROCE_PROBE_ANSWERS, 1);
    } else {
        count(ROCE_DATA, 1);
    }
    if (packet->marked)
        count(ROCE_MARKED, 1);
}

static inline struct cc_slot *slot_at(struct roce *packet, const u32 *number)
{
    u32 index;

    if (!number)
        return NULL;
    index = *number;
    packet->slot = index;
    return cc_slots.lookup(&index);
}

static inline void count_notification(u32 what)
{
    u64 *counter = notified_counts.lookup(&what);

    if (counter)
        ++*counter;
}

static inline void keep_notification(const struct roce *packet, u32 body_bytes, u64 now)
{
    const struct weft_notification *said = &packet->notification;
    struct notification_key key = {
        .local_ip = packet->destination,
        .switch_id = said->switch_id,
        .port = said->port,
        .type = said->type,
    };
    struct notification_heard first = {.at = now, .times = 1, .body_bytes = body_bytes};
    struct notification_heard *heard = notifications.lookup(&key);

    weft_notification_write(said, first.header);
    if (heard) {
        heard->at = now;
        heard->body_bytes = body_bytes;
        __builtin_memcpy(heard->header, first.header, WEFT_NOTIFICATION_BYTES);
        __sync_fetch_and_add(&heard->times, 1);
    } else if (notifications.update(&key, &first)) {
        count_notification(NOTIFICATION_LOST);
    }
}

// The slot that a notification is for; NULL: the packet is for the queue pair that BTH names.
//
// A switch sends it in the name of the original destination, of which alone it may speak. Which
// queue pair is meant is known here and not by the switch, so that BTH's number does not count.
static inline struct cc_slot *notified_slot(struct roce *packet, u64 now)
{
    const struct weft_notification *said = &packet->notification;
    struct peer_key key = {
        .local_ip = packet->destination,
        .peer_ip = said->destination,
        .peer_qpn = said->destination_qp,
    };
    struct cc_slot *slot;

    if (packet->opcode != OPCODE_CNP || said->type == WEFT_NOTIFICATION_NONE)
        return NULL;
    if (said->type != WEFT_NOTIFICATION_CONGESTION) {
        count(ROCE_NOTIFICATION_TYPE, 1);
        if (weft_notification_known(said->type))
            keep_notification(packet, 0, now);
        return NULL;
    }
    slot = said->destination == packet->source ? slot_at(packet, cc_peers.lookup(&key)) : NULL;
    if (!slot) {
        count(ROCE_NOTIFICATION_QP, 1);
        return NULL;
    }
    return slot->algorithms & cc_hearers(CC_NOTIFIED) ? slot : NULL;
}

static inline struct cc_slot *slot_of(struct roce *packet)
{
    struct queue_pair_key key = {.local_ip = packet->destination, .qpn = packet->qpn};

    return slot_at(packet, cc_index.lookup(&key));
}

// Whether a packet is its peer's: by the first address of the peer's, or another one that it has.
static inline int is_of_peer(const struct cc_slot *slot, const struct roce *packet)
{
    struct peer_key key = {
        .local_ip = packet->destination,
        .peer_ip = packet->source,
        .peer_qpn = slot->peer_qpn,
    };
    struct cc_slot *other;
    u32 *number, index;

    if (slot->peer_ip == packet->source)
        return 1;
    number = cc_peers.lookup(&key);
    if (!number)
        return 0;
    index = *number;
    other = cc_slots.lookup(&index);
    return other && other->qpn == slot->qpn && other->peer_ip == slot->peer_ip;
}

// What the endpoint has noted of the packets that it sent; NULL: not needed.
static inline const struct cc_sent *sent_of(const struct cc_slot *slot, const struct roce *packet)
{
    u32 index = slot->planes ? slot->shared : packet->slot;

    if (!slot->planes && !(slot->algorithms & (cc_wanting(CC_RTT) | cc_wanting(CC_PATH))))
        return NULL;
    return cc_sent.lookup(&index);
}

// 1: `one` is less than `other`, both below 2^31. Without a jump, after which the verifier would follow both ways.
static inline u32 less(u32 one, u32 other)
{
    u64 difference = (u64)one - other;

    asm volatile("" : "+r"(difference));
    return difference >> 63;
}

static inline u32 equal(u32 one, u32 other) { return less(one ^ other, 1); }

// 1: a packet, by its path's word, went by the plane that a slot is for.
static inline u32 went_by(const struct cc_slot *slot, u16 word)
{
    return equal((word & 0xff) % slot->planes, slot->plane);
}

// How many of the `packets` before `behind` went by the plane that a slot is for: each plane's slot counts its own,
// whichever planes the acknowledgements take. Of many the last ones speak for all, as of those whose path is not known.
static inline u32 acked_by_plane(const struct cc_slot *slot, const struct cc_sent *sent, u32 behind, u32 packets)
{
    u32 looks = packets < PLANE_LOOKS ? packets : PLANE_LOOKS;
    u32 known = 0, own = 0;

    // Always all of them, and no jump in it: one way through for the verifier.
    for (u32 i = 0; i < PLANE_LOOKS; i++) {
        u32 psn = (behind - 1 - i) & PSN_MASK;
        u16 word = sent->paths[psn & (CC_SENT_PATHS - 1)];
        u32 is = less(i, looks) & equal(word >> 8, cc_sent_round(psn));

        known += is;
        own += is & went_by(slot, word);
    }
    return known ? (u64)packets * own / known : packets / slot->planes;
}

// How many bytes an acknowledgement is the first to acknowledge.
static inline u64 newly_acked(struct cc_slot *slot, const struct roce *packet, const struct cc_sent *sent)
{
    // A NAK of any kind names the packet that it refuses or misses, an ACK the last one that came.
    u32 behind = packet->psn + !packet->refused;
    u32 packets = (behind - slot->acked_psn) & PSN_MASK;

    if (!packets || packets >= PSN_HALF)
        return 0;
    slot->acked_psn = behind & PSN_MASK;
    if (slot->planes && sent)
        packets = acked_by_plane(slot, sent, behind, packets);
    return (u64)packets * slot->mtu;
}

// Its round trip: the endpoint has noted when it sent. `first`: the first packet that was new.
static inline u64 round_trip(const struct cc_slot *slot, const struct roce *packet, const struct cc_sent *sent,
                             u32 first, u64 now)
{
    if (!(slot->algorithms & cc_wanting(CC_RTT)) || packet->refused || !sent)
        return 0;
    if (slot->planes && !went_by(slot, sent->paths[packet->psn & (CC_SENT_PATHS - 1)]))
        return 0;
    return cc_sent_trip(sent->packets[first & (CC_SENT_KERNEL - 1)], first,
                        sent->packets[packet->psn & (CC_SENT_KERNEL - 1)], packet->psn, now);
}

// The path of the last packet that is acknowledged: the endpoint has noted it, too.
static inline u8 path_taken(const struct cc_slot *slot, const struct cc_sent *sent)
{
    u32 psn = (slot->acked_psn - 1) & PSN_MASK;

    if (!(slot->algorithms & cc_wanting(CC_PATH)))
        return 0;
    return sent ? cc_sent_path(sent->paths[psn & (CC_SENT_PATHS - 1)], psn) : 0;
}

// What an acknowledgement says of the plane by which it came, where that has a window, round trips or telemetry: as the card's
// plane_windows.c. `theirs`: the telemetry is another plane's. 0: it says nothing of planes.
static inline int heard_of_plane(const struct cursor *cursor, struct cc_slot *slot, const struct roce *packet,
                                 struct cc_event *event, u32 *theirs, u64 now)
{
    u32 index = packet->slot, come = 0, collected = 0, order;
    const struct cc_sent *own;
    u64 word;
    s32 more;

    if (!slot->planes || !(slot->algorithms & cc_wanting(CC_WINDOW | CC_RTT | CC_TELEMETRY)))
        return 0;
    own = cc_sent.lookup(&index);
    if (!own || !read_come(cursor, slot->plane, slot->planes, &come, &collected))
        return 0;
    more = come - slot->come;
    *theirs = more < 0 || collected != slot->plane + 1;
    event->path = slot->plane;
    if (more > 0) {
        event->bytes = (u64)(u32)more * slot->mtu;
        slot->come = come;
    }
    if (more <= 0 && (*theirs || !packet->shim))
        return 1;
    order = come + *(volatile const u32 *)&own->lost;
    word = *(volatile const u64 *)&own->packets[order & (CC_SENT_KERNEL - 1)];
    if (word & CC_SENT_KNOWN && word >> 40 == (order & PSN_MASK))
        event->rtt_ns = (now - word) & CC_SENT_TIME;
    return 1;
}

static inline void acknowledge(const struct cursor *cursor, struct cc_slot *slot,
                               const struct roce *packet, u64 now)
{
    struct cc_event event = {.kind = CC_ACKED};
    struct cc_telemetry *returned = NULL;
    const struct cc_sent *sent = sent_of(slot, packet);
    u32 first = slot->acked_psn, zero = 0, theirs = 0;

    if (!heard_of_plane(cursor, slot, packet, &event, &theirs, now)) {
        event.bytes = newly_acked(slot, packet, sent);
        if (event.bytes) {
            event.rtt_ns = round_trip(slot, packet, sent, first, now);
            event.path = slot->planes ? slot->plane : path_taken(slot, sent);
        }
    }
    if (slot->algorithms & cc_wanting(CC_TELEMETRY) && packet->shim && !theirs) {
        returned = telemetry.lookup(&zero);
        if (returned)
            read_telemetry(cursor, packet, returned);
    }
    cc_on_event(slot, &event, returned, now);
}

// A probe by this slot's interface was answered. Its sender knows when the interface was lost, and reports that by `cc_sent`.
static inline void answered(struct cc_slot *slot, const struct roce *packet, u64 now)
{
    struct cc_event event = {.kind = CC_PROBED, .number = packet->number};
    u32 index = packet->slot;
    const struct cc_sent *own = cc_sent.lookup(&index);
    u64 trip = now - packet->sent_at;

    if (!own)
        return;
    event.lost_at = *(volatile const u64 *)&own->lost_at;
    if (packet->sent_at && trip <= CC_SENT_TIME)
        event.rtt_ns = trip;
    slot->probes++;
    if (event.lost_at > slot->lost_at) // what its algorithms knew of the way was of before
        cc_begin_anew(slot, CC_WINDOW | CC_RTT | CC_TELEMETRY, now);
    cc_on_event(slot, &event, NULL, now);
    // A reader that sees this loss acknowledged must also see what followed from it.
    asm volatile("" ::: "memory");
    *(volatile u64 *)&slot->lost_at = event.lost_at;
}

// What a switch's notification says to its queue pair.
static inline void hear(struct cc_event *event, const struct cc_slot *slot, const struct roce *packet, u64 now)
{
    const struct weft_notification *said = &packet->notification;
    const struct cc_sent *sent;
    u64 word;

    event->number = (u32)said->switch_id << 16 | said->port;
    if (said->type != WEFT_NOTIFICATION_QUEUE) {
        event->kind = CC_NOTIFIED;
        event->severity = said->severity;
        event->validity = said->validity;
        event->rate = weft_rate_units(said->queue);
        return;
    }
    event->kind = CC_QUEUED;
    event->drains_ns = weft_notification_drains_ns(said);
    sent = packet->names_packet ? sent_of(slot, packet) : NULL;
    if (sent) {
        word = sent->packets[packet->psn & (CC_SENT_KERNEL - 1)];
        event->rtt_ns = cc_sent_trip(word, packet->psn, word, packet->psn, now);
    }
}

static inline void control(const struct cursor *cursor, struct cc_slot *slot,
                           const struct roce *packet, u32 notified, u64 now)
{
    struct cc_event event = {.kind = CC_TICK};

    if (notified) {
        hear(&event, slot, packet, now);
    } else if (packet->opcode == OPCODE_CNP) {
        event.kind = CC_CNP;
    } else {
        if (packet->opcode == OPCODE_ACK)
            acknowledge(cursor, slot, packet, now);
        if (packet->opcode == OPCODE_PROBE_ANSWER)
            answered(slot, packet, now);
        return;
    }
    cc_on_event(slot, &event, NULL, now);
}

// Everything that a packet does to its queue pair's slot.
static inline void take(const struct cursor *cursor, struct cc_slot *slot,
                        const struct roce *packet, u32 notified, u64 now)
{
    __sync_fetch_and_add(&slot->sequence, 1);
    slot->packets++;
    slot->bytes += packet->udp_bytes;
    slot->marked += packet->marked;
    if (packet->opcode == OPCODE_CNP) {
        slot->notified += notified;
        slot->cnps += !notified;
    }
    if (packet->opcode == OPCODE_ACK) {
        slot->naks += packet->refused;
        slot->acks += !packet->refused;
    }
    slot->last_at = now;
    control(cursor, slot, packet, notified, now);
    __sync_fetch_and_add(&slot->sequence, 1);
}

static inline int pass_up(void)
{
    count(ROCE_PASSED, 1);
    return XDP_PASS;
}

static inline int to_endpoint(u32 destination)
{
    u32 *socket = endpoints.lookup(&destination);

    return socket ? sockets.redirect_map(*socket, XDP_PASS) : XDP_PASS;
}

// What to make of a packet that is no RoCEv2: 1: a notification, which has been taken; -1: it came to their port, and is
// none; 0: something else.
static inline int take_datagram(struct cursor *cursor, struct roce *packet, u64 now)
{
    struct iphdr *ip;

    if (parse_ethernet(cursor) != ETH_P_IP)
        return 0;
    ip = cursor->at;
    if (parse_ipv4(cursor, packet) != IPPROTO_UDP || parse_udp(cursor, packet) != WEFT_NOTIFICATION_PORT)
        return 0;
    if (!read_notification(cursor, ip, packet)) {
        count_notification(NOTIFICATION_MALFORMED);
        return -1;
    }
    count_notification(packet->notification.type);
    if (weft_notification_known(packet->notification.type))
        keep_notification(packet, packet->udp_bytes - NOTIFICATION_UDP_BYTES, now);
    return 1;
}

// The queue pair that a notification of congestion or of a queue in a datagram is for, as one in a CNP would be; NULL: none, and
// `verdict` is what becomes of the frame. Whole ones go up the stack, where an endpoint without maps, or any program with
// a UDP socket, may read them too.
static inline struct cc_slot *told_slot(struct cursor *cursor, struct roce *packet, u64 now, int *verdict)
{
    const struct weft_notification *said = &packet->notification;
    int taken = take_datagram(cursor, packet, now);
    struct peer_key key = {};
    struct cc_slot *slot;

    *verdict = taken < 0 ? XDP_DROP : XDP_PASS;
    if (taken <= 0 || (said->type != WEFT_NOTIFICATION_CONGESTION && said->type != WEFT_NOTIFICATION_QUEUE))
        return NULL;
    key.local_ip = packet->destination;
    key.peer_ip = said->destination;
    key.peer_qpn = said->destination_qp;
    slot = slot_at(packet, cc_peers.lookup(&key));
    if (!slot) {
        count_notification(NOTIFICATION_NO_QP);
        return NULL;
    }
    packet->opcode = OPCODE_CNP;
    if (said->type == WEFT_NOTIFICATION_QUEUE)
        return slot->algorithms & cc_hearers(CC_QUEUED) ? slot : NULL;
    return slot->algorithms & cc_hearers(CC_NOTIFIED) ? slot : NULL;
}

// A frame at `now`: counts it, updates its queue pair, says where it goes.
static inline int receive(struct cursor *cursor, u64 now)
{
    u64 length = cursor->end - cursor->at;
    struct cursor begin = *cursor;
    struct roce packet = {};
    struct cc_slot *slot;
    u32 notified = 1;
    int verdict;

    if (!parse_roce(cursor, &packet)) {
        slot = told_slot(&begin, &packet, now, &verdict);
        if (!slot)
            return verdict;
        count(ROCE_NOTIFIED, 1);
        goto told;
    }
    count(ROCE_PACKETS, 1);
    count(ROCE_BYTES, length);
    if (packet.malformed) {
        count(ROCE_MALFORMED, 1);
        return pass_up();
    }
    slot = notified_slot(&packet, now);
    notified = slot != NULL;
    if (!slot)
        slot = slot_of(&packet);
    count_kind(&packet, notified);
    if (!slot || !is_of_peer(slot, &packet)) {
        count(ROCE_UNKNOWN_QP, 1);
        return pass_up();
    }
    if (is_probe(&packet) && !slot->planes) // of path migration, which is the endpoint's alone
        goto endpoint;
told:
    take(cursor, slot, &packet, notified, now);
endpoint:
    if (to_endpoint(packet.destination) != XDP_REDIRECT)
        return pass_up();
    count(ROCE_REDIRECTED, 1);
    return XDP_REDIRECT;
}

int roce_xdp(struct xdp_md *context)
{
    struct cursor cursor = {(void *)(long)context->data, (void *)(long)context->data_end};

    return receive(&cursor, bpf_ktime_get_ns());
}
