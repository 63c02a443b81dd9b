/* A card's own time: its crystal is a little off, its frames come a little later than another's, and not quite evenly.
 *
 * Without it equal senders stay in step for ever: of four into one full drop-tail queue the same one finds room each time.
 */
#include "engine.h"

static const int64_t PPB_MOST = 1000000;

ws_time slot_of(uint64_t rate_bps, uint32_t frame)
{
    uint64_t bits = 8 * (uint64_t)ws_wire_bytes(frame);
    return (ws_time)((bits * PS_PER_S + rate_bps - 1) / rate_bps);
}

int sim_set_clock(sim *s, uint32_t node, uint32_t port, const struct sim_clock *clock)
{
    if (node >= s->n_nodes || port >= s->nodes[node].n_nics)
        return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", node, port);
    if (clock->ppb < -PPB_MOST || clock->ppb > PPB_MOST || clock->phase_ps < 0 || clock->phase_ps > WS_DELAY_MAX ||
        clock->jitter_ps < 0 || clock->jitter_ps > WS_DELAY_MAX)
        return sim_fail(s, SIM_EINVAL, "a clock is at most 1000 ppm off, its phase and jitter at most the longest delay");
    struct nic *nic = &s->nodes[node].nics[port];
    nic->clock = *clock;
    endpoint_reconfigure(nic);
    return SIM_OK;
}

ws_time clock_arrival(struct nic *nic, ws_time at)
{
    struct sim_clock *clock = &nic->clock;
    if (!clock->jitter_ps)
        return at + clock->phase_ps;
    const uint64_t share = sim_random(&clock->seed);
    at += clock->phase_ps + (ws_time)((unsigned __int128)share * ((uint64_t)clock->jitter_ps + 1) >> 64);
    if (at < nic->last_arrival)
        at = nic->last_arrival;
    return nic->last_arrival = at;
}
