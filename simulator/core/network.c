/* Owns nodes and links, and the simulation as a whole. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int room(void **array, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity && *array)
        return 1;
    size_t wanted = *capacity ? 2 * *capacity : 64;
    if (wanted <= n)
        wanted = n + 1;
    void *bigger = realloc(*array, wanted * size);
    if (!bigger)
        return 0;
    *array = bigger;
    *capacity = wanted;
    return 1;
}

static int room32(void **array, uint32_t n, uint32_t *capacity, size_t size)
{
    size_t wide = *capacity;
    if (!room(array, n, &wide, size))
        return 0;
    *capacity = (uint32_t)wide;
    return 1;
}

int sim_fail(struct sim *s, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->error, sizeof s->error, format, arguments);
    va_end(arguments);
    return status;
}

int sim_short(struct sim *s, const char *what)
{
    if (!s->short_of)
        s->short_of = what;
    s->halted = 1;
    return sim_fail(s, SIM_ENOMEM, "no memory for %s", s->short_of);
}

sim *sim_create(uint64_t seed)
{
    struct sim *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->seed = seed;
    s->next_sample = s->hosts_next = s->tickers_next = WS_NEVER;
    s->dirty_head = s->dirty_tail = NONE;
    return s;
}

const char *sim_error(const sim *s) { return s->error; }

/* `bytes` each. */
static void free_slabs(void *slab, size_t bytes)
{
    while (slab) {
        void *next = *(void **)slab;
        ws_memory_put(slab, bytes);
        slab = next;
    }
}

void sim_seed(sim *s, uint64_t seed) { s->seed = seed; }

void sim_destroy(sim *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n_links; i++) {
        for (int d = 0; d < 2; d++)
            for (struct flight *at = s->links[i]->lanes[d].head; at; at = at->next)
                if (flight_is_long(at))
                    free(at->long_data);
        ws_memory_put(s->links[i], sizeof *s->links[i]);
    }
    for (uint32_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].ops->free_node(&s->nodes[i]);
    stripes_free_all(s);
    for (uint32_t i = 0; i < s->n_flows; i++) {
        if (!s->flows[i]->config.transport)
            ws_memory_put(s->flows[i]->far_seen, FAR_SEEN / 8);
        ws_memory_put(s->flows[i], flow_bytes(&s->flows[i]->config));
    }
    for (uint32_t kind = 0; kind < TIMER_KINDS; kind++)
        if (element_of[kind]->free)
            element_of[kind]->free(s);
    punts_forget(s);
    observe_free(s);
    free_slabs(s->flight_slabs, FLIGHT_SLAB_BYTES);
    free_slabs(s->wide_slabs, WIDE_SLAB_BYTES);
    free_slabs(s->work_slabs, WORK_SLAB_BYTES);
    free(s->links);
    free(s->nodes);
    free(s->flows);
    free(s->transports);
    collectives_free(s);
    tickers_free(s);
    paths_free(s);
    hops_free(s);
    free(s->punts);
    free(s->switches);
    free(s->switch_next);
    free(s->arrivals);
    free(s->sources);
    free(s->heap);
    free(s->place);
    free(s->host_lanes);
    free(s->host_firsts);
    free(s->due);
    free(s->due_found);
    free(s->due_places);
    free(s->timers);
    free(s);
}

/* --- nodes ------------------------------------------------------------------------------------- */

static struct node *node_new(struct sim *s, const struct element_ops *ops)
{
    if (s->fixed)
        return sim_fail(s, SIM_EINVAL, "the network can't grow once it has run"), NULL;
    if (!room32((void **)&s->nodes, s->n_nodes, &s->nodes_capacity, sizeof *s->nodes))
        return sim_fail(s, SIM_ENOMEM, "no memory for another node"), NULL;
    struct node *node = &s->nodes[s->n_nodes];
    *node = (struct node){.ops = ops, .alive = 1};
    return node;
}

int sim_add_switch(sim *s, ws_switch *sw)
{
    struct node *node = node_new(s, &switch_element);
    if (!node)
        return s->fixed ? SIM_EINVAL : SIM_ENOMEM;
    node->sw = sw;
    return (int)s->n_nodes++;
}

static int check_port(struct sim *s, const struct sim_port_config *config)
{
    if (!config->rate_bps)
        return sim_fail(s, SIM_EINVAL, "a host's interface needs a rate above 0");
    if (config->delay_ps < 0 || config->delay_ps > WS_DELAY_MAX)
        return sim_fail(s, SIM_EINVAL, "a delay of %lld ps is out of range", (long long)config->delay_ps);
    return SIM_OK;
}

