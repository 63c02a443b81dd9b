/* Owns what a queue pair does with its peer's requests: SENDs and WRITEs are placed, READs answered, all acknowledged.
 *
 * Requests are carried out in the order of their PSNs. Those that come early are kept (selective repeat) or dropped (go-back-N).
 * An acknowledgement stands for all before it, so none leaves while an earlier READ's responses are still to be sent.
 */
#include <string.h>

#include "card.h"

enum taken { TAKEN, NOT_READY, BROKEN, IGNORED };

static int selective(const struct qp *qp) { return qp->config.repeat == RNIC_SELECTIVE; }
static int is_write(uint32_t opcode) { return opcode >= OP_WRITE_FIRST && opcode <= OP_WRITE_ONLY_IMM; }
static int has_immediate(uint32_t opcode)
{
    return opcode == OP_SEND_LAST_IMM || opcode == OP_SEND_ONLY_IMM || opcode == OP_WRITE_LAST_IMM || opcode == OP_WRITE_ONLY_IMM;
}
/* Where in its message a packet stands, by its opcode. */
static int is_first(uint32_t opcode)
{
    return opcode == OP_SEND_FIRST || opcode == OP_WRITE_FIRST || opcode == OP_SEND_ONLY || opcode == OP_SEND_ONLY_IMM ||
           opcode == OP_WRITE_ONLY || opcode == OP_WRITE_ONLY_IMM;
}
static int is_last(uint32_t opcode)
{
    return opcode != OP_SEND_FIRST && opcode != OP_SEND_MIDDLE && opcode != OP_WRITE_FIRST && opcode != OP_WRITE_MIDDLE;
}

static void nak(struct qp *qp, uint8_t syndrome)
{
    if (qp->fatal)
        return;
    qp->syndrome = syndrome;
    ack_soon(qp);
}

static enum taken broken(struct qp *qp, enum nak_reason reason)
{
    const enum rnic_failure failure = reason == NAK_ACCESS ? RNIC_REMOTE_ACCESS : RNIC_REMOTE_INVALID;
    qp_fail(qp, failure, (uint8_t)(SYNDROME_NAK | reason));
    return BROKEN;
}

/* A receive buffer, if there is one. */
static int take_buffer(struct qp *qp, struct receive *buffer)
{
    if (qp->receives_head < qp->receives_tail) {
        *buffer = qp->receives[qp->receives_head++ & qp->receives_mask];
        return 1;
    }
    *buffer = (struct receive){.length = UINT64_MAX};
    return qp->anything;
}

static void message_ends(struct qp *qp, const struct inbound *in, uint32_t operation, int buffer_used)
{
    if (buffer_used) {
        struct rnic_event *row = qp_event_new(qp, RNIC_RECEIVED);
        if (row) {
            row->id = qp->in_buffer.id;
            row->bytes = qp->in_bytes;
            row->operation = operation;
            row->has_immediate = (uint32_t)has_immediate(in->opcode);
            row->immediate = in->immediate;
        }
    }
    qp_event(qp, RNIC_PLACED, qp->messages, qp->in_bytes, operation, RNIC_NO_FAILURE);
    qp->messages++;
    qp->incoming = 0;
}

static int length_fits(const struct qp *qp, const struct inbound *in)
{
    const uint32_t mtu = qp->config.mtu;
    if (!is_last(in->opcode))
        return in->payload_length == mtu;
    return in->payload_length <= mtu && (is_first(in->opcode) || in->payload_length > 0);
}

static enum taken take_send(struct qp *qp, const struct inbound *in)
{
    if (is_first(in->opcode) ? qp->incoming != 0 : qp->incoming != RNIC_SEND + 1)
        return broken(qp, NAK_INVALID);
    if (!length_fits(qp, in))
        return broken(qp, NAK_INVALID);
    if (is_first(in->opcode)) {
        if (!take_buffer(qp, &qp->in_buffer))
            return NOT_READY;
        qp->incoming = RNIC_SEND + 1;
        qp->in_bytes = 0;
    }
    if (qp->in_bytes + in->payload_length > qp->in_buffer.length) {
        qp_event(qp, RNIC_FAILED, qp->in_buffer.id, qp->in_bytes, RNIC_SEND, RNIC_LOCAL_LENGTH);
        qp->incoming = 0;
        return broken(qp, NAK_INVALID);
    }
    if (in->payload && qp->in_buffer.buffer && in->payload_length)
        memcpy(qp->in_buffer.buffer + qp->in_bytes, in->payload, in->payload_length);
    qp->in_bytes += in->payload_length;
    if (is_last(in->opcode))
        message_ends(qp, in, has_immediate(in->opcode) ? RNIC_SEND_IMM : RNIC_SEND, 1);
    return TAKEN;
}

