#include "tuple.h"

#include <stdlib.h>
#include <string.h>

struct cell {
    uint64_t hash;
    struct ws_entry *head; /* NULL = free */
};

struct ws_tuple {
    struct cell *cells;
    uint64_t capacity; /* power of two, more than twice `used` */
    uint64_t used;
    int32_t rank; /* of LPM: prefix length; else the highest priority inside */
    uint64_t mask[];
};

enum { FIRST_CAPACITY = 8 };

static inline uint64_t mix(uint64_t hash, uint64_t word)
{
    __uint128_t product = (__uint128_t)(hash ^ word) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_words(const uint64_t *words, uint32_t n)
{
    uint64_t hash = 0x243f6a8885a308d3u;
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, words[i]);
    return hash;
}

static inline int same_words(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static inline struct cell *probe(const struct ws_tuple *tuple, const uint64_t *masked_key, uint64_t hash,
                                 uint32_t words)
{
    uint64_t i = hash & (tuple->capacity - 1);
    for (;;) {
        struct cell *cell = &tuple->cells[i];
        if (!cell->head || (cell->hash == hash && same_words(cell->head->words, masked_key, words)))
            return cell;
        i = (i + 1) & (tuple->capacity - 1);
    }
}

static inline struct ws_entry *chain_of(const struct ws_tuple *tuple, const uint64_t *key, uint32_t words)
{
    uint64_t masked[WS_KEY_WORDS_MAX];
    for (uint32_t i = 0; i < words; i++)
        masked[i] = key[i] & tuple->mask[i];
    return probe(tuple, masked, hash_words(masked, words), words)->head;
}

struct ws_entry *ws_space_exact(const struct ws_space *space, const uint8_t *key)
{
    if (!space->n)
        return NULL;
    uint64_t words[WS_KEY_WORDS_MAX];
    ws_key_load(words, key, space->key_bytes);
    return probe(space->tuples[0], words, hash_words(words, space->words), space->words)->head;
}

struct ws_entry *ws_space_longest(const struct ws_space *space, const uint8_t *key)
{
    uint64_t words[WS_KEY_WORDS_MAX];
    ws_key_load(words, key, space->key_bytes);
    for (uint32_t t = 0; t < space->n; t++) {
        struct ws_entry *entry = chain_of(space->tuples[t], words, space->words);
        if (entry)
            return entry;
    }
    return NULL;
}

static int in_ranges(const struct ws_space *space, const struct ws_entry *entry, const uint8_t *key)
{
    for (uint32_t r = 0; r < space->n_ranges; r++) {
        uint32_t offset = space->ranges[r].offset, bytes = space->ranges[r].bytes;
        if (memcmp(key + offset, entry->low + offset, bytes) < 0 ||
            memcmp(key + offset, entry->high + offset, bytes) > 0)
            return 0;
    }
    return 1;
}

static inline int wins(const struct ws_entry *a, const struct ws_entry *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->slot < b->slot;
}

struct ws_entry *ws_space_best(const struct ws_space *space, const uint8_t *key)
{
    uint64_t words[WS_KEY_WORDS_MAX];
    ws_key_load(words, key, space->key_bytes);
    struct ws_entry *best = NULL;
    for (uint32_t t = 0; t < space->n; t++) {
        if (best && space->tuples[t]->rank < best->priority)
            break;
        struct ws_entry *entry = chain_of(space->tuples[t], words, space->words);
        if (space->n_ranges)
            while (entry && !in_ranges(space, entry, key))
                entry = entry->next;
        if (entry && (!best || wins(entry, best)))
            best = entry;
    }
    return best;
}

static struct ws_tuple *tuple_of(const struct ws_space *space, const uint64_t *mask)
{
    for (uint32_t t = 0; t < space->n; t++)
        if (same_words(space->tuples[t]->mask, mask, space->words))
            return space->tuples[t];
    return NULL;
}

struct ws_entry *ws_space_find(const struct ws_space *space, const uint64_t *mask, const uint64_t *masked_key,
                               int32_t priority, const uint8_t *low, const uint8_t *high)
{
    const struct ws_tuple *tuple = tuple_of(space, mask);
    if (!tuple)
        return NULL;
    struct ws_entry *entry = chain_of(tuple, masked_key, space->words);
    for (; entry; entry = entry->next) {
        if (entry->priority != priority)
            continue;
        uint32_t r = 0;
        for (; r < space->n_ranges; r++) {
            uint32_t offset = space->ranges[r].offset, bytes = space->ranges[r].bytes;
            if (memcmp(entry->low + offset, low + offset, bytes) || memcmp(entry->high + offset, high + offset, bytes))
                break;
        }
        if (r == space->n_ranges)
            return entry;
    }
    return NULL;
}

/* Moves tuple `t` to where its rank belongs. */
static void settle(struct ws_space *space, uint32_t t)
{
    struct ws_tuple *tuple = space->tuples[t];
    while (t > 0 && space->tuples[t - 1]->rank < tuple->rank) {
        space->tuples[t] = space->tuples[t - 1];
        t--;
    }
    while (t + 1 < space->n && space->tuples[t + 1]->rank > tuple->rank) {
        space->tuples[t] = space->tuples[t + 1];
        t++;
    }
    space->tuples[t] = tuple;
}

static uint32_t index_of(const struct ws_space *space, const struct ws_tuple *tuple)
{
    uint32_t t = 0;
    while (space->tuples[t] != tuple)
        t++;
    return t;
}

static struct ws_tuple *new_tuple(struct ws_space *space, const uint64_t *mask, int32_t rank)
{
    struct ws_tuple **tuples = realloc(space->tuples, (space->n + 1) * sizeof *tuples);
    if (!tuples)
        return NULL;
    space->tuples = tuples;
    size_t mask_bytes = space->words * sizeof *mask;
    struct ws_tuple *tuple = calloc(1, sizeof *tuple + mask_bytes);
    if (!tuple)
        return NULL;
    tuple->cells = calloc(FIRST_CAPACITY, sizeof *tuple->cells);
    if (!tuple->cells) {
        free(tuple);
        return NULL;
    }
    tuple->capacity = FIRST_CAPACITY;
    tuple->rank = rank;
    memcpy(tuple->mask, mask, mask_bytes);
    tuples[space->n++] = tuple;
    settle(space, space->n - 1);
    return tuple;
}

static int grow(struct ws_tuple *tuple)
{
    uint64_t capacity = tuple->capacity * 2;
    struct cell *cells = calloc(capacity, sizeof *cells);
    if (!cells)
        return 0;
    for (uint64_t i = 0; i < tuple->capacity; i++) {
        if (!tuple->cells[i].head)
            continue;
        uint64_t j = tuple->cells[i].hash & (capacity - 1);
        while (cells[j].head)
            j = (j + 1) & (capacity - 1);
        cells[j] = tuple->cells[i];
    }
    free(tuple->cells);
    tuple->cells = cells;
    tuple->capacity = capacity;
    return 1;
}

int ws_space_add(struct ws_space *space, const uint64_t *mask, int32_t rank, struct ws_entry *entry)
{
    struct ws_tuple *tuple = tuple_of(space, mask);
    if (!tuple && !(tuple = new_tuple(space, mask, rank)))
        return 0;
    if ((tuple->used + 1) * 2 > tuple->capacity && !grow(tuple))
        return 0;
    entry->tuple = tuple;
    entry->hash = hash_words(entry->words, space->words);
    struct cell *cell = probe(tuple, entry->words, entry->hash, space->words);
    if (!cell->head) {
        cell->hash = entry->hash;
        tuple->used++;
    }
    struct ws_entry **link = &cell->head;
    while (*link && wins(*link, entry))
        link = &(*link)->next;
    entry->next = *link;
    *link = entry;
    if (rank > tuple->rank) {
        tuple->rank = rank;
        settle(space, index_of(space, tuple));
    }
    return 1;
}

static void free_tuple(struct ws_tuple *tuple)
{
    free(tuple->cells);
    free(tuple);
}

/* Closes the gap at cell `hole` of linear probing. */
static void close_gap(struct ws_tuple *tuple, uint64_t hole)
{
    uint64_t wrap = tuple->capacity - 1;
    for (uint64_t i = (hole + 1) & wrap; tuple->cells[i].head; i = (i + 1) & wrap) {
        uint64_t home = tuple->cells[i].hash & wrap;
        if (((i - home) & wrap) >= ((i - hole) & wrap)) {
            tuple->cells[hole] = tuple->cells[i];
            hole = i;
        }
    }
    tuple->cells[hole].head = NULL;
}

void ws_space_remove(struct ws_space *space, struct ws_entry *entry)
{
    struct ws_tuple *tuple = entry->tuple;
    struct cell *cell = probe(tuple, entry->words, entry->hash, space->words);
    /* The cell's key is its head's: take the entry out only after the cell was found. */
    struct ws_entry **link = &cell->head;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    if (!cell->head) {
        close_gap(tuple, (uint64_t)(cell - tuple->cells));
        tuple->used--;
    }
    uint32_t t = index_of(space, tuple);
    if (!tuple->used) {
        memmove(space->tuples + t, space->tuples + t + 1, (space->n - t - 1) * sizeof *space->tuples);
        space->n--;
        free_tuple(tuple);
        return;
    }
    if (entry->priority != tuple->rank)
        return; /* an LPM tuple, whose entries have priority 0 and one rank, or not the highest */
    int32_t rank = INT32_MIN;
    for (uint64_t i = 0; i < tuple->capacity; i++)
        if (tuple->cells[i].head && tuple->cells[i].head->priority > rank)
            rank = tuple->cells[i].head->priority;
    tuple->rank = rank;
    settle(space, t);
}

void ws_space_free(struct ws_space *space)
{
    for (uint32_t t = 0; t < space->n; t++)
        free_tuple(space->tuples[t]);
    free(space->tuples);
    space->tuples = NULL;
    space->n = 0;
}
