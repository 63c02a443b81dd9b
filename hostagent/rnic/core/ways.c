/* Owns which path a packet takes, on a card of several interfaces and for a queue pair of several UDP ports.
 *
 * A queue pair of several interfaces stands in the list of each of its lines while it may send, and a line that is free asks
 * the queue pairs in its list. So nothing is bound to a line before that line, or one that has nothing else to do, can take it:
 *
 *   nobody chooses     The packet goes to the next line in turn of those that are free now: up, not paused, not taken. Turns bound
 *                      to PSNs, as those of UDP ports are, would let each line wait for every other: for one that sends an
 *                      acknowledgement in between, that is paused, or whose clock is a little slower. Equal lines share packets
 *                      equally in either case; of unequal ones each carries what it can.
 *   an algorithm does  What it says holds. A packet for a line that is taken waits there (`held`) while those behind it go their
 *                      ways, up to HELD_MOST of them a line; then the queue pair waits for that line, as its window would soon
 *                      make it do. What waits is checked again when the line is free: what was acknowledged meanwhile is not sent.
 */
#include <stdlib.h>
#include <string.h>

#include "card.h"

enum { PATHS_FIRST = 64 };

/* --- making ------------------------------------------------------------------------------------ */

static uint32_t ports_of(const struct qp *qp) { return qp->config.udp_ports > 1 ? qp->config.udp_ports : 1; }
static uint32_t interfaces_of(const struct qp *qp) { return qp->spans ? qp->ways->n : 1; }

int ways_begin(struct qp *qp)
{
    const uint32_t n = qp->config.interfaces;
    const struct path_config path = path_config_of(&qp->config);
    if (path.kind) {
        const uint64_t own = (uint64_t)qp->lane->config.ip << 32 | qp->config.qpn;
        qp->sender = calloc(1, sizeof *qp->sender);
        if (!qp->sender)
            return 0;
        path_begin(&qp->sender->choice, &path, own ^ (uint64_t)qp->config.first_psn << 24 ^ (uint64_t)qp->config.udp_port << 48);
    }
    if (n <= 1 && !path.kind && (ports_of(qp) == 1 || !qp->slot)) /* there is no choice, and nothing to report */
        return 1;
    qp->paths = calloc(PATHS_FIRST, 1);
    qp->paths_mask = PATHS_FIRST - 1;
    qp->many_paths = 1;
    if (qp->wants & CC_PATH && qp->config.sent && !qp->config.slot_is_ours)
        qp->told_paths = qp->config.sent->paths;
    if (n <= 1)
        return qp->paths != NULL;
    qp->ways = calloc(1, sizeof *qp->ways + n * sizeof qp->ways->way[0]);
    const int chosen = qp->slot && !qp->planes;
    if (!qp->paths || !qp->ways || (chosen && !(qp->ways->held = malloc(n * HELD_MOST * sizeof *qp->ways->held))))
        return 0;
    qp->ways->n = (uint8_t)n;
    qp->ways->last = (uint8_t)(n - 1);
    for (uint32_t i = 0; i < n; i++)
        qp->ways->way[i] = (struct way){
            .qp = qp,
            .lane = qp->card->lanes[qp->config.interface + i],
            .held = chosen ? &qp->ways->held[i * HELD_MOST] : NULL,
        };
    qp->spans = 1;
    return 1;
}

void ways_free(struct qp *qp)
{
    if (qp->ways)
        free(qp->ways->held);
    free(qp->ways);
    free(qp->paths);
    free(qp->sender);
}

int ways_remember(struct qp *qp, uint64_t packets)
{
    uint64_t wanted = qp->posted + packets - qp->una;
    if (wanted > qp->config.window_packets)
        wanted = qp->config.window_packets; /* no more of own data is on the way; READs have their own place (struct work) */
    uint32_t size = qp->paths_mask + 1;
    if (wanted <= size)
        return 1;
    while (size < wanted)
        size *= 2;
    uint8_t *bigger = calloc(size, 1);
    if (!bigger)
        return 0;
    rnic_time *times = qp->planes ? calloc(size, sizeof *times) : NULL;
    uint32_t *order = qp->planes ? calloc(size, sizeof *order) : NULL;
    if (qp->planes && (!times || !order)) {
        free(times);
        free(order);
        free(bigger);
        return 0;
    }
    for (uint64_t psn = qp->una; psn < qp->sent && psn - qp->una <= qp->paths_mask; psn++) {
        bigger[psn & (size - 1)] = qp->paths[psn & qp->paths_mask];
        if (times) {
            times[psn & (size - 1)] = qp->sent_at[psn & qp->paths_mask];
            order[psn & (size - 1)] = qp->order[psn & qp->paths_mask];
        }
    }
    if (times) {
        free(qp->sent_at);
        free(qp->order);
        qp->sent_at = times;
        qp->order = order;
    }
    free(qp->paths);
    qp->paths = bigger;
    qp->paths_mask = size - 1;
    return 1;
}

