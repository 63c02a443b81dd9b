/* What embed.h offers: a look at what waits, and what brings a switch near.
 *
 * Done for the next switch while the one before it runs, so that memory is waited for once and not at each entry. This
 * changes nothing but how long it takes.
 */
#include "embed.h"

#include "profile.h"
#include "switch.h"
#include "table.h"

enum { ENTRIES_MOST = 512 }; /* of a table or profile: more would push one another out again */

uint64_t ws_no_memory(const ws_switch *sw) { return sw->stats.drop_no_memory; }

uint32_t ws_depths_get(const ws_switch *sw, uint32_t number, struct ws_depth *rows)
{
    const struct ws_port *port = number < sw->ports.capacity ? sw->ports.table[number] : NULL;
    if (!port || (!port->nonempty && !port->pause_mask))
        return 0;
    uint32_t n = 0;
    for (uint32_t q = 0; q < WS_PRIORITIES_MAX; q++) {
        const uint32_t paused = port->pause_mask >> q & 1;
        if (port->queues[q].packets || paused)
            rows[n++] = (struct ws_depth){
                .queue = q, .packets = port->queues[q].packets, .bytes = port->queues[q].bytes, .paused = paused};
    }
    return n;
}

/* --- bringing near -------------------------------------------------------------------------------- */

static int worth_it(const struct ws_slots *slots) { return slots->used && slots->used <= ENTRIES_MOST; }

static void bring_objects(const struct ws_slots *slots, size_t bytes)
{
    if (worth_it(slots))
        for (uint32_t slot = 0, left = slots->used; left; slot++)
            if (slots->objects[slot]) {
                ws_bring(slots->objects[slot], bytes);
                left--;
            }
}

/* What a hit reads and writes of an entry: one line, where its cell identifies it and no time is kept. */
static size_t entry_bytes(const struct ws_table *table)
{
    const int one = table->desc->key_bytes <= sizeof(uint64_t) && !table->desc->support_timeout;
    return one ? WS_LINE : offsetof(struct ws_entry, next);
}

static uint32_t known_ports(const ws_switch *sw, uint32_t ports)
{
    return ports < sw->ports.capacity ? ports : sw->ports.capacity;
}

void ws_near_soon(const ws_switch *sw, uint32_t ports, int busy)
{
    ws_bring(sw, offsetof(struct ws_switch, error));
    if (!busy || !sw->program)
        return;
    const struct ws_program *program = sw->program;
    const struct wp_pipeline *pipeline = program->pipeline;
    for (uint32_t p = 0; p < known_ports(sw, ports); p++)
        if (sw->ports.table[p])
            ws_bring(sw->ports.table[p], WS_PORT_LINES * WS_LINE);
    ws_bring(program->env.counters, pipeline->n_counters * sizeof *program->env.counters);
    for (uint32_t i = 0; i < pipeline->n_tables; i++)
        if (!pipeline->tables[i].inlined)
            ws_bring(program->env.tables[i], 2 * WS_LINE);
    for (uint32_t i = 0; i < pipeline->n_profiles; i++)
        ws_bring(program->profiles[i].members.objects, program->profiles[i].members.capacity * sizeof(void *));
}

static void bring_queues(const struct ws_port *port)
{
    for (uint32_t left = port->used; left; left &= left - 1)
        ws_bring(&port->queues[__builtin_ctz(left)], WS_LINE);
}

void ws_near_next(const ws_switch *sw, uint32_t ports, int busy)
{
    if (!busy || !sw->program)
        return;
    const struct ws_program *program = sw->program;
    const struct wp_pipeline *pipeline = program->pipeline;
    for (uint32_t p = 0; p < known_ports(sw, ports); p++)
        if (sw->ports.table[p])
            bring_queues(sw->ports.table[p]);
    /* Most arrays are indexed by port. */
    for (uint32_t i = 0; i < pipeline->n_counters; i++) {
        const struct wp_counter_array *counter = &program->env.counters[i];
        uint32_t cells = counter->size < ports ? counter->size : ports;
        ws_bring(counter->cells, cells * sizeof *counter->cells);
    }
    for (uint32_t i = 0; i < pipeline->n_tables; i++) {
        if (pipeline->tables[i].inlined)
            continue;
        const struct ws_table *table = (const struct ws_table *)program->env.tables[i];
        if (!table->space.n)
            continue;
        bring_objects(&table->slots, entry_bytes(table));
        for (uint32_t t = 0; worth_it(&table->slots) && table->space.probes && t < table->space.n; t++)
            ws_bring(table->space.probes[t].cells, (table->space.probes[t].wrap + 1) * sizeof(struct ws_cell));
    }
    for (uint32_t i = 0; i < pipeline->n_profiles; i++)
        bring_objects(&program->profiles[i].members, sizeof(struct ws_member));
}

void ws_near_now(const ws_switch *sw, uint32_t ports, int busy)
{
    if (!busy || !sw->program)
        return;
    for (uint32_t p = 0; p < known_ports(sw, ports); p++) {
        const struct ws_port *port = sw->ports.table[p];
        for (uint32_t left = port ? port->nonempty : 0; left; left &= left - 1) {
            const struct ws_packet *packet = port->queues[__builtin_ctz(left)].head;
            ws_packet_prefetch(packet, &sw->program->pool);
        }
    }
}
