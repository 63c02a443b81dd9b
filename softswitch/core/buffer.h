/* The shared buffer: owns who may keep how much, and the pauses (PFC, IEEE 802.1Qbb) that keep lossless classes lossless.
 *
 *     queued packet --> its (ingress port, class) is below its threshold? --> shared pool
 *                                      | no: lossless class                   | no: other class
 *                                      v                                      v
 *                             headroom of that port, XOFF sent             dropped
 *
 * A packet takes buffer while it waits in a queue: what leaves at once takes none, and what is being sent has been
 * given back. A copy counts like its original, by the port and the DSCP with which that arrived.
 */
#ifndef WEFT_BUFFER_H
#define WEFT_BUFFER_H

#include "port.h"

/* One (ingress port, class). */
struct ws_account {
    uint64_t shared, headroom; /* bytes used */
    uint64_t headroom_limit;
    uint8_t xoff;              /* the far end was asked to pause */
};

struct ws_pauses {
    struct ws_account accounts[WS_CLASSES];
    ws_time paused_until[WS_CLASSES]; /* as the far end says */
    ws_time paused_since[WS_CLASSES];
    ws_time storm_until[WS_CLASSES];  /* the watchdog gives up on the far end until then */
    ws_time refresh_at;               /* XOFF is said again */
    ws_time wake_at;                  /* of the pending event, WS_NEVER: none */
    uint32_t mask;                    /* classes that are paused */
    uint32_t storm;                   /* classes that the watchdog drops */
    struct ws_pfc_stats stats;
};

struct ws_buffer {
    struct ws_buffer_config config;
    uint64_t used, most_used;
};

/* The class in which a frame arrives. */
uint8_t ws_buffer_class(const struct ws_buffer *buffer, const uint8_t *frame, uint32_t length);
/* Whether `packet` of `bytes` may wait in a queue of `port`; takes its buffer. 0: it must be dropped (and is counted). */
int ws_buffer_admit(ws_switch *sw, struct ws_port *port, struct ws_packet *packet, uint32_t bytes);
/* What a packet holds of the buffer. */
struct ws_hold {
    uint32_t ingress_port, bytes;
    uint8_t where, class_in; /* where 0: nothing */
};
static inline struct ws_hold ws_buffer_hold(const struct ws_packet *packet)
{
    return (struct ws_hold){packet->ingress_port, packet->queued_bytes, packet->buffered, packet->class_in};
}
/* Gives back what a packet held, and ends a pause if that was why. */
void ws_buffer_release(ws_switch *sw, struct ws_hold hold);
/* Whether the packet's class is paused rather than dropped. */
int ws_buffer_lossless(const ws_switch *sw, const struct ws_packet *packet);
/* Takes a PFC frame that arrived at `port`; 0: it is none. */
int ws_pfc_receive(ws_switch *sw, struct ws_port *port, const uint8_t *frame, uint32_t length);
/* The port's pause event: refreshes, ends of pauses, the watchdog. */
void ws_pfc_due(ws_switch *sw, struct ws_port *port);
/* The port went down: it is not paused any more. */
void ws_pfc_forget(ws_switch *sw, struct ws_port *port);
/* The port came up: its far end is sent again which classes are to pause. */
void ws_pfc_remind(ws_switch *sw, struct ws_port *port);
/* Queues were emptied without being served. */
void ws_buffer_forget_packets(ws_switch *sw);
void ws_buffer_free(ws_switch *sw);

#endif