void ways_tell(struct qp *qp, uint64_t psn, uint8_t path)
{
    const uint16_t word = cc_sent_path_word((uint32_t)(psn & PSN_MASK), path);
    __atomic_store_n(&qp->told_paths[psn % CC_SENT_PATHS], word, __ATOMIC_RELAXED);
}

int ways_join(const struct qp *qp, uint32_t ip, uint32_t peer_ip)
{
    int ours = 0, theirs = 0;
    if (!qp->spans)
        return peer_ip == qp->peer_ip && ip == qp->lane->config.ip;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        ours |= qp->ways->way[i].ip == ip;
        theirs |= qp->ways->way[i].peer_ip == peer_ip;
    }
    return ours && theirs;
}

uint64_t ways_line_rate(const struct qp *qp)
{
    uint64_t rate = 0;
    if (qp->migration)
        return qp->lane->config.line_rate_bps;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const uint64_t line = qp->ways->way[i].lane->config.line_rate_bps;
        if (!line)
            return 0;
        rate += line;
    }
    return rate;
}

/* --- lists of lines ---------------------------------------------------------------------------- */

static void enter(struct way *way)
{
    const uint32_t q = way->qp->config.queue;
    if (linked(&way->ready))
        return;
    list_append(&way->lane->ways[q], &way->ready);
    way->lane->waiting |= 1u << q;
    way->qp->card->changes++;
}

static void leave(struct way *way)
{
    if (linked(&way->ready))
        list_remove(&way->ready);
}

void ways_list(struct qp *qp)
{
    qp->ways->listed = 1;
    if (qp->migration)
        migration_listed(qp);
    for (uint32_t i = 0; i < qp->ways->n; i++)
        enter(&qp->ways->way[i]);
}

void ways_unlist(struct qp *qp)
{
    qp->ways->listed = 0;
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (!qp->ways->way[i].held_n)
            leave(&qp->ways->way[i]);
}

void ways_drop(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n; i++)
        qp->ways->way[i].held_n = 0;
    ways_unlist(qp);
}

/* --- choosing ---------------------------------------------------------------------------------- */

static int is_free(const struct qp *qp, const struct way *way)
{
    return !(way->lane->paused >> qp->config.queue & 1) && way->lane->busy_until <= qp->card->now;
}

/* What is next, as qp_send would make it: its PSN, and whether it was sent before. */
static uint64_t upcoming(struct qp *qp, int *again)
{
    const int answers = qp_answers_next(qp);
    const uint64_t psn = answers ? responder_upcoming(qp) : requester_upcoming(qp);
    *again = psn < (answers ? qp->answered : qp->sent);
    return psn;
}

/* What congestion control says of the next packet; CC_NO_PATH: nothing. Repeated calls return the same. */
static uint32_t chosen_path(const struct qp *qp, uint64_t number, uint32_t usable)
{
    const uint32_t n = interfaces_of(qp);
    const struct cc_choice choice = {.packet = number, .interfaces = n, .usable = usable, .ports = ports_of(qp)};
    uint32_t path = qp->slot ? cc_path_at(qp->slot, &choice, nanoseconds(qp->card)) : CC_NO_PATH;
    if (path == CC_NO_PATH)
        return path;
    path %= n * choice.ports;
    uint32_t interface = path % n;
    while (!(usable >> interface & 1))
        interface = (interface + 1) % n;
    return path - path % n + interface;
}

/* The way of the next packet, and in qp->path its path. NULL: no line is free for it now. `*bound`: it was chosen. */
static struct way *choose(struct qp *qp, int *bound)
{
    struct ways *ways = qp->ways;
    uint32_t usable = 0;
    int again;
    if (qp->planes) {
        *bound = 0;
        const uint64_t next = upcoming(qp, &again);
        return planes_choose(qp, next);
    }
    for (uint32_t i = 0; i < ways->n; i++)
        usable |= (uint32_t)ways->way[i].lane->up << i;
    if (qp->migration)
        usable &= migration_usable(qp);
    if (!usable)
        return NULL;
    const uint64_t psn = upcoming(qp, &again);
    const uint32_t path = chosen_path(qp, again ? ways->repeats : psn, usable);
    *bound = path != CC_NO_PATH;
    if (*bound) {
        qp->path = (uint8_t)path;
        return &ways->way[path % ways->n];
    }
    for (uint32_t turn = 1; turn <= ways->n; turn++) {
        const uint32_t i = (ways->last + turn) % ways->n;
        if (usable >> i & 1 && is_free(qp, &ways->way[i])) {
            qp->path = (uint8_t)(psn % ports_of(qp) * ways->n + i);
            return &ways->way[i];
        }
    }
    return NULL;
}

