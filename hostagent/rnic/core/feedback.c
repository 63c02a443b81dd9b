/* Owns what congestion control learns beside acknowledged bytes, and how its window holds packets back: bytes on the way,
 * round-trip times, and telemetry that goes out with data and comes back with acknowledgements. */
#include <stdlib.h>

#include "card.h"

enum { SENT_FIRST = 64, SENT_MOST = 1 << 16 }; /* packets whose send times are remembered */
enum { PROBE_TRIPS = 2, PROBES_MOST = 3 };    /* round trips without a word before a probe; doublings of that time, at most */

int feedback_begin(struct qp *qp)
{
    const struct rnic_qp_config *config = &qp->config;
    uint32_t wants = qp->slot ? cc_wants(qp->slot->algorithms) & ~(uint32_t)CC_PLANES : 0; /* that is no work of this file's */
    if (qp->slot && !config->slot_is_ours && !config->sent && !qp->planes)
        wants &= ~(uint32_t)CC_RTT;
    if (qp->planes && wants & (CC_WINDOW | CC_RTT | CC_TELEMETRY)) { /* of each plane by itself: plane_windows.c */
        qp->wants = (uint8_t)wants;
        return 1;
    }
    if (!wants)
        return 1;
    struct feedback *own = qp->feedback = calloc(1, sizeof *own);
    if (!own)
        return 0;
    qp->wants = (uint8_t)wants;
    own->probe_at = RNIC_NEVER;
    if (!(wants & CC_RTT))
        return 1;
    own->sent_mask = (config->slot_is_ours ? SENT_FIRST : CC_SENT_KERNEL) - 1;
    own->sent = config->slot_is_ours ? calloc(SENT_FIRST, sizeof *own->sent) : config->sent->packets;
    return own->sent != NULL;
}

int rnic_collect(rnic *r, uint32_t qpn, int on)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp)
        return card_fail(r, RNIC_ENOENT, "there is no queue pair %u", qpn);
    if (on && qp->planes)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: over planes packets collect no telemetry", qpn);
    if (on && !qp->feedback) {
        if (!(qp->feedback = calloc(1, sizeof *qp->feedback)))
            return card_fail(r, RNIC_ENOMEM, "no memory for a queue pair's feedback");
        qp->feedback->probe_at = RNIC_NEVER;
    }
    qp->wants = (uint8_t)(on ? qp->wants | COLLECTS : qp->wants & ~COLLECTS);
    return RNIC_OK;
}

int rnic_collects(const rnic *r, uint32_t qpn)
{
    const struct qp *qp = qp_find(r, qpn);
    return qp && qp->wants & (CC_TELEMETRY | COLLECTS) && !(qp->wants & CC_GRANTS); /* that word takes the shim */
}

void feedback_end(struct qp *qp)
{
    if (qp->feedback && qp->config.slot_is_ours)
        free(qp->feedback->sent);
    free(qp->feedback);
}

/* --- the window -------------------------------------------------------------------------------- */

/* Bytes of the work at `index` below a PSN that lies in it or right behind it. */
static uint64_t bytes_below(const struct qp *qp, uint64_t index, uint64_t psn)
{
    if (index >= qp->tail)
        return 0;
    const struct work *work = &qp->works[index & qp->works_mask];
    const uint64_t bytes = (psn - work->first_psn) * qp->config.mtu;
    return bytes < work->posted.length ? bytes : work->posted.length;
}

/* Where the first byte of the work at the cursor lies among all that the queue pair ever sends. */
static uint64_t bytes_to_cursor(const struct qp *qp)
{
    struct feedback *own = qp->feedback;
    if (own->cursor < qp->head || own->cursor > qp->cursor) {
        own->cursor = qp->head;
        own->bytes = qp->stats.acked_bytes;
    }
    while (own->cursor < qp->cursor)
        own->bytes += qp->works[own->cursor++ & qp->works_mask].posted.length;
    return own->bytes;
}

/* Payload bytes that were sent and not acknowledged. */
static uint64_t on_the_way(const struct qp *qp)
{
    const uint64_t acknowledged = qp->stats.acked_bytes + bytes_below(qp, qp->head, qp->una);
    return bytes_to_cursor(qp) + bytes_below(qp, qp->cursor, qp->next) - acknowledged;
}

/* A window that is full opens by acknowledgements, and where these are lost nothing sends any more: a window of one packet waits for its one
 * acknowledgement until the time-out, a thousand round trips later. So a packet may leave beyond it when nothing has been sent or
 * acknowledged for two round trips, then four, eight, and each sixteen: its acknowledgement is for all before it, too. That is TCP's tail
 * loss probe (RFC 8985, section 7). READs, whose responses are no acknowledgements, do without. */
static void probe_after(struct qp *qp)
{
    struct feedback *own = qp->feedback;
    const uint64_t patience_ns = PROBE_TRIPS * own->trip_ns << own->probes;
    own->probe_at = own->trip_ns ? qp->card->now + (rnic_time)patience_ns * 1000 : RNIC_NEVER;
}

