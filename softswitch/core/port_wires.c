/* What goes wrong on ports' wires: the public calls. The wires themselves are in wire.h. */
#include <stdlib.h>

#include "port.h"
#include "switch.h"

int ws_impair_port(ws_switch *sw, uint32_t number, enum ws_direction direction, const struct ws_port_impair *impair)
{
    struct ws_port *port = ws_port_at(sw, number);
    if (!port || (unsigned)direction > WS_RECEIVE || !ws_impair_valid(impair))
        return WS_EINVAL;
    if (!port->wires_made[direction]) {
        port->wires_made[direction] = calloc(1, sizeof(struct ws_wire));
        if (!port->wires_made[direction])
            return WS_ENOMEM;
    }
    ws_wire_set(port->wires_made[direction], impair, sw->config.seed, number, direction);
    port->wires[direction] = ws_impair_active(impair) ? port->wires_made[direction] : NULL;
    return WS_OK;
}

static const struct ws_wire *wire_made(const ws_switch *sw, uint32_t number, enum ws_direction direction)
{
    static const struct ws_wire good;
    if (number >= sw->ports.capacity || !sw->ports.table[number] || !sw->ports.table[number]->wires_made[direction])
        return &good;
    return sw->ports.table[number]->wires_made[direction];
}

int ws_port_impair_get(const ws_switch *sw, uint32_t number, enum ws_direction direction,
                       struct ws_port_impair *impair)
{
    if (number >= WS_PORTS_MAX || (unsigned)direction > WS_RECEIVE)
        return WS_EINVAL;
    *impair = wire_made(sw, number, direction)->impair;
    return WS_OK;
}

int ws_port_impair_stats_get(const ws_switch *sw, uint32_t number, enum ws_direction direction,
                             struct ws_impair_stats *stats)
{
    if (number >= WS_PORTS_MAX || (unsigned)direction > WS_RECEIVE)
        return WS_EINVAL;
    *stats = wire_made(sw, number, direction)->stats;
    return WS_OK;
}
