/* Owns the order in which frames arrive at hosts.
 *
 * What arrives in a window is on its way when the window begins. So it is looked through lane by lane, with many waits
 * for memory at a time, and put into order at once; then what comes next is known long before its turn.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    FLIGHTS_AHEAD = 12, /* of the turn: frames are brought near */
    FLOWS_AHEAD = 6,    /* and what belongs to them */
    MOVES_MOST = 16,    /* of an arrival on average, before another way to sort is taken */
};

static inline int earlier(const struct due *a, const struct due *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    return a->source != b->source ? a->source < b->source : a->round < b->round;
}

static int order(const void *left, const void *right)
{
    return earlier(left, right) ? -1 : earlier(right, left);
}

/* Room for one more; 0: no memory. */
static int widen(struct sim *s)
{
    if (s->due_n < s->due_capacity)
        return 1;
    const size_t capacity = s->due_capacity ? 2 * s->due_capacity : 256;
    struct due *found = realloc(s->due_found, capacity * sizeof *found);
    if (found)
        s->due_found = found;
    struct due *due = realloc(s->due, capacity * sizeof *due);
    if (due)
        s->due = due;
    uint32_t *places = realloc(s->due_places, (capacity + 1) * sizeof *places);
    if (places)
        s->due_places = places;
    if (!found || !due || !places)
        return sim_short(s, "what arrives at hosts"), 0;
    s->due_capacity = capacity;
    return 1;
}

/* Fills s->due_found, all lanes' first arrivals before any second one. Short of memory it finds fewer. */
static void find(struct sim *s, ws_time last)
{
    s->due_n = 0;
    for (uint32_t i = 0; i < s->n_host_lanes; i++) {
        if (s->host_firsts[i] > last)
            continue;
        if (!widen(s))
            return;
        struct lane *lane = s->host_lanes[i];
        flight_prefetch(lane->head);
        s->due_found[s->due_n++] =
            (struct due){.time = s->host_firsts[i], .source = lane->source, .lane = lane, .flight = lane->head};
    }
    for (size_t i = 0; i < s->due_n; i++) {
        const struct due *due = &s->due_found[i];
        if (due->flight->next_at > last)
            continue;
        if (!widen(s))
            return;
        due = &s->due_found[i];
        const struct flight *next = due->flight->next;
        flight_prefetch(next);
        s->due_found[s->due_n++] = (struct due){
            .time = due->flight->next_at, .source = due->source, .round = due->round + 1, .lane = due->lane, .flight = next};
    }
}

/* Each to about its place, as if they were spread evenly over the window, and from there to the right one. 0: they are
 * so far from even that this takes too long. */
static int spread(struct due *to, const struct due *from, size_t n, uint32_t *places)
{
    ws_time begin = from[0].time, end = from[0].time;
    for (size_t i = 1; i < n; i++) {
        begin = from[i].time < begin ? from[i].time : begin;
        end = from[i].time > end ? from[i].time : end;
    }
    int shift = 0;
    while ((uint64_t)(end - begin) >> shift >= n)
        shift++;
    memset(places, 0, (n + 1) * sizeof *places);
    for (size_t i = 0; i < n; i++)
        places[((from[i].time - begin) >> shift) + 1]++;
    for (size_t i = 1; i <= n; i++)
        places[i] += places[i - 1];
    for (size_t i = 0; i < n; i++)
        to[places[(from[i].time - begin) >> shift]++] = from[i];
    size_t moves = 0;
    for (size_t i = 1; i < n; i++) {
        if (!earlier(&to[i], &to[i - 1]))
            continue;
        const struct due due = to[i];
        size_t at = i;
        for (; at > 0 && earlier(&due, &to[at - 1]); at--)
            to[at] = to[at - 1];
        to[at] = due;
        moves += i - at;
        if (moves > MOVES_MOST * n)
            return 0;
    }
    return 1;
}

void arrivals_gather(struct sim *s, ws_time last)
{
    s->due_n = 0;
    if (s->hosts_next > last)
        return;
    find(s, last);
    if (s->due_n && !spread(s->due, s->due_found, s->due_n, s->due_places))
        qsort(s->due, s->due_n, sizeof *s->due, order);
    for (size_t i = 0; i < FLIGHTS_AHEAD; i++)
        arrivals_expect(s, i);
}

void arrivals_expect(const struct sim *s, size_t i)
{
    if (i + FLIGHTS_AHEAD < s->due_n) {
        const struct due *due = &s->due[i + FLIGHTS_AHEAD];
        __builtin_prefetch(due->lane);
        flight_prefetch(due->flight);
    }
    if (i + FLOWS_AHEAD < s->due_n) {
        const struct due *due = &s->due[i + FLOWS_AHEAD];
        s->nodes[due->lane->to_node].ops->expect(s, due->lane->to_node, due->lane->to_port, due->flight);
    }
}

void arrivals_done(struct sim *s)
{
    ws_time next = WS_NEVER;
    for (uint32_t i = 0; i < s->n_host_lanes; i++)
        next = s->host_firsts[i] < next ? s->host_firsts[i] : next;
    s->hosts_next = next;
    s->due_n = 0;
}
