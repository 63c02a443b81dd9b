/* Passes: owns what happens to a packet in ingress and egress, in the order of BMv2's simple_switch.
 *
 *     parse -> ingress -> clone -> digest -> resubmit | multicast | drop | unicast
 *                                                            v
 *     queue -> egress -> clone -> drop -> deparse -> recirculate | out
 */
#ifndef WEFT_PIPELINE_H
#define WEFT_PIPELINE_H

#include "packet.h"

/* Metadata of a packet that just arrived at `port`; its frame is in place. */
void ws_pipeline_receive(ws_switch *sw, struct ws_packet *packet, uint32_t port);
/* Parser to queues. Takes ownership. Needs a pipeline. */
void ws_ingress(ws_switch *sw, struct ws_packet *packet);
/* Egress and deparser for a packet off a queue of `port` that still holds `depth`. 1: packet->out and length are the
 * finished frame; 0: it is gone (dropped or recirculated). */
int ws_egress(ws_switch *sw, struct ws_packet *packet, uint32_t port, uint32_t depth);

#endif
