/* Owns what a receiver learns of the path by which a queue pair's packets come: each hop's queue and time, of the last packet and in sums.
 *
 * Only of whole packets: in virtual time the simulator keeps samples of the frames themselves. A row belongs to a hop in its place on the
 * path; when another one stands there, it starts again.
 */
#include <stdlib.h>

#include "card.h"
#include "path_telemetry.h"

_Static_assert((int)RNIC_HOPS == (int)PATH_HOPS_MOST && (int)RNIC_HOP_WRAPS == (int)PATH_WRAPS, "as records have it");

/* A difference of two times, from -PATH_WRAPS / 2 to below PATH_WRAPS / 2. */
static int64_t either_way(uint32_t now, uint32_t then)
{
    const uint32_t since = path_since(now, then);
    return since < PATH_WRAPS / 2 ? (int64_t)since : (int64_t)since - PATH_WRAPS;
}

/* 1: another hop stands there than before. */
static int take_row(struct rnic_hop *row, const struct path_hop *hop, uint32_t since_ns)
{
    const int is_new = row->hop != hop->hop;
    if (is_new)
        *row = (struct rnic_hop){.hop = hop->hop, .since_first_ns = since_ns};
    row->rate_bps = hop->rate;
    row->queue_bytes = hop->queue * PATH_QUEUE_BYTES;
    row->since_ns = since_ns;
    row->packets++;
    row->queue_sum += row->queue_bytes;
    row->since_sum_ns += (int64_t)row->since_first_ns + either_way(since_ns, row->since_first_ns);
    return is_new;
}

void path_seen_take(struct qp *qp)
{
    const struct cc_telemetry *records = qp->collected;
    const uint32_t n = path_hops(records);
    if (!n || (!qp->path_seen && !(qp->path_seen = calloc(1, sizeof *qp->path_seen))))
        return;
    struct rnic_path *path = qp->path_seen;
    int changed = path->hops != n;
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct path_hop hop;
        path_hop_read(records, n - 1 - i, &hop);
        changed |= take_row(&path->rows[i], &hop, i ? path_since(hop.at, before) : 0);
        before = hop.at;
    }
    path->changes += changed && path->packets;
    path->hops = n;
    path->written = records->hops;
    path->packets++;
    path->at = qp->card->now;
}

int rnic_path_get(const rnic *r, uint32_t qpn, struct rnic_path *path)
{
    const struct qp *qp = qp_find(r, qpn);
    if (!qp || !qp->path_seen)
        return RNIC_ENOENT;
    *path = *qp->path_seen;
    return RNIC_OK;
}
