/* Owns the tables that find a queue pair: by its own number, which packets for it carry, and by its peer, whom switches'
 * notifications name. Both are open and never more than half full.
 *
 * A peer of several interfaces is there once by each of its addresses: a place of that table is a queue pair's address in
 * memory with the number of the way in its lowest bits, which are 0 otherwise.
 */
#include <stdlib.h>

#include "card.h"

enum { TABLE_FIRST = 8 };
static const uintptr_t WAY_MASK = RNIC_INTERFACES - 1;

static struct qp *qp_at(uintptr_t place) { return (struct qp *)(place & ~WAY_MASK); }
static uint32_t ip_at(uintptr_t place)
{
    const uint32_t way = (uint32_t)(place & WAY_MASK);
    return way ? qp_at(place)->ways->way[way].peer_ip : qp_at(place)->peer_ip;
}
static uint32_t addresses_of(const struct qp *qp) { return qp->spans ? qp->ways->n : 1; }

static uint32_t hash_number(uint32_t qpn) { return qpn * 0x9e3779b1u; }

static uint32_t hash_peer(uint32_t ip, uint32_t qpn)
{
    const uint32_t mixed = (ip * 0x9e3779b1u) ^ (qpn * 0x85ebca6bu);
    return mixed ^ mixed >> 15;
}

static uint32_t hash_place(uintptr_t place, int by_peer)
{
    const struct qp *qp = qp_at(place);
    return by_peer ? hash_peer(ip_at(place), qp->peer_qpn) : hash_number(qp->config.qpn);
}

static void insert(uintptr_t *table, uint32_t mask, uintptr_t place, int by_peer)
{
    uint32_t at = hash_place(place, by_peer);
    while (table[at & mask])
        at++;
    table[at & mask] = place;
}

/* `place` out of a table that may have it. */
static void take_out(uintptr_t *table, uint32_t mask, uintptr_t place, int by_peer)
{
    uint32_t at = hash_place(place, by_peer);
    while (table[at & mask] && table[at & mask] != place)
        at++;
    if (!table[at & mask])
        return;
    table[at & mask] = 0;
    for (at++; table[at & mask]; at++) { /* those behind it may have wanted its place */
        const uintptr_t other = table[at & mask];
        table[at & mask] = 0;
        insert(table, mask, other, by_peer);
    }
}

static uintptr_t *bigger(const uintptr_t *old, uint32_t old_size, uint32_t size, int by_peer)
{
    uintptr_t *table = calloc(size, sizeof *table);
    for (uint32_t i = 0; table && i < old_size; i++)
        if (old[i])
            insert(table, size - 1, old[i], by_peer);
    return table;
}

int lookup_grow(struct rnic *r, uint32_t more)
{
    const uint64_t wanted = 2 * ((uint64_t)r->qps + r->more_peers + more);
    if (r->numbers && wanted <= r->table_mask)
        return 1;
    const uint32_t old_size = r->numbers ? r->table_mask + 1 : 0;
    uint32_t size = old_size ? 2 * old_size : TABLE_FIRST;
    while (wanted > size - 1)
        size *= 2;
    uintptr_t *numbers = bigger(r->numbers, old_size, size, 0), *peers = bigger(r->peers, old_size, size, 1);
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

void lookup_add(struct qp *qp) { insert(qp->card->numbers, qp->card->table_mask, (uintptr_t)qp, 0); }

static uintptr_t place_of_peer(const struct rnic *r, uint32_t peer_ip, uint32_t peer_qpn)
{
    for (uint32_t at = hash_peer(peer_ip, peer_qpn); r->peers; at++) {
        const uintptr_t place = r->peers[at & r->table_mask];
        if (!place || (qp_at(place)->peer_qpn == peer_qpn && ip_at(place) == peer_ip))
            return place;
    }
    return 0;
}

void lookup_join(struct qp *qp)
{
    struct rnic *r = qp->card;
    for (uint32_t i = 0; i < addresses_of(qp); i++) {
        const uintptr_t place = (uintptr_t)qp | i;
        const uintptr_t before = place_of_peer(r, ip_at(place), qp->peer_qpn);
        if (before) /* a peer's queue pair is joined to one of ours: that other one's is gone */
            take_out(r->peers, r->table_mask, before, 1);
        insert(r->peers, r->table_mask, place, 1);
    }
}

void lookup_remove(struct qp *qp)
{
    struct rnic *r = qp->card;
    take_out(r->numbers, r->table_mask, (uintptr_t)qp, 0);
    for (uint32_t i = 0; qp->state != RNIC_RESET && i < addresses_of(qp); i++)
        take_out(r->peers, r->table_mask, (uintptr_t)qp | i, 1);
}

struct qp *qp_find(const struct rnic *r, uint32_t qpn)
{
    for (uint32_t at = hash_number(qpn); r->numbers; at++) {
        struct qp *qp = (struct qp *)r->numbers[at & r->table_mask];
        if (!qp || qp->config.qpn == qpn)
            return qp;
    }
    return NULL;
}

struct qp *qp_of_peer(const struct rnic *r, uint32_t peer_ip, uint32_t peer_qpn)
{
    return qp_at(place_of_peer(r, peer_ip, peer_qpn));
}