static enum taken take_write(struct qp *qp, const struct inbound *in)
{
    const int first = is_first(in->opcode), last = is_last(in->opcode);
    if (first ? qp->incoming != 0 : qp->incoming != RNIC_WRITE + 1)
        return broken(qp, NAK_INVALID);
    uint64_t left = first ? in->length : qp->in_left, address = first ? in->address : qp->in_address;
    const uint32_t rkey = first ? in->rkey : qp->in_rkey;
    if (!length_fits(qp, in) || (last ? left != in->payload_length : left <= in->payload_length))
        return broken(qp, NAK_INVALID);
    const struct region *region = NULL;
    if (left) {
        region = region_of(qp->card, rkey, address, left, RNIC_REMOTE_WRITE);
        if (!region)
            return broken(qp, NAK_ACCESS);
    }
    if (has_immediate(in->opcode) && !take_buffer(qp, &qp->in_buffer))
        return NOT_READY;
    if (first) {
        qp->incoming = RNIC_WRITE + 1;
        qp->in_rkey = rkey;
        qp->in_bytes = 0;
    }
    if (region && region->base && in->payload && in->payload_length)
        memcpy(region->base + (address - region->address), in->payload, in->payload_length);
    qp->in_bytes += in->payload_length;
    qp->in_address = address + in->payload_length;
    qp->in_left = left - in->payload_length;
    if (last)
        message_ends(qp, in, has_immediate(in->opcode) ? RNIC_WRITE_IMM : RNIC_WRITE, has_immediate(in->opcode));
    return TAKEN;
}

/* --- READs ------------------------------------------------------------------------------------- */

static uint64_t packets_of(const struct qp *qp, uint64_t length)
{
    return length ? (length + qp->config.mtu - 1) / qp->config.mtu : 1;
}

static struct answer *answer_at(struct qp *qp, uint32_t i) { return &qp->answers[(qp->answers_head + i) % qp->answers_size]; }

static int answer(struct qp *qp, const struct inbound *in, uint64_t psn)
{
    if (qp->answers_n == qp->answers_size)
        return 0;
    *answer_at(qp, qp->answers_n++) = (struct answer){
        .first_psn = psn,
        .psn = psn,
        .end_psn = psn + packets_of(qp, in->length),
        .length = in->length,
        .rkey = in->rkey,
        .address = in->address,
        .message = qp->messages,
    };
    return 1;
}

static int readable(const struct qp *qp, const struct inbound *in)
{
    return !in->length || region_of(qp->card, in->rkey, in->address, in->length, RNIC_REMOTE_READ) != NULL;
}

static enum taken take_read(struct qp *qp, const struct inbound *in, uint64_t *packets)
{
    *packets = packets_of(qp, in->length);
    if (qp->incoming || *packets > READ_PACKETS_MOST)
        return broken(qp, NAK_INVALID);
    if (!readable(qp, in))
        return broken(qp, NAK_ACCESS);
    if (qp->answers_n == qp->answers_size)
        return IGNORED;
    qp->messages++;
    answer(qp, in, qp->expected);
    return TAKEN;
}

/* A READ that was answered, or part of one, is asked for again. */
static void read_again(struct qp *qp, const struct inbound *in, uint64_t psn)
{
    if (psn + packets_of(qp, in->length) > qp->expected)
        return;
    if (!readable(qp, in)) {
        broken(qp, NAK_ACCESS);
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < qp->answers_n; i++) {
        const struct answer old = *answer_at(qp, i);
        const int same = psn >= old.first_psn && psn < old.end_psn;
        /* Go-back-N: what came after it will be asked for again, too. */
        if (!same && (qp->config.repeat == RNIC_SELECTIVE || old.psn < psn))
            *answer_at(qp, kept++) = old;
    }
    qp->answers_n = kept;
    answer(qp, in, psn);
}

int responder_wants(const struct qp *qp) { return qp->answers_n > 0 && qp->state == RNIC_READY; }

uint64_t responder_upcoming(const struct qp *qp) { return qp->answers[qp->answers_head].psn; }

