/* Owns the planes of a queue pair that shares its load over several (RNIC_PLANES_SHARED): which of them may be used, how each is
 * found to be lost, what it is asked meanwhile, and when it carries again.
 *
 *   up ----(sent by it, and nothing heard for `silence_ps`)----> asked ----(`misses` probes without answer)----> lost
 *    ^                                                             |                                              |
 *    |------------------(an acknowledgement, an answer)-------------'       (probed each `probe_ps`; answered, and |
 *    |                                                                      its slot's algorithms open it)        |
 *    '------------------------------------------------------------------------------------------------------------'
 *   any ----(its link goes down; a switch says that the peer is not reached there; a time-out)----> lost
 *
 * Hold-down, answers in a row and ramp are its slot's to decide, by the header that the kernel runs, too; here is
 * only what a card alone can know. Planes know nothing of each other but this: what one has lost the others send again.
 */
#include <stdlib.h>
#include <string.h>

#include "card.h"

/* Data leaves 1/128 of a line free: the port in front of a host carries acknowledgements of what that host sends beside the data for it, some 0.3 %
 * of them, and its clock may be slower. Without that room a queue grows there for as long as a host sends at full line. */
enum { ROOM_SHIFT = 7 };

static uint32_t number_of(const struct plane *plane) { return (uint32_t)(plane - plane->way->qp->planes); }
static const struct rnic_plane_config *config_of(const struct plane *plane) { return &plane->way->qp->config.planes; }

/* --- making ------------------------------------------------------------------------------------ */

/* What the algorithms of one plane run with: `cc`, but never faster than its line. */
static struct cc_params within_line(const struct cc_params *cc, const struct lane *lane)
{
    struct cc_params own = *cc;
    const uint64_t line = lane->config.line_rate_bps;
#define CC_ALGORITHM(name)                                                  \
    if (line && own.name.line_rate > line)                                  \
        own.name.line_rate = line;                                          \
    if (own.name.min_rate > own.name.line_rate)                             \
        own.name.min_rate = own.name.line_rate;
#include "cc_algorithms.h"
#undef CC_ALGORITHM
    return own;
}

int planes_add_slots(struct qp *qp, const struct cc_params *cc)
{
    struct rnic_qp_config *config = &qp->config;
    const uint32_t n = config->interfaces;
    qp->planes = calloc(n, sizeof *qp->planes);
    if (!qp->planes)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        struct plane *plane = &qp->planes[i];
        plane->slot = config->plane_slots[i];
        plane->sent = config->plane_sent[i];
        plane->unheard_since = plane->next_probe = RNIC_NEVER;
        plane->stats.heard_at = plane->stats.lost_at = plane->stats.up_at = -1;
        plane->told.interval_ns = config->cnp_interval_ns;
        for (int what = 0; what < SPOKEN_KINDS; what++)
            plane->spoken[what].plane = plane;
        if (plane->slot || !cc || !cc->algorithms)
            continue;
        plane->slot = calloc(1, sizeof *plane->slot);
        if (!plane->slot)
            return 0;
        plane->slot_is_own = 1;
        config->slot_is_ours = 1;
        plane->slot->qpn = config->qpn;
        plane->slot->plane = i;
        const struct cc_params own = within_line(cc, qp->card->lanes[config->interface + i]);
        cc_begin(plane->slot, &own, nanoseconds(qp->card));
    }
    qp->slot = config->slot = qp->planes[0].slot; /* for those who ask what algorithms there are */
    return 1;
}

int planes_begin(struct qp *qp)
{
    qp->sent_at = calloc((size_t)qp->paths_mask + 1, sizeof *qp->sent_at);
    qp->order = calloc((size_t)qp->paths_mask + 1, sizeof *qp->order);
    if (!qp->sent_at || !qp->order)
        return 0;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct plane *plane = &qp->planes[i];
        plane->left_at = calloc(PLANE_TIMES, sizeof *plane->left_at);
        if (!plane->left_at)
            return 0;
        plane->way = &qp->ways->way[i];
        list_append(&plane->way->lane->members, &plane->member);
    }
    if (qp->planes[0].sent)
        qp->told_paths = qp->planes[0].sent->paths;
    return plane_windows_begin(qp);
}

