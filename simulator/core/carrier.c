/* Owns what cards of several interfaces know of their links, which is what was so a while ago: a wire is dead at once, and its host
 * hears of it later. Until then the card sends, and all of that is lost. And which of them are drained, by order and at once.
 */
#include "engine.h"

void carrier_delay(struct node *node, ws_time delay)
{
    for (uint32_t i = 0; i < node->n_nics; i++)
        if (node->nics[i].link_delay < delay)
            node->nics[i].link_delay = delay;
}

void carrier_told(const struct sim *s, struct nic *nic, int up)
{
    nic->believed = (uint8_t)(up != 0);
    rnic_advance(nic->card, s->now); /* it has no clock of its own */
    rnic_set_link(nic->card, nic->line, up);
}

void carrier_changed(struct sim *s, uint32_t number, uint32_t port)
{
    struct nic *nic = &s->nodes[number].nics[port];
    const int up = nic->end.out && nic->end.out->up;
    if (nic->lines <= 1)
        return;
    if (nic->link_delay)
        order_timer(s, s->now + nic->link_delay, TIMER_CARRIER, (uint64_t)number << 32 | port << 1 | (uint32_t)up);
    else
        carrier_told(s, nic, up);
}

int sim_drain(sim *s, uint32_t number, uint32_t port, int on)
{
    if (number >= s->n_nodes || port >= s->nodes[number].n_nics)
        return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", number, port);
    const int status = order_fix(s);
    if (status)
        return status;
    const struct nic *nic = &s->nodes[number].nics[port];
    if (nic->lines <= 1)
        return SIM_OK;
    rnic_advance(nic->card, s->now);
    rnic_drain(nic->card, nic->line, on);
    nic_wake(s, number, port);
    return SIM_OK;
}

static void carrier_due(struct sim *s, const struct timer *timer)
{
    const uint32_t number = (uint32_t)(timer->object >> 32), port = (uint32_t)timer->object >> 1;
    carrier_told(s, &s->nodes[number].nics[port], (int)(timer->object & 1));
    nic_wake(s, number, port);
}

const struct element_ops carrier_element = {.due = carrier_due};
