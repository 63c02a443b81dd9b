/* What became of the planes of flows whose interfaces are such, and which of them those use that take one at a time; at both ends. */
#include "engine.h"

static struct sim_plane_row row_of(const struct flow *flow, uint32_t interface, int sends, const struct rnic_plane_stats *stats)
{
    return (struct sim_plane_row){
        .flow = flow->number,
        .interface = interface,
        .sends = (uint32_t)sends,
        .state = stats->state,
        .why = stats->why,
        .losses = stats->losses,
        .sent_packets = stats->sent_packets,
        .sent_bytes = stats->sent_bytes,
        .moved_packets = stats->moved_packets,
        .outstanding = stats->outstanding,
        .probes_sent = stats->probes_sent,
        .probes_answered = stats->probes_answered,
        .rate_bps = stats->rate_bps,
        .heard_at = stats->heard_at,
        .lost_at = stats->lost_at,
        .up_at = stats->up_at,
    };
}

/* Those of one end; with fewer places than rows they are only counted. */
static size_t end_rows(struct sim *s, const struct flow *flow, uint32_t node, struct sim_plane_row *rows, size_t n, size_t max)
{
    const uint32_t from = flow->config.operation == RNIC_READ ? flow->config.dst : flow->config.src;
    struct rnic_plane_stats stats;
    for (uint32_t i = 0; i < flow->config.interfaces; i++) {
        if (rnic_plane_stats_get(s->nodes[node].nics[0].card, flow->number + 1, i, s->now, &stats))
            continue;
        if (n < max)
            rows[n] = row_of(flow, i, node == from, &stats);
        n++;
    }
    return n;
}

size_t sim_plane_rows(sim *s, struct sim_plane_row *rows, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_flows; i++) {
        const struct flow *flow = s->flows[i];
        if (!flow->config.transport || flow->config.interfaces < 2)
            continue;
        n = end_rows(s, flow, flow->config.src, rows, n, max);
        n = end_rows(s, flow, flow->config.dst, rows, n, max);
    }
    return n;
}

size_t sim_migration_rows(sim *s, struct sim_migration_row *rows, size_t max)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_flows; i++) {
        const struct flow *flow = s->flows[i];
        if (!flow->config.transport || flow->config.interfaces < 2)
            continue;
        const uint32_t ends[] = {flow->config.src, flow->config.dst};
        for (int end = 0; end < 2; end++) {
            struct rnic_migration_stats stats;
            if (rnic_migration_stats_get(s->nodes[ends[end]].nics[0].card, flow->number + 1, &stats))
                continue;
            if (n < max)
                rows[n] = (struct sim_migration_row){
                    .flow = flow->number,
                    .sends = ends[end] == (flow->config.operation == RNIC_READ ? flow->config.dst : flow->config.src),
                    .state = stats.state,
                    .cause = stats.cause,
                    .interface = stats.interface,
                    .migrations = stats.migrations,
                    .probes_sent = stats.probes_sent,
                    .probes_answered = stats.probes_answered,
                    .found_at = stats.found_at,
                    .migrated_at = stats.migrated_at,
                };
            n++;
        }
    }
    return n;
}
