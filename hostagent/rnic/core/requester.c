/* Owns what becomes of a queue pair's own work: what the peer says of it, what is missing, and what has to be sent again (by requests.c).
 *
 * Go-back-N: `next` returns to `una`. Selective repeat: the NAK's bitmap says what has arrived; what is missing below the
 * highest of these is sent again, once for each time that this is found out. READ responses come in order or are asked for again,
 * unless packets may overtake each other (`reorder_ps`): then they are placed as they come.
 */
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* --- what the peer says ------------------------------------------------------------------------ */

static void go_back(struct qp *qp)
{
    if (selective(qp)) {
        qp->repeat = qp->una;
        qp->repeat_cursor = qp->head;
        if (qp->arrived)
            qp->arrived[qp->una % WINDOW_SELECTIVE_MOST / 64] &= ~((uint64_t)1 << qp->una % 64);
        if (qp->lost_below <= qp->una)
            qp->lost_below = qp->una + 1;
        return;
    }
    qp->next = qp->una;
    qp->cursor = qp->head;
    qp->reads = 0;
}

static void complete(struct qp *qp)
{
    const struct work *work = work_at(qp, qp->head++);
    qp->stats.acked_bytes += work->posted.length;
    if (is_read(work) && qp->reads)
        qp->reads--;
    if (is_read(work) && qp->many_paths)
        qp->paths[(end_of(work) - 1) & qp->paths_mask] = work->path;
    qp_event(qp, RNIC_COMPLETED, work->posted.id, work->posted.length, work->posted.operation, RNIC_NO_FAILURE);
}

/* Of what is sent now. Shorter while the other end of a READ may still send responses by a plane that this one has just lost. */
static rnic_time timeout_of(const struct qp *qp)
{
    if (__builtin_expect(qp->planes != NULL, 0) && qp->head < qp->tail && is_read(work_at(qp, qp->head)) && planes_settle(qp))
        return planes_patience(qp);
    return qp->config.timeout_ps;
}

/* All below `una` is done. */
static void progress(struct qp *qp, uint64_t before)
{
    if (qp->arrived) {
        /* A READ's packets may be many more than the window; only its first one can be marked. */
        const uint64_t last = qp->una - before > WINDOW_SELECTIVE_MOST ? before + WINDOW_SELECTIVE_MOST : qp->una;
        for (uint64_t psn = before; psn < last; psn++)
            qp->arrived[psn % WINDOW_SELECTIVE_MOST / 64] &= ~((uint64_t)1 << psn % 64);
    }
    if (qp->next < qp->una)
        qp->next = qp->una;
    if (qp->cursor < qp->head)
        qp->cursor = qp->head;
    while (qp->cursor < qp->tail && end_of(work_at(qp, qp->cursor)) <= qp->next)
        qp->cursor++;
    qp->tries = qp->rnr_tries = 0;
    qp->response_gap = qp->read_again = 0;
    if (!qp->not_ready)
        timer_set(qp, qp->una < qp->sent ? qp->card->now + timeout_of(qp) : RNIC_NEVER);
    struct cc_slot *slot = qp->slot;
    if (__builtin_expect(qp->planes != NULL, 0)) {
        planes_progress(qp, before);
        if (qp->config.slot_is_ours)
            planes_acked(qp, before);
    } else if (slot && qp->config.slot_is_ours) {
        const struct cc_event acked = {
            .kind = CC_ACKED,
            .path = qp->wants & CC_PATH && qp->many_paths ? qp->paths[(qp->una - 1) & qp->paths_mask] : 0,
            .bytes = (qp->una - before) * qp->config.mtu,
        };
        if (__builtin_expect(qp->wants, 0))
            feedback_acked(qp, acked, before);
        else
            cc_on_event(slot, &acked, NULL, nanoseconds(qp->card));
    }
}

static uint64_t *responded_word(struct qp *qp, uint64_t psn) { return &qp->responded[psn % WINDOW_SELECTIVE_MOST / 64]; }
static uint64_t responded_bit(uint64_t psn) { return (uint64_t)1 << psn % 64; }