static void say_nothing(struct plane *plane)
{
    for (int what = 0; what < SPOKEN_KINDS; what++)
        if (linked(&plane->spoken[what].link))
            list_remove(&plane->spoken[what].link);
}

void planes_stop(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n; i++)
        say_nothing(&qp->planes[i]);
    qp->moving = 0;
    qp_heap_remove(qp, HEAP_PLANES);
}

void planes_free(struct qp *qp)
{
    for (uint32_t i = 0; qp->planes && i < qp->config.interfaces; i++) {
        struct plane *plane = &qp->planes[i];
        if (linked(&plane->member))
            list_remove(&plane->member);
        if (plane->slot_is_own)
            free(plane->slot);
        free(plane->left_at);
        plane_window_free(plane);
    }
    free(qp->planes);
    free(qp->sent_at);
    free(qp->order);
}

/* --- which may be used ------------------------------------------------------------------------- */

static int is_whole(const struct plane *plane)
{
    const struct lane *lane = plane->way->lane;
    return lane->up && !lane->drained && !plane->lost;
}

/* As far as it can be had: whole and beyond doubt; else in doubt; else drained; if all are lost, one that has answered since. */
static uint32_t usable(const struct qp *qp)
{
    uint32_t sure = 0, whole = 0, drained = 0, answered = 0;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const struct plane *plane = &qp->planes[i];
        const uint32_t up = plane->way->lane->up;
        whole |= (uint32_t)is_whole(plane) << i;
        sure |= (uint32_t)(is_whole(plane) && !plane->doubted) << i;
        drained |= (uint32_t)(up && !plane->lost) << i;
        answered |= (uint32_t)(up && plane->answers) << i;
    }
    return sure ? sure : whole ? whole : drained ? drained : answered;
}

/* Those of `may` whose window is not full. */
static uint32_t with_room(const struct qp *qp, uint32_t may)
{
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (may >> i & 1 && !plane_has_room(&qp->planes[i]))
            may &= ~(1u << i);
    return may;
}

int planes_have_room(const struct qp *qp) { return with_room(qp, usable(qp)) != 0; }

/* What is next has to fit a window: own data, but neither a READ's request nor responses. */
static int has_to_fit(struct qp *qp) { return qp->wants & CC_WINDOW && !qp_answers_next(qp) && requester_sends_data(qp); }

struct way *planes_choose(struct qp *qp, uint64_t psn)
{
    struct ways *ways = qp->ways;
    const uint32_t here = has_to_fit(qp) ? with_room(qp, usable(qp)) : usable(qp), may = planes_quick(qp, here);
    for (uint32_t turn = 1; turn <= ways->n; turn++) {
        const uint32_t i = (ways->last + turn) % ways->n;
        struct way *way = &ways->way[i];
        if (!(may >> i & 1) || way->lane->paused >> qp->config.queue & 1 || way->lane->busy_until > qp->card->now ||
            qp->planes[i].allowed > qp->card->now)
            continue;
        const uint32_t ports = qp->config.udp_ports > 1 ? qp->config.udp_ports : 1;
        qp->path = (uint8_t)(psn % ports * ways->n + i);
        return way;
    }
    return NULL;
}

/* When one of the planes may have a packet by its rate and its window: the next time that is not past, RNIC_NEVER: none. `*now`: one may already. */
rnic_time planes_allow(struct qp *qp, int *now)
{
    rnic_time next = RNIC_NEVER;
    const uint32_t may = usable(qp), room = has_to_fit(qp) ? with_room(qp, may) : may;
    *now = 0;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        rnic_time allowed = qp->planes[i].allowed;
        if (!(may >> i & 1))
            continue;
        if (!(room >> i & 1)) {
            const rnic_time opens = plane_window_opens(&qp->planes[i]);
            allowed = opens > allowed ? opens : allowed;
        }
        if (allowed <= qp->card->now)
            *now = 1;
        else if (allowed < next)
            next = allowed;
    }
    return next;
}

