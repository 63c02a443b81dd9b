/* Which connection has which of its queue pairs on busy links: evened out, so that the slowest
   connection is as fast as possible.

   A fabric that has lost links has some that carry one queue pair more than others. No plan avoids
   that, but it matters who is on them: a connection drains as fast as all its queue pairs together.
   A queue pair takes as long as the busiest link of its path needs for all it carries. */
#include <stdlib.h>
#include <string.h>

#include "iglb.h"

enum { NONE = -1, MOST = 64 }; /* MOST: flows of an arc that are looked at */
static const double MORE = 1 + 1e-9; /* what counts as more: rounding makes no progress */

typedef struct {
    const iglb_net *net;
    iglb_flows *flows;
    const int32_t *connection; /* [flow] */
    double *bits, *load;       /* [flow]; [arc]: seconds */
    double *time;              /* [flow]: seconds that it takes on its path, 0 on none */
    int32_t *first, *next, *before; /* flows on an arc: [arc], [flow][hop] */
    double *rate, *size;       /* [connection]: bits a second by all its flows, and its bits */
    int32_t *member, *following; /* a connection's flows: [connection], [flow] */
    double *lost;              /* [connection]: what a move would cost it, where `touched` */
    int32_t *touched, *list, touches, stamp;
    int32_t *way, *best;       /* a path that is tried, and the best one: [width] */
    int32_t helped, beside[MOST];
    double most, value, enough; /* enough: seconds beyond which an arc is overloaded */
} even;

static int32_t *path_of(const even *e, int32_t flow)
{
    return e->flows->path + (int64_t)flow * e->flows->width;
}

/* What arcs of a path need of a flow's time, in the order of the path; `last`: that with a queue. */
typedef struct {
    double most, queued;
    int32_t last;
} needs;

static const needs NOTHING = {0, 0, NONE};

/* Seconds that an arc needs for those of its flows that come through another one. */
static double from_arc(const even *e, int32_t arc, int32_t through)
{
    double bits = 0;
    for (int32_t at = e->first[arc]; at != NONE; at = e->next[at]) {
        const int32_t *path = path_of(e, at / e->flows->width);
        for (int32_t hop = 0; hop < e->flows->width && path[hop] != arc; hop++)
            bits += path[hop] == through ? e->bits[at / e->flows->width] : 0;
    }
    return bits * e->net->cost[arc];
}

/* Go on by an arc that needs `load`, of which `new` is a flow's that is not on it. */
static needs and_arc(const even *e, needs so_far, int32_t arc, double load, double new)
{
    double comes = load;
    if (load > e->enough && so_far.last != NONE) /* what the queue before lets through */
        comes -= (from_arc(e, arc, so_far.last) + new) * (1 - e->enough / so_far.queued);
    needs all = so_far;
    all.most = load > all.most ? load : all.most;
    if (comes > e->enough * MORE) {
        all.queued += load;
        all.last = arc;
    }
    return all;
}

static double time_of(needs all) { return all.queued > all.most ? all.queued : all.most; }

/* What a flow takes on its path, if `arc` needs `load`. */
static double time_with(const even *e, int32_t flow, int32_t arc, double load)
{
    const int32_t *path = path_of(e, flow);
    needs all = NOTHING;
    for (int32_t hop = 0; hop < e->flows->width && path[hop] != NONE; hop++)
        all = and_arc(e, all, path[hop], path[hop] == arc ? load : e->load[path[hop]], 0);
    return time_of(all);
}

/* Find again what a flow takes on its path. */
static void retime(even *e, int32_t flow) { e->time[flow] = time_with(e, flow, NONE, 0); }

/* The same for all flows on a path's arcs. */
static void retime_on(even *e, const int32_t *path)
{
    for (int32_t hop = 0; hop < e->flows->width && path[hop] != NONE; hop++)
        for (int32_t at = e->first[path[hop]]; at != NONE; at = e->next[at])
            retime(e, at / e->flows->width);
}

static double speed(const even *e, int32_t flow)
{
    return e->time[flow] > 0 ? e->bits[flow] / e->time[flow] : 0;
}

static void put(even *e, int32_t flow, double sign)
{
    int32_t *path = path_of(e, flow);
    for (int32_t hop = 0; hop < e->flows->width && path[hop] != NONE; hop++) {
        int32_t arc = path[hop], at = flow * e->flows->width + hop;
        e->load[arc] += sign * e->bits[flow] * e->net->cost[arc];
        if (sign > 0) {
            e->next[at] = e->first[arc];
            e->before[at] = NONE;
            if (e->first[arc] != NONE)
                e->before[e->first[arc]] = at;
            e->first[arc] = at;
        } else {
            if (e->next[at] != NONE)
                e->before[e->next[at]] = e->before[at];
            if (e->before[at] != NONE)
                e->next[e->before[at]] = e->next[at];
            else
                e->first[arc] = e->next[at];
        }
    }
}

