/* Which links flows take: owns what is counted of a flow's packets on each link, the gaps between them at the sender,
 * and the order in which they arrive. Nothing is counted, and nothing kept, unless sim_record_paths was called.
 *
 * Counts are cells of one table, found by hashing (flow, what); `what` is a direction of a link, or a range of gaps.
 */
#include "engine.h"

enum {
    SLOTS_FIRST = 1 << 12,
    GAPS_MOST = 48, /* ranges: up to 2^47 ns, 39 hours */
};
static const uint32_t GAP = 1u << 31; /* of `what`: the rest is the range's number */

struct cell {
    uint32_t flow, what;
    uint64_t packets; /* 0: an empty one */
    uint64_t bytes;
};

/* A flow's packets in order. */
struct train {
    ws_time left; /* when the last one left the sender; -1: none has */
    struct sim_flow_order order;
    uint32_t highest; /* PSN that arrived */
    uint32_t pad_;
};

struct paths {
    struct cell *cells;
    uint64_t slots; /* a power of two, at least twice n */
    uint64_t n, most;
    struct train *trains;
    uint32_t n_trains;
};

static size_t bytes_of_cells(uint64_t slots) { return slots * sizeof(struct cell); }
static size_t bytes_of_trains(uint32_t flows) { return (size_t)flows * sizeof(struct train); }

int sim_record_paths(sim *s, uint64_t most)
{
    if (s->paths)
        return sim_fail(s, SIM_EINVAL, "paths are recorded already");
    if (!most || most > UINT32_MAX)
        return sim_fail(s, SIM_EINVAL, "the most rows of paths are 1 to 2^32 - 1, not %llu", (unsigned long long)most);
    struct paths *paths = ws_memory_get(sizeof *paths);
    if (!paths)
        return sim_fail(s, SIM_ENOMEM, "no memory for paths of flows");
    s->paths = paths;
    paths->most = most;
    paths->slots = SLOTS_FIRST;
    paths->n_trains = s->n_flows;
    paths->cells = ws_memory_get(bytes_of_cells(paths->slots));
    paths->trains = s->n_flows ? ws_memory_get(bytes_of_trains(s->n_flows)) : NULL;
    if (!paths->cells || (s->n_flows && !paths->trains)) {
        paths_free(s);
        return sim_fail(s, SIM_ENOMEM, "no memory for paths of flows");
    }
    for (uint32_t i = 0; i < s->n_flows; i++)
        paths->trains[i].left = -1;
    return SIM_OK;
}

void paths_free(struct sim *s)
{
    struct paths *paths = s->paths;
    if (!paths)
        return;
    if (paths->cells)
        ws_memory_put(paths->cells, bytes_of_cells(paths->slots));
    if (paths->trains)
        ws_memory_put(paths->trains, bytes_of_trains(paths->n_trains));
    ws_memory_put(paths, sizeof *paths);
    s->paths = NULL;
}

/* --- cells ------------------------------------------------------------------------------------- */

/* Where it is, or the empty cell in which it belongs. */
static struct cell *place_of(struct cell *cells, uint64_t slots, uint32_t flow, uint32_t what)
{
    uint64_t at = ((uint64_t)flow << 32 | what) * 0x9e3779b97f4a7c15u;
    at ^= at >> 32;
    for (;; at++) {
        struct cell *cell = &cells[at & (slots - 1)];
        if (!cell->packets || (cell->flow == flow && cell->what == what))
            return cell;
    }
}

static int grow(struct paths *paths)
{
    const uint64_t slots = 2 * paths->slots;
    struct cell *cells = ws_memory_get(bytes_of_cells(slots));
    if (!cells)
        return 0;
    for (uint64_t i = 0; i < paths->slots; i++)
        if (paths->cells[i].packets)
            *place_of(cells, slots, paths->cells[i].flow, paths->cells[i].what) = paths->cells[i];
    ws_memory_put(paths->cells, bytes_of_cells(paths->slots));
    paths->cells = cells;
    paths->slots = slots;
    return 1;
}