int sim_add_host(sim *s, const struct sim_port_config *ports, uint32_t n)
{
    if (!n)
        return sim_fail(s, SIM_EINVAL, "a host needs an interface");
    for (uint32_t i = 0; i < n; i++)
        if (check_port(s, &ports[i]))
            return SIM_EINVAL;
    struct node *node = node_new(s, &host_element);
    if (!node)
        return s->fixed ? SIM_EINVAL : SIM_ENOMEM;
    node->nics = ws_memory_get(n * sizeof *node->nics);
    if (!node->nics)
        return sim_fail(s, SIM_ENOMEM, "no memory for a host");
    node->n_nics = n;
    for (uint32_t i = 0; i < n; i++)
        node->nics[i].config = ports[i];
    return (int)s->n_nodes++;
}

static struct nic *nic_of(const struct sim *s, uint32_t node, uint32_t port)
{
    return node < s->n_nodes && port < s->nodes[node].n_nics ? &s->nodes[node].nics[port] : NULL;
}

int sim_configure_host_port(sim *s, uint32_t node, uint32_t port, const struct sim_port_config *config)
{
    struct nic *nic = nic_of(s, node, port);
    if (!nic)
        return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", node, port);
    if (check_port(s, config))
        return SIM_EINVAL;
    nic->config = *config;
    endpoint_reconfigure(nic);
    s->window_stale = 1;
    return SIM_OK;
}

int sim_impair_host_port(sim *s, uint32_t node, uint32_t port, const struct ws_port_impair *impair)
{
    struct nic *nic = nic_of(s, node, port);
    if (!nic)
        return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", node, port);
    if (!ws_impair_valid(impair))
        return sim_fail(s, SIM_EINVAL, "impairments out of range");
    if (!nic->wire && !(nic->wire = calloc(1, sizeof *nic->wire)))
        return sim_fail(s, SIM_ENOMEM, "no memory for a wire");
    ws_wire_set(nic->wire, impair, s->seed + node, port, WS_SEND);
    return SIM_OK;
}

int sim_set_node(sim *s, uint32_t number, int alive)
{
    if (number >= s->n_nodes)
        return sim_fail(s, SIM_ENOENT, "there is no node %u", number);
    int status = order_fix(s);
    if (status)
        return status;
    struct node *node = &s->nodes[number];
    node->alive = alive != 0;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i]->node[0] == number || s->links[i]->node[1] == number)
            link_update(s, s->links[i]);
    return SIM_OK;
}

int sim_touch(sim *s, uint32_t node)
{
    if (node >= s->n_nodes || !s->nodes[node].sw)
        return sim_fail(s, SIM_ENOENT, "node %u is no switch", node);
    int status = order_fix(s);
    if (status)
        return status;
    s->window_stale = 1;
    switch_refresh(s, node);
    return SIM_OK;
}

/* --- links ------------------------------------------------------------------------------------- */

static struct end *end_of(struct sim *s, uint32_t number, uint32_t port)
{
    if (number >= s->n_nodes)
        return sim_fail(s, SIM_ENOENT, "there is no node %u", number), NULL;
    return s->nodes[number].ops->end(s, number, port, 1);
}

int sim_add_link(sim *s, uint32_t node_a, uint32_t port_a, uint32_t node_b, uint32_t port_b)
{
    if (s->fixed)
        return sim_fail(s, SIM_EINVAL, "the network can't grow once it has run");
    struct end *a = end_of(s, node_a, port_a);
    if (!a)
        return SIM_EINVAL;
    if (a->out)
        return sim_fail(s, SIM_EINVAL, "port %u of node %u has a link", port_a, node_a);
    struct end *b = end_of(s, node_b, port_b);
    if (!b)
        return SIM_EINVAL;
    a = end_of(s, node_a, port_a); /* it may have moved */
    if (b->out || a == b)
        return sim_fail(s, SIM_EINVAL, "port %u of node %u has a link", port_b, node_b);
    struct link *link = ws_memory_get(sizeof *link);
    if (!link || !room32((void **)&s->links, s->n_links, &s->links_capacity, sizeof *s->links))
        return ws_memory_put(link, sizeof *link), sim_fail(s, SIM_ENOMEM, "no memory for another link");
    *link = (struct link){.node = {node_a, node_b}, .port = {port_a, port_b}, .wanted = 1, .up = 1};
    link->lanes[0] = (struct lane){.to_node = node_b, .to_port = port_b, .link = s->n_links, .direction = 0, .up = 1};
    link->lanes[1] = (struct lane){.to_node = node_a, .to_port = port_a, .link = s->n_links, .direction = 1, .up = 1};
    a->out = &link->lanes[0];
    b->out = &link->lanes[1];
    s->links[s->n_links] = link;
    return (int)s->n_links++;
}

int sim_set_link(sim *s, uint32_t number, int up)
{
    if (number >= s->n_links)
        return sim_fail(s, SIM_ENOENT, "there is no link %u", number);
    int status = order_fix(s);
    if (status)
        return status;
    s->links[number]->wanted = up != 0;
    link_update(s, s->links[number]);
    return SIM_OK;
}
