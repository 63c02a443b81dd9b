/* Brings near what a switch will need: it has not run for a window's time, and many others have since.
 *
 * Lanes and frames are brought here, the switch's own memory by itself (embed.h). This changes nothing but how long it takes.
 */
#include "engine.h"

enum { PACKETS_LEAST = 16 }; /* in its last window, for tables to be worth it */

static int busy(const struct node *node) { return node->recent >= PACKETS_LEAST; }

static void near_soon(const struct node *node)
{
    ws_bring(node->ends, node->n_ends * sizeof *node->ends);
    ws_bring(node->firsts, node->n_inlets * sizeof *node->firsts);
    for (uint32_t i = 0; i < node->n_inlets; i++)
        ws_bring(node->inlets[i], LINE);
    ws_near_soon(node->sw, node->n_ends, busy(node));
}

static void near_next(const struct node *node)
{
    for (uint32_t i = 0; i < node->n_inlets; i++)
        if (node->inlets[i]->head)
            flight_prefetch(node->inlets[i]->head);
    if (busy(node))
        for (uint32_t p = 0; p < node->n_ends; p++)
            if (node->ends[p].out)
                ws_bring(node->ends[p].out, LINE);
    ws_near_next(node->sw, node->n_ends, busy(node));
}

void switch_near(const struct node *node, uint32_t turns)
{
    if (turns == 2)
        near_soon(node);
    else if (turns == 1)
        near_next(node);
    else
        ws_near_now(node->sw, node->n_ends, busy(node));
}
