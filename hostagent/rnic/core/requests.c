/* Owns what a queue pair sends of its own work: what is next, new or once more, and how its packets look. */
#include "work.h"

/* --- what is next ------------------------------------------------------------------------------ */

/* Selective repeat: moves `repeat` to the next packet that is missing. */
static int find_repeat(struct qp *qp)
{
    if (qp->repeat < qp->una)
        qp->repeat = qp->una;
    if (qp->repeat_cursor < qp->head)
        qp->repeat_cursor = qp->head;
    while (qp->repeat < qp->lost_below) {
        const struct work *work = work_at(qp, qp->repeat_cursor);
        if (end_of(work) <= qp->repeat) {
            qp->repeat_cursor++;
            continue;
        }
        if (is_read(work)) {
            const uint64_t first = work->first_psn > qp->una ? work->first_psn : qp->una;
            /* Asked for again when its responses are missing, or when the peer has not seen the request. */
            const int missing = first == qp->una && qp->read_again
                                    ? 1
                                    : first == work->first_psn && first >= qp->peer_expected && !has_arrived(qp, first);
            if (qp->repeat == first && missing)
                return 1;
            qp->repeat = end_of(work);
        } else if (!has_arrived(qp, qp->repeat) && (!qp->planes || planes_passed(qp, qp->repeat))) {
            return 1;
        } else {
            qp->repeat++;
        }
    }
    return 0;
}

/* The next packet whose last copy went by a plane that is lost. */
static int find_moved(struct qp *qp)
{
    const uint32_t n = qp->ways->n;
    if (qp->moved < qp->una)
        qp->moved = qp->una;
    if (qp->moved_cursor < qp->head)
        qp->moved_cursor = qp->head;
    while (qp->moved < qp->moved_below) {
        const struct work *work = work_at(qp, qp->moved_cursor);
        if (end_of(work) <= qp->moved) {
            qp->moved_cursor++;
        } else if (is_read(work)) {
            /* A request that has had no answer; where some have come, the gap among them shows what to request again. */
            const int unanswered = qp->una < qp->moved || (qp->una == qp->moved && !qp->read_again);
            if (qp->moved == work->first_psn && unanswered && qp->moving >> work->path % n & 1)
                return 1;
            qp->moved = end_of(work);
        } else if (!has_arrived(qp, qp->moved) && qp->moving >> qp->paths[qp->moved & qp->paths_mask] % n & 1) {
            return 1;
        } else {
            qp->moved++;
        }
    }
    qp->moving = 0;
    return 0;
}

/* Whether something new may be sent as far as its congestion control's window is not concerned. */
static inline __attribute__((always_inline)) int has_new(const struct qp *qp)
{
    if (qp->next >= qp->posted || qp->next - qp->una >= qp->config.window_packets)
        return 0;
    return !is_read(work_at(qp, qp->cursor)) || qp->reads < qp->config.max_reads;
}

static inline __attribute__((always_inline)) int may_send_new(const struct qp *qp)
{
    return has_new(qp) && (__builtin_expect(!(qp->wants & CC_WINDOW), 1) || qp->planes || window_open(qp));
}

int requester_is_held(const struct qp *qp)
{
    const int again = qp->planes && (qp->moving || qp->lost_below > qp->una);
    return qp->state == RNIC_READY && !qp->not_ready && (has_new(qp) || again);
}

/* The work of what is next, whatever windows say; NULL: nothing is. */
static const struct work *next_work(struct qp *qp)
{
    if (qp->moving && find_moved(qp))
        return work_at(qp, qp->moved_cursor);
    if (qp->lost_below > qp->una && find_repeat(qp))
        return work_at(qp, qp->repeat_cursor);
    return has_new(qp) ? work_at(qp, qp->cursor) : NULL;
}

int requester_sends_data(struct qp *qp)
{
    const struct work *work = next_work(qp);
    return work && !is_read(work);
}

/* Over planes what is sent again has to fit a window, too: it takes another plane, of whose flight it becomes a part. */
static __attribute__((noinline)) int wants_by_windows(struct qp *qp)
{
    const struct work *work = next_work(qp);
    return work && (is_read(work) || planes_have_room(qp));
}

int requester_wants(struct qp *qp)
{
    if (qp->state != RNIC_READY || qp->not_ready)
        return 0;
    if (__builtin_expect(qp->planes && qp->wants & CC_WINDOW, 0))
        return wants_by_windows(qp);
    return may_send_new(qp) || (qp->lost_below > qp->una && find_repeat(qp)) || (qp->moving && find_moved(qp)) ||
           (__builtin_expect(qp->wants & CC_WINDOW, 0) && tail_probe_due(qp));
}

uint64_t requester_upcoming(struct qp *qp)
{
    if (__builtin_expect(qp->moving, 0) && find_moved(qp))
        return qp->moved;
    return qp->lost_below > qp->una && find_repeat(qp) ? qp->repeat : qp->next;
}

static uint32_t opcode_of(const struct work *work, uint32_t first, uint32_t last)
{
    const uint32_t imm = work->posted.operation == RNIC_SEND_IMM || work->posted.operation == RNIC_WRITE_IMM;
    const uint32_t base = work->posted.operation >= RNIC_WRITE ? OP_WRITE_FIRST : OP_SEND_FIRST;
    if (first)
        return last ? base + OP_SEND_ONLY + imm : base;
    return last ? base + OP_SEND_LAST + imm : base + OP_SEND_MIDDLE;
}

static void build_read(struct qp *qp, const struct work *work, uint64_t psn, struct rnic_packet *packet)
{
    const uint64_t offset = (psn - work->first_psn) * qp->config.mtu;
    uint8_t *reth = packet_begin(qp, packet, OP_READ_REQUEST, psn, RETH, NULL, 0);
    bytes_put64(reth, work->posted.remote_address + offset);
    bytes_put32(reth + 8, work->posted.rkey);
    bytes_put32(reth + 12, (uint32_t)(work->posted.length - offset));
    packet->kind = RNIC_READ_REQUEST;
}