static void count(struct sim *s, uint32_t flow, uint32_t what, uint32_t bytes)
{
    struct paths *paths = s->paths;
    struct cell *cell = place_of(paths->cells, paths->slots, flow, what);
    if (!cell->packets) {
        if (paths->n == paths->most) {
            if (!s->halted)
                sim_fail(s, SIM_ENOMEM, "paths: flows took more links than can be kept, %llu rows of a flow and a link or a gap: record "
                         "a run with fewer flows", (unsigned long long)paths->most);
            s->halted = 1;
            return;
        }
        if (2 * (paths->n + 1) > paths->slots) {
            if (!grow(paths)) {
                sim_short(s, "paths of flows");
                return;
            }
            cell = place_of(paths->cells, paths->slots, flow, what);
        }
        paths->n++;
        cell->flow = flow;
        cell->what = what;
    }
    cell->packets++;
    cell->bytes += bytes;
}

/* --- packets ----------------------------------------------------------------------------------- */

static uint32_t range_of(ws_time gap)
{
    const uint64_t ns = (uint64_t)gap / 1000;
    const uint32_t range = ns ? 64u - (uint32_t)__builtin_clzll(ns) : 0;
    return range < GAPS_MOST ? range : GAPS_MOST - 1;
}

void paths_sent(struct sim *s, const struct lane *lane, const struct flight *flight)
{
    uint32_t psn;
    const struct flow *flow = flight_data_flow(s, flight, &psn);
    if (!flow || flow->number >= s->paths->n_trains)
        return;
    count(s, flow->number, 2 * lane->link + lane->direction, ws_wire_bytes(flight->length + flight->tail));
    if (s->nodes[s->links[lane->link]->node[lane->direction]].sw)
        return;
    struct train *train = &s->paths->trains[flow->number];
    if (train->left >= 0)
        count(s, flow->number, GAP | range_of(s->now - train->left), 0);
    train->left = s->now;
}

void paths_arrived(struct sim *s, uint32_t node, const struct flight *flight)
{
    uint32_t psn;
    const struct flow *flow = flight_data_flow(s, flight, &psn);
    if (!flow || flow->at_node != node || flow->number >= s->paths->n_trains)
        return;
    struct train *train = &s->paths->trains[flow->number];
    const uint32_t behind = train->order.arrived++ ? (train->highest - psn) & PSN_MASK : PSN_MASK;
    if (behind > PSN_MASK / 2) {
        train->highest = psn;
    } else if (behind) {
        train->order.reordered++;
        if (behind > train->order.most_behind)
            train->order.most_behind = behind;
    }
}

/* --- what was counted --------------------------------------------------------------------------- */

int64_t sim_path_rows(const sim *s, struct sim_path_row *rows, size_t max)
{
    const struct paths *paths = s->paths;
    size_t n = 0;
    if (!paths)
        return SIM_ENOENT;
    for (uint64_t i = 0; i < paths->slots; i++) {
        const struct cell *cell = &paths->cells[i];
        if (!cell->packets || cell->what & GAP)
            continue;
        if (n < max)
            rows[n] = (struct sim_path_row){.flow = cell->flow, .link = cell->what / 2, .direction = cell->what % 2,
                                            .packets = cell->packets, .bytes = cell->bytes};
        n++;
    }
    return (int64_t)n;
}

int64_t sim_gap_rows(const sim *s, struct sim_gap_row *rows, size_t max)
{
    const struct paths *paths = s->paths;
    size_t n = 0;
    if (!paths)
        return SIM_ENOENT;
    for (uint64_t i = 0; i < paths->slots; i++) {
        const struct cell *cell = &paths->cells[i];
        const uint32_t range = cell->what & ~GAP;
        if (!cell->packets || !(cell->what & GAP))
            continue;
        if (n < max)
            rows[n] = (struct sim_gap_row){.flow = cell->flow, .gap_ns = range ? (uint64_t)1 << (range - 1) : 0, .packets = cell->packets};
        n++;
    }
    return (int64_t)n;
}

int sim_flow_orders_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_order *rows)
{
    if (!s->paths || (uint64_t)first + n > s->paths->n_trains)
        return sim_fail(s, SIM_ENOENT, "the order of flows %u .. was not recorded", first);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = s->paths->trains[first + i].order;
    return SIM_OK;
}
