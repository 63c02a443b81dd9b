/* What is reported of a run: statistics, samples, copies of frames. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* --- statistics ---------------------------------------------------------------------------------- */

int sim_flow_stats_get(sim *s, uint32_t first, uint32_t n, struct sim_flow_stats *stats)
{
    if ((uint64_t)first + n > s->n_flows)
        return SIM_ENOENT;
    for (uint32_t i = 0; i < n; i++) {
        struct flow *flow = s->flows[first + i];
        endpoint_refresh(s, flow);
        stats[i] = flow->stats;
        if (flow->head) {
            const struct nic *nic = &s->nodes[flow->config.src].nics[flow->config.src_port];
            stats[i].paused_ps += nic_paused(&nic->queues[flow->config.queue], s->now) - flow->paused_mark;
        }
    }
    return SIM_OK;
}

int sim_message_times_get(const sim *s, uint64_t first, uint64_t n, struct sim_message_times *times)
{
    if (first > s->n_messages || n > s->n_messages - first)
        return SIM_ENOENT;
    for (uint64_t i = 0; i < n; i++)
        times[i] = s->messages[first + i].times;
    return SIM_OK;
}

int sim_host_port_stats_get(const sim *s, uint32_t node, uint32_t port, struct sim_host_port_stats *stats)
{
    if (node >= s->n_nodes || port >= s->nodes[node].n_nics)
        return SIM_ENOENT;
    const struct nic *nic = &s->nodes[node].nics[port];
    *stats = nic->stats;
    for (int q = 0; q < QUEUES; q++)
        stats->paused_ps[q] = nic_paused(&nic->queues[q], s->now);
    return SIM_OK;
}

static const struct nic *nic_of(const sim *s, uint32_t node, uint32_t port)
{
    return node < s->n_nodes && port < s->nodes[node].n_nics ? &s->nodes[node].nics[port] : NULL;
}

int64_t sim_notifications(const sim *s, uint32_t node, uint32_t port, struct rnic_notification *rows, size_t max)
{
    const struct nic *nic = nic_of(s, node, port);
    if (!nic)
        return SIM_ENOENT;
    return (int64_t)(nic->card ? rnic_notifications(nic->card, rows, max) : notifications_rows(nic->notified, rows, max));
}

int sim_notification_counts_get(const sim *s, uint32_t node, uint32_t port, struct rnic_notification_counts *counts)
{
    const struct nic *nic = nic_of(s, node, port);
    if (!nic)
        return SIM_ENOENT;
    if (nic->card)
        rnic_notification_counts_get(nic->card, counts);
    else
        notifications_counts(nic->notified, counts);
    return SIM_OK;
}

/* --- samples ------------------------------------------------------------------------------------- */

int sim_sample(sim *s, ws_time start_ps, ws_time interval_ps)
{
    if (interval_ps < 0 || start_ps < s->now)
        return sim_fail(s, SIM_EINVAL, "samples begin at %lld ps, which is past, or have no interval", (long long)start_ps);
    s->sample_interval = interval_ps;
    s->sampled_at = s->now;
    s->next_sample = interval_ps ? start_ps : WS_NEVER;
    return SIM_OK;
}

void *sample_row(struct sim *s, struct rows *rows, size_t size)
{
    if (!room(&rows->data, rows->n, &rows->capacity, size))
        return sim_short(s, "samples"), NULL;
    return (uint8_t *)rows->data + rows->n++ * size;
}

static void sample_switch(struct sim *s, uint32_t number)
{
    const struct node *node = &s->nodes[number];
    for (uint32_t p = 0; p < node->n_ends; p++) {
        struct ws_depth waiting[WS_PRIORITIES_MAX];
        const uint32_t n = ws_depths_get(node->sw, p, waiting);
        for (uint32_t i = 0; i < n; i++) {
            struct sim_queue_sample *at = sample_row(s, &s->queue_rows, sizeof *at);
            if (at)
                *at = (struct sim_queue_sample){.at = s->now, .node = number, .port = p, .queue = waiting[i].queue,
                                                .packets = waiting[i].packets, .bytes = waiting[i].bytes,
                                                .paused = waiting[i].paused};
        }
    }
}

static void sample_lane(struct sim *s, struct lane *lane)
{
    if (lane->packets == lane->sampled_packets)
        return;
    struct sim_link_sample *at = sample_row(s, &s->link_rows, sizeof *at);
    if (!at)
        return;
    *at = (struct sim_link_sample){.at = s->now, .link = lane->link, .direction = lane->direction,
                                   .bytes = lane->bytes - lane->sampled_bytes,
                                   .packets = lane->packets - lane->sampled_packets};
    lane->sampled_bytes = lane->bytes;
    lane->sampled_packets = lane->packets;
}

void flow_dirty(struct sim *s, struct flow *flow, uint32_t number)
{
    if (flow->next_dirty != number)
        return; /* in the list */
    flow->next_dirty = NONE;
    if (s->dirty_head == NONE)
        s->dirty_head = number;
    else
        s->flows[s->dirty_tail]->next_dirty = number;
    s->dirty_tail = number;
}

