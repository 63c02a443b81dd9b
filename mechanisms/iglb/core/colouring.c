/* Edge colouring of bipartite multigraphs by alternating paths (König's proof, done by hand).

   Each edge takes a colour that is free at both ends. Where there is none, one that is free at its
   left end and one that is free at its right end change places along the path that they make from
   the right end; the path cannot come to the left end. */
#include <stdlib.h>
#include <string.h>

#include "iglb.h"

enum { BITS = 64, NONE = -1 };

typedef struct {
    int32_t colours, words;
    int32_t *at;    /* [node][colour]: the edge, or NONE */
    uint64_t *free; /* [node]: a bit a colour */
    int32_t *path;
    const int32_t *left, *right;
    int32_t lefts;
} table;

static int32_t *edge_at(const table *of, int32_t node, int32_t colour)
{
    return &of->at[(int64_t)node * of->colours + colour];
}

static uint64_t *free_of(const table *of, int32_t node)
{
    return &of->free[(int64_t)node * of->words];
}

static void take(table *of, int32_t node, int32_t colour, int32_t edge)
{
    *edge_at(of, node, colour) = edge;
    free_of(of, node)[colour / BITS] &= ~(UINT64_C(1) << (colour % BITS));
}

static void give(table *of, int32_t node, int32_t colour)
{
    *edge_at(of, node, colour) = NONE;
    free_of(of, node)[colour / BITS] |= UINT64_C(1) << (colour % BITS);
}

/* The first colour from `start` on, around, that both sets have. */
static int32_t first_common(const table *of, const uint64_t *a, const uint64_t *b, int32_t start)
{
    int32_t word = start / BITS;
    uint64_t bits = a[word] & b[word] & (~UINT64_C(0) << (start % BITS));
    for (int32_t left = of->words; !bits && left; left--) {
        word = word + 1 < of->words ? word + 1 : 0;
        bits = a[word] & b[word];
    }
    return bits ? word * BITS + __builtin_ctzll(bits) : NONE;
}

/* Exchange two colours on the path that begins at a right node with an edge of colour `a`. */
static int64_t exchange(table *of, int32_t node, int32_t a, int32_t b)
{
    int64_t length = 0;
    int32_t colour = a, here = node;
    for (int32_t edge; (edge = *edge_at(of, here, colour)) != NONE; length++) {
        of->path[length] = edge;
        here = here < of->lefts ? of->lefts + of->right[edge] : of->left[edge];
        colour = a + b - colour;
    }
    for (int64_t i = 0; i < length; i++) {
        int32_t edge = of->path[i], old = i % 2 ? b : a;
        give(of, of->left[edge], old);
        give(of, of->lefts + of->right[edge], old);
    }
    for (int64_t i = 0; i < length; i++) {
        int32_t edge = of->path[i], new = i % 2 ? a : b;
        take(of, of->left[edge], new, edge);
        take(of, of->lefts + of->right[edge], new, edge);
    }
    return length;
}

static int64_t colour_all(table *of, int32_t edges)
{
    int64_t exchanged = 0;
    for (int32_t edge = 0; edge < edges; edge++) {
        int32_t u = of->left[edge], v = of->lefts + of->right[edge];
        const uint64_t *at_u = free_of(of, u), *at_v = free_of(of, v);
        /* The start differs by pair of nodes: what is regular is then coloured at once. */
        int32_t start = (int32_t)(((int64_t)u + of->right[edge]) % of->colours);
        int32_t colour = first_common(of, at_u, at_v, start);
        if (colour == NONE) {
            colour = first_common(of, at_u, at_u, start);
            int32_t other = first_common(of, at_v, at_v, start);
            if (colour == NONE || other == NONE)
                return -2;
            exchanged += exchange(of, v, colour, other);
        }
        take(of, u, colour, edge);
        take(of, v, colour, edge);
    }
    return exchanged;
}

int64_t iglb_colour(int32_t edges, const int32_t *left, const int32_t *right, int32_t lefts,
                    int32_t rights, int32_t colours, int32_t *colour)
{
    if (!edges)
        return 0;
    if (colours < 1)
        return -2;
    int64_t nodes = (int64_t)lefts + rights;
    table of = {.colours = colours, .words = (colours + BITS - 1) / BITS,
                .left = left, .right = right, .lefts = lefts};
    of.at = malloc((size_t)(nodes * colours) * sizeof *of.at);
    of.free = malloc((size_t)(nodes * of.words) * sizeof *of.free);
    of.path = malloc((size_t)edges * sizeof *of.path);
    int64_t found = -1;
    if (of.at && of.free && of.path) {
        memset(of.at, 0xff, (size_t)(nodes * colours) * sizeof *of.at);
        memset(of.free, 0xff, (size_t)(nodes * of.words) * sizeof *of.free);
        if (colours % BITS)
            for (int64_t node = 0; node < nodes; node++)
                of.free[(node + 1) * of.words - 1] = ~UINT64_C(0) >> (BITS - colours % BITS);
        found = colour_all(&of, edges);
        for (int64_t i = 0; found >= 0 && i < (int64_t)lefts * colours; i++)
            if (of.at[i] != NONE)
                colour[of.at[i]] = (int32_t)(i % colours);
    }
    free(of.at);
    free(of.free);
    free(of.path);
    return found;
}