/* `una` has moved: over responses that are there already, too, and READs that are whole are complete. */
static void pass_responded(struct qp *qp)
{
    while (qp->head < qp->tail && is_read(work_at(qp, qp->head))) {
        if (qp->una == end_of(work_at(qp, qp->head))) {
            complete(qp);
        } else if (qp->responded_n && *responded_word(qp, qp->una) & responded_bit(qp->una)) {
            *responded_word(qp, qp->una) &= ~responded_bit(qp->una);
            qp->responded_n--;
            qp->una++;
        } else {
            break;
        }
    }
}

static void wait_for_response(struct qp *qp)
{
    qp->response_waits = qp->una;
    qp->response_until = qp->card->now + qp->config.reorder_ps;
    gap_set(qp, qp->response_until);
}

/* The READ at `una` lacks responses. */
static void responses_missing(struct qp *qp)
{
    qp->response_gap = 1;
    qp->read_again = 1;
    go_back(qp);
}

void requester_move(struct qp *qp, uint32_t plane)
{
    qp->moving |= 1u << plane;
    qp->moved = qp->una;
    qp->moved_cursor = qp->head;
    qp->moved_below = qp->next;
    if (qp->head == qp->tail || !is_read(work_at(qp, qp->head)) || qp->una >= qp->sent)
        return;
    /* Its responses may have been lost, too: the rest is asked for again now, and once more if the other end finds it out later (settling). */
    responses_missing(qp);
    timer_set(qp, qp->card->now + timeout_of(qp));
}

/* The peer has all requests below `upto`. An incomplete READ stops it: its responses were lost then. */
static void acknowledge(struct qp *qp, uint64_t upto)
{
    const uint64_t before = qp->una;
    int missing = 0;
    if (upto > qp->peer_expected)
        qp->peer_expected = upto;
    while (qp->head < qp->tail && !missing) {
        const struct work *work = work_at(qp, qp->head);
        if (is_read(work)) {
            const uint64_t head = qp->head;
            pass_responded(qp);
            if (qp->head > head)
                continue;
            missing = upto > qp->una && upto > work->first_psn;
            break;
        }
        if (end_of(work) > upto) {
            if (upto > qp->una)
                qp->una = upto;
            break;
        }
        qp->una = end_of(work);
        complete(qp);
    }
    if (qp->una > before)
        progress(qp, before);
    if (missing && !qp->response_gap) {
        if (!selective(qp) || !qp->config.reorder_ps)
            responses_missing(qp);
        else if (qp->response_waits == UINT64_MAX)
            wait_for_response(qp); /* it may have overtaken them */
    }
}

