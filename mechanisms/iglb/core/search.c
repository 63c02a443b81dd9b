/* Greedy placement and local search on shortest paths, for any fabric and any rates.

   A path is found by two sweeps over the layers of shortest paths, from the source and from the
   target, that meet half-way: of all paths that with the least largest load, and of equal ones that
   with the least sum. */
#include <stdlib.h>
#include <string.h>

#include "iglb.h"

enum { NONE = -1, CANDIDATES = 24, REST = 8, RESTS = 7, TRIES = 6, SKIP = 5 };
static const double LESS = 1 - 1e-9; /* what counts as less: rounding makes no progress */

typedef struct {
    double most, sum;
} price;

typedef struct {
    price price;
    int32_t arc;   /* by which the node was reached */
    int32_t stamp; /* of the search in which it was */
} mark;

typedef struct {
    int32_t flow, path; /* what was moved, and where in `kept` its arcs are */
} step;

typedef struct {
    const iglb_net *net;
    iglb_flows *flows;
    double *column, *most, *load; /* [arc][column], [arc][job]: the most of its phases; [arc] */
    int32_t *first, *next, *before; /* flows on an arc: [arc], [flow][hop] */
    mark *from, *to;
    int32_t *queue, *found; /* [nodes], [width] */
    int32_t stamp, banned; /* banned: an arc that no path may take now, or NONE */
    int64_t *rests; /* [flow]: until which move it stays where it is */
    int64_t move;
    step *steps;
    int32_t *kept, *pending;
    int64_t budget;
} search;

static int better(price a, price b)
{
    return a.most < b.most || (a.most == b.most && a.sum < b.sum);
}

static double *cells(const search *s, int32_t arc)
{
    return s->column + (int64_t)arc * s->flows->columns;
}

static double *most_of(const search *s, int32_t arc, int32_t flow)
{
    return s->most + (int64_t)arc * s->flows->jobs + s->flows->job[flow];
}

static double busy(const search *s, int32_t arc)
{
    return s->load[arc] * s->net->cost[arc];
}

/* What an arc would need with the flow, and how full the flow's own phases would be. */
static price with(const search *s, int32_t flow, int32_t arc)
{
    const iglb_flows *of = s->flows;
    const double *column = cells(s, arc);
    double most = *most_of(s, arc, flow), now = most, own = 0;
    for (int32_t e = of->entry_start[flow]; e < of->entry_start[flow + 1]; e++) {
        double bits = column[of->entry_column[e]] + of->entry_bits[e];
        own = bits > own ? bits : own;
    }
    most = own > most ? own : most;
    double cost = s->net->cost[arc], all = (s->load[arc] - now + most) * cost;
    return (price){all, all + own * cost};
}

static void put(search *s, int32_t flow)
{
    iglb_flows *of = s->flows;
    int32_t *path = of->path + (int64_t)flow * of->width;
    for (int32_t hop = 0; hop < of->width && path[hop] != NONE; hop++) {
        int32_t arc = path[hop], at = flow * of->width + hop;
        double *column = cells(s, arc), *most = most_of(s, arc, flow);
        for (int32_t e = of->entry_start[flow]; e < of->entry_start[flow + 1]; e++) {
            double bits = column[of->entry_column[e]] += of->entry_bits[e];
            if (bits > *most) {
                s->load[arc] += bits - *most;
                *most = bits;
            }
        }
        s->next[at] = s->first[arc];
        s->before[at] = NONE;
        if (s->first[arc] != NONE)
            s->before[s->first[arc]] = at;
        s->first[arc] = at;
    }
}

static void off(search *s, int32_t flow)
{
    iglb_flows *of = s->flows;
    const int32_t *path = of->path + (int64_t)flow * of->width;
    int32_t job = of->job[flow];
    for (int32_t hop = 0; hop < of->width && path[hop] != NONE; hop++) {
        int32_t arc = path[hop], at = flow * of->width + hop;
        double *column = cells(s, arc), *most = most_of(s, arc, flow), now = 0;
        for (int32_t e = of->entry_start[flow]; e < of->entry_start[flow + 1]; e++)
            column[of->entry_column[e]] -= of->entry_bits[e];
        for (int32_t c = of->column_start[job]; c < of->column_start[job + 1]; c++)
            now = column[c] > now ? column[c] : now;
        s->load[arc] -= *most - now;
        *most = now;
        if (s->next[at] != NONE)
            s->before[s->next[at]] = s->before[at];
        if (s->before[at] != NONE)
            s->next[s->before[at]] = s->next[at];
        else
            s->first[arc] = s->next[at];
    }
}

/* Take an arc into a sweep: `here` is where it starts from, `there` where it leads. */
static int reach(search *s, mark *marks, int32_t here, int32_t there, int32_t arc, price of)
{
    const mark *start = &marks[here];
    price now = {of.most > start->price.most ? of.most : start->price.most,
                 of.sum + start->price.sum};
    int new = marks[there].stamp != s->stamp;
    if (new || better(now, marks[there].price))
        marks[there] = (mark){now, arc, s->stamp};
    return new;
}

