/* The planner's hot loops: edge colouring of bipartite multigraphs, and a search on shortest paths.

   Passive and without state of its own: arrays come from numpy, and results go into them. Numbers of
   nodes, arcs and flows are the caller's; everything is deterministic. */
#ifndef WEFT_IGLB_H
#define WEFT_IGLB_H

#include <stdint.h>

/* Colour edges so that no two of the same colour meet in a node.

   left[i] < lefts and right[i] < rights: the ends of edge i. No node may have more edges than there
   are colours (then there is a colouring: König 1916). Returns the number of colours that were
   exchanged on the way, -1 without memory, -2 where a node has too many edges. */
int64_t iglb_colour(int32_t edges, const int32_t *left, const int32_t *right, int32_t lefts,
                    int32_t rights, int32_t colours, int32_t *colour);

/* Switches and the directions of links between them; arcs by their tail and by their head.

   cost[arc]: seconds a bit, 0 where nothing passes. */
typedef struct {
    int32_t nodes, arcs;
    const int32_t *tail, *head;
    const int32_t *out_start, *out_arc; /* nodes + 1, arcs */
    const int32_t *in_start, *in_arc;
    const double *cost;
} iglb_net;

#define IGLB_FAR 65535

/* How many arcs each node is away from each target: hops[target][node]. 0, or -1 without memory. */
int iglb_hops(const iglb_net *net, int32_t targets, const int32_t *target, uint16_t *hops);

/* Flows, and what they send in the phases of their jobs.

   Columns are phases of jobs, a job's one behind the other. Entry e of flow f, entry_start[f] <= e <
   entry_start[f + 1], are bits in a column of the flow's job. The load of an arc is the sum over
   jobs of the most that one of its phases puts there.

   path[f * width ...]: arcs, filled up with -1; none where path[f * width] is -1. hops[row[f]] is
   the row of the flow's target. Flows with movable 0 stay where they are. */
typedef struct {
    int32_t flows, width, columns, jobs;
    const int32_t *entry_start, *entry_column;
    const double *entry_bits;
    const int32_t *job, *column_start; /* flows; jobs + 1 */
    const int32_t *source, *target, *row;
    const uint16_t *hops;
    const uint8_t *movable;
    int32_t *path;
} iglb_flows;

/* Give each flow of `order` that has no path the one with the least largest load, in that order;
   then, while some arc needs more than `floor` seconds, move what may move off the arc that needs
   most, with chains of at most `chain` moves, by at most `budget` searches of a path.

   Returns the seconds that the busiest arc needs, or -1 without memory. */
double iglb_search(const iglb_net *net, iglb_flows *flows, int32_t placed, const int32_t *order,
                   double floor, int64_t budget, int32_t chain);

/* Move flows of connections (connection[flow] < connections) so that the slowest one is faster, no
   arc needs more than the busiest does now, and no connection takes more than `floor` seconds, if
   that can be had in `budget` tries.

   A flow takes what the busiest arc of its path needs, or what all arcs need together in whose queues
   it waits; arcs have one that need more than `floor`. A connection drains by all its flows.
   Bits of all columns count together. Returns how many flows were moved, or -1 without memory. */
int64_t iglb_even(const iglb_net *net, iglb_flows *flows, const int32_t *connection, int32_t connections,
                  double floor, int64_t budget);

#endif
