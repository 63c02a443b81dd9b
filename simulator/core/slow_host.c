/* Hosts that take what arrives only so fast: owns the frames that wait at their interfaces, and the pauses that they ask for. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum {
    PFC_FRAME_BYTES = 60,
    PFC_OPCODE = 0x0101,
    MAC_CONTROL = 0x8808,
    QUANTA_MOST = 0xffff,
    QUANTUM_BITS = 512,
};
static const uint64_t PFC_ADDRESS = 0x0180c2000001u;

static struct nic *interface(const struct sim *s, uint32_t node, uint32_t port)
{
    return node < s->n_nodes && port < s->nodes[node].n_nics ? &s->nodes[node].nics[port] : NULL;
}

int sim_set_receiver(sim *s, uint32_t node, uint32_t port, const struct sim_receiver *config)
{
    struct nic *nic = interface(s, node, port);
    if (!nic)
        return sim_fail(s, SIM_ENOENT, "node %u has no interface %u", node, port);
    if (nic->receiver)
        return sim_fail(s, SIM_EINVAL, "interface %u of node %u has a receiver", port, node);
    if (!config->rate_bps || config->xon_bytes > config->xoff_bytes || config->xoff_bytes > config->buffer_bytes ||
        config->classes >> QUEUES)
        return sim_fail(s, SIM_EINVAL, "a receiver needs a rate, xon <= xoff <= buffer, and classes from 0 to 7");
    nic->receiver = calloc(1, sizeof *nic->receiver);
    if (!nic->receiver)
        return sim_fail(s, SIM_ENOMEM, "no memory for a receiver");
    nic->receiver->config = *config;
    return SIM_OK;
}

int sim_receiver_stats_get(const sim *s, uint32_t node, uint32_t port, struct sim_receiver_stats *stats)
{
    const struct nic *nic = interface(s, node, port);
    if (!nic || !nic->receiver)
        return SIM_ENOENT;
    *stats = nic->receiver->stats;
    return SIM_OK;
}

void receiver_free(struct receiver *receiver)
{
    for (struct flight *at = receiver ? receiver->head : NULL; at; at = at->next)
        if (flight_is_long(at))
            free(at->long_data); /* flights themselves lie in slabs */
    free(receiver);
}

static void send_pause(struct sim *s, uint32_t node, uint32_t port, uint32_t quanta)
{
    struct nic *nic = &s->nodes[node].nics[port];
    struct raw_frame *frame = calloc(1, sizeof *frame + PFC_FRAME_BYTES);
    if (!frame) {
        sim_short(s, "a pause frame");
        return;
    }
    uint8_t *at = frame->data;
    frame->length = PFC_FRAME_BYTES;
    put48(at, PFC_ADDRESS);
    put48(at + 6, nic->config.mac);
    put16(at + 12, MAC_CONTROL);
    put16(at + 14, PFC_OPCODE);
    put16(at + 16, nic->receiver->config.classes);
    for (uint32_t c = 0; c < QUEUES; c++)
        if (nic->receiver->config.classes >> c & 1)
            put16(at + 18 + 2 * c, quanta);
    nic_script(s, node, port, frame);
}

/* Asks for a pause, again before the last one ends, or for its end. */
static void update_pause(struct sim *s, uint32_t node, uint32_t port)
{
    struct nic *nic = &s->nodes[node].nics[port];
    struct receiver *receiver = nic->receiver;
    if (!receiver->config.classes)
        return;
    const ws_time whole = (ws_time)((uint64_t)QUANTA_MOST * QUANTUM_BITS * PS_PER_S / nic->config.rate_bps);
    if (receiver->asked_until && receiver->bytes <= receiver->config.xon_bytes) {
        receiver->asked_until = 0;
        receiver->stats.resumes++;
        send_pause(s, node, port, 0);
    } else if (receiver->bytes > (receiver->asked_until ? receiver->config.xon_bytes : receiver->config.xoff_bytes) &&
               receiver->asked_until < s->now + whole / 2) {
        receiver->asked_until = s->now + whole;
        receiver->stats.pauses++;
        send_pause(s, node, port, QUANTA_MOST);
    }
}

static void take_next(struct sim *s, uint32_t node, uint32_t port)
{
    const struct receiver *receiver = s->nodes[node].nics[port].receiver;
    const struct flight *first = receiver->head;
    order_timer(s, s->now + slot_of(receiver->config.rate_bps, first->length + first->tail), TIMER_TAKE,
                (uint64_t)node << 32 | port);
}

void receiver_put(struct sim *s, uint32_t node, uint32_t port, struct flight *flight)
{
    struct receiver *receiver = s->nodes[node].nics[port].receiver;
    const uint64_t bytes = (uint64_t)flight->length + flight->tail;
    if (receiver->bytes + bytes > receiver->config.buffer_bytes) {
        receiver->stats.dropped++;
        flight_free(s, flight);
        return;
    }
    flight->next = NULL;
    s->held++;
    receiver->bytes += bytes;
    if (receiver->bytes > receiver->stats.most_bytes)
        receiver->stats.most_bytes = receiver->bytes;
    if (receiver->head) {
        receiver->tail->next = flight;
        receiver->tail = flight;
    } else {
        receiver->head = receiver->tail = flight;
        take_next(s, node, port);
    }
    update_pause(s, node, port);
}

static void receiver_due(struct sim *s, const struct timer *timer)
{
    const uint32_t node = (uint32_t)(timer->object >> 32), port = (uint32_t)timer->object;
    struct receiver *receiver = s->nodes[node].nics[port].receiver;
    struct flight *flight = receiver->head;
    receiver->head = flight->next;
    s->held--;
    receiver->bytes -= (uint64_t)flight->length + flight->tail;
    receiver->stats.taken++;
    if (receiver->head)
        take_next(s, node, port);
    nic_take(s, node, port, flight);
    update_pause(s, node, port);
}

const struct element_ops receiver_element = {.due = receiver_due};