/* Sweep `layers` layers from the flow's source, or (`back`) from its target; the last layer's nodes
   are then in the queue: from the returned place up to *end. */
static int32_t sweep(search *s, int32_t flow, int back, int32_t layers, int32_t *end)
{
    const iglb_net *net = s->net;
    const uint16_t *hops = s->flows->hops + (int64_t)s->flows->row[flow] * net->nodes;
    mark *marks = back ? s->to : s->from;
    const int32_t *starts = back ? net->in_start : net->out_start;
    const int32_t *arcs = back ? net->in_arc : net->out_arc;
    int32_t start = back ? s->flows->target[flow] : s->flows->source[flow];
    int32_t at = 0, last = 1;
    marks[start] = (mark){{0, 0}, NONE, s->stamp};
    s->queue[0] = start;
    for (int32_t layer = 0; layer < layers; layer++) {
        int32_t until = last;
        for (; at < until; at++) {
            int32_t node = s->queue[at];
            for (int32_t i = starts[node]; i < starts[node + 1]; i++) {
                int32_t arc = arcs[i], there = back ? net->tail[arc] : net->head[arc];
                if (net->cost[arc] > 0 && arc != s->banned && hops[there] + 1 - 2 * back == hops[node] &&
                    reach(s, marks, node, there, arc, with(s, flow, arc)))
                    s->queue[last++] = there;
            }
        }
    }
    *end = last;
    return at;
}

/* Find the best path of a flow that is on none, into `found`; its price. found[0] is NONE where all
   paths take the banned arc. */
static price best_path(search *s, int32_t flow)
{
    const iglb_flows *of = s->flows;
    const iglb_net *net = s->net;
    int32_t source = of->source[flow];
    int32_t length = of->hops[(int64_t)of->row[flow] * net->nodes + source], end;
    s->stamp++;
    s->budget--;
    sweep(s, flow, 1, length / 2, &end);
    int32_t at = sweep(s, flow, 0, length - length / 2, &end), middle = NONE;
    price best = {0, 0};
    for (; at < end; at++) {
        int32_t node = s->queue[at];
        if (s->to[node].stamp != s->stamp)
            continue;
        price a = s->from[node].price, b = s->to[node].price;
        price all = {a.most > b.most ? a.most : b.most, a.sum + b.sum};
        if (middle == NONE || better(all, best)) {
            middle = node;
            best = all;
        }
    }
    for (int32_t hop = 0; hop < of->width; hop++)
        s->found[hop] = NONE;
    if (middle == NONE)
        return best;
    int32_t hop = length - length / 2;
    for (int32_t node = middle; hop > 0; node = net->tail[s->found[hop]])
        s->found[--hop] = s->from[node].arc;
    hop = length - length / 2;
    for (int32_t node = middle; hop < length; node = net->head[s->found[hop - 1]])
        s->found[hop++] = s->to[node].arc;
    return best;
}

static void take_found(search *s, int32_t flow)
{
    iglb_flows *of = s->flows;
    memcpy(of->path + (int64_t)flow * of->width, s->found, (size_t)of->width * sizeof(int32_t));
    put(s, flow);
}

/* Return the flow that can leave an arc, which is then banned, at the least price; NONE where none
   may. */
static int32_t leave(search *s, int32_t arc, int32_t skip)
{
    const iglb_flows *of = s->flows;
    int32_t best = NONE, seen = 0;
    price least = {0, 0};
    s->banned = arc;
    for (int32_t at = s->first[arc], next; at != NONE && seen < CANDIDATES; at = next) {
        int32_t flow = at / of->width;
        next = s->next[at];
        if (!of->movable[flow] || s->rests[flow] > s->move ||
            of->entry_start[flow] == of->entry_start[flow + 1])
            continue;
        if (skip-- > 0)
            continue;
        seen++;
        double before = s->load[arc];
        off(s, flow);
        if (s->load[arc] < before) {
            price now = best_path(s, flow);
            if (s->found[0] != NONE && (best == NONE || better(now, least))) {
                best = flow;
                least = now;
            }
        }
        put(s, flow); /* to the front: what comes behind is not seen twice */
    }
    return best;
}

/* Move a flow off an arc, onto its best other path, and note what that overloads; 0 if none may. */
static int evict(search *s, int32_t arc, double limit, int32_t skip, int32_t *moves,
                 int32_t *waiting)
{
    iglb_flows *of = s->flows;
    int32_t flow = leave(s, arc, skip);
    if (flow == NONE)
        return 0;
    int32_t *path = of->path + (int64_t)flow * of->width;
    off(s, flow);
    s->steps[*moves] = (step){flow, *moves * of->width};
    memcpy(s->kept + (int64_t)*moves * of->width, path, (size_t)of->width * sizeof *path);
    s->rests[flow] = s->move + REST + *moves % RESTS; /* else it would come back at once */
    ++*moves;
    best_path(s, flow);
    take_found(s, flow);
    for (int32_t hop = 0; hop < of->width && path[hop] != NONE; hop++)
        if (busy(s, path[hop]) >= limit)
            s->pending[(*waiting)++] = path[hop];
    return 1;
}

