/* Owns automatic path migration (RNIC_PLANES_SINGLE): by which of its interfaces a queue pair sends, and when that changes.
 *
 *             peer has M = 0                  time-outs, link, the peer's M = 1, the user
 *   REARM -------------------------> ARMED -----------------------------------------------> MIGRATED
 *     ^                                                                                        |
 *     '-----------------------(the user names an alternate; `return_ps`: by itself)------------'
 *
 * Source: InfiniBand Architecture vol. 1, 17.2.8 and 9.2 (BTH's MigReq). Where that leaves room this does as Linux's hfi1 driver: a requester
 * whose retries are used up migrates and resets their count; M = 1 while ARMED is followed, M = 0 while REARM arms.
 */
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { NOWHERE = 0xff, TELLINGS = 7 };

static const struct rnic_plane_config *config_of(const struct qp *qp) { return &qp->config.planes; }
static struct lane *lane_of(const struct qp *qp, uint32_t i) { return qp->ways->way[i].lane; }
static int is_switching(const struct migration *own) { return own->switch_at != RNIC_NEVER; }
static int by_itself(const struct qp *qp) { return config_of(qp)->return_ps > 0; }
static int may_migrate(const struct qp *qp) { return qp->migration->state == RNIC_MIGRATION_ARMED || by_itself(qp); }
static int is_usable(const struct qp *qp, uint32_t i) { return lane_of(qp, i)->up && !lane_of(qp, i)->drained; }

/* --- making ------------------------------------------------------------------------------------ */

int migration_begin(struct qp *qp)
{
    struct migration *own = qp->migration = calloc(1, sizeof *own);
    if (!own)
        return 0;
    own->switch_at = own->tell_at = own->return_at = own->rearm_at = RNIC_NEVER;
    own->stats.found_at = own->stats.migrated_at = -1;
    own->peer_by = NOWHERE;
    own->probe.qp = qp;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        own->answer[i].qp = qp;
        own->answer[i].interface = (uint8_t)i;
        own->answer[i].is_answer = 1;
    }
    return 1;
}

void migration_stop(struct qp *qp)
{
    struct migration *own = qp->migration;
    own->switch_at = own->tell_at = own->return_at = own->rearm_at = RNIC_NEVER;
    if (linked(&own->probe.spoken.link))
        list_remove(&own->probe.spoken.link);
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (linked(&own->answer[i].spoken.link))
            list_remove(&own->answer[i].spoken.link);
    qp_heap_remove(qp, HEAP_PLANES);
}

/* The same at both ends, so that they begin with one plane. */
static uint32_t first_of(const struct qp *qp)
{
    const uint32_t first = config_of(qp)->first, n = qp->ways->n, own = qp->config.qpn, peer = qp->peer_qpn;
    const uint32_t low = own < peer ? own : peer, high = own < peer ? peer : own;
    if (first == RNIC_FIRST_TURN)
        return low % n;
    if (first != RNIC_FIRST_HASH)
        return first;
    uint32_t hash = (qp->ways->way[0].ip ^ qp->ways->way[0].peer_ip) * 0x9e3779b1u;
    hash = (hash ^ low) * 0x85ebca6bu;
    hash = (hash ^ hash >> 15 ^ high) * 0xc2b2ae35u;
    return (hash ^ hash >> 16) % n;
}

static void set_state(struct qp *qp, enum rnic_migration_state state)
{
    qp->migration->state = state;
    header_migrated(qp, state == RNIC_MIGRATION_MIGRATED);
}

/* Sends by this one from now on. */
static void use(struct qp *qp, uint32_t i)
{
    struct migration *own = qp->migration;
    own->alternate = own->current == i ? (uint8_t)((i + 1) % qp->ways->n) : own->current;
    own->current = (uint8_t)i;
    qp->lane = lane_of(qp, i);
}

/* Up, and as far as possible not drained: the alternate that was named, or the next one. NOWHERE: there is none. */
static uint32_t pick(const struct qp *qp, int even_drained)
{
    const struct migration *own = qp->migration;
    const uint32_t n = qp->ways->n;
    if (is_usable(qp, own->alternate))
        return own->alternate;
    for (uint32_t turn = 1; turn < n; turn++)
        if (is_usable(qp, (own->current + turn) % n))
            return (own->current + turn) % n;
    for (uint32_t turn = 1; turn < n && even_drained; turn++)
        if (lane_of(qp, (own->current + turn) % n)->up)
            return (own->current + turn) % n;
    return NOWHERE;
}

/* --- timers ------------------------------------------------------------------------------------ */

static void watch(struct qp *qp)
{
    const struct migration *own = qp->migration;
    const rnic_time times[] = {own->switch_at, own->tell_at, own->return_at, own->rearm_at};
    rnic_time next = RNIC_NEVER;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] < next)
            next = times[i];
    if (next != RNIC_NEVER)
        planes_set(qp, next);
}