static void probe_sent(struct qp *qp)
{
    struct feedback *own = qp->feedback;
    if (qp->next == qp->una)
        own->probes = 0;
    else if (own->probe_at <= qp->card->now && own->probes < PROBES_MOST)
        own->probes++;
    probe_after(qp);
}

static void probe_answered(struct qp *qp)
{
    struct feedback *own = qp->feedback;
    const uint64_t word = own->sent[own->psn & own->sent_mask];
    const uint64_t trip_ns = own->is_ack ? cc_sent_trip(word, own->psn, word, own->psn, nanoseconds(qp->card)) : 0;
    if (trip_ns) {
        own->smoothed_ns = own->smoothed_ns ? own->smoothed_ns - own->smoothed_ns / 8 + trip_ns / 8 : trip_ns;
        own->trip_ns = trip_ns > own->smoothed_ns ? trip_ns : own->smoothed_ns;
    }
    own->probes = 0;
    probe_after(qp);
}

static int may_probe(const struct qp *qp) { return qp->feedback->probe_at <= qp->card->now && !qp->reads; }

/* Behind the last packet of all there is nothing new to probe with: it leaves once more, and its duplicate is acknowledged at once. */
static int is_tail(const struct qp *qp)
{
    const int sends = qp->state == RNIC_READY && !qp->not_ready;
    return sends && qp->feedback && qp->next >= qp->posted && qp->una < qp->next && !qp->reads;
}

int tail_probe_due(const struct qp *qp) { return is_tail(qp) && may_probe(qp); }

rnic_time tail_probe_at(const struct qp *qp)
{
    return is_tail(qp) && qp->feedback->probe_at < qp->deadline ? qp->feedback->probe_at : RNIC_NEVER;
}

int window_open(const struct qp *qp)
{
    return qp->next == qp->una || on_the_way(qp) < cc_window_at(qp->slot, nanoseconds(qp->card)) || may_probe(qp);
}

/* A window only widens with time, so that halving finds the nanosecond. What does not come before the time-out need not be
 * known: that comes through here, too. */
static rnic_time widens(const struct qp *qp)
{
    const uint64_t base = qp->card->config.cc_base_ns, out = on_the_way(qp);
    if (qp->deadline == RNIC_NEVER || qp->deadline <= qp->card->now)
        return RNIC_NEVER;
    uint64_t closed = nanoseconds(qp->card), open = base + (uint64_t)qp->deadline / 1000;
    if (cc_window_at(qp->slot, open) <= out)
        return RNIC_NEVER;
    while (open - closed > 1) {
        const uint64_t middle = closed + (open - closed) / 2;
        if (cc_window_at(qp->slot, middle) > out)
            open = middle;
        else
            closed = middle;
    }
    const rnic_time at = (rnic_time)(open - base) * 1000;
    return at > qp->card->now ? at : qp->card->now + 1000;
}

/* The first of the planes that may be used. */
static rnic_time plane_opens(const struct qp *qp)
{
    rnic_time first = RNIC_NEVER;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const rnic_time opens = plane_window_opens(&qp->planes[i]);
        first = opens < first ? opens : first;
    }
    return first;
}

rnic_time window_opens(const struct qp *qp)
{
    if (!qp->feedback)
        return plane_opens(qp);
    const rnic_time opens = widens(qp), probe_at = qp->reads ? RNIC_NEVER : qp->feedback->probe_at;
    return probe_at < opens && probe_at < qp->deadline ? probe_at : opens;
}

/* --- round-trip times -------------------------------------------------------------------------- */

/* Room for twice as many; without memory the oldest are forgotten. */
static void remember_more(struct feedback *own)
{
    const uint64_t size = 2 * (own->sent_mask + 1);
    uint64_t *bigger = calloc(size, sizeof *bigger);
    if (!bigger)
        return;
    for (uint64_t i = 0; i <= own->sent_mask; i++)
        if (own->sent[i] & CC_SENT_KNOWN)
            bigger[own->sent[i] >> 40 & (size - 1)] = own->sent[i];
    free(own->sent);
    own->sent = bigger;
    own->sent_mask = size - 1;
}

static void remember(struct qp *qp, uint64_t psn, uint32_t again)
{
    struct feedback *own = qp->feedback;
    const uint64_t word = cc_sent_word((uint32_t)(psn & PSN_MASK), nanoseconds(qp->card), again);
    __atomic_store_n(&own->sent[psn & own->sent_mask], word, __ATOMIC_RELEASE);
}

void feedback_left(struct qp *qp, const struct rnic_packet *packet)
{
    if (qp->wants & CC_RTT && packet->kind == RNIC_DATA)
        remember(qp, psn_near(qp->una, packet->psn), packet->repeated);
}