void planes_have_been_idle(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (qp->planes[i].allowed < qp->card->now)
            qp->planes[i].allowed = qp->card->now;
}

uint64_t planes_rate(const struct plane *plane)
{
    const struct qp *qp = plane->way->qp;
    const uint64_t line = plane->way->lane->config.line_rate_bps;
    if (!plane->slot || plane->lost) /* all are, if this one is used: what it may carry later is no limit now */
        return 0;
    const uint64_t rate = qp->config.slot_is_ours ? cc_elapse(plane->slot, nanoseconds(qp->card))
                                                  : cc_rate_at(plane->slot, nanoseconds(qp->card));
    const uint64_t most = line - (line >> ROOM_SHIFT);
    return line && rate >= most ? most : rate;
}

/* --- timers ------------------------------------------------------------------------------------ */

/* How long silence may last: what was configured, and on long paths what a round trip takes on top. */
static rnic_time patience(const struct plane *plane) { return planes_patience(plane->way->qp); }

static rnic_time due_at(const struct plane *plane)
{
    if (plane->lost || plane->asked)
        return plane->next_probe;
    return plane->unheard_since == RNIC_NEVER ? RNIC_NEVER : plane->unheard_since + patience(plane);
}

static void watch(struct qp *qp)
{
    rnic_time next = RNIC_NEVER;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const rnic_time due = due_at(&qp->planes[i]), full = plane_window_due(&qp->planes[i]);
        if (due < next)
            next = due;
        if (full < next)
            next = full;
    }
    if (next != RNIC_NEVER)
        planes_set(qp, next);
}

/* --- probes ------------------------------------------------------------------------------------ */

static void speak(struct plane *plane, enum spoken_what what, uint32_t queue)
{
    struct lane *lane = plane->way->lane;
    struct link *link = &plane->spoken[what].link;
    if (linked(link))
        return;
    list_append(&lane->spoken[queue], link);
    lane->waiting |= 1u << queue;
    plane->way->qp->card->changes++;
}

void plane_probe(struct plane *plane) { speak(plane, SPOKEN_PROBE, plane->way->qp->config.queue); }

/* What it waits for once more, or for the first time. */
static void ask(struct plane *plane)
{
    struct qp *qp = plane->way->qp;
    plane->asked = 1;
    plane->next_probe = qp->card->now + patience(plane);
    plane_probe(plane);
}

/* What went by it and is missing at the peer may still be on the way, but has been for long: a probe by the same plane comes behind it, and its
 * answer tells (planes_passed). Nothing new goes by a plane that has not been heard for as long, until then. */
void planes_doubt(struct qp *qp, uint64_t psn)
{
    struct plane *plane = &qp->planes[qp->paths[psn & qp->paths_mask] % qp->ways->n];
    const rnic_time now = qp->card->now, trip = plane->trip > qp->trip ? plane->trip : qp->trip;
    const rnic_time most = plane->trip ? 2 * trip : patience(plane);
    if (plane->lost || now - qp->sent_at[psn & qp->paths_mask] <= most || planes_passed(qp, psn))
        return;
    if (plane->unheard_since != RNIC_NEVER && now - (plane->stats.heard_at < 0 ? 0 : plane->stats.heard_at) > most)
        plane->doubted = 1;
    const uint32_t order = qp->order[psn & qp->paths_mask];
    const int probed = (int32_t)(plane->probed_n - order) >= 0 && now - plane->probed_at <= most;
    if (!plane->asked && !probed)
        ask(plane);
    watch(qp);
}

