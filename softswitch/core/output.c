#include "output.h"

#include <stdlib.h>

#include "switch.h"

static int before(const struct ws_packet *a, const struct ws_packet *b)
{
    return a->time != b->time ? a->time < b->time : a->id < b->id;
}

static int heap_push(struct ws_outputs *outputs, struct ws_packet *packet)
{
    if (outputs->n == outputs->capacity) {
        size_t capacity = outputs->capacity ? outputs->capacity * 2 : 64;
        struct ws_packet **heap = realloc(outputs->heap, capacity * sizeof *heap);
        if (!heap)
            return 0;
        outputs->heap = heap;
        outputs->capacity = capacity;
    }
    size_t i = outputs->n++;
    while (i > 0 && before(packet, outputs->heap[(i - 1) / 2])) {
        outputs->heap[i] = outputs->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    outputs->heap[i] = packet;
    return 1;
}

static struct ws_packet *heap_pop(struct ws_outputs *outputs)
{
    struct ws_packet *top = outputs->heap[0];
    struct ws_packet *last = outputs->heap[--outputs->n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= outputs->n)
            break;
        if (child + 1 < outputs->n && before(outputs->heap[child + 1], outputs->heap[child]))
            child++;
        if (!before(outputs->heap[child], last))
            break;
        outputs->heap[i] = outputs->heap[child];
        i = child;
    }
    if (outputs->n)
        outputs->heap[i] = last;
    return top;
}

int ws_output_add(struct ws_outputs *outputs, struct ws_packet *packet)
{
    packet->next = NULL;
    packet->id = ++outputs->id;
    if (!outputs->head) {
        outputs->head = outputs->tail = packet;
        return 1;
    }
    if (packet->time >= outputs->tail->time) {
        outputs->tail->next = packet;
        outputs->tail = packet;
        return 1;
    }
    return heap_push(outputs, packet);
}

ws_time ws_output_next(const struct ws_outputs *outputs)
{
    ws_time next = outputs->head ? outputs->head->time : WS_NEVER;
    if (outputs->n && outputs->heap[0]->time < next)
        next = outputs->heap[0]->time;
    return next;
}

static struct ws_packet *pop(struct ws_outputs *outputs, ws_time until)
{
    struct ws_packet *packet = outputs->head;
    if (outputs->n && (!packet || before(outputs->heap[0], packet)))
        return outputs->heap[0]->time <= until ? heap_pop(outputs) : NULL;
    if (!packet || packet->time > until)
        return NULL;
    outputs->head = packet->next;
    return packet;
}

size_t ws_take_output(ws_switch *sw, struct ws_output *out, size_t max, ws_time until)
{
    struct ws_outputs *outputs = &sw->outputs;
    while (outputs->taken) {
        struct ws_packet *packet = outputs->taken;
        outputs->taken = packet->next;
        ws_packet_free(packet);
    }
    if (sw->retired)
        ws_programs_collect(sw);
    size_t n = 0;
    while (n < max) {
        struct ws_packet *packet = pop(outputs, until);
        if (!packet)
            break;
        packet->next = outputs->taken;
        outputs->taken = packet;
        out[n++] = (struct ws_output){
            .kind = packet->kind,
            .port = packet->port,
            .length = packet->length,
            .data = packet->out,
            .at = packet->time,
            .id = packet->id,
            .program = packet->pool->program->number,
            .tail_length = packet->tail,
            .tail_seed = packet->tail_seed,
        };
    }
    return n;
}

void ws_outputs_free(struct ws_outputs *outputs)
{
    free(outputs->heap);
    *outputs = (struct ws_outputs){.id = outputs->id};
}