/* Makes the packet that goes this way. */
static int make(struct qp *qp, struct way *way, int bound, struct rnic_packet *packet)
{
    struct ways *ways = qp->ways;
    const uint32_t path = qp->path;
    if (!qp_send(qp, packet))
        return 0;
    ways->last = (uint8_t)(way - ways->way);
    ways->repeats += packet->repeated;
    ways_address(qp, way->lane, packet);
    if (bound)
        packet_port(packet, qp->config.udp_port + path / ways->n);
    if (qp->planes)
        qp_pace_plane(qp, ways->last, packet);
    else
        qp_pace(qp, packet);
    qp_update(qp);
    return 1;
}

/* The sender's own choice for what is next; CC_NO_PATH: a READ's response is, and responses take turns. */
static uint32_t sender_path(struct qp *qp, uint64_t psn, int again)
{
    struct sender_paths *sender = qp->sender;
    if (responder_wants(qp) && (qp->answer_turn || !requester_wants(qp)))
        return CC_NO_PATH;
    if (again && psn >= sender->timed_out)
        path_heard(&sender->choice, qp->paths[psn & qp->paths_mask], PATH_LOST, nanoseconds(qp->card));
    return path_next(&sender->choice);
}

int ways_send_one(struct qp *qp, struct rnic_packet *packet)
{
    int again = 0;
    const int wants = responder_wants(qp) || requester_wants(qp);
    const uint64_t psn = wants ? upcoming(qp, &again) : 0;
    const uint32_t path = qp->sender && wants ? sender_path(qp, psn, again) : chosen_path(qp, again ? qp->stats.sent_packets : psn, 1);
    qp->path = (uint8_t)(path == CC_NO_PATH ? psn % ports_of(qp) : path);
    if (!qp_send(qp, packet))
        return 0;
    if (path != CC_NO_PATH)
        packet_port(packet, qp->config.udp_port + path);
    return 1;
}

/* --- what receiver and sender report to each other of paths -------------------------------------------- */

void ways_arrived(struct qp *qp, const struct inbound *in)
{
    struct sender_paths *sender = qp->sender;
    if (qp->config.path_kind == PATH_OBLIVIOUS || qp->state != RNIC_READY)
        return;
    if (sender->echo_n == PATH_ECHOES) { /* the oldest is forgotten */
        sender->echo_first = (sender->echo_first + 1) % PATH_ECHOES;
        sender->echo_n--;
    }
    const uint32_t at = (sender->echo_first + sender->echo_n++) % PATH_ECHOES;
    sender->echo_port[at] = in->source_port;
    sender->echo_marked[at] = in->marked;
    if (sender->echo_n < qp->config.ack_every && sender->echo_n < PATH_ECHOES)
        return;
    qp->ack_wanted = 1; /* also for what comes before its turn */
    ack_soon(qp);
}

uint32_t ways_echo_bytes(const struct qp *qp, uint32_t room)
{
    const uint32_t fits = room < PATH_ECHO ? 0 : (room - PATH_ECHO) / PATH_ECHO_EACH;
    const uint32_t n = qp->sender->echo_n < fits ? qp->sender->echo_n : fits;
    return n ? PATH_ECHO + n * PATH_ECHO_EACH : 0;
}

void ways_echo(struct qp *qp, uint8_t *at, uint32_t bytes)
{
    struct sender_paths *sender = qp->sender;
    const uint32_t n = (bytes - PATH_ECHO) / PATH_ECHO_EACH;
    bytes_put32(at, (uint32_t)PATH_ECHO_FLAG << 24 | n << 24);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = (sender->echo_first + i) % PATH_ECHOES;
        const uint32_t marked = sender->echo_marked[from] ? PATH_ECHO_MARKED : 0;
        bytes_put32(at + PATH_ECHO + i * PATH_ECHO_EACH, (uint32_t)sender->echo_port[from] << 16 | marked);
    }
    sender->echo_first = (sender->echo_first + n) % PATH_ECHOES;
    sender->echo_n -= n;
}