static void probe_write(struct plane *plane, struct rnic_packet *packet, uint32_t opcode)
{
    struct qp *qp = plane->way->qp;
    uint8_t *at = packet_begin(qp, packet, opcode, 0, PROBE_BODY, NULL, 0);
    packet->kind = RNIC_PROBE;
    if (opcode == OP_PROBE) {
        bytes_put64(at, nanoseconds(qp->card));
        bytes_put32(at + 8, ++plane->probe_number);
        bytes_put32(at + 12, 0);
        plane->stats.probes_sent++;
        plane_probes(plane);
    } else {
        memcpy(at, plane->answer_body, PROBE_BODY);
        packet->queue = ack_queue(qp);
        packet->header[ETHERNET + 1] = (uint8_t)((qp->config.ack_apart ? qp->config.ack_dscp : qp->config.dscp) << 2);
    }
    ways_address(qp, plane->way->lane, packet);
}

int planes_from(struct lane *lane, uint32_t q, struct rnic_packet *packet)
{
    struct link *link = lane->spoken[q].next;
    if (link == &lane->spoken[q])
        return 0;
    list_remove(link);
    const struct spoken *spoken = FROM_LINK(link, struct spoken, link);
    struct plane *plane = spoken->plane;
    if (!plane) {
        migration_say(lane, FROM_LINK(link, struct voice, spoken.link), packet);
    } else if (spoken == &plane->spoken[SPOKEN_CNP]) {
        packet_cnp(plane->way->qp, packet);
        ways_address(plane->way->qp, lane, packet);
        plane->way->qp->stats.cnps_sent++;
    } else {
        probe_write(plane, packet, spoken == &plane->spoken[SPOKEN_PROBE] ? OP_PROBE : OP_PROBE_ANSWER);
    }
    return 1;
}

/* --- losing and finding ------------------------------------------------------------------------ */

static void lose(struct plane *plane, enum rnic_plane_loss why)
{
    struct qp *qp = plane->way->qp;
    struct rnic *r = qp->card;
    const uint32_t i = number_of(plane);
    if (qp->state != RNIC_READY || (plane->lost && !plane->answers))
        return; /* the same loss, reported once more */
    plane->lost_ns = nanoseconds(r);
    if (plane->sent)
        __atomic_store_n(&plane->sent->lost_at, plane->lost_ns, __ATOMIC_RELEASE);
    plane->answers = 0;
    plane->next_probe = r->now;
    if (!plane->lost) {
        plane->lost = 1;
        plane->asked = plane->missed = plane->doubted = 0;
        plane->unheard_since = RNIC_NEVER;
        plane->stats.why = why;
        plane->stats.losses++;
        plane->stats.lost_at = r->now;
        plane->stats.up_at = -1;
        plane->lost_n = plane->sent_n - plane->come_n;
        plane->least_trip = plane->trip = plane->spread = 0;
        requester_move(qp, i);
    }
    if (linked(&qp->ack))
        ack_soon(qp);
    r->changes++;
    watch(qp);
    qp_update(qp);
}

static int may_return(const struct plane *plane)
{
    const struct qp *qp = plane->way->qp;
    const struct cc_choice choice = {.interfaces = 1, .usable = 1, .ports = 1};
    if (!plane->slot)
        return 1;
    return __atomic_load_n(&plane->slot->lost_at, __ATOMIC_ACQUIRE) >= plane->lost_ns &&
           cc_path_at(plane->slot, &choice, nanoseconds(qp->card)) != CC_SHUT;
}

static void find(struct plane *plane)
{
    struct qp *qp = plane->way->qp;
    plane->lost = plane->answers = 0;
    plane_window_begin_anew(plane);
    plane->next_probe = plane->unheard_since = RNIC_NEVER;
    plane->stats.up_at = qp->card->now;
    if (plane->allowed < qp->card->now)
        plane->allowed = qp->card->now;
    qp->card->changes++;
}

/* Both directions of it work: an acknowledgement says so, which goes back as came what it is for, and surely an answer does. Data of the
 * peer's says nothing of the way there. */