int responder_send(struct qp *qp, struct rnic_packet *packet)
{
    if (!responder_wants(qp))
        return 0;
    struct answer *now = answer_at(qp, 0);
    const uint64_t offset = (now->psn - now->first_psn) * qp->config.mtu;
    const uint32_t length = now->length - offset < qp->config.mtu ? (uint32_t)(now->length - offset) : qp->config.mtu;
    const uint8_t *payload = NULL;
    if (length) {
        const struct region *region = region_of(qp->card, now->rkey, now->address + offset, length, RNIC_REMOTE_READ);
        if (!region) {
            broken(qp, NAK_ACCESS);
            return 0;
        }
        if (region->base)
            payload = region->base + (now->address + offset - region->address);
    }
    const int first = now->psn == now->first_psn, last = now->psn + 1 == now->end_psn;
    const uint32_t opcode = first ? (last ? OP_READ_ONLY : OP_READ_FIRST) : last ? OP_READ_LAST : OP_READ_MIDDLE;
    uint8_t *aeth = packet_begin(qp, packet, opcode, now->psn, first || last ? AETH : 0, payload, length);
    if (first || last) {
        aeth[0] = SYNDROME_ACK;
        bytes_put24(aeth + 1, (uint32_t)(now->message & PSN_MASK));
    }
    packet->kind = RNIC_RESPONSE;
    qp->stats.sent_packets++;
    qp->stats.sent_bytes += length;
    if (now->psn < qp->answered) {
        packet->repeated = 1;
        qp->stats.repeated_packets++;
        qp->stats.repeated_bytes += length;
    } else {
        qp->answered = now->psn + 1;
    }
    if (++now->psn == now->end_psn) {
        qp->answers_head = (qp->answers_head + 1) % qp->answers_size;
        if (--qp->answers_n == 0 && (qp->ack_wanted || qp->syndrome))
            ack_soon(qp);
    }
    return 1;
}

/* --- requests ---------------------------------------------------------------------------------- */

/* Carries out the request that is due. */
static enum taken take(struct qp *qp, const struct inbound *in)
{
    uint64_t packets = 1;
    enum taken taken;
    if (in->opcode == OP_READ_REQUEST)
        taken = take_read(qp, in, &packets);
    else if (is_write(in->opcode))
        taken = take_write(qp, in);
    else
        taken = take_send(qp, in);
    if (taken == NOT_READY) {
        qp->nak_said = 1;
        qp->gap_highest = 0;
        nak(qp, (uint8_t)(SYNDROME_RNR | qp->rnr_code));
    }
    if (taken != TAKEN) {
        qp->stats.dropped++;
        return taken;
    }
    if (in->opcode != OP_READ_REQUEST) {
        qp->stats.received_packets++;
        qp->stats.received_bytes += in->payload_length;
        /* Planes count what comes by each (planes_mark), so that each hears that it works. */
        if (in->ack_request || is_last(in->opcode) || (!qp->planes && ++qp->unacknowledged >= qp->config.ack_every))
            qp->ack_wanted = 1;
    }
    qp->expected += packets;
    qp->nak_said = 0;
    qp->gap_highest = 0;
    if (qp->ack_wanted)
        ack_soon(qp);
    return TAKEN;
}

/* What is missing below this PSN counts as lost; up to the expected one: nothing does. */
static uint64_t lost_below(const struct qp *qp)
{
    return qp->config.reorder_ps && !qp->planes ? qp->early_overdue : qp->early_highest;
}

static int has_gap(const struct qp *qp)
{
    return selective(qp) ? qp->early_n && lost_below(qp) > qp->expected : qp->nak_said;
}

static void keep(struct qp *qp, const struct inbound *in, uint64_t psn)
{
    if (psn - qp->expected > qp->early_mask || in->payload_length > qp->config.mtu || !early_begin(qp)) {
        qp->stats.dropped++;
        return;
    }
    struct early *slot = &qp->early[psn & qp->early_mask];
    if (slot->psn == psn) {
        qp->stats.duplicates++;
        return;
    }
    slot->psn = psn;
    slot->at = qp->card->now;
    slot->packet = *in;
    qp->early_n++;
    if (psn > qp->early_highest)
        qp->early_highest = psn;
    if (qp->early_bytes && in->payload && in->payload_length) {
        uint8_t *bytes = qp->early_bytes + (size_t)(psn & qp->early_mask) * qp->config.mtu;
        memcpy(bytes, in->payload, in->payload_length);
        slot->packet.payload = bytes;
    } else {
        slot->packet.payload = NULL;
    }
}