static double all_speeds(const even *e, int32_t connection)
{
    double sum = 0;
    for (int32_t flow = e->member[connection]; flow != NONE; flow = e->following[flow])
        sum += speed(e, flow);
    return sum;
}

/* What an arc needs with a flow that is not on it. */
static double with(const even *e, int32_t flow, int32_t arc)
{
    return e->load[arc] + e->bits[flow] * e->net->cost[arc];
}

/* How fast connections are, as shares of their bits, may only fall for those on the path's arcs. */
static void try_path(even *e, int32_t flow, double time, double others)
{
    int32_t width = e->flows->width, own = e->connection[flow];
    double own_most = others + e->bits[flow] / time;
    e->stamp++;
    e->touches = 0;
    double own_lost = 0;
    for (int32_t hop = 0; hop < width && e->way[hop] != NONE; hop++) {
        int32_t arc = e->way[hop];
        double load = with(e, flow, arc);
        for (int32_t at = e->first[arc]; at != NONE; at = e->next[at]) {
            int32_t other = at / width, of = e->connection[other];
            double now = e->time[other];
            if (load <= now && load <= e->enough)
                continue;
            double then = time_with(e, other, arc, load);
            if (then <= now)
                continue;
            double less = e->bits[other] / now - e->bits[other] / then;
            if (of == own) {
                own_lost += less;
                continue;
            }
            if (e->touched[of] != e->stamp) {
                e->touched[of] = e->stamp;
                e->lost[of] = 0;
                e->list[e->touches++] = of;
            }
            e->lost[of] += less;
            if ((e->rate[of] - e->lost[of]) / e->size[of] <= e->value)
                return;
        }
    }
    double value = (own_most - own_lost) / e->size[own];
    int32_t good = e->helped;
    if (good != own && e->touched[good] != e->stamp && e->rate[good] / e->size[good] < value)
        value = e->rate[good] / e->size[good];
    for (int32_t i = 0; i < e->touches; i++) {
        int32_t of = e->list[i];
        double left = (e->rate[of] - e->lost[of]) / e->size[of];
        value = left < value ? left : value;
    }
    if (value > e->value) {
        e->value = value;
        memcpy(e->best, e->way, (size_t)width * sizeof *e->best);
    }
}

/* Try all shortest paths from a node that is `hop` arcs from the source, `so_far` being what the flow
   takes up to there; but none on which an arc would need more than the busiest does, or by which the
   flow's own connection would be no faster than the best path so far makes the slowest one. */
static void try_all(even *e, int32_t flow, int32_t node, int32_t hop, needs so_far, double others)
{
    const iglb_net *net = e->net;
    const uint16_t *hops = e->flows->hops + (int64_t)e->flows->row[flow] * net->nodes;
    if (hops[node] == 0) {
        for (int32_t i = hop; i < e->flows->width; i++)
            e->way[i] = NONE;
        try_path(e, flow, time_of(so_far), others);
        return;
    }
    for (int32_t i = net->out_start[node]; i < net->out_start[node + 1]; i++) {
        int32_t arc = net->out_arc[i];
        if (net->cost[arc] <= 0 || hops[net->head[arc]] + 1 != hops[node])
            continue;
        double load = with(e, flow, arc);
        needs longer = and_arc(e, so_far, arc, load, e->bits[flow] * net->cost[arc]);
        double own = (others + e->bits[flow] / time_of(longer)) / e->size[e->connection[flow]];
        if (load <= e->most * MORE && own > e->value) {
            e->way[hop] = arc;
            try_all(e, flow, net->head[arc], hop + 1, longer, others);
        }
    }
}

/* Compute again how fast all connections on a path's arcs are. */
static void renew(even *e, const int32_t *path)
{
    for (int32_t hop = 0; hop < e->flows->width && path[hop] != NONE; hop++)
        for (int32_t at = e->first[path[hop]]; at != NONE; at = e->next[at]) {
            int32_t of = e->connection[at / e->flows->width];
            e->rate[of] = all_speeds(e, of);
        }
}

/* Try to take a flow elsewhere, for the good of a connection; 1 if that is the best so far. */
static int try_flow(even *e, int32_t flow, int32_t connection)
{
    const int32_t *path = path_of(e, flow), own = e->connection[flow];
    if (!e->flows->movable[flow] || path[0] == NONE || e->bits[flow] <= 0)
        return 0;
    double before = e->value, rate = e->rate[connection];
    put(e, flow, -1); /* the speeds of others without it */
    retime_on(e, path);
    e->time[flow] = 0;
    e->rate[connection] = all_speeds(e, connection);
    e->helped = connection;
    try_all(e, flow, e->flows->source[flow], 0, NOTHING, all_speeds(e, own));
    e->rate[connection] = rate;
    put(e, flow, 1);
    retime_on(e, path);
    return e->value > before;
}

/* Move a flow of a connection, or one that is on the busiest arc of one of its flows, so that the
   slowest connection of all whom that touches is faster than this one was. */
