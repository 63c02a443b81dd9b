/* Distances to targets, by a breadth-first search from each of them, against the arcs. */
#include <stdlib.h>

#include "iglb.h"

static void from_target(const iglb_net *net, int32_t target, uint16_t *hops, int32_t *queue)
{
    for (int32_t node = 0; node < net->nodes; node++)
        hops[node] = IGLB_FAR;
    int32_t first = 0, last = 0;
    hops[target] = 0;
    queue[last++] = target;
    while (first < last) {
        int32_t node = queue[first++];
        for (int32_t i = net->in_start[node]; i < net->in_start[node + 1]; i++) {
            int32_t arc = net->in_arc[i], tail = net->tail[arc];
            if (net->cost[arc] > 0 && hops[tail] == IGLB_FAR) {
                hops[tail] = (uint16_t)(hops[node] + 1);
                queue[last++] = tail;
            }
        }
    }
}

int iglb_hops(const iglb_net *net, int32_t targets, const int32_t *target, uint16_t *hops)
{
    int32_t *queue = malloc(((size_t)net->nodes + 1) * sizeof *queue);
    if (!queue)
        return -1;
    for (int32_t row = 0; row < targets; row++)
        from_target(net, target[row], hops + (int64_t)row * net->nodes, queue);
    free(queue);
    return 0;
}