static void hear(struct plane *plane, rnic_time unheard_since)
{
    plane->stats.heard_at = plane->way->qp->card->now;
    plane->unheard_since = unheard_since;
    if (!plane->asked || plane->lost)
        return;
    plane->asked = plane->missed = plane->doubted = 0;
    plane->next_probe = RNIC_NEVER;
    plane->way->qp->card->changes++;
}

void planes_heard(struct qp *qp, uint32_t interface)
{
    struct plane *plane = &qp->planes[interface - qp->config.interface];
    if (plane->doubted)
        return;
    /* What was sent last may not be what this one is for; but where nothing was since the plane was last heard, that is waited for from now on. */
    const int all = qp->una == qp->next;
    const rnic_time since = plane->sent_last > plane->stats.heard_at ? plane->sent_last : qp->card->now;
    hear(plane, all || plane->lost ? RNIC_NEVER : since);
    if (!all)
        watch(qp);
}

void planes_probed(struct qp *qp, const struct inbound *in)
{
    struct plane *plane = &qp->planes[qp->came_by - qp->config.interface];
    if (qp->state == RNIC_READY) { /* first what has come so far: the sender takes for lost what the answer then passes */
        if (linked(&qp->ack))
            list_remove(&qp->ack);
        qp->ack_wanted = 1;
        ack_soon(qp);
    }
    memcpy(plane->answer_body, in->payload, PROBE_BODY);
    bytes_put32(plane->answer_body + 12, plane->came);
    speak(plane, SPOKEN_ANSWER, ack_queue(qp));
}

void planes_answered(struct qp *qp, const struct inbound *in)
{
    struct plane *plane = &qp->planes[qp->came_by - qp->config.interface];
    const uint64_t now = nanoseconds(qp->card), sent = bytes_get64(in->payload);
    struct cc_slot *slot = plane->slot;
    plane->stats.probes_answered++;
    if (bytes_get32(in->payload + 8) == plane->probe_number)
        plane_count_anew(plane, bytes_get32(in->payload + 12));
    hear(plane, qp->una < qp->sent && plane_on_the_way(plane) ? qp->card->now : RNIC_NEVER);
    if (plane->answers < UINT8_MAX)
        plane->answers++;
    if (slot && qp->config.slot_is_ours) {
        const struct cc_event event = {
            .kind = CC_PROBED,
            .number = bytes_get32(in->payload + 8),
            .rtt_ns = sent < now ? now - sent : 0,
            .lost_at = plane->lost_ns,
        };
        slot->probes++;
        slot->lost_at = plane->lost_ns;
        cc_on_event(slot, &event, NULL, now);
    }
    if (plane->lost && may_return(plane))
        find(plane);
    /* A READ's request says nothing here: its responses may still be on the way. */
    if (qp->una < qp->sent && qp->sent_at[qp->una & qp->paths_mask] && planes_passed(qp, qp->una))
        requester_look_again(qp, qp->una + 1);
    watch(qp);
}

/* A silent plane is asked, one that does not answer is lost, and one that is lost is asked for ever. */
static void tick(struct plane *plane)
{
    struct qp *qp = plane->way->qp;
    if (plane->lost) {
        plane_probe(plane);
        plane->next_probe = qp->card->now + config_of(plane)->probe_ps;
    } else if (!plane->asked && plane->way->lane->drained && !plane_on_the_way(plane)) {
        plane->unheard_since = RNIC_NEVER; /* nothing is to be heard by it */
    } else if (!plane->asked) {
        ask(plane);
    } else if (++plane->missed >= config_of(plane)->misses) {
        lose(plane, RNIC_LOSS_SILENT);
    } else {
        ask(plane);
    }
}

void planes_due(struct qp *qp)
{
    if (qp->state != RNIC_READY)
        return;
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (due_at(&qp->planes[i]) <= qp->card->now)
            tick(&qp->planes[i]);
        else if (plane_window_due(&qp->planes[i]) <= qp->card->now)
            plane_window_probe(&qp->planes[i]);
    watch(qp);
}

