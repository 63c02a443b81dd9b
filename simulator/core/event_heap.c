/* Owns the order of what hosts do by themselves, a 4-ary heap of sources and a binary heap of timers, and the numbering. */
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
        rise(s, s->heap_n++, (struct heap_entry){time, source, 0});
        return;
    }
    ws_time before = s->heap[at].time;
    if (time == WS_NEVER) {
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

/* --- numbering ----------------------------------------------------------------------------------- */

struct lane **lanes_into(struct sim *s, uint32_t number, uint32_t ports)
{
    struct lane **into = calloc(ports + 1, sizeof(struct lane *));
    for (uint32_t p = 0; into && p < ports; p++) {
        const struct lane *out = s->nodes[number].ops->end(s, number, p, 0)->out;
        into[p] = out ? &s->links[out->link]->lanes[!out->direction] : NULL;
    }
    return into;
}

/* Sources in the order of (node, port). */
int order_fix(struct sim *s)
{
    if (s->halted)
        return s->short_of ? sim_short(s, s->short_of) : SIM_EINVAL;
    if (s->fixed)
        return SIM_OK;
    size_t sources = 0, switches = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        sources += 2 * (size_t)s->nodes[i].n_nics;
        switches += s->nodes[i].ops->run != NULL;
    }
    s->sources = calloc(sources + 1, sizeof *s->sources);
    s->heap = calloc(sources + 1, sizeof *s->heap);
    s->place = malloc((sources + 1) * sizeof *s->place);
    s->host_lanes = calloc(sources + 1, sizeof *s->host_lanes);
    s->host_firsts = calloc(sources + 1, sizeof *s->host_firsts);
    s->switches = calloc(switches + 1, sizeof *s->switches);
    s->switch_next = calloc(switches + 1, sizeof *s->switch_next);
    int enough = s->sources && s->heap && s->place && s->host_lanes && s->host_firsts && s->switches && s->switch_next;
    for (uint32_t i = 0; enough && i < s->n_nodes; i++)
        enough = s->nodes[i].ops->fix(s, i);
    s->arrivals = calloc((size_t)s->most_inlets + 1, sizeof *s->arrivals);
    s->fixed = 1;
    if (!enough || !s->arrivals)
        return sim_short(s, "the order of events");
    for (uint32_t i = 0; i < s->n_sources; i++)
        s->place[i] = NONE;
    s->window_stale = 1;
    return SIM_OK;
}

/* --- timers ------------------------------------------------------------------------------------ */

static int timer_earlier(const struct timer *a, const struct timer *b)
{
    return a->time < b->time || (a->time == b->time && a->sequence < b->sequence);
}

int order_timer(struct sim *s, ws_time time, enum timer_kind kind, uint64_t object)
{
    return order_timer_again(s, time, kind, object, s->timer_sequence++);
}

int order_timer_again(struct sim *s, ws_time time, enum timer_kind kind, uint64_t object, uint64_t sequence)
{
    if (!room((void **)&s->timers, s->timers_n, &s->timers_capacity, sizeof *s->timers))
        return sim_short(s, "timers");
    struct timer timer = {time, sequence, kind, object};
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
