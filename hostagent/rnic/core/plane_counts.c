/* Owns what is known of how many packets of a queue pair's own have come by each of its planes (RNIC_PLANES_SHARED): the receiver counts and
 * says it with each acknowledgement, so that the sender knows how many are on the way by a plane, how many of these can only be waiting, and
 * which can't come any more.
 *
 * A plane's packets are numbered as they leave by it (`order`), and it delivers them in that order: with `come` there and `lost` known to be
 * lost, the first `come + lost` of them are settled. What a probe's answer says is exact, and corrects the count.
 */
#include "card.h"

enum { AGAIN_ASK = 16, SPREAD_MOST = 4 };

static struct plane *plane_of(const struct qp *qp, uint64_t psn) { return &qp->planes[qp->paths[psn & qp->paths_mask] % qp->ways->n]; }

/* --- as sender --------------------------------------------------------------------------------- */

uint32_t plane_on_the_way(const struct plane *plane)
{
    const int32_t n = (int32_t)(plane->sent_n - plane->lost_n - plane->come_n);
    return n > 0 ? (uint32_t)n : 0;
}

/* How many of these can only be waiting somewhere: more than its line sends in its shortest round trip. None before that is known. */
static uint32_t waiting(const struct plane *plane)
{
    const uint64_t line = plane->way->lane->config.line_rate_bps;
    const uint64_t bits = 8 * (uint64_t)plane->way->qp->config.mtu;
    const uint64_t trip = (uint64_t)plane->least_trip * line / 1000 / 1000000000 / bits, out = plane_on_the_way(plane);
    return trip && out > trip ? (uint32_t)(out - trip) : 0;
}

void planes_none_out(struct qp *qp)
{
    for (uint32_t i = 0; i < qp->ways->n; i++)
        qp->planes[i].lost_n = qp->planes[i].sent_n - qp->planes[i].come_n;
}

/* Those of `may` that are given another packet: one on whose way much more waits than on that of others is slow, and holds up what
 * these deliver behind it. Of what came as many may be unreported as an acknowledgement is for, and as many again are ready there. */
uint32_t planes_quick(const struct qp *qp, uint32_t may)
{
    const uint64_t more = 2 * (uint64_t)qp->config.ack_every;
    uint32_t least = UINT32_MAX, found = 0;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        const uint32_t here = may >> i & 1 ? waiting(&qp->planes[i]) : UINT32_MAX;
        least = here < least ? here : least;
    }
    for (uint32_t i = 0; i < qp->ways->n; i++)
        found |= (uint32_t)(may >> i & 1 && waiting(&qp->planes[i]) <= 2 * (uint64_t)least + more) << i;
    return found;
}

void planes_hear_come(struct qp *qp, const uint8_t *at)
{
    if ((at[0] & (PLANE_ECHO_FLAG - 1u)) != qp->ways->n)
        return;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct plane *plane = &qp->planes[i];
        const uint32_t come = bytes_get32(at + PLANE_ECHO + i * PLANE_ECHO_EACH), behind = come + plane->lost_n;
        if ((int32_t)(come - plane->come_n) <= 0)
            continue;
        plane->come_n = come;
        if ((int32_t)(behind - plane->sent_n) > 0) { /* nothing can be behind zero on the way: not all was lost that counted as that */
            plane->lost_n = plane->sent_n - come;
            continue;
        }
        if (plane->lost || plane->sent_n - behind >= PLANE_TIMES)
            continue;
        plane->trip = qp->card->now - plane->left_at[behind % PLANE_TIMES];
        if (!plane->least_trip || plane->trip < plane->least_trip)
            plane->least_trip = plane->trip;
    }
}

void plane_probes(struct plane *plane)
{
    plane->probed_n = plane->sent_n;
    plane->probed_lost = plane->lost_n;
    plane->probed_at = plane->way->qp->card->now;
}

/* A probe was answered, and `come` packets had come before it: what else had been sent is lost. Where fewer are than counted as that, the rest
 * was repeated in vain, for packets of this plane overtake each other: from now on they are waited for longer. */
void plane_count_anew(struct plane *plane, uint32_t come)
{
    const uint32_t lost = plane->probed_n - come;
    plane->answered_n = plane->probed_n;
    if ((int32_t)lost < 0 || (int32_t)(plane->probed_lost - lost) <= 0)
        return;
    plane->lost_n -= plane->probed_lost - lost;
    plane->probed_lost = lost;
    const rnic_time trip = plane->trip > plane->way->qp->trip ? plane->trip : plane->way->qp->trip;
    if (!plane->lost && plane->spread < SPREAD_MOST * trip)
        plane->spread = plane->spread ? 2 * plane->spread : trip / 4;
}

/* As many behind it by its plane as came or are known to be lost, or the answer to a later probe: packets of a plane do not overtake each
 * other, or only by its spread. */
int planes_passed(const struct qp *qp, uint64_t psn)
{
    const struct plane *plane = plane_of(qp, psn);
    const uint32_t order = qp->order[psn & qp->paths_mask];
    if ((int32_t)(plane->come_n + plane->lost_n - order) < 0 && (int32_t)(plane->answered_n - order) < 0)
        return 0;
    return !plane->spread || qp->card->now - qp->sent_at[psn & qp->paths_mask] > plane->trip + plane->spread;
}

/* It is going to be sent again. Now and then a probe shows how many are really lost. */
void planes_again(struct qp *qp, uint64_t psn)
{
    struct plane *plane = plane_of(qp, psn);
    if (plane_on_the_way(plane))
        plane->lost_n++;
    plane->again = (plane->again + 1) % AGAIN_ASK;
    if (!plane->again && !plane->lost && !plane->asked && qp->card->now - plane->probed_at > 2 * qp->trip)
        plane_probe(plane);
}

/* --- as receiver ------------------------------------------------------------------------------- */

uint32_t planes_come_bytes(const struct qp *qp) { return PLANE_ECHO + qp->ways->n * PLANE_ECHO_EACH; }

void planes_say_come(const struct qp *qp, uint8_t *at)
{
    bytes_put32(at, (uint32_t)(PLANE_ECHO_FLAG | qp->ways->n) << 24);
    for (uint32_t i = 0; i < qp->ways->n; i++)
        bytes_put32(at + PLANE_ECHO + i * PLANE_ECHO_EACH, qp->planes[i].came);
}

void planes_acknowledging(struct qp *qp, const struct lane *lane)
{
    struct plane *owing = NULL;
    for (uint32_t i = 0; i < qp->ways->n; i++) {
        struct plane *plane = &qp->planes[i];
        if (plane->way->lane == lane)
            plane->untold = plane->owes = 0;
        else if (plane->owes && !plane->lost)
            owing = plane;
    }
    if (!owing)
        return;
    /* Two planes asked at once, and one acknowledgement left: the other plane's congestion control waits for one by its own way. */
    owing->owes = 0;
    qp->came_by = (uint8_t)(qp->config.interface + (uint32_t)(owing - qp->planes));
    qp->ack_wanted = 1;
    ack_soon(qp);
}
