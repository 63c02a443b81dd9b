/* The event loop. */
#include "engine.h"

#define ELEMENT_OPS(name, ops) [TIMER_##name] = &ops,
const struct element_ops *const element_of[TIMER_KINDS] = {ELEMENTS(ELEMENT_OPS)};
#undef ELEMENT_OPS

static void handle_source(struct sim *s, uint32_t number)
{
    const struct source *source = &s->sources[number];
    s->nodes[source->node].ops->send(s, source->node, source->port);
}

static void handle_arrival(struct sim *s, size_t i)
{
    struct lane *lane = s->due[i].lane;
    arrivals_expect(s, i);
    s->nodes[lane->to_node].ops->receive(s, lane->to_node, lane->to_port, lane_take(s, lane));
}

static void handle_timer(struct sim *s)
{
    const struct timer timer = order_pop_timer(s);
    if (s->timers_n && s->timers[0].kind == TIMER_FLOW)
        flow_prefetch(s->flows[s->timers[0].object], 1);
    element_of[timer.kind]->due(s, &timer);
}

static ws_time next_source(const struct sim *s) { return s->heap_n ? s->heap[0].time : WS_NEVER; }

static ws_time next_timer(const struct sim *s) { return s->timers_n ? s->timers[0].time : WS_NEVER; }

static ws_time next_at_switches(const struct sim *s)
{
    ws_time next = WS_NEVER;
    for (uint32_t i = 0; i < s->n_switches; i++)
        next = s->switch_next[i] < next ? s->switch_next[i] : next;
    return next;
}

/* What is second in the heap is likely to be next. */
static inline void expect_sources(const struct sim *s)
{
    for (uint32_t i = 1; i <= 4 && i < s->heap_n; i++)
        __builtin_prefetch(s->sources[s->heap[i].source].nic);
}

/* All that happens at hosts up to and at `last`. */
static void run_hosts(struct sim *s, ws_time last)
{
    arrivals_gather(s, last);
    for (size_t i = 0; !s->halted;) { /* a frame that there is no memory for would be sent for ever */
        const struct due *due = i < s->due_n ? &s->due[i] : NULL;
        ws_time source = next_source(s), timer = next_timer(s);
        const int arrives = due && (due->time < source || (due->time == source && due->source < s->heap[0].source));
        if (arrives)
            source = due->time;
        ws_time next = timer <= source ? timer : source;
        if (next > last)
            break;
        if (next > s->now)
            s->now = next;
        s->totals.events++;
        if (timer <= source) {
            handle_timer(s);
            expect_sources(s);
        } else if (arrives) {
            handle_arrival(s, i++);
        } else {
            handle_source(s, s->heap[0].source);
            expect_sources(s);
        }
    }
    arrivals_done(s);
}

/* The first switch from `from` on that has something to do up to `last`. */
static uint32_t next_turn(const struct sim *s, uint32_t from, ws_time last)
{
    while (from < s->n_switches && s->switch_next[from] > last)
        from++;
    return from;
}

static void near(const struct sim *s, uint32_t turn, uint32_t turns)
{
    const struct node *node = &s->nodes[s->switches[turn]];
    node->ops->near(node, turns);
}

static void run_window(struct sim *s, ws_time last, ws_time tick)
{
    s->latest = s->now;
    if (tick <= last)
        tickers_run(s, last);
    uint32_t here = next_turn(s, 0, last), next = next_turn(s, here + 1, last);
    while (here < s->n_switches) {
        const uint32_t soon = next_turn(s, next + 1, last);
        if (soon < s->n_switches)
            near(s, soon, 2);
        if (next < s->n_switches)
            near(s, next, 1);
        near(s, here, 0);
        s->nodes[s->switches[here]].ops->run(s, s->switches[here], last);
        here = next;
        next = soon;
    }
    run_hosts(s, last);
    if (s->latest > s->now)
        s->now = s->latest;
}

enum element_state work_state(const struct sim *s)
{
    enum element_state state = ELEMENT_UNUSED;
    for (uint32_t kind = 0; kind < TIMER_KINDS && state != ELEMENT_OPEN; kind++)
        if (element_of[kind]->state) {
            const enum element_state its = element_of[kind]->state(s);
            state = its > state ? its : state;
        }
    return state;
}

