/* Owns the tables that find a queue pair: by its own number, which packets for it carry, and by its peer, whom switches'
 * notifications name. Both are open and never more than half full. */
#include <stdlib.h>

#include "card.h"

enum { TABLE_FIRST = 8 };

static uint32_t hash_number(uint32_t qpn) { return qpn * 0x9e3779b1u; }

static uint32_t hash_peer(uint32_t ip, uint32_t qpn)
{
    const uint32_t mixed = (ip * 0x9e3779b1u) ^ (qpn * 0x85ebca6bu);
    return mixed ^ mixed >> 15;
}

static uint32_t hash_qp(const struct qp *qp, int by_peer)
{
    return by_peer ? hash_peer(qp->peer_ip, qp->peer_qpn) : hash_number(qp->config.qpn);
}

static void insert(struct qp **table, uint32_t mask, struct qp *qp, int by_peer)
{
    uint32_t at = hash_qp(qp, by_peer);
    while (table[at & mask])
        at++;
    table[at & mask] = qp;
}

/* `qp` out of a table that may have it. */
static void take_out(struct qp **table, uint32_t mask, const struct qp *qp, int by_peer)
{
    uint32_t at = hash_qp(qp, by_peer);
    while (table[at & mask] && table[at & mask] != qp)
        at++;
    if (!table[at & mask])
        return;
    table[at & mask] = NULL;
    for (at++; table[at & mask]; at++) { /* those behind it may have wanted its place */
        struct qp *other = table[at & mask];
        table[at & mask] = NULL;
        insert(table, mask, other, by_peer);
    }
}

static struct qp **bigger(struct qp **old, uint32_t old_size, uint32_t size, int by_peer)
{
    struct qp **table = calloc(size, sizeof *table);
    for (uint32_t i = 0; table && i < old_size; i++)
        if (old[i])
            insert(table, size - 1, old[i], by_peer);
    return table;
}

int lookup_grow(struct rnic *r)
{
    if (r->numbers && 2 * (r->qps + 1) <= r->table_mask)
        return 1;
    const uint32_t old_size = r->numbers ? r->table_mask + 1 : 0, size = old_size ? 2 * old_size : TABLE_FIRST;
    struct qp **numbers = bigger(r->numbers, old_size, size, 0), **peers = bigger(r->peers, old_size, size, 1);
    if (!numbers || !peers) {
        free(numbers);
        free(peers);
        return 0;
    }
    free(r->numbers);
    free(r->peers);
    r->numbers = numbers;
    r->peers = peers;
    r->table_mask = size - 1;
    return 1;
}

void lookup_add(struct qp *qp) { insert(qp->card->numbers, qp->card->table_mask, qp, 0); }

void lookup_join(struct qp *qp)
{
    struct rnic *r = qp->card;
    struct qp *before = qp_of_peer(r, qp->peer_ip, qp->peer_qpn);
    if (before) /* a peer's queue pair is joined to one of ours: that other one's is gone */
        take_out(r->peers, r->table_mask, before, 1);
    insert(r->peers, r->table_mask, qp, 1);
}

void lookup_remove(struct qp *qp)
{
    struct rnic *r = qp->card;
    take_out(r->numbers, r->table_mask, qp, 0);
    if (qp->state != RNIC_RESET)
        take_out(r->peers, r->table_mask, qp, 1);
}

struct qp *qp_find(const struct rnic *r, uint32_t qpn)
{
    for (uint32_t at = hash_number(qpn); r->numbers; at++) {
        struct qp *qp = r->numbers[at & r->table_mask];
        if (!qp || qp->config.qpn == qpn)
            return qp;
    }
    return NULL;
}

struct qp *qp_of_peer(const struct rnic *r, uint32_t peer_ip, uint32_t peer_qpn)
{
    for (uint32_t at = hash_peer(peer_ip, peer_qpn); r->peers; at++) {
        struct qp *qp = r->peers[at & r->table_mask];
        if (!qp || (qp->peer_ip == peer_ip && qp->peer_qpn == peer_qpn))
            return qp;
    }
    return NULL;
}