static rnic_time return_step(const struct qp *qp)
{
    const rnic_time whole = config_of(qp)->return_ps, step = config_of(qp)->tries ? whole / RNIC_RETURN_PROBES : whole;
    return step ? step : 1;
}

/* Whether, and from when on, it waits for its first interface. */
static void plan_return(struct qp *qp)
{
    struct migration *own = qp->migration;
    if (!by_itself(qp) || !own->found_itself || is_switching(own) || !is_usable(qp, own->first))
        own->return_at = RNIC_NEVER;
    else if (own->return_at == RNIC_NEVER) {
        own->return_at = qp->card->now + return_step(qp);
        own->answers = own->probed = 0;
    }
    watch(qp);
}

/* --- migrating --------------------------------------------------------------------------------- */

/* What stands to be acknowledged, or to be reported, in the list of the line that it had. */
static void answer_anew(struct qp *qp)
{
    if (qp->ack_wanted || qp->syndrome || linked(&qp->ack))
        ack_soon(qp);
    if (linked(&qp->cnp))
        cnp_soon(qp);
}

static void tell(struct qp *qp)
{
    struct migration *own = qp->migration;
    own->tell_at = own->tellings ? qp->card->now + qp->config.timeout_ps : RNIC_NEVER;
    if (!own->tellings)
        return;
    own->tellings--;
    qp->ack_wanted = 1;
    ack_soon(qp);
}

static int nothing_is_lost(enum rnic_migration_cause cause)
{
    return cause == RNIC_CAUSE_DRAINED || cause == RNIC_CAUSE_USER || cause == RNIC_CAUSE_RETURN;
}

static void migrate(struct qp *qp, uint32_t to, enum rnic_migration_cause cause)
{
    struct migration *own = qp->migration;
    struct rnic *r = qp->card;
    const int repeat = !nothing_is_lost(cause) || !qp->lane->up || is_switching(own);
    own->switch_at = RNIC_NEVER;
    use(qp, to);
    set_state(qp, RNIC_MIGRATION_MIGRATED);
    own->cause = cause;
    own->stats.migrations++;
    own->stats.migrated_at = r->now;
    if (cause == RNIC_CAUSE_LINK || cause == RNIC_CAUSE_TIMEOUT || cause == RNIC_CAUSE_DRAINED)
        own->found_itself = 1;
    if (to == own->first || cause == RNIC_CAUSE_USER)
        own->found_itself = 0;
    qp_event(qp, RNIC_MIGRATED, qp->config.interface + to, 0, 0, RNIC_NO_FAILURE);
    qp->tries = 0;
    if (repeat)
        requester_repeat(qp);
    own->rearm_at = by_itself(qp) ? r->now + config_of(qp)->return_ps : RNIC_NEVER;
    own->return_at = RNIC_NEVER;
    own->tellings = TELLINGS;
    answer_anew(qp);
    tell(qp);
    plan_return(qp);
    r->changes++;
    qp_update(qp);
}

/* It stays where it is after all, or there is nothing better: what was not sent meanwhile is. */
static void stay(struct qp *qp)
{
    requester_repeat(qp);
    answer_anew(qp);
    qp->card->changes++;
    qp_update(qp);
}

static void begin_switch(struct qp *qp, uint32_t to, enum rnic_migration_cause cause)
{
    struct migration *own = qp->migration;
    own->stats.found_at = qp->card->now;
    if (!config_of(qp)->switch_ps) {
        migrate(qp, to, cause);
        return;
    }
    own->switch_at = qp->card->now + config_of(qp)->switch_ps;
    own->target = (uint8_t)to;
    own->target_cause = (uint8_t)cause;
    answer_anew(qp); /* out of their lists */
    plan_return(qp);
}

static void end_switch(struct qp *qp)
{
    struct migration *own = qp->migration;
    const uint32_t to = is_usable(qp, own->target) ? own->target : pick(qp, 1);
    if (to != NOWHERE) {
        migrate(qp, to, own->target_cause);
        return;
    }
    own->switch_at = RNIC_NEVER;
    stay(qp);
    plan_return(qp);
}

/* --- why --------------------------------------------------------------------------------------- */

/* Links are up or down, or drained, as they were not before. */
static void look(struct qp *qp)
{
    struct migration *own = qp->migration;
    const struct lane *lane = qp->lane;
    const uint32_t other = pick(qp, 0), any = pick(qp, 1);
    if (qp->state != RNIC_READY)
        return;
    if (!is_switching(own) && lane->up && lane->drained && other != NOWHERE)
        migrate(qp, other, RNIC_CAUSE_DRAINED);
    else if (!is_switching(own) && !lane->up && config_of(qp)->by_link && may_migrate(qp) && any != NOWHERE)
        begin_switch(qp, any, RNIC_CAUSE_LINK);
    plan_return(qp);
    qp_update(qp);
}