/* Bring an arc below `limit` by a chain of moves that leave all they touch below it; 0 or 1. */
static int relieve(search *s, int32_t busiest, double limit, int32_t longest, int32_t skip)
{
    iglb_flows *of = s->flows;
    int32_t moves = 0, waiting = 0, stuck = 0;
    s->move += REST + RESTS;
    s->pending[waiting++] = busiest;
    while (waiting && moves < longest && stuck <= waiting && s->budget > 0) {
        int32_t last = waiting - 1, arc = s->pending[last];
        if (busy(s, arc) < limit) {
            waiting--;
            continue;
        }
        s->move++;
        if (evict(s, arc, limit, moves ? 0 : skip, &moves, &waiting)) {
            stuck = 0;
        } else { /* another one first */
            s->pending[last] = s->pending[stuck % waiting];
            s->pending[stuck % waiting] = arc;
            stuck++;
        }
    }
    if (!waiting)
        return 1;
    while (moves) {
        const step *last = &s->steps[--moves];
        off(s, last->flow);
        memcpy(of->path + (int64_t)last->flow * of->width, s->kept + last->path,
               (size_t)of->width * sizeof(int32_t));
        put(s, last->flow);
    }
    return 0;
}

static int32_t busiest_arc(const search *s)
{
    int32_t best = 0;
    for (int32_t arc = 1; arc < s->net->arcs; arc++)
        if (busy(s, arc) > busy(s, best))
            best = arc;
    return best;
}

static double improve(search *s, double floor, int32_t longest)
{
    for (;;) {
        int32_t arc = busiest_arc(s);
        double most = busy(s, arc);
        if (most * LESS <= floor || s->budget <= 0)
            return most;
        int done = 0;
        for (int32_t tries = 0; !done && tries < TRIES && s->budget > 0; tries++)
            done = relieve(s, arc, most * LESS, longest, tries * SKIP);
        if (!done)
            return most;
    }
}

static double run(search *s, int32_t placed, const int32_t *order, double floor, int32_t longest)
{
    iglb_flows *of = s->flows;
    for (int32_t flow = 0; flow < of->flows; flow++)
        if (of->path[(int64_t)flow * of->width] != NONE)
            put(s, flow);
    for (int32_t i = 0; i < placed; i++) {
        best_path(s, order[i]);
        take_found(s, order[i]);
    }
    return s->net->arcs ? improve(s, floor, longest) : 0;
}

double iglb_search(const iglb_net *net, iglb_flows *flows, int32_t placed, const int32_t *order,
                   double floor, int64_t budget, int32_t chain)
{
    size_t arcs = (size_t)net->arcs + 1, nodes = (size_t)net->nodes + 1;
    size_t hops = (size_t)flows->flows * (size_t)flows->width + 1, width = (size_t)flows->width;
    size_t longest = (size_t)chain + 1;
    search s = {.net = net, .flows = flows, .banned = NONE, .budget = budget + placed};
    s.column = calloc(arcs * (size_t)flows->columns, sizeof *s.column);
    s.most = calloc(arcs * (size_t)flows->jobs, sizeof *s.most);
    s.load = calloc(arcs, sizeof *s.load);
    s.first = malloc(arcs * sizeof *s.first);
    s.next = malloc(hops * sizeof *s.next);
    s.before = malloc(hops * sizeof *s.before);
    s.from = calloc(nodes, sizeof *s.from);
    s.to = calloc(nodes, sizeof *s.to);
    s.queue = malloc(nodes * sizeof *s.queue);
    s.found = malloc((width + 1) * sizeof *s.found);
    s.rests = calloc((size_t)flows->flows + 1, sizeof *s.rests);
    s.steps = malloc(longest * sizeof *s.steps);
    s.kept = malloc(longest * (width + 1) * sizeof *s.kept);
    s.pending = malloc((longest + 1) * (width + 1) * sizeof *s.pending);
    double most = -1;
    if (s.column && s.most && s.load && s.first && s.next && s.before && s.from && s.to &&
        s.queue && s.found && s.rests && s.steps && s.kept && s.pending) {
        memset(s.first, 0xff, arcs * sizeof *s.first);
        most = run(&s, placed, order, floor, chain);
    }
    void *all[] = {s.column, s.most, s.load, s.first, s.next, s.before, s.from, s.to,
                   s.queue, s.found, s.rests, s.steps, s.kept, s.pending};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return most;
}