static void build_data(struct qp *qp, const struct work *work, uint64_t psn, int ask, struct rnic_packet *packet)
{
    const uint32_t first = psn == work->first_psn, last = psn + 1 == end_of(work);
    const uint32_t opcode = opcode_of(work, first, last), length = payload_at(work, qp->config.mtu, psn);
    const int is_write = work->posted.operation >= RNIC_WRITE;
    const uint32_t reth = is_write && first ? RETH : 0;
    const uint32_t imm = last && (work->posted.operation == RNIC_SEND_IMM || work->posted.operation == RNIC_WRITE_IMM) ? IMMEDIATE : 0;
    const uint8_t *payload = work->posted.local;
    if (payload)
        payload += (psn - work->first_psn) * qp->config.mtu;
    uint8_t *at = packet_begin(qp, packet, opcode, psn, reth + imm, length ? payload : NULL, length);
    if (reth) {
        bytes_put64(at, work->posted.remote_address);
        bytes_put32(at + 8, work->posted.rkey);
        bytes_put32(at + 12, (uint32_t)work->posted.length);
        at += RETH;
    }
    if (imm)
        bytes_put32(at, work->posted.immediate);
    if (last || ask)
        packet->header[ETHERNET + IPV4 + UDP + 8] |= 0x80;
    packet->kind = RNIC_DATA;
    qp->stats.sent_bytes += length;
}

/* For planes: when it is sent. Of a READ nothing acknowledges the request. */
static void note_time(struct qp *qp, const struct work *work, uint64_t psn)
{
    if (!is_read(work)) {
        struct plane *plane = &qp->planes[qp->path % qp->ways->n];
        qp->sent_at[psn & qp->paths_mask] = qp->card->now;
        qp->order[psn & qp->paths_mask] = ++plane->sent_n;
        plane->left_at[plane->sent_n % PLANE_TIMES] = qp->card->now;
        return;
    }
    for (uint64_t at = psn; at < end_of(work) && at - psn <= qp->paths_mask; at++)
        qp->sent_at[at & qp->paths_mask] = 0;
}

/* Which packet of `work`, PSN `psn`. Returns the PSN behind it. */
static uint64_t build(struct qp *qp, struct work *work, uint64_t psn, int ask, struct rnic_packet *packet)
{
    const int again = psn < qp->sent;
    if (qp->many_paths) {
        *(is_read(work) ? &work->path : &qp->paths[psn & qp->paths_mask]) = qp->path;
        if (qp->told_paths)
            ways_tell(qp, is_read(work) ? end_of(work) - 1 : psn, qp->path);
        if (qp->planes)
            note_time(qp, work, psn);
    }
    if (is_read(work)) {
        build_read(qp, work, psn, packet);
        if (qp->planes)
            planes_expect(qp);
        psn = end_of(work);
    } else {
        build_data(qp, work, psn, ask, packet);
        qp->stats.sent_packets++;
        if (__builtin_expect(qp->wants, 0))
            feedback_sent(qp, psn, (uint32_t)again, packet);
        if (again) {
            qp->stats.repeated_packets++;
            qp->stats.repeated_bytes += packet->payload_length;
        }
        psn++;
    }
    packet->repeated = (uint32_t)again;
    packet->id = work->posted.id;
    packet->begins = packet->psn == (work->first_psn & PSN_MASK);
    packet->ends = psn == end_of(work);
    if (qp->deadline == RNIC_NEVER)
        timer_set(qp, qp->card->now + qp->config.timeout_ps);
    return psn;
}

/* Of the last copy of what is next to be moved. */
static uint32_t plane_of(const struct qp *qp, uint64_t psn)
{
    const struct work *work = work_at(qp, qp->moved_cursor);
    return (is_read(work) ? work->path : qp->paths[psn & qp->paths_mask]) % qp->ways->n;
}

int requester_send(struct qp *qp, struct rnic_packet *packet)
{
    if (qp->state != RNIC_READY || qp->not_ready)
        return 0;
    if (__builtin_expect(qp->moving, 0) && find_moved(qp)) {
        const uint64_t psn = qp->moved;
        if (psn == qp->una) {
            qp->again_mark = qp->sent;
            qp->read_again = 0;
        }
        qp->planes[plane_of(qp, psn)].stats.moved_packets++;
        qp->moved = build(qp, work_at(qp, qp->moved_cursor), psn, 1, packet);
        return 1;
    }
    if (qp->lost_below > qp->una && find_repeat(qp)) {
        if (qp->planes)
            planes_again(qp, qp->repeat);
        if (qp->repeat == qp->una) {
            qp->again_mark = qp->sent;
            qp->read_again = 0;
        }
        qp->repeat = build(qp, work_at(qp, qp->repeat_cursor), qp->repeat, 1, packet);
        return 1;
    }
    if (!may_send_new(qp)) {
        const int probes = __builtin_expect(qp->wants & CC_WINDOW, 0) && tail_probe_due(qp);
        if (probes)
            build(qp, work_at(qp, qp->tail - 1), qp->next - 1, 1, packet);
        return probes;
    }
    struct work *work = work_at(qp, qp->cursor);
    const int full = qp->next + 1 - qp->una >= qp->config.window_packets;
    qp->reads += is_read(work) ? 1 : 0;
    qp->next = build(qp, work, qp->next, full, packet);
    if (qp->next > qp->sent)
        qp->sent = qp->next;
    if (qp->next == end_of(work))
        qp->cursor++;
    return 1;
}