void migration_links(struct rnic *r)
{
    for (uint32_t i = 0; r->numbers && i <= r->table_mask; i++) {
        struct qp *qp = (struct qp *)r->numbers[i];
        if (qp && qp->migration)
            look(qp);
    }
}

/* With its link down nothing leaves, so that nothing could time out: what waits does. */
static int is_blocked(const struct qp *qp) { return qp->una >= qp->sent && qp->posted > qp->next && !qp->lane->up; }

void migration_listed(struct qp *qp)
{
    if (is_blocked(qp) && qp->deadline == RNIC_NEVER && !is_switching(qp->migration))
        timer_set(qp, qp->card->now + qp->config.timeout_ps);
}

/* Whether this time-out is one too many for the path. By itself it goes from one to the other until it has tried as often as `retries`. */
static int is_path_lost(const struct qp *qp)
{
    const struct migration *own = qp->migration;
    const uint32_t tries = config_of(qp)->tries;
    return tries && qp->tries + 1 >= tries && may_migrate(qp) &&
           (!own->fruitless || (by_itself(qp) && own->fruitless * tries <= qp->config.retries));
}

int migration_timed_out(struct qp *qp, int waited)
{
    struct migration *own = qp->migration;
    const int blocked = is_blocked(qp);
    if (is_switching(own))
        return 1; /* what is on the way is sent again when that ends */
    if ((qp->una >= qp->sent || waited) && !blocked)
        return 0;
    if (own->una_then != qp->una) {
        own->una_then = qp->una;
        own->fruitless = 0;
    }
    const uint32_t to = is_path_lost(qp) ? pick(qp, 1) : NOWHERE;
    if (to == NOWHERE && !blocked)
        return 0;
    qp->stats.timeouts++;
    if (to != NOWHERE) {
        own->fruitless += own->fruitless < UINT8_MAX;
        begin_switch(qp, to, RNIC_CAUSE_TIMEOUT);
    } else if (++qp->tries > qp->config.retries) {
        qp_fail(qp, RNIC_RETRY_EXCEEDED, 0);
    } else {
        timer_set(qp, qp->card->now + qp->config.timeout_ps);
    }
    return 1;
}

/* Never when it has migrated, too, or two that did so at once would change places for ever. */
static int follows(const struct qp *qp)
{
    return qp->migration->state == RNIC_MIGRATION_ARMED || (by_itself(qp) && qp->migration->state == RNIC_MIGRATION_REARM);
}

void migration_hear(struct qp *qp, uint32_t opcode, int migrated)
{
    struct migration *own = qp->migration;
    const uint32_t by = qp->came_by - qp->config.interface;
    if (opcode == OP_CNP || opcode >= OP_PROBE || qp->state != RNIC_READY)
        return;
    if (by == own->current)
        own->tellings = 0;
    if (!migrated && own->state == RNIC_MIGRATION_REARM && (by == own->current || by == own->peer_by))
        set_state(qp, RNIC_MIGRATION_ARMED);
    else if (migrated && follows(qp) && by != own->current && (is_usable(qp, by) || !is_usable(qp, own->current)))
        migrate(qp, by, RNIC_CAUSE_PEER);
    else if (own->state == RNIC_MIGRATION_MIGRATED && by_itself(qp) && by == own->current)
        set_state(qp, migrated ? RNIC_MIGRATION_REARM : RNIC_MIGRATION_ARMED);
    if (migrated)
        own->peer_by = (uint8_t)by;
}

/* --- returning --------------------------------------------------------------------------------- */

static void speak(struct voice *voice, uint32_t queue)
{
    struct lane *lane = lane_of(voice->qp, voice->interface);
    if (linked(&voice->spoken.link))
        return;
    list_append(&lane->spoken[queue], &voice->spoken.link);
    lane->waiting |= 1u << queue;
    voice->qp->card->changes++;
}

void migration_say(struct lane *lane, struct voice *voice, struct rnic_packet *packet)
{
    struct qp *qp = voice->qp;
    uint8_t *at = packet_begin(qp, packet, voice->is_answer ? OP_PROBE_ANSWER : OP_PROBE, 0, PROBE_BODY, NULL, 0);
    packet->kind = RNIC_PROBE;
    if (voice->is_answer) {
        memcpy(at, voice->body, PROBE_BODY);
        packet->queue = ack_queue(qp);
        packet->header[ETHERNET + 1] = (uint8_t)((qp->config.ack_apart ? qp->config.ack_dscp : qp->config.dscp) << 2);
    } else {
        bytes_put64(at, nanoseconds(qp->card));
        bytes_put32(at + 8, qp->migration->probe_number);
        bytes_put32(at + 12, 0);
        qp->migration->stats.probes_sent++;
    }
    ways_address(qp, lane, packet);
}

