#include "tuple_space.h"

#include <stdlib.h>
#include <string.h>

struct ws_tuple {
    struct ws_cell *cells;
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

static const uint64_t HASH_START = 0x243f6a8885a308d3u;

static inline uint64_t hash_words(const uint64_t *words, uint32_t n)
{
    uint64_t hash = HASH_START;
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, words[i]);
    return hash;
}

/* A key of one word is its own tag, so that cells identify their entries and no entry of another key is looked at. */
static inline uint64_t tag_of(const uint64_t *masked_key, uint32_t words)
{
    return words == 1 ? masked_key[0] : hash_words(masked_key, words);
}

/* Where the search for a tag begins, to be cut to the number of cells. */
static inline uint64_t home_of(uint64_t tag, uint32_t words) { return words == 1 ? mix(HASH_START, tag) : tag; }

static inline int same_words(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static inline struct ws_cell *probe(const struct ws_tuple *tuple, const uint64_t *masked_key, uint64_t tag,
                                    uint32_t words)
{
    uint64_t i = home_of(tag, words) & (tuple->capacity - 1);
    for (;;) {
        struct ws_cell *cell = &tuple->cells[i];
        if (!cell->head || (cell->tag == tag && (words == 1 || same_words(cell->head->words, masked_key, words))))
            return cell;
        i = (i + 1) & (tuple->capacity - 1);
    }
}

static inline struct ws_entry *chain_of(const struct ws_tuple *tuple, const uint64_t *key, uint32_t words)
{
    uint64_t masked[WS_KEY_WORDS_MAX];
    for (uint32_t i = 0; i < words; i++)
        masked[i] = key[i] & tuple->mask[i];
    return probe(tuple, masked, tag_of(masked, words), words)->head;
}

struct ws_entry *ws_space_exact(const struct ws_space *space, const uint8_t *key)
{
    if (!space->n)
        return NULL;
    uint64_t words[WS_KEY_WORDS_MAX];
    ws_key_load(words, key, space->key_bytes);
    return probe(space->tuples[0], words, tag_of(words, ws_space_words(space)), ws_space_words(space))->head;
}

struct ws_entry *ws_space_longest(const struct ws_space *space, const uint8_t *key)
{
    uint64_t words[WS_KEY_WORDS_MAX];
    ws_key_load(words, key, space->key_bytes);
    for (uint32_t t = 0; t < space->n; t++) {
        struct ws_entry *entry = chain_of(space->tuples[t], words, ws_space_words(space));
        if (entry)
            return entry;
    }
    return NULL;
}

static inline struct ws_entry *search(const struct ws_probe *probe, uint64_t word)
{
    uint64_t i = mix(HASH_START, word) & probe->wrap;
    for (;;) {
        const struct ws_cell *cell = &probe->cells[i];
        if (!cell->head || cell->tag == word)
            return cell->head;
        i = (i + 1) & probe->wrap;
    }
}

struct ws_entry *ws_space_exact_word(const struct ws_space *space, const uint8_t *key)
{
    if (!space->n)
        return NULL;
    uint64_t word = 0;
    ws_key_load(&word, key, space->key_bytes);
    return search(&space->first[0], word);
}

struct ws_entry *ws_space_longest_word(const struct ws_space *space, const uint8_t *key)
{
    uint64_t word = 0;
    ws_key_load(&word, key, space->key_bytes);
    const struct ws_probe *probes = space->probes;
    if (space->n > 1) /* both are on their way while the first is looked at */
        __builtin_prefetch(&probes[1].cells[mix(HASH_START, word & probes[1].mask) & probes[1].wrap]);
    for (uint32_t t = 0; t < space->n; t++) {
        struct ws_entry *entry = search(&probes[t], word & probes[t].mask);
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
        struct ws_entry *entry = chain_of(space->tuples[t], words, ws_space_words(space));
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
        if (same_words(space->tuples[t]->mask, mask, ws_space_words(space)))
            return space->tuples[t];
    return NULL;
}

struct ws_entry *ws_space_find(const struct ws_space *space, const uint64_t *mask, const uint64_t *masked_key,
                               int32_t priority, const uint8_t *low, const uint8_t *high)
{
    const struct ws_tuple *tuple = tuple_of(space, mask);
    if (!tuple)
        return NULL;
    struct ws_entry *entry = chain_of(tuple, masked_key, ws_space_words(space));
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

void ws_space_init(struct ws_space *space, uint32_t key_bytes)
{
    space->key_bytes = (uint16_t)key_bytes;
    space->probes = space->first;
}

/* Updates the lookups of one word with the present tuples. */
static void show_probes(struct ws_space *space)
{
    if (ws_space_words(space) != 1)
        return;
    for (uint32_t t = 0; t < space->n; t++) {
        const struct ws_tuple *tuple = space->tuples[t];
        struct ws_probe probe = {tuple->cells, tuple->mask[0], tuple->capacity - 1};
        space->probes[t] = probe;
        if (t < WS_FIRST_PROBES)
            space->first[t] = probe;
    }
}

/* Room for one more tuple. */
static int widen(struct ws_space *space)
{
    struct ws_tuple **tuples = realloc(space->tuples, (space->n + 1) * sizeof *tuples);
    if (!tuples)
        return 0;
    space->tuples = tuples;
    if (ws_space_words(space) != 1 || space->n < WS_FIRST_PROBES)
        return 1;
    struct ws_probe *old = space->probes == space->first ? NULL : space->probes;
    struct ws_probe *probes = realloc(old, (space->n + 1) * sizeof *probes);
    if (!probes)
        return 0;
    if (!old)
        memcpy(probes, space->first, sizeof space->first);
    space->probes = probes;
    return 1;
}

static struct ws_tuple *new_tuple(struct ws_space *space, const uint64_t *mask, int32_t rank)
{
    if (!widen(space))
        return NULL;
    size_t mask_bytes = ws_space_words(space) * sizeof *mask;
    struct ws_tuple *tuple = calloc(1, sizeof *tuple + mask_bytes);
    if (!tuple)
        return NULL;
    tuple->cells = ws_memory_get(FIRST_CAPACITY * sizeof *tuple->cells);
    if (!tuple->cells) {
        free(tuple);
        return NULL;
    }
    tuple->capacity = FIRST_CAPACITY;
    tuple->rank = rank;
    memcpy(tuple->mask, mask, mask_bytes);
    space->tuples[space->n++] = tuple;
    settle(space, space->n - 1);
    return tuple;
}

static int grow(struct ws_tuple *tuple, uint32_t words)
{
    uint64_t capacity = tuple->capacity * 2;
    struct ws_cell *cells = ws_memory_get(capacity * sizeof *cells);
    if (!cells)
        return 0;
    for (uint64_t i = 0; i < tuple->capacity; i++) {
        if (!tuple->cells[i].head)
            continue;
        uint64_t j = home_of(tuple->cells[i].tag, words) & (capacity - 1);
        while (cells[j].head)
            j = (j + 1) & (capacity - 1);
        cells[j] = tuple->cells[i];
    }
    ws_memory_put(tuple->cells, tuple->capacity * sizeof *cells);
    tuple->cells = cells;
    tuple->capacity = capacity;
    return 1;
}

int ws_space_add(struct ws_space *space, const uint64_t *mask, int32_t rank, struct ws_entry *entry)
{
    struct ws_tuple *tuple = tuple_of(space, mask);
    if (!tuple && !(tuple = new_tuple(space, mask, rank)))
        return 0;
    if ((tuple->used + 1) * 2 > tuple->capacity && !grow(tuple, ws_space_words(space))) {
        show_probes(space);
        return 0;
    }
    entry->tuple = tuple;
    entry->tag = tag_of(entry->words, ws_space_words(space));
    struct ws_cell *cell = probe(tuple, entry->words, entry->tag, ws_space_words(space));
    if (!cell->head) {
        cell->tag = entry->tag;
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
    show_probes(space);
    return 1;
}

static void free_tuple(struct ws_tuple *tuple)
{
    ws_memory_put(tuple->cells, tuple->capacity * sizeof *tuple->cells);
    free(tuple);
}

/* Closes the gap at cell `hole` of linear probing. */
static void close_gap(struct ws_tuple *tuple, uint64_t hole, uint32_t words)
{
    uint64_t wrap = tuple->capacity - 1;
    for (uint64_t i = (hole + 1) & wrap; tuple->cells[i].head; i = (i + 1) & wrap) {
        uint64_t home = home_of(tuple->cells[i].tag, words) & wrap;
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
    struct ws_cell *cell = probe(tuple, entry->words, entry->tag, ws_space_words(space));
    /* The cell's key is its head's: take the entry out only after the cell was found. */
    struct ws_entry **link = &cell->head;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    if (!cell->head) {
        close_gap(tuple, (uint64_t)(cell - tuple->cells), ws_space_words(space));
        tuple->used--;
    }
    uint32_t t = index_of(space, tuple);
    if (!tuple->used) {
        memmove(space->tuples + t, space->tuples + t + 1, (space->n - t - 1) * sizeof *space->tuples);
        space->n--;
        free_tuple(tuple);
        show_probes(space);
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
    show_probes(space);
}

void ws_space_free(struct ws_space *space)
{
    for (uint32_t t = 0; t < space->n; t++)
        free_tuple(space->tuples[t]);
    free(space->tuples);
    if (space->probes != space->first)
        free(space->probes);
    space->probes = space->first;
    space->tuples = NULL;
    space->n = 0;
}