/* Early packets whose turn has come. */
static void take_kept(struct qp *qp)
{
    uint32_t taken = 0;
    while (qp->early_n && qp->state == RNIC_READY) {
        struct early *slot = &qp->early[qp->expected & qp->early_mask];
        if (slot->psn != qp->expected)
            break;
        const struct inbound packet = slot->packet;
        slot->psn = UINT64_MAX;
        qp->early_n--;
        if (take(qp, &packet) != TAKEN)
            return;
        taken++;
    }
    if (!taken || qp->state != RNIC_READY)
        return;
    qp->ack_wanted = 1;
    if (has_gap(qp) && !qp->planes)
        nak(qp, SYNDROME_NAK | NAK_SEQUENCE); /* there is another one */
    ack_soon(qp);
}

/* A READ moves the expected PSN by more than one: nothing kept may lie in what it takes. */
static void forget_skipped(struct qp *qp, uint64_t from)
{
    for (uint64_t psn = from; qp->early_n && psn < qp->expected && psn - from <= qp->early_mask; psn++) {
        struct early *slot = &qp->early[psn & qp->early_mask];
        if (slot->psn == psn) {
            slot->psn = UINT64_MAX;
            qp->early_n--;
        }
    }
}

static void too_early(struct qp *qp, const struct inbound *in, uint64_t psn)
{
    qp->stats.out_of_order++;
    if (selective(qp)) {
        keep(qp, in, psn);
        if (qp->planes)
            return; /* who sent it knows by which plane, and so whether it may still come: acknowledgements say what is here (planes_mark) */
        if (qp->config.reorder_ps)
            gap_set(qp, qp->card->now + qp->config.reorder_ps);
        if (!qp->config.reorder_ps || has_gap(qp))
            nak(qp, SYNDROME_NAK | NAK_SEQUENCE);
        return;
    }
    qp->stats.dropped++;
    /* Once a gap; again when the peer has restarted and what is missing was lost again. */
    if (!qp->nak_said || (psn <= qp->gap_highest && (psn - qp->expected <= 2 || qp->gap_highest - psn > 32))) {
        qp->gap_highest = psn;
        qp->nak_said = 1;
        nak(qp, SYNDROME_NAK | NAK_SEQUENCE);
    } else if (psn > qp->gap_highest) {
        qp->gap_highest = psn;
    }
}

void responder_request(struct qp *qp, const struct inbound *in)
{
    const uint64_t psn = psn_near(qp->expected, in->psn);
    if (qp->state == RNIC_ERROR) {
        if (qp->fatal) { /* a peer that still asks does not know yet */
            qp->syndrome = qp->fatal;
            ack_soon(qp);
        }
        return;
    }
    if (psn == UINT64_MAX || psn < qp->expected) {
        qp->stats.duplicates++;
        if (in->opcode == OP_READ_REQUEST && psn != UINT64_MAX) {
            read_again(qp, in, psn);
        } else {
            qp->ack_wanted = 1;
            ack_soon(qp);
        }
    } else if (psn > qp->expected) {
        too_early(qp, in, psn);
    } else {
        const enum taken taken = take(qp, in);
        if (taken == TAKEN && qp->early_n) {
            if (in->opcode == OP_READ_REQUEST)
                forget_skipped(qp, psn);
            take_kept(qp);
            if (!qp->early_n)
                early_end(qp);
        }
    }
}

void responder_gap(struct qp *qp)
{
    if (qp->state != RNIC_READY || !qp->early_n || qp->planes)
        return;
    const rnic_time now = qp->card->now, patience = qp->config.reorder_ps;
    rnic_time first = RNIC_NEVER; /* of those that have not waited so long */
    for (uint64_t psn = qp->expected + 1; psn <= qp->early_highest; psn++) {
        const struct early *slot = &qp->early[psn & qp->early_mask];
        if (slot->psn != psn)
            continue;
        if (slot->at + patience <= now)
            qp->early_overdue = psn;
        else if (slot->at < first)
            first = slot->at;
    }
    if (first != RNIC_NEVER)
        gap_set(qp, first + patience);
    if (has_gap(qp))
        nak(qp, SYNDROME_NAK | NAK_SEQUENCE);
}

/* --- acknowledgements -------------------------------------------------------------------------- */