static int help(even *e, int32_t connection)
{
    int32_t width = e->flows->width, helped = NONE;
    e->value = e->rate[connection] / e->size[connection] * MORE;
    for (int32_t flow = e->member[connection]; flow != NONE; flow = e->following[flow]) {
        if (try_flow(e, flow, connection))
            helped = flow;
        int32_t *path = path_of(e, flow);
        for (int32_t hop = 0; hop < width && path[hop] != NONE; hop++) {
            int32_t arc = path[hop], count = 0;
            if (e->load[arc] <= e->enough && e->load[arc] * MORE < e->time[flow])
                continue;
            for (int32_t at = e->first[arc]; at != NONE && count < MOST; at = e->next[at])
                e->beside[count++] = at / width;
            for (int32_t i = 0; i < count; i++)
                if (e->connection[e->beside[i]] != connection && try_flow(e, e->beside[i], connection))
                    helped = e->beside[i];
        }
    }
    if (helped == NONE)
        return 0;
    int32_t *path = path_of(e, helped), *left = e->way; /* free now */
    memcpy(left, path, (size_t)width * sizeof *left);
    put(e, helped, -1);
    memcpy(path, e->best, (size_t)width * sizeof *path);
    put(e, helped, 1);
    retime_on(e, left);
    retime_on(e, path);
    renew(e, path);
    renew(e, left);
    return 1;
}

static int64_t run(even *e, int32_t connections, double floor, int64_t budget)
{
    iglb_flows *of = e->flows;
    int64_t moves = 0;
    e->enough = floor * MORE;
    for (int32_t flow = 0; flow < of->flows; flow++) {
        for (int32_t i = of->entry_start[flow]; i < of->entry_start[flow + 1]; i++)
            e->bits[flow] += of->entry_bits[i];
        e->size[e->connection[flow]] += e->bits[flow];
        e->following[flow] = e->member[e->connection[flow]];
        e->member[e->connection[flow]] = flow;
        if (path_of(e, flow)[0] != NONE)
            put(e, flow, 1);
    }
    for (int32_t flow = 0; flow < of->flows; flow++)
        retime(e, flow);
    for (int32_t arc = 0; arc < e->net->arcs; arc++)
        e->most = e->load[arc] > e->most ? e->load[arc] : e->most;
    for (int32_t i = 0; i < connections; i++)
        e->rate[i] = all_speeds(e, i);
    uint8_t *stuck = calloc((size_t)connections + 1, 1);
    if (!stuck)
        return -1;
    int64_t before = 0;
    while (budget-- > 0) {
        int32_t slowest = NONE;
        double least = 0;
        for (int32_t i = 0; i < connections; i++) {
            double share = e->size[i] > 0 ? e->rate[i] / e->size[i] : 0;
            if (share > 0 && !stuck[i] && share * floor * MORE < 1 && (slowest == NONE || share < least)) {
                slowest = i;
                least = share;
            }
        }
        if (slowest == NONE && moves == before)
            break;
        if (slowest == NONE) { /* flows that could not be moved may be now */
            memset(stuck, 0, (size_t)connections);
            before = moves;
            continue;
        }
        int helped = help(e, slowest);
        moves += helped;
        stuck[slowest] = !helped;
    }
    free(stuck);
    return moves;
}

int64_t iglb_even(const iglb_net *net, iglb_flows *flows, const int32_t *connection, int32_t connections,
                  double floor, int64_t budget)
{
    size_t arcs = (size_t)net->arcs + 1, width = (size_t)flows->width + 1, all = (size_t)connections + 1;
    size_t count = (size_t)flows->flows + 1, hops = count * width;
    even e = {.net = net, .flows = flows, .connection = connection};
    e.bits = calloc(count, sizeof *e.bits);
    e.load = calloc(arcs, sizeof *e.load);
    e.time = calloc(count, sizeof *e.time);
    e.first = malloc(arcs * sizeof *e.first);
    e.next = malloc(hops * sizeof *e.next);
    e.before = malloc(hops * sizeof *e.before);
    e.rate = calloc(all, sizeof *e.rate);
    e.size = calloc(all, sizeof *e.size);
    e.member = malloc(all * sizeof *e.member);
    e.following = malloc(count * sizeof *e.following);
    e.lost = calloc(all, sizeof *e.lost);
    e.touched = calloc(all, sizeof *e.touched);
    e.list = malloc(all * sizeof *e.list);
    e.way = malloc(width * sizeof *e.way);
    e.best = malloc(width * sizeof *e.best);
    int64_t moves = -1;
    if (e.bits && e.load && e.time && e.first && e.next && e.before && e.rate && e.size &&
        e.member && e.following && e.lost && e.touched && e.list && e.way && e.best) {
        memset(e.first, 0xff, arcs * sizeof *e.first);
        memset(e.member, 0xff, all * sizeof *e.member);
        moves = run(&e, connections, floor, budget);
    }
    void *arrays[] = {e.bits, e.load, e.time, e.first, e.next, e.before, e.rate, e.size, e.member,
                      e.following, e.lost, e.touched, e.list, e.way, e.best};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    return moves;
}
