/* Owns hosts as nodes: their interfaces' ends, and the numbers of what happens there. What their cards do is in host.c. */
#include "engine.h"

#include <stdlib.h>

static struct end *host_end(struct sim *s, uint32_t number, uint32_t port, int make)
{
    (void)make;
    struct node *node = &s->nodes[number];
    if (port < node->n_nics)
        return &node->nics[port].end;
    return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", number, port), NULL;
}

/* Its arrivals, then its departures. */
static int host_fix(struct sim *s, uint32_t number)
{
    struct node *node = &s->nodes[number];
    struct lane **into = lanes_into(s, number, node->n_nics);
    if (!into)
        return 0;
    for (uint32_t p = 0; p < node->n_nics; p++)
        if (into[p]) {
            into[p]->source = s->n_sources++;
            s->host_firsts[s->n_host_lanes] = WS_NEVER;
            into[p]->first = &s->host_firsts[s->n_host_lanes];
            into[p]->to_next = &s->hosts_next;
            s->host_lanes[s->n_host_lanes++] = into[p];
        }
    for (uint32_t p = 0; p < node->n_nics; p++) {
        node->nics[p].source = s->n_sources;
        s->sources[s->n_sources++] = (struct source){.nic = &node->nics[p], .node = number, .port = p};
    }
    free(into);
    return 1;
}

static ws_time host_delay(const struct sim *s, uint32_t number, uint32_t port)
{
    const struct sim_port_config *config = &s->nodes[number].nics[port].config;
    return config->delay_ps + least_slot(config->rate_bps);
}

static void host_link(struct sim *s, uint32_t number, uint32_t port, int up)
{
    (void)up;
    carrier_changed(s, number, port);
    nic_wake(s, number, port);
}

static void host_free(struct node *node)
{
    for (uint32_t p = 0; p < node->n_nics; p++) {
        while (node->nics[p].raw_head) {
            struct raw_frame *next = node->nics[p].raw_head->next;
            free(node->nics[p].raw_head);
            node->nics[p].raw_head = next;
        }
        outbox_free(node->nics[p].outbox);
        free(node->nics[p].wire);
        receiver_free(node->nics[p].receiver);
        if (!node->nics[p].line) /* the first one's is that of all that share it */
            rnic_destroy(node->nics[p].card);
        notifications_free(node->nics[p].notified);
    }
    ws_memory_put(node->nics, node->n_nics * sizeof *node->nics);
}

const struct element_ops host_element = {
    .end = host_end,
    .fix = host_fix,
    .delay = host_delay,
    .link = host_link,
    .free_node = host_free,
    .send = nic_send,
    .expect = nic_expect,
    .receive = nic_receive,
};
