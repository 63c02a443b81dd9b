/* Brings near what a switch will need: it has not run for a window's time, and many others have since.
 *
 * Done for the next switch while the one before it runs, so that memory is waited for once and not at each entry. This
 * changes nothing but how long it takes.
 */
#include "engine.h"

#include "profile.h"
#include "switch.h"
#include "table.h"

enum {
    ENTRIES_MOST = 512,   /* of a table or profile: more would push one another out again */
    PACKETS_LEAST = 16,   /* in its last window, for tables to be worth it */
};

static inline void bring(const void *what, size_t bytes)
{
    const uintptr_t end = (uintptr_t)what + bytes;
    for (uintptr_t line = (uintptr_t)what & ~(uintptr_t)(LINE - 1); line < end; line += LINE)
        __builtin_prefetch((const void *)line, 0, 2);
}

static int worth_it(const struct ws_slots *slots) { return slots->used && slots->used <= ENTRIES_MOST; }

static void bring_objects(const struct ws_slots *slots, size_t bytes)
{
    if (worth_it(slots))
        for (uint32_t slot = 0, left = slots->used; left; slot++)
            if (slots->objects[slot]) {
                bring(slots->objects[slot], bytes);
                left--;
            }
}

/* What a hit reads and writes of an entry: one line, where its cell tells whose it is and no time is kept. */
static size_t entry_bytes(const struct ws_table *table)
{
    const int one = table->desc->key_bytes <= sizeof(uint64_t) && !table->desc->support_timeout;
    return one ? LINE : offsetof(struct ws_entry, next);
}

void near_soon(const struct node *node)
{
    const struct ws_switch *sw = node->sw;
    bring(sw, offsetof(struct ws_switch, error));
    bring(node->ends, node->n_ends * sizeof *node->ends);
    bring(node->firsts, node->n_inlets * sizeof *node->firsts);
    for (uint32_t i = 0; i < node->n_inlets; i++)
        bring(node->inlets[i], LINE);
    if (node->recent < PACKETS_LEAST || !sw->program)
        return;
    const struct ws_program *program = sw->program;
    const struct wp_pipeline *pipeline = program->pipeline;
    for (uint32_t p = 0; p < node->n_ends && p < sw->ports.capacity; p++)
        if (sw->ports.table[p])
            bring(sw->ports.table[p], WS_PORT_LINES * LINE);
    bring(program->env.counters, pipeline->n_counters * sizeof *program->env.counters);
    for (uint32_t i = 0; i < pipeline->n_tables; i++)
        if (!pipeline->tables[i].inlined)
            bring(program->env.tables[i], 2 * LINE);
    for (uint32_t i = 0; i < pipeline->n_profiles; i++)
        bring(program->profiles[i].members.objects, program->profiles[i].members.capacity * sizeof(void *));
}

static void bring_queues(const struct ws_port *port)
{
    for (uint32_t left = port->used; left; left &= left - 1)
        bring(&port->queues[__builtin_ctz(left)], LINE);
}

void near_next(const struct node *node)
{
    const struct ws_switch *sw = node->sw;
    for (uint32_t i = 0; i < node->n_inlets; i++)
        if (node->inlets[i]->head)
            flight_prefetch(node->inlets[i]->head);
    if (node->recent < PACKETS_LEAST || !sw->program)
        return;
    const struct ws_program *program = sw->program;
    const struct wp_pipeline *pipeline = program->pipeline;
    for (uint32_t p = 0; p < node->n_ends && p < sw->ports.capacity; p++)
        if (node->ends[p].out && sw->ports.table[p]) {
            bring(node->ends[p].out, LINE);
            bring_queues(sw->ports.table[p]);
        }
    /* Most arrays are indexed by port. */
    for (uint32_t i = 0; i < pipeline->n_counters; i++) {
        const struct wp_counter_array *counter = &program->env.counters[i];
        uint32_t cells = counter->size < node->n_ends ? counter->size : node->n_ends;
        bring(counter->cells, cells * sizeof *counter->cells);
    }
    for (uint32_t i = 0; i < pipeline->n_tables; i++) {
        if (pipeline->tables[i].inlined)
            continue;
        const struct ws_table *table = (const struct ws_table *)program->env.tables[i];
        if (!table->space.n)
            continue;
        bring_objects(&table->slots, entry_bytes(table));
        for (uint32_t t = 0; worth_it(&table->slots) && table->space.probes && t < table->space.n; t++)
            bring(table->space.probes[t].cells, (table->space.probes[t].wrap + 1) * sizeof(struct ws_cell));
    }
    for (uint32_t i = 0; i < pipeline->n_profiles; i++)
        bring_objects(&program->profiles[i].members, sizeof(struct ws_member));
}

void near_now(const struct node *node)
{
    const struct ws_switch *sw = node->sw;
    if (node->recent < PACKETS_LEAST || !sw->program)
        return;
    for (uint32_t p = 0; p < node->n_ends && p < sw->ports.capacity; p++) {
        const struct ws_port *port = sw->ports.table[p];
        for (uint32_t left = port ? port->nonempty : 0; left; left &= left - 1) {
            const struct ws_packet *packet = port->queues[__builtin_ctz(left)].head;
            ws_packet_prefetch(packet, &sw->program->pool);
        }
    }
}