void planes_timed_out(struct qp *qp)
{
    planes_none_out(qp);
    struct plane *plane = &qp->planes[qp->paths[qp->una & qp->paths_mask] % qp->ways->n];
    const uint32_t others = usable(qp) & ~(1u << number_of(plane));
    if (!plane->lost && others)
        lose(plane, RNIC_LOSS_TIMEOUT);
}

/* --- packets ----------------------------------------------------------------------------------- */

void planes_sent(struct qp *qp, uint32_t i, const struct rnic_packet *packet, rnic_time takes)
{
    struct plane *plane = &qp->planes[i];
    const rnic_time now = qp->card->now, slack = qp->card->config.pace_slack_ps;
    if (plane->allowed < now - slack)
        plane->allowed = now - slack;
    plane->allowed = takes ? plane->allowed + takes : now;
    plane->stats.sent_packets += packet->kind != RNIC_READ_REQUEST;
    plane->stats.sent_bytes += packet->payload_length;
    plane->sent_last = now;
    if (plane->unheard_since != RNIC_NEVER || plane->lost)
        return;
    plane->unheard_since = now;
    if (!plane->asked)
        planes_set(qp, now + patience(plane));
}

void planes_expect(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct plane *plane = &qp->planes[i];
        if (!plane->lost && plane->unheard_since == RNIC_NEVER)
            plane->unheard_since = qp->card->now;
    }
    watch(qp);
}

/* The other end may find it out as much later as this takes, and sends READ responses into the void until then. */
int planes_settle(const struct qp *qp)
{
    const rnic_time takes = ((rnic_time)qp->config.planes.misses + 4) * planes_patience(qp);
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (qp->planes[i].lost && qp->card->now - qp->planes[i].stats.lost_at <= takes)
            return 1;
    return 0;
}

rnic_time planes_patience(const struct qp *qp) { return qp->config.planes.silence_ps + 2 * qp->trip; }

/* How long ago the newest of what is acknowledged was sent, smoothed: it sets what counts as silence and as missing. What has waited at the
 * peer for something that was missing before it proves nothing. */
void planes_progress(struct qp *qp, uint64_t before)
{
    const uint64_t last = qp->una - 1;
    if (qp->una == qp->sent)
        planes_none_out(qp);
    const rnic_time sent = qp->sent_at[last & qp->paths_mask];
    if (sent && qp->una - before <= 2 * (uint64_t)qp->config.ack_every && qp->lost_below <= before && !qp->moving) {
        const rnic_time trip = qp->card->now - sent;
        qp->trip = qp->trip ? qp->trip + (trip - qp->trip) / 8 : trip;
    }
}

/* Acknowledged bytes to the planes that carried them. Where these have windows they hear of each packet by itself. */
void planes_acked(struct qp *qp, uint64_t before)
{
    if (qp->planes[0].window)
        return;
    uint64_t bytes[RNIC_INTERFACES] = {0};
    const uint64_t most = (uint64_t)qp->paths_mask + 1, first = qp->una - before > most ? qp->una - most : before;
    for (uint64_t psn = first; psn < qp->una; psn++)
        bytes[qp->paths[psn & qp->paths_mask] % qp->ways->n] += qp->config.mtu;
    for (uint32_t i = 0; i < qp->ways->n; i++)
        if (bytes[i] && qp->planes[i].slot)
            cc_on_event(qp->planes[i].slot, &(struct cc_event){.kind = CC_ACKED, .path = (uint8_t)i, .bytes = bytes[i]}, NULL,
                        nanoseconds(qp->card));
}

static int is_middle(uint32_t opcode)
{
    return opcode <= OP_SEND_MIDDLE || opcode == OP_WRITE_FIRST || opcode == OP_WRITE_MIDDLE;
}