void sample_now(struct sim *s)
{
    s->sampled_at = s->now;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].sw)
            sample_switch(s, i);
    for (uint32_t i = 0; i < s->n_links; i++)
        for (int d = 0; d < 2; d++)
            sample_lane(s, &s->links[i]->lanes[d]);
    while (s->dirty_head != NONE) {
        struct flow *flow = s->flows[s->dirty_head];
        struct sim_flow_sample *at = sample_row(s, &s->flow_rows, sizeof *at);
        endpoint_refresh(s, flow);
        if (at)
            *at = (struct sim_flow_sample){.at = s->now, .flow = s->dirty_head,
                                           .bytes = flow->stats.received_bytes - flow->sampled_bytes,
                                           .rate_bps = endpoint_rate(s, flow)};
        flow->sampled_bytes = flow->stats.received_bytes;
        uint32_t number = s->dirty_head;
        s->dirty_head = flow->next_dirty;
        flow->next_dirty = number;
    }
    s->dirty_tail = NONE;
}

void sim_sample_rest(sim *s)
{
    if (s->sample_interval && s->fixed && s->now > s->sampled_at)
        sample_now(s);
}

size_t sample_take(struct rows *rows, void *out, size_t max, size_t size)
{
    size_t n = rows->n - rows->taken < max ? rows->n - rows->taken : max;
    if (n)
        memcpy(out, (uint8_t *)rows->data + rows->taken * size, n * size);
    rows->taken += n;
    if (rows->taken == rows->n)
        rows->n = rows->taken = 0;
    return n;
}

size_t sim_take_queue_samples(sim *s, struct sim_queue_sample *rows, size_t max)
{
    return sample_take(&s->queue_rows, rows, max, sizeof *rows);
}
size_t sim_take_link_samples(sim *s, struct sim_link_sample *rows, size_t max)
{
    return sample_take(&s->link_rows, rows, max, sizeof *rows);
}
size_t sim_take_flow_samples(sim *s, struct sim_flow_sample *rows, size_t max)
{
    return sample_take(&s->flow_rows, rows, max, sizeof *rows);
}

/* --- taps ------------------------------------------------------------------------------------------ */

/* tap->n rows wait, those up to tap->given were handed out by the last call and are freed by the next. */
static void forget_given(struct tap *tap)
{
    for (size_t i = 0; i < tap->given; i++)
        free(tap->bytes[i]);
    tap->n -= tap->given;
    memmove(tap->rows, tap->rows + tap->given, tap->n * sizeof *tap->rows);
    memmove(tap->bytes, tap->bytes + tap->given, tap->n * sizeof *tap->bytes);
    tap->given = 0;
}

int sim_tap(sim *s, uint32_t node, uint32_t port, size_t capacity)
{
    struct end *end = node < s->n_nodes ? s->nodes[node].ops->end(s, node, port, 0) : NULL;
    if (!end)
        return sim_fail(s, SIM_ENOENT, "node %u has no port %u with a link", node, port);
    if (!capacity) {
        end->tap = 0;
        return SIM_OK;
    }
    struct tap *taps = realloc(s->taps, (s->n_taps + 1) * sizeof *taps);
    if (!taps)
        return sim_fail(s, SIM_ENOMEM, "no memory for a tap");
    s->taps = taps;
    struct tap *tap = &s->taps[s->n_taps];
    *tap = (struct tap){.node = node, .port = port, .capacity = capacity};
    tap->rows = calloc(capacity, sizeof *tap->rows);
    tap->bytes = calloc(capacity, sizeof *tap->bytes);
    if (!tap->rows || !tap->bytes) {
        free(tap->rows);
        free(tap->bytes);
        return sim_fail(s, SIM_ENOMEM, "no memory for a tap");
    }
    end->tap = ++s->n_taps;
    return SIM_OK;
}

void tap_frame(struct sim *s, uint32_t number, ws_time at, int sent, const uint8_t *data, uint32_t length,
               uint32_t tail, uint64_t tail_seed)
{
    struct tap *tap = &s->taps[number - 1];
    uint8_t *bytes = tap->n < tap->capacity ? malloc(length + 1) : NULL;
    if (!bytes) {
        s->tap_missed++;
        return;
    }
    memcpy(bytes, data, length);
    tap->bytes[tap->n] = bytes;
    tap->rows[tap->n++] = (struct sim_tapped){.at = at, .node = tap->node, .port = tap->port, .sent = (uint32_t)sent,
                                              .length = length, .tail_length = tail, .tail_seed = tail_seed,
                                              .data = bytes};
}

size_t sim_take_tapped(sim *s, struct sim_tapped *rows, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_taps; i++) {
        struct tap *tap = &s->taps[i];
        forget_given(tap);
        while (n < max && tap->given < tap->n)
            rows[n++] = tap->rows[tap->given++];
    }
    return n;
}

uint64_t sim_tap_missed(const sim *s) { return s->tap_missed; }

void observe_free(struct sim *s)
{
    for (uint32_t i = 0; i < s->n_taps; i++) {
        for (size_t row = 0; row < s->taps[i].n; row++)
            free(s->taps[i].bytes[row]);
        free(s->taps[i].rows);
        free(s->taps[i].bytes);
    }
    free(s->taps);
    free(s->queue_rows.data);
    free(s->link_rows.data);
    free(s->flow_rows.data);
}
