/* Owns the order of events: a 4-ary heap of sources and a binary heap of timers. */
#include "engine.h"

#include <stdlib.h>

static int earlier(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->time < b->time || (a->time == b->time && a->source < b->source);
}

static void rise(struct sim *s, uint32_t at, struct heap_entry entry)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 4;
        if (!earlier(&entry, &s->heap[parent]))
            break;
        s->heap[at] = s->heap[parent];
        s->place[s->heap[at].source] = at;
        at = parent;
    }
    s->heap[at] = entry;
    s->place[entry.source] = at;
}

static void sink(struct sim *s, uint32_t at, struct heap_entry entry)
{
    const uint32_t n = s->heap_n;
    for (;;) {
        uint32_t first = 4 * at + 1;
        if (first >= n)
            break;
        uint32_t end = first + 4 < n ? first + 4 : n, best = first;
        for (uint32_t child = first + 1; child < end; child++)
            if (earlier(&s->heap[child], &s->heap[best]))
                best = child;
        if (!earlier(&s->heap[best], &entry))
            break;
        s->heap[at] = s->heap[best];
        s->place[s->heap[at].source] = at;
        at = best;
    }
    s->heap[at] = entry;
    s->place[entry.source] = at;
}

void order_set(struct sim *s, uint32_t source, ws_time time)
{
    uint32_t at = s->place[source];
    if (at == NONE) {
        if (time == WS_NEVER)
            return;
        s->switch_events_pending += s->sources[source].kind == SOURCE_SWITCH;
        rise(s, s->heap_n++, (struct heap_entry){time, source, 0});
        return;
    }
    ws_time before = s->heap[at].time;
    if (time == WS_NEVER) {
        s->switch_events_pending -= s->sources[source].kind == SOURCE_SWITCH;
        s->place[source] = NONE;
        struct heap_entry last = s->heap[--s->heap_n];
        if (at == s->heap_n)
            return;
        if (at > 0 && earlier(&last, &s->heap[(at - 1) / 4]))
            rise(s, at, last);
        else
            sink(s, at, last);
    } else if (time < before) {
        rise(s, at, (struct heap_entry){time, source, 0});
    } else if (time > before) {
        sink(s, at, (struct heap_entry){time, source, 0});
    }
}

/* Ascending (node, port): a switch's own events, then its arrivals; a host's arrivals, then its departures. */
int order_fix(struct sim *s)
{
    if (s->fixed)
        return SIM_OK;
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].sw ? 1 + s->nodes[i].n_ends : 2 * (uint64_t)s->nodes[i].n_nics;
    s->sources = calloc(n + 1, sizeof *s->sources);
    s->heap = calloc(n + 1, sizeof *s->heap);
    s->place = malloc((n + 1) * sizeof *s->place);
    /* What leads to each end, by node and port. */
    struct lane ***into = calloc(s->n_nodes + 1, sizeof *into);
    if (!s->sources || !s->heap || !s->place || !into)
        return free(into), sim_fail(s, SIM_ENOMEM, "no memory for %llu event sources", (unsigned long long)n);
    int enough = 1;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        uint32_t ports = s->nodes[i].sw ? s->nodes[i].n_ends : s->nodes[i].n_nics;
        into[i] = calloc(ports + 1, sizeof **into);
        enough &= into[i] != NULL;
    }
    for (uint32_t i = 0; enough && i < s->n_links; i++)
        for (int d = 0; d < 2; d++) {
            struct lane *lane = &s->links[i]->lanes[d];
            into[lane->to_node][lane->to_port] = lane;
        }
    uint32_t next = 0;
    for (uint32_t i = 0; enough && i < s->n_nodes; i++) {
        struct node *node = &s->nodes[i];
        if (node->sw) {
            node->source = next;
            s->sources[next++] = (struct source){.node = i, .kind = SOURCE_SWITCH};
        }
        uint32_t ports = node->sw ? node->n_ends : node->n_nics;
        for (uint32_t p = 0; p < ports; p++)
            if (into[i][p]) {
                into[i][p]->source = next;
                s->sources[next++] =
                    (struct source){.object = into[i][p], .node = i, .port = (uint16_t)p, .kind = SOURCE_ARRIVAL};
            }
        for (uint32_t p = 0; p < node->n_nics; p++) {
            node->nics[p].source = next;
            s->sources[next++] = (struct source){.node = i, .port = (uint16_t)p, .kind = SOURCE_NIC};
        }
    }
    for (uint32_t i = 0; i < s->n_nodes; i++)
        free(into[i]);
    free(into);
    if (!enough)
        return sim_fail(s, SIM_ENOMEM, "no memory for the event sources");
    s->n_sources = next;
    for (uint32_t i = 0; i < next; i++)
        s->place[i] = NONE;
    s->fixed = 1;
    return SIM_OK;
}

/* --- timers ------------------------------------------------------------------------------------ */

static int timer_earlier(const struct timer *a, const struct timer *b)
{
    return a->time < b->time || (a->time == b->time && a->sequence < b->sequence);
}

int order_timer(struct sim *s, ws_time time, enum timer_kind kind, uint64_t object, uint32_t part)
{
    if (!room((void **)&s->timers, s->timers_n, &s->timers_capacity, sizeof *s->timers))
        return SIM_ENOMEM;
    struct timer timer = {time, s->timer_sequence++, kind, part, object};
    size_t at = s->timers_n++;
    while (at > 0 && timer_earlier(&timer, &s->timers[(at - 1) / 2])) {
        s->timers[at] = s->timers[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->timers[at] = timer;
    return SIM_OK;
}

struct timer order_pop_timer(struct sim *s)
{
    struct timer top = s->timers[0], last = s->timers[--s->timers_n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->timers_n)
            break;
        if (child + 1 < s->timers_n && timer_earlier(&s->timers[child + 1], &s->timers[child]))
            child++;
        if (!timer_earlier(&s->timers[child], &last))
            break;
        s->timers[at] = s->timers[child];
        at = child;
    }
    if (s->timers_n)
        s->timers[at] = last;
    return top;
}