void planes_mark(struct qp *qp, const struct inbound *in)
{
    struct plane *plane = &qp->planes[qp->came_by - qp->config.interface];
    if (in->opcode <= OP_WRITE_ONLY_IMM) {
        plane->came++;
        plane->untold++;
        plane->owes |= in->ack_request && is_middle(in->opcode);
        if ((plane->untold >= qp->config.ack_every || in->ack_request) && qp->state == RNIC_READY) { /* also of what comes before its turn */
            qp->ack_wanted = 1;
            ack_soon(qp);
        }
    }
    if (qp->config.cnp_interval_ns != UINT64_MAX && cnp_due(&plane->told, in->marked, nanoseconds(qp->card)))
        speak(plane, SPOKEN_CNP, qp->card->config.cnp_queue);
}

/* --- links, switches, maintenance -------------------------------------------------------------- */

void planes_link(struct lane *lane, int up)
{
    for (struct link *at = lane->members.next; at != &lane->members; at = at->next) {
        struct plane *plane = FROM_LINK(at, struct plane, member);
        if (!up) {
            lose(plane, RNIC_LOSS_LINK);
        } else if (plane->lost) {
            plane->next_probe = plane->way->qp->card->now;
            watch(plane->way->qp);
        }
    }
}

void planes_told(struct lane *lane, uint32_t peer_ip)
{
    for (struct link *at = lane->members.next; at != &lane->members; at = at->next) {
        struct plane *plane = FROM_LINK(at, struct plane, member);
        if (plane->way->peer_ip == peer_ip)
            lose(plane, RNIC_LOSS_TOLD);
    }
}

void rnic_drain(rnic *r, uint32_t interface, int on)
{
    struct lane *lane = interface < r->interfaces ? r->lanes[interface] : NULL;
    if (!lane || lane->drained == (on != 0))
        return;
    lane->drained = on != 0;
    r->changes++;
    for (struct link *at = lane->members.next; at != &lane->members; at = at->next)
        qp_update(FROM_LINK(at, struct plane, member)->way->qp);
    migration_links(r);
}

uint64_t planes_rates(const struct qp *qp)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const struct plane *plane = &qp->planes[i];
        const uint64_t line = plane->way->lane->config.line_rate_bps, rate = plane->slot ? cc_rate_at(plane->slot, nanoseconds(qp->card)) : 0;
        if (!rate && !line)
            return 0;
        all += rate && (!line || rate < line) ? rate : line;
    }
    return all;
}

static const struct plane *plane_by(const struct qp *qp, uint32_t interface)
{
    if (!qp || !qp->planes || interface < qp->config.interface || interface - qp->config.interface >= qp->ways->n)
        return NULL;
    return &qp->planes[interface - qp->config.interface];
}

const struct cc_slot *rnic_plane_slot(const rnic *r, uint32_t qpn, uint32_t interface)
{
    const struct plane *plane = plane_by(qp_find(r, qpn), interface);
    return plane ? plane->slot : NULL;
}

int rnic_plane_stats_get(rnic *r, uint32_t qpn, uint32_t interface, rnic_time now, struct rnic_plane_stats *stats)
{
    const struct qp *qp = qp_find(r, qpn);
    const struct plane *plane = plane_by(qp, interface);
    if (!plane)
        return card_fail(r, RNIC_ENOENT, "queue pair %u has no plane by interface %u", qpn, interface);
    if (now > r->now)
        r->now = now;
    *stats = plane->stats;
    stats->state = plane->lost                 ? RNIC_PLANE_LOST
                   : plane->way->lane->drained ? RNIC_PLANE_DRAINED
                   : plane->asked              ? RNIC_PLANE_ASKED
                                               : RNIC_PLANE_UP;
    stats->outstanding = rnic_outstanding_by(r, qpn, interface, NULL, 0);
    const uint64_t rate = plane->slot ? cc_rate_at(plane->slot, nanoseconds(r)) : 0, line = plane->way->lane->config.line_rate_bps;
    stats->rate_bps = line && rate >= line ? 0 : rate;
    stats->window_bytes = qp->wants & CC_WINDOW ? cc_window_at(plane->slot, nanoseconds(r)) : 0;
    stats->flight_bytes = plane_flight(plane);
    return RNIC_OK;
}