const uint32_t rnr_units[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
                                256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static void not_ready(struct qp *qp, uint32_t code)
{
    qp->stats.rnr_received++;
    if (qp->una >= qp->sent || qp->not_ready) /* a copy of what it waits for already */
        return;
    if (qp->config.rnr_retries < 7 && ++qp->rnr_tries > qp->config.rnr_retries) {
        qp_fail(qp, RNIC_RNR_EXCEEDED, 0);
        return;
    }
    qp->not_ready = 1;
    timer_set(qp, qp->card->now + RNR_UNIT_PS * rnr_units[code]);
}

/* Notes what came out of order; returns the highest PSN of it, or una. */
static uint64_t note_arrived(struct qp *qp, const uint8_t *map)
{
    uint64_t highest = qp->una;
    if (!qp->arrived && !(qp->arrived = calloc(WINDOW_SELECTIVE_MOST / 64, sizeof *qp->arrived)))
        return highest + 1; /* no memory: as if none had said more than what is missing first */
    const uint64_t base = psn_near(qp->una, bytes_get24(map + 1));
    for (uint32_t i = 0; i < MAP_BITS; i++) {
        const uint64_t psn = base + i;
        if (!(map[4 + i / 8] & 0x80 >> i % 8) || base == UINT64_MAX)
            continue;
        if (psn <= qp->una || psn >= qp->sent || psn - qp->una >= WINDOW_SELECTIVE_MOST)
            continue;
        qp->arrived[psn % WINDOW_SELECTIVE_MOST / 64] |= (uint64_t)1 << psn % 64;
        highest = psn;
    }
    return highest;
}

static void missing_sequence(struct qp *qp, const struct inbound *in)
{
    if (qp->una >= qp->sent || qp->state != RNIC_READY)
        return;
    if (!selective(qp)) {
        if (qp->peer_expected == qp->una)
            go_back(qp);
        return;
    }
    const uint64_t highest = in->map ? note_arrived(qp, in->map) : qp->una + 1;
    if (highest <= qp->una)
        return;
    if (qp->lost_below <= qp->una || (qp->repeat > qp->una && highest >= qp->again_mark + 3)) {
        /* A new gap; or what was sent after the last repetition has overtaken it: that was lost too. */
        qp->repeat = qp->una;
        qp->repeat_cursor = qp->head;
        qp->again_mark = UINT64_MAX - 3;
    }
    if (highest > qp->lost_below)
        qp->lost_below = highest;
}

/* Over planes nothing counts as missing only because something behind it has come (planes_passed). What could still be on the way was
 * passed over the last time: all is looked at again, at most once a round trip. */
static void missing_on_planes(struct qp *qp, const uint8_t *map)
{
    const uint64_t highest = qp->una < qp->sent && qp->state == RNIC_READY ? note_arrived(qp, map) : qp->una;
    if (highest <= qp->una)
        return;
    planes_doubt(qp, qp->una);
    requester_look_again(qp, highest);
}

void requester_look_again(struct qp *qp, uint64_t below)
{
    if (below > qp->lost_below)
        qp->lost_below = below;
    if (qp->card->now - qp->looked_at < qp->trip)
        return;
    qp->looked_at = qp->card->now;
    qp->repeat = qp->una;
    qp->repeat_cursor = qp->head;
}

static void take_ack(struct qp *qp, const struct inbound *in)
{
    const uint64_t psn = psn_near(qp->una, in->psn);
    const uint32_t kind = in->syndrome & 0xe0, code = in->syndrome & 0x1f;
    if (kind == 0)
        qp->stats.acks_received++;
    else if (kind == SYNDROME_NAK)
        qp->stats.naks_received++;
    if (qp->state != RNIC_READY || psn == UINT64_MAX)
        return;
    if (kind == 0) {
        if (psn >= qp->una && psn < qp->sent)
            acknowledge(qp, psn + 1);
        if (__builtin_expect(in->map != NULL && qp->planes, 0))
            missing_on_planes(qp, in->map);
        return;
    }
    if (psn < qp->una || psn >= qp->sent)
        return;
    acknowledge(qp, psn);
    if (kind == SYNDROME_RNR) {
        not_ready(qp, code);
    } else if (kind == SYNDROME_NAK && code == NAK_SEQUENCE) {
        missing_sequence(qp, in);
    } else if (kind == SYNDROME_NAK) {
        qp_fail(qp, code == NAK_INVALID ? RNIC_REMOTE_INVALID : code == NAK_ACCESS ? RNIC_REMOTE_ACCESS : RNIC_REMOTE_OPERATION, 0);
    }
}

static void hear_ack(struct qp *qp, const struct inbound *in)
{
    if (!qp->wants || !qp->feedback) {
        take_ack(qp, in);
        return;
    }
    feedback_hear(qp, in);
    take_ack(qp, in);
    feedback_heard(qp);
}

void requester_ack(struct qp *qp, const struct inbound *in)
{
    if (__builtin_expect(qp->sender != NULL, 0) && qp->state == RNIC_READY) {
        if (in->echo)
            ways_heard(qp, in->echo);
        hear_ack(qp, in);
        ways_acked(qp);
        return;
    }
    if (__builtin_expect(qp->planes != NULL, 0) && in->came && qp->state == RNIC_READY) {
        planes_hear_come(qp, in->came);
        plane_windows_hear(qp, in);
    }
    hear_ack(qp, in);
}

/* The READ whose responses include this PSN; NULL: none. */
static const struct work *read_of(const struct qp *qp, uint64_t psn)
{
    for (uint64_t i = qp->head; i < qp->tail; i++) {
        const struct work *work = work_at(qp, i);
        if (psn < end_of(work))
            return psn >= work->first_psn && is_read(work) ? work : NULL;
    }
    return NULL;
}

/* Puts a response where it belongs; 0: it is not what was asked for, and the time-out asks again. */
static int place(struct qp *qp, const struct work *work, const struct inbound *in, uint64_t psn)
{
    const uint32_t length = payload_at(work, qp->config.mtu, psn);
    if (in->payload_length != length)
        return 0;
    if (in->payload && length && work->posted.local)
        memcpy(work->posted.local + (psn - work->first_psn) * qp->config.mtu, in->payload, length);
    qp->stats.received_packets++;
    qp->stats.received_bytes += length;
    return 1;
}

/* A response before its turn, which may only have overtaken others: it is placed at once. 0: it can't be remembered. */
static int respond_early(struct qp *qp, const struct inbound *in, uint64_t psn)
{
    const struct work *work = read_of(qp, psn);
    if (!work || psn - qp->una >= WINDOW_SELECTIVE_MOST)
        return 0;
    if (!qp->responded && !(qp->responded = calloc(WINDOW_SELECTIVE_MOST / 64, sizeof *qp->responded)))
        return 0;
    if (*responded_word(qp, psn) & responded_bit(psn)) {
        qp->stats.duplicates++;
        return 1;
    }
    if (!place(qp, work, in, psn))
        return 1;
    *responded_word(qp, psn) |= responded_bit(psn);
    qp->responded_n++;
    if (qp->response_waits == UINT64_MAX && !qp->response_gap)
        wait_for_response(qp);
    return 1;
}

void requester_gap(struct qp *qp)
{
    if (qp->response_waits == UINT64_MAX)
        return;
    if (qp->card->now < qp->response_until) { /* it was the responder's time */
        gap_set(qp, qp->response_until);
        return;
    }
    const int same = qp->response_waits == qp->una;
    qp->response_waits = UINT64_MAX;
    if (qp->state != RNIC_READY || qp->response_gap)
        return;
    if (same) {
        responses_missing(qp);
        qp_update(qp);
    } else if (qp->responded_n) { /* another gap, which is younger */
        wait_for_response(qp);
    }
}

void requester_response(struct qp *qp, const struct inbound *in)
{
    const uint64_t psn = psn_near(qp->una, in->psn);
    if (qp->state != RNIC_READY || psn == UINT64_MAX || psn >= qp->sent)
        return;
    if (psn < qp->una) {
        qp->stats.duplicates++;
        return;
    }
    if (psn > qp->una && qp->head < qp->tail && !is_read(work_at(qp, qp->head)))
        acknowledge(qp, psn); /* a response is one for all that was before it, too */
    const struct work *work = qp->head < qp->tail ? work_at(qp, qp->head) : NULL;
    if (!work || !is_read(work) || psn < qp->una)
        return;
    if (psn != qp->una) {
        qp->stats.out_of_order++;
        if (qp->config.reorder_ps && selective(qp) && respond_early(qp, in, psn))
            return;
        qp->stats.dropped++;
        /* Once a gap; again when the sequence has restarted without what is missing. */
        if (!qp->response_gap || (psn <= qp->response_highest && psn - qp->una <= 2)) {
            qp->response_highest = psn;
            responses_missing(qp);
        } else if (psn > qp->response_highest) {
            qp->response_highest = psn;
        }
        return;
    }
    if (!place(qp, work, in, psn))
        return;
    const uint64_t before = qp->una++;
    if (qp->una > qp->peer_expected)
        qp->peer_expected = end_of(work);
    qp->response_highest = 0;
    pass_responded(qp);
    progress(qp, before);
}

/* All that is on the way is sent again. */
static void begin_anew(struct qp *qp)
{
    qp->read_again = 1;
    qp->response_gap = 0;
    qp->peer_expected = qp->una; /* it may have lost what it said that it has: nothing is taken for granted */
    if (selective(qp))
        qp->lost_below = qp->sent;
    go_back(qp);
}

void requester_repeat(struct qp *qp)
{
    if (qp->una >= qp->sent || qp->not_ready)
        return;
    begin_anew(qp);
    timer_set(qp, qp->card->now + qp->config.timeout_ps);
}

void requester_timeout(struct qp *qp)
{
    qp->deadline = RNIC_NEVER;
    const int waited = qp->not_ready;
    qp->not_ready = 0;
    if (qp->migration && migration_timed_out(qp, waited))
        return;
    if (qp->una >= qp->sent)
        return;
    const int settling = !waited && qp->planes && planes_settle(qp);
    if (!waited && !settling) {
        qp->stats.timeouts++;
        if (qp->sender)
            ways_timed_out(qp);
        if (qp->planes)
            planes_timed_out(qp);
        if (++qp->tries > qp->config.retries) {
            qp_fail(qp, RNIC_RETRY_EXCEEDED, 0);
            return;
        }
    }
    if (waited)
        go_back(qp);
    else
        begin_anew(qp);
    timer_set(qp, qp->card->now + timeout_of(qp));
}

void requester_flush(struct qp *qp)
{
    int first = qp->failure == RNIC_RETRY_EXCEEDED || qp->failure == RNIC_RNR_EXCEEDED || qp->failure == RNIC_REMOTE_ACCESS ||
                qp->failure == RNIC_REMOTE_INVALID || qp->failure == RNIC_REMOTE_OPERATION;
    while (qp->head < qp->tail) {
        const struct work *work = work_at(qp, qp->head++);
        const enum rnic_failure status = first ? (enum rnic_failure)qp->failure : RNIC_FLUSHED;
        qp_event(qp, RNIC_FAILED, work->posted.id, work->posted.length, work->posted.operation, status);
        first = 0;
    }
    qp->cursor = qp->tail;
    qp->una = qp->next = qp->sent = qp->posted;
    qp->lost_below = 0;
    timer_set(qp, RNIC_NEVER);
}

/* --- what went which way ----------------------------------------------------------------------- */

int requester_is_missing(const struct qp *qp, uint64_t psn)
{
    return psn >= qp->una && psn < qp->sent && !has_arrived(qp, psn);
}

struct work *requester_work(const struct qp *qp, uint64_t psn)
{
    for (uint64_t i = qp->head; i < qp->tail; i++)
        if (psn < end_of(work_at(qp, i)))
            return work_at(qp, i);
    return NULL;
}

size_t rnic_outstanding_by(const rnic *r, uint32_t qpn, uint32_t interface, uint64_t *psns, size_t max)
{
    const struct qp *qp = qp_find(r, qpn);
    const uint32_t interfaces = qp && qp->spans ? qp->ways->n : 1;
    size_t n = 0;
    if (!qp || interface < qp->config.interface || interface - qp->config.interface >= interfaces)
        return 0;
    for (uint64_t i = qp->head, psn = qp->una; i < qp->tail && psn < qp->sent; i++) {
        const struct work *work = work_at(qp, i);
        for (; psn < end_of(work) && psn < qp->sent; psn = is_read(work) ? end_of(work) : psn + 1) {
            const uint32_t path = !qp->many_paths ? 0 : is_read(work) ? work->path : qp->paths[psn & qp->paths_mask];
            if (has_arrived(qp, psn) || (is_read(work) && psn > work->first_psn) || qp->config.interface + path % interfaces != interface)
                continue;
            if (n < max)
                psns[n] = psn;
            n++;
        }
    }
    return n;
}
