// A host's RoCEv2 packets as they arrive: counts them, keeps the congestion control of each queue
// pair up to date, and hands them to the host's endpoint.
//
//   wire -> parse -> queue pair's slot -> count -> CNP, ACK -> congestion control
//        -> AF_XDP socket, or the stack
//
// Payloads are not looked at. Loaded by hostagent/agent.py with bcc.

#include <uapi/linux/bpf.h>

#include "cc_slot.h"
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
    } else {
        count(ROCE_DATA, 1);
    }
    if (packet->marked)
        count(ROCE_MARKED, 1);
}

static inline struct cc_slot *slot_at(const u32 *number)
{
    u32 index;

    if (!number)
        return NULL;
    index = *number;
    return cc_slots.lookup(&index);
}

// The slot that a notification is for; NULL: the packet is for the queue pair that BTH names.
//
// A switch sends it in the name of the original destination, of which alone it may speak. Which
// queue pair is meant is known here and not by the switch, so that BTH's number does not count.
static inline struct cc_slot *notified_slot(const struct roce *packet)
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
        return NULL;
    }
    slot = said->destination == packet->source ? slot_at(cc_peers.lookup(&key)) : NULL;
    if (!slot) {
        count(ROCE_NOTIFICATION_QP, 1);
        return NULL;
    }
    return slot->algorithms & cc_hearers(CC_NOTIFIED) ? slot : NULL;
}

static inline struct cc_slot *slot_of(const struct roce *packet)
{
    struct queue_pair_key key = {.local_ip = packet->destination, .qpn = packet->qpn};

    return slot_at(cc_index.lookup(&key));
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

    if (slot->peer_ip == packet->source)
        return 1;
    other = slot_at(cc_peers.lookup(&key));
    return other && other->qpn == slot->qpn && other->peer_ip == slot->peer_ip;
}

// How many bytes an acknowledgement is the first to acknowledge.
static inline u64 newly_acked(struct cc_slot *slot, const struct roce *packet)
{
    // A NAK of any kind names the packet that it refuses or misses, an ACK the last one that came.
    u32 behind = packet->psn + !packet->refused;
    u32 packets = (behind - slot->acked_psn) & PSN_MASK;

    if (!packets || packets >= PSN_HALF)
        return 0;
    slot->acked_psn = behind & PSN_MASK;
    return (u64)packets * slot->mtu;
}

static inline void control(struct cc_slot *slot, const struct roce *packet, u32 notified, u64 now)
{
    struct cc_event event = {.kind = CC_TICK};

    if (notified) {
        event.kind = CC_NOTIFIED;
        event.severity = packet->notification.severity;
        event.validity = packet->notification.validity;
    } else if (packet->opcode == OPCODE_CNP) {
        event.kind = CC_CNP;
    } else if (packet->opcode == OPCODE_ACK) {
        event.kind = CC_ACKED;
        event.bytes = newly_acked(slot, packet);
    } else {
        return;
    }
    cc_on_event(slot, &event, NULL, now);
}

// Everything that a packet does to its queue pair's slot.
static inline void take(struct cc_slot *slot, const struct roce *packet, u32 notified, u64 now)
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
    control(slot, packet, notified, now);
    __sync_fetch_and_add(&slot->sequence, 1);
}

static inline int pass_up(void)
{
    count(ROCE_PASSED, 1);
    return XDP_PASS;
}

// A frame at `now`: counts it, updates its queue pair, says where it goes.
static inline int receive(struct cursor *cursor, u64 now)
{
    u64 length = cursor->end - cursor->at;
    struct roce packet = {};
    struct cc_slot *slot;
    u32 *socket, notified;

    if (!parse_roce(cursor, &packet))
        return XDP_PASS;
    count(ROCE_PACKETS, 1);
    count(ROCE_BYTES, length);
    if (packet.malformed) {
        count(ROCE_MALFORMED, 1);
        return pass_up();
    }
    slot = notified_slot(&packet);
    notified = slot != NULL;
    if (!slot)
        slot = slot_of(&packet);
    count_kind(&packet, notified);
    if (!slot || !is_of_peer(slot, &packet)) {
        count(ROCE_UNKNOWN_QP, 1);
        return pass_up();
    }
    take(slot, &packet, notified, now);
    socket = endpoints.lookup(&packet.destination);
    if (!socket || sockets.redirect_map(*socket, XDP_PASS) != XDP_REDIRECT)
        return pass_up();
    count(ROCE_REDIRECTED, 1);
    return XDP_REDIRECT;
}

int roce_xdp(struct xdp_md *context)
{
    struct cursor cursor = {(void *)(long)context->data, (void *)(long)context->data_end};

    return receive(&cursor, bpf_ktime_get_ns());
}