void ways_heard(struct qp *qp, const uint8_t *echo)
{
    const uint64_t now = nanoseconds(qp->card);
    for (uint32_t i = 0, n = echo[0] & ~(uint32_t)PATH_ECHO_FLAG; i < n; i++) {
        const uint32_t word = bytes_get32(echo + PATH_ECHO + i * PATH_ECHO_EACH);
        /* A port that is not ours is no path of ours: the difference is out of range then. */
        path_heard(&qp->sender->choice, (word >> 16) - qp->config.udp_port, word & PATH_ECHO_MARKED ? PATH_MARKED : PATH_GOOD, now);
    }
}

void ways_acked(struct qp *qp) { path_acked(&qp->sender->choice, qp->una, qp->next, nanoseconds(qp->card)); }

void ways_timed_out(struct qp *qp)
{
    struct sender_paths *sender = qp->sender;
    path_heard(&sender->choice, qp->paths[qp->una & qp->paths_mask], PATH_TIMEOUT, nanoseconds(qp->card));
    sender->timed_out = qp->sent;
}

/* --- what waits for a line --------------------------------------------------------------------- */

static int is_still_wanted(const struct qp *qp, const struct rnic_packet *packet)
{
    return packet->kind == RNIC_RESPONSE || requester_is_missing(qp, psn_near(qp->una, packet->psn));
}

static int take_held(struct way *way, struct rnic_packet *packet)
{
    struct qp *qp = way->qp;
    int taken = 0;
    while (!taken && way->held_n) {
        *packet = way->held[way->held_first];
        way->held_first = (way->held_first + 1) % HELD_MOST;
        way->held_n--;
        taken = qp->state == RNIC_READY && is_still_wanted(qp, packet);
    }
    if (taken && qp->wants)
        feedback_left(qp, packet);
    if (!way->held_n && !qp->ways->listed)
        leave(way);
    return taken;
}

static struct rnic_packet *held_end(struct way *way)
{
    return way->held_n < HELD_MOST ? &way->held[(way->held_first + way->held_n) % HELD_MOST] : NULL;
}

static void hold(struct way *way)
{
    way->held_n++;
    enter(way);
    way->qp->card->changes++;
}

/* To a line that is up what waits for one that went down: the paths that it was to take are no more. */
static void move_held(struct way *from)
{
    struct ways *ways = from->qp->ways;
    const uint32_t here = (uint32_t)(from - ways->way);
    while (from->held_n) {
        const struct rnic_packet *packet = &from->held[from->held_first];
        struct rnic_packet *room = NULL;
        uint32_t to = here;
        for (uint32_t i = 1; i < ways->n && !room; i++) {
            to = (here + i) % ways->n;
            room = ways->way[to].lane->up ? held_end(&ways->way[to]) : NULL;
        }
        if (!room)
            break; /* it waits, or is taken for lost and sent again */
        *room = *packet;
        ways_address(from->qp, ways->way[to].lane, room);
        const uint64_t psn = psn_near(from->qp->una, packet->psn);
        struct work *work = packet->kind == RNIC_READ_REQUEST ? requester_work(from->qp, psn) : NULL;
        uint8_t *path = work ? &work->path : &from->qp->paths[psn & from->qp->paths_mask];
        if (packet->kind != RNIC_RESPONSE && requester_is_missing(from->qp, psn)) {
            *path = (uint8_t)(*path - here + to);
            if (from->qp->told_paths)
                ways_tell(from->qp, work ? work->first_psn + work->packets - 1 : psn, *path);
        }
        hold(&ways->way[to]);
        from->held_first = (from->held_first + 1) % HELD_MOST;
        from->held_n--;
    }
    if (!from->held_n && !ways->listed)
        leave(from);
}

void ways_withdraw(struct rnic *r)
{
    for (uint32_t i = 0; i < r->interfaces && r->interfaces > 1; i++)
        for (uint32_t q = 0; q < RNIC_QUEUES; q++)
            for (struct link *at = r->lanes[i]->ways[q].next; at != &r->lanes[i]->ways[q]; at = at->next) {
                struct way *way = FROM_LINK(at, struct way, ready);
                uint32_t kept = 0;
                for (uint32_t n = 0; n < way->held_n; n++) { /* the peer asks for the others again */
                    const struct rnic_packet *packet = &way->held[(way->held_first + n) % HELD_MOST];
                    if (packet->kind != RNIC_RESPONSE)
                        way->held[(way->held_first + kept++) % HELD_MOST] = *packet;
                }
                way->held_n = kept;
            }
}

/* --- sending ----------------------------------------------------------------------------------- */