uint64_t feedback_since(const struct qp *qp, uint32_t psn)
{
    const struct feedback *own = qp->feedback;
    if (!(qp->wants & CC_RTT))
        return 0;
    const uint64_t word = own->sent[psn & own->sent_mask];
    return cc_sent_trip(word, psn, word, psn, nanoseconds(qp->card));
}

/* --- asking for more --------------------------------------------------------------------------- */

/* What a packet says to switches that may grant its source another one. Of one that is sent again: nothing. */
static uint8_t asks_of(struct qp *qp, uint64_t psn, uint32_t again)
{
    struct feedback *own = qp->feedback;
    if (!own->busy)
        own->burst = psn;
    own->busy = 1;
    if (again)
        return 0;
    const uint64_t behind = (qp->posted - (psn + 1)) * qp->config.mtu;
    const int first = qp->una <= own->burst, last = behind < cc_window_at(qp->slot, nanoseconds(qp->card));
    return (uint8_t)((first ? GRANT_FIRST : 0) | (last ? GRANT_LAST : 0) | (first || last ? 0 : GRANT_MORE));
}

static void shim_for(struct qp *qp, uint64_t psn, uint32_t again, struct rnic_packet *packet)
{
    if (!(qp->wants & CC_GRANTS)) {
        packet_shim(packet, WEFT_TELEMETRY_COLLECTS, NULL);
        return;
    }
    const struct cc_telemetry asks = {
        .bytes = TELEMETRY_GRANTS_BYTES, .format = TELEMETRY_GRANTS, .data = {asks_of(qp, psn, again)}};
    packet_shim(packet, WEFT_TELEMETRY_COLLECTS, &asks);
}

void feedback_sent(struct qp *qp, uint64_t psn, uint32_t again, struct rnic_packet *packet)
{
    struct feedback *own = qp->feedback;
    /* A window may shrink below what is out: were that not acknowledged at once, only the time-out would go on. */
    if (qp->wants & CC_WINDOW)
        packet->header[ETHERNET + IPV4 + UDP + 8] |= 0x80;
    if (qp->wants & (CC_TELEMETRY | COLLECTS))
        shim_for(qp, psn, again, packet);
    if (__builtin_expect(!own, 0)) {
        plane_window_sent(&qp->planes[qp->path % qp->ways->n], packet->payload_length);
        return;
    }
    if (!(qp->wants & CC_RTT))
        return;
    if (qp->wants & CC_WINDOW)
        probe_sent(qp);
    if (psn - qp->una > own->sent_mask && own->sent_mask + 1 < SENT_MOST && qp->config.slot_is_ours)
        remember_more(own);
    remember(qp, psn, again);
}

/* --- acknowledgements -------------------------------------------------------------------------- */

void feedback_hear(struct qp *qp, const struct inbound *in)
{
    struct feedback *own = qp->feedback;
    own->said = 0;
    own->is_ack = (in->syndrome & 0xe0) == 0;
    own->psn = in->psn;
    own->una = qp->una;
    own->telemetry = in->telemetry ? &qp->card->telemetry : NULL;
}

void feedback_acked(struct qp *qp, struct cc_event acked, uint64_t first)
{
    struct feedback *own = qp->feedback;
    const uint64_t now = nanoseconds(qp->card);
    if (own->is_ack && acked.bytes && qp->wants & CC_RTT)
        acked.rtt_ns = cc_sent_trip(own->sent[first & own->sent_mask], (uint32_t)(first & PSN_MASK),
                                    own->sent[own->psn & own->sent_mask], own->psn, now);
    cc_on_event(qp->slot, &acked, own->telemetry, now);
    own->said = 1;
}

void feedback_heard(struct qp *qp)
{
    struct feedback *own = qp->feedback;
    if (!own->said && qp->config.slot_is_ours && qp->wants & ~COLLECTS)
        feedback_acked(qp, (struct cc_event){.kind = CC_ACKED}, qp->una);
    if (qp->una > own->una && own->sent && qp->wants & CC_WINDOW)
        probe_answered(qp);
    if (qp->una == qp->posted)
        own->busy = 0;
    own->is_ack = 0; /* READ responses are events without */
    own->telemetry = NULL;
}

/* --- telemetry at the receiver ----------------------------------------------------------------- */

void feedback_collect(struct qp *qp)
{
    if (qp->planes) {
        plane_collect(&qp->planes[qp->came_by - qp->config.interface]);
        return;
    }
    if (!qp->collected && !(qp->collected = malloc(sizeof *qp->collected)))
        return;
    *qp->collected = qp->card->telemetry;
    qp->telemetry_due = 1;
    if (qp->card->config.whole)
        path_seen_take(qp);
}

void feedback_return(struct qp *qp, struct rnic_packet *packet)
{
    packet_shim(packet, WEFT_TELEMETRY_RETURNED, qp->collected);
    qp->telemetry_due = 0;
}