void migration_probed(struct qp *qp, const struct inbound *in)
{
    struct voice *answer = &qp->migration->answer[qp->came_by - qp->config.interface];
    if (qp->state != RNIC_READY)
        return;
    memcpy(answer->body, in->payload, PROBE_BODY);
    speak(answer, ack_queue(qp));
}

void migration_answered(struct qp *qp, const struct inbound *in)
{
    struct migration *own = qp->migration;
    if (qp->state != RNIC_READY || !own->probed || bytes_get32(in->payload + 8) != own->probe_number)
        return;
    own->probed = 0;
    own->stats.probes_answered++;
    if (++own->answers >= RNIC_RETURN_PROBES && own->return_at != RNIC_NEVER)
        migrate(qp, own->first, RNIC_CAUSE_RETURN);
}

static void try_return(struct qp *qp)
{
    struct migration *own = qp->migration;
    if (!config_of(qp)->tries) {
        migrate(qp, own->first, RNIC_CAUSE_RETURN);
        return;
    }
    if (own->probed)
        own->answers = 0;
    own->probed = 1;
    own->probe_number++;
    own->return_at = qp->card->now + return_step(qp);
    own->probe.interface = own->first;
    speak(&own->probe, qp->config.queue);
}

void migration_due(struct qp *qp)
{
    struct migration *own = qp->migration;
    const rnic_time now = qp->card->now;
    if (qp->state != RNIC_READY)
        return;
    if (own->switch_at <= now)
        end_switch(qp);
    if (own->tell_at <= now)
        tell(qp);
    if (own->rearm_at <= now) {
        own->rearm_at = RNIC_NEVER;
        if (own->state == RNIC_MIGRATION_MIGRATED)
            set_state(qp, RNIC_MIGRATION_REARM);
    }
    if (own->return_at <= now)
        try_return(qp);
    watch(qp);
}

/* --- which one --------------------------------------------------------------------------------- */

uint32_t migration_usable(const struct qp *qp) { return is_switching(qp->migration) ? 0 : 1u << qp->migration->current; }

struct lane *migration_lane(const struct qp *qp) { return is_switching(qp->migration) ? NULL : qp->lane; }

void migration_connected(struct qp *qp)
{
    struct migration *own = qp->migration;
    own->first = (uint8_t)first_of(qp);
    own->current = own->first;
    use(qp, own->first);
    set_state(qp, RNIC_MIGRATION_ARMED);
    own->una_then = qp->una;
    look(qp);
}

/* --- for the user ------------------------------------------------------------------------------ */

static struct qp *find(rnic *r, uint32_t qpn)
{
    struct qp *qp = qp_find(r, qpn);
    if (!qp || !qp->migration)
        card_fail(r, RNIC_ENOENT, "there is no queue pair %u that migrates", qpn);
    return qp && qp->migration ? qp : NULL;
}

int rnic_migration_stats_get(rnic *r, uint32_t qpn, struct rnic_migration_stats *stats)
{
    const struct qp *qp = find(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    const struct migration *own = qp->migration;
    *stats = own->stats;
    stats->state = own->state;
    stats->cause = own->cause;
    stats->interface = qp->config.interface + own->current;
    stats->alternate = qp->config.interface + own->alternate;
    stats->switching = is_switching(own);
    return RNIC_OK;
}

int rnic_rearm(rnic *r, uint32_t qpn, uint32_t interface)
{
    struct qp *qp = find(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    struct migration *own = qp->migration;
    const uint32_t i = interface - qp->config.interface;
    if (qp->state != RNIC_READY || own->state == RNIC_MIGRATION_ARMED)
        return card_fail(r, RNIC_ESTATE, "queue pair %u is %s", qpn, qp->state == RNIC_READY ? "armed" : "not connected, or in error");
    if (i >= qp->ways->n || i == own->current)
        return card_fail(r, RNIC_EINVAL, "queue pair %u: interface %u is not its own, or the one that it sends by", qpn, interface);
    own->alternate = (uint8_t)i;
    set_state(qp, RNIC_MIGRATION_REARM);
    return RNIC_OK;
}

int rnic_migrate(rnic *r, uint32_t qpn, rnic_time now)
{
    struct qp *qp = find(r, qpn);
    if (!qp)
        return RNIC_ENOENT;
    if (now > r->now)
        r->now = now;
    const uint32_t to = qp->migration->alternate;
    if (qp->state != RNIC_READY || qp->migration->state != RNIC_MIGRATION_ARMED || !is_usable(qp, to))
        return card_fail(r, RNIC_ESTATE, "queue pair %u is not armed, or its alternate's link is down or drained", qpn);
    migrate(qp, to, RNIC_CAUSE_USER);
    return RNIC_OK;
}