static int send_by(struct way *way, struct rnic_packet *packet)
{
    struct qp *qp = way->qp;
    if (way->held_n && take_held(way, packet))
        return 1;
    while (qp->ways->listed) {
        int bound = 0;
        struct way *other = choose(qp, &bound);
        if (!other || (other != way && (!bound || qp->migration)))
            return 0;
        struct rnic_packet *room = other == way ? packet : held_end(other);
        if (!room)
            return 0;
        if (!make(qp, other, bound, room)) {
            qp_update(qp);
            return 0;
        }
        if (other == way)
            return 1;
        hold(other);
    }
    return 0;
}

int ways_from(struct rnic *r, struct lane *lane, uint32_t q, struct rnic_packet *packet)
{
    for (struct link *at = lane->ways[q].next, *next; at != &lane->ways[q]; at = next) {
        struct way *way = FROM_LINK(at, struct way, ready);
        next = at->next;
        if (!send_by(way, packet))
            continue;
        if (linked(&way->ready)) { /* the others' turn */
            list_remove(&way->ready);
            list_append(&lane->ways[q], &way->ready);
        }
        r->changes++;
        return 1;
    }
    return 0;
}

/* --- acknowledgements and CNPs ------------------------------------------------------------------- */

static int ways_is_lost(const struct qp *qp, uint32_t interface)
{
    return qp->planes && qp->planes[interface - qp->config.interface].lost;
}

/* NULL: by none now; the event that lets it send again asks once more. */
static struct lane *answer_by_one(const struct qp *qp, struct link *link, uint8_t *at)
{
    struct lane *lane = migration_lane(qp);
    if (linked(link) && qp->card->lanes[*at] != lane)
        list_remove(link);
    if (lane)
        *at = (uint8_t)(qp->config.interface + qp->migration->current);
    return lane;
}

struct lane *ways_answer(struct qp *qp, struct link *link, uint8_t *at, uint32_t queue)
{
    struct rnic *r = qp->card;
    if (qp->migration)
        return answer_by_one(qp, link, at);
    if (linked(link) && !(r->lanes[*at]->paused >> queue & 1) && !ways_is_lost(qp, *at))
        return r->lanes[*at];
    uint32_t to = qp->came_by;
    for (uint32_t i = 0; i < qp->ways->n && r->lanes[to]->paused >> queue & 1; i++)
        to = qp->config.interface + i;
    if (r->lanes[to]->paused >> queue & 1)
        to = qp->came_by; /* no line may send it now: that one, or any that is up */
    for (uint32_t i = 0; i < qp->ways->n && (!r->lanes[to]->up || ways_is_lost(qp, to)); i++)
        to = qp->config.interface + i;
    if (linked(link) && *at != to)
        list_remove(link);
    *at = (uint8_t)to;
    return r->lanes[to];
}

/* --- links ------------------------------------------------------------------------------------- */

/* What stands to be answered by a line that may not send goes by another that may. */
void ways_answer_elsewhere(struct lane *lane)
{
    for (uint32_t q = 0; q < RNIC_QUEUES; q++)
        for (struct link *at = lane->acks[q].next, *next; at != &lane->acks[q]; at = next) {
            struct qp *qp = FROM_LINK(at, struct qp, ack);
            next = at->next;
            if (qp->spans)
                ack_soon(qp);
        }
    for (struct link *at = lane->cnps.next, *next; at != &lane->cnps; at = next) {
        struct qp *qp = FROM_LINK(at, struct qp, cnp);
        next = at->next;
        if (qp->spans)
            cnp_soon(qp);
    }
}

void rnic_set_busy(rnic *r, uint32_t interface, rnic_time until)
{
    struct lane *lane = r->lanes[interface];
    r->changes += lane->busy_until != until;
    lane->busy_until = until;
}

void rnic_set_link(rnic *r, uint32_t interface, int up)
{
    struct lane *lane = r->lanes[interface];
    if (lane->up == (up != 0))
        return;
    lane->up = up != 0;
    lane_may_send(r, lane);
    planes_link(lane, lane->up);
    migration_links(r);
    for (uint32_t i = 0; i < r->interfaces; i++) { /* what waits for a line that is down, where another is up */
        struct lane *down = r->lanes[i];
        if (down->up)
            continue;
        for (uint32_t q = 0; q < RNIC_QUEUES; q++)
            for (struct link *at = down->ways[q].next, *next; at != &down->ways[q]; at = next) {
                next = at->next;
                move_held(FROM_LINK(at, struct way, ready));
            }
    }
}