static void write_map(const struct qp *qp, uint8_t *at)
{
    const uint64_t highest = lost_below(qp);
    uint64_t base = qp->expected + 1;
    if (highest >= base + MAP_BITS)
        base = highest - MAP_BITS + 1;
    memset(at, 0, MISSING_MAP);
    bytes_put24(at + 1, (uint32_t)(base & PSN_MASK));
    for (uint32_t i = 0; i < MAP_BITS; i++)
        if (base + i <= highest && qp->early[(base + i) & qp->early_mask].psn == base + i)
            at[4 + i / 8] |= (uint8_t)(0x80 >> i % 8);
}

/* How much this acknowledgement says of paths, beside a bitmap and the telemetry that it returns. */
static uint32_t echo_bytes(const struct qp *qp, uint32_t map)
{
    const uint32_t shim = qp->telemetry_due ? TELEMETRY_SHIM_BYTES + qp->collected->bytes : 0;
    return ways_echo_bytes(qp, RNIC_HEADERS_MAX - HEADERS - AETH - map - shim);
}

int responder_ack(struct qp *qp, struct rnic_packet *packet)
{
    if (qp->answers_n && qp->state == RNIC_READY)
        return 0; /* they come first */
    if (qp->syndrome == (SYNDROME_NAK | NAK_SEQUENCE) && !has_gap(qp)) {
        qp->syndrome = 0; /* what was missing has come meanwhile */
        qp->ack_wanted = 1;
    }
    const uint8_t syndrome = qp->syndrome ? qp->syndrome : SYNDROME_ACK;
    if (!qp->syndrome && (!qp->ack_wanted || qp->state != RNIC_READY))
        return 0;
    const int with_map = (syndrome == (SYNDROME_NAK | NAK_SEQUENCE) || (syndrome == SYNDROME_ACK && qp->planes)) && qp->early_n;
    /* An acknowledgement names the last PSN that is here, a NAK the one that is missing. */
    const uint64_t psn = qp->syndrome ? qp->expected : qp->expected - 1;
    const uint32_t map = with_map ? MISSING_MAP : 0;
    const uint32_t echo = qp->sender ? echo_bytes(qp, map) : __builtin_expect(qp->planes != NULL, 0) ? planes_come_bytes(qp) : 0;
    uint8_t *aeth = packet_begin(qp, packet, OP_ACK, psn, AETH + echo + map, NULL, 0);
    packet->kind = RNIC_ACK;
    packet->queue = ack_queue(qp);
    /* Not ECN-capable: it causes no congestion that its sender could lessen. */
    packet->header[ETHERNET + 1] = (uint8_t)((qp->config.ack_apart ? qp->config.ack_dscp : qp->config.dscp) << 2);
    packet_recheck(packet);
    aeth[0] = syndrome;
    bytes_put24(aeth + 1, (uint32_t)(qp->messages & PSN_MASK));
    if (echo && qp->sender)
        ways_echo(qp, aeth + AETH, echo);
    else if (echo)
        planes_say_come(qp, aeth + AETH);
    if (with_map)
        write_map(qp, aeth + AETH + echo);
    if (qp->telemetry_due)
        feedback_return(qp, packet);
    if (!qp->syndrome)
        qp->stats.acks_sent++;
    else if ((syndrome & 0xe0) == SYNDROME_NAK)
        qp->stats.naks_sent++;
    else
        qp->stats.rnr_sent++;
    qp->syndrome = 0;
    qp->ack_wanted = 0;
    qp->unacknowledged = 0;
    return 1;
}

void responder_flush(struct qp *qp)
{
    if (qp->incoming == RNIC_SEND + 1 && !(qp->anything && qp->in_buffer.length == UINT64_MAX))
        qp_event(qp, RNIC_FAILED, qp->in_buffer.id, qp->in_bytes, RNIC_SEND, RNIC_FLUSHED);
    qp->incoming = 0;
    while (qp->receives_head < qp->receives_tail) {
        const struct receive *buffer = &qp->receives[qp->receives_head++ & qp->receives_mask];
        qp_event(qp, RNIC_FAILED, buffer->id, 0, RNIC_SEND, RNIC_FLUSHED);
    }
    qp->answers_n = 0;
    for (uint64_t i = 0; qp->early_n && i <= qp->early_mask; i++)
        qp->early[i].psn = UINT64_MAX;
    qp->early_n = 0;
    early_end(qp);
}
