/* Outputs: owns finished packets, packets for the CPU port and digests until the driver takes them.
 *
 * Most outputs are made in the order of their `at`, so they wait in a list; only what was made out of order
 * (ports of different rate or delay) goes to a heap. Taking merges the two by (at, id).
 */
#ifndef WEFT_OUTPUT_H
#define WEFT_OUTPUT_H

#include "packet.h"

struct ws_outputs {
    struct ws_packet *head, *tail; /* ordered by (time, id) */
    struct ws_packet **heap;
    size_t n, capacity;
    struct ws_packet *taken; /* handed out by the last ws_take_output */
    uint64_t id;
};

/* `packet` (kind, port, out, length and time set) is finished. Takes ownership; 0 when memory is out (then the
 * caller still owns it). */
int ws_output_add(struct ws_outputs *outputs, struct ws_packet *packet);
ws_time ws_output_next(const struct ws_outputs *outputs);
/* Forgets everything; the packets die with their pool. */
void ws_outputs_free(struct ws_outputs *outputs);

#endif