static int all_sent(const struct sim *s)
{
    const enum element_state state = work_state(s);
    if (state == ELEMENT_OPEN)
        return 0;
    if (state == ELEMENT_UNUSED)
        return 1;
    return !s->works && !s->raws && !s->totals.in_flight && next_at_switches(s) == WS_NEVER;
}

/* The time that every frame takes at least from one node to another. */
static ws_time smallest_delay(const struct sim *s)
{
    ws_time least = WS_DELAY_MAX;
    for (uint32_t i = 0; i < s->n_links; i++)
        for (int end = 0; end < 2; end++) {
            const uint32_t node = s->links[i]->node[end];
            const ws_time delay = s->nodes[node].ops->delay(s, node, s->links[i]->port[end]);
            if (delay < least)
                least = delay;
        }
    return least;
}

/* A network that is looked at for the first time, or was changed. */
static void look_again(struct sim *s)
{
    s->window = smallest_delay(s);
    s->window_stale = 0;
}

/* Takes the next sample. When nothing has happened since the last one, those up to `quiet` would be equal. */
static void sample_due(struct sim *s, ws_time quiet)
{
    if (s->next_sample > s->now)
        s->now = s->next_sample;
    const int changed = s->totals.events != s->sampled_events || s->heap_n || s->timers_n || s->hosts_next != WS_NEVER;
    s->sampled_events = s->totals.events;
    if (changed || next_at_switches(s) != WS_NEVER)
        sample_now(s);
    else
        s->next_sample += (quiet - s->next_sample) / s->sample_interval * s->sample_interval;
    s->next_sample += s->sample_interval;
}

enum sim_stop sim_run(sim *s, ws_time until, uint64_t budget, int to_the_end)
{
    if (order_fix(s))
        return SIM_FAILED;
    if (s->window_stale)
        look_again(s);
    if (s->punts_taken == s->punts_n)
        punts_forget(s);
    const uint64_t begun = s->totals.events;
    for (;;) {
        if (s->halted)
            return SIM_FAILED;
        if (s->punts_n > s->punts_taken) {
            punts_sort(s);
            return SIM_PUNT;
        }
        if (to_the_end && all_sent(s))
            return SIM_DONE;
        ws_time next = next_at_switches(s), source = next_source(s), timer = next_timer(s);
        if (source < next)
            next = source;
        if (s->hosts_next < next)
            next = s->hosts_next;
        if (timer < next)
            next = timer;
        const ws_time tick = s->tickers ? tickers_due(s, to_the_end, until) : WS_NEVER;
        if (tick < next)
            next = tick;
        if (s->next_sample < next && s->next_sample <= until && (next != WS_NEVER || until != WS_NEVER)) {
            sample_due(s, next != WS_NEVER ? next : until);
            continue;
        }
        if (next > until || next == WS_NEVER) {
            if (until != WS_NEVER && until > s->now)
                s->now = until;
            return next == WS_NEVER ? SIM_IDLE : SIM_UNTIL;
        }
        if (s->totals.events - begun >= budget)
            return SIM_BUDGET;
        ws_time last = next + (s->window > 0 ? s->window - 1 : 0);
        if (last > until)
            last = until;
        if (last > s->next_sample)
            last = s->next_sample;
        if (tick <= last)
            last = tickers_window(next, last);
        run_window(s, last, tick);
    }
}

ws_time sim_now(const sim *s) { return s->now; }

size_t sim_take_punts(sim *s, struct sim_punt *punts, size_t max)
{
    size_t n = 0;
    while (n < max && s->punts_taken < s->punts_n)
        punts[n++] = s->punts[s->punts_taken++];
    return n;
}

void sim_totals_get(const sim *s, struct sim_totals *totals)
{
    *totals = s->totals;
    totals->hops = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].sw) {
            struct ws_stats stats;
            ws_stats_get(s->nodes[i].sw, &stats);
            totals->hops += stats.egress;
        }
}
