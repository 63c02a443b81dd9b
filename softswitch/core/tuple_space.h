/* Tuple space: owns matching of one table, whatever its kinds of keys.
 *
 * Entries with the same mask share a tuple: a hash table of masked keys. Exact tables have one tuple; LPM
 * tables one a prefix length, searched longest first; ternary and range tables one a mask, searched
 * from the highest priority on, ending when no later tuple can win. Range fields are masked out of the hash
 * and compared along the chain of entries that share a masked key.
 */
#ifndef WEFT_TUPLE_SPACE_H
#define WEFT_TUPLE_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "pipeline_abi.h"

enum {
    WS_KEY_BYTES_MAX = 512,
    WS_KEY_WORDS_MAX = WS_KEY_BYTES_MAX / 8,
    WS_OWN_LIMBS = 3,    /* of action data that lies in the entry itself */
    WS_FIRST_PROBES = 1, /* tuples of which a lookup finds all in the table itself */
};

struct ws_tuple;
/* What a packet touches comes first: action, its data and counter are one line of the cache. */
struct ws_entry {
    uint64_t own[WS_OWN_LIMBS];
    struct wp_entry e;     /* what generated code sees */
    struct ws_entry *next; /* same masked key: higher priority first, then lower slot */
    struct ws_tuple *tuple;
    uint64_t tag;          /* the masked key where it is one word, else its hash */
    uint64_t *words;       /* masked key */
    uint8_t *low, *high;   /* key_bytes each: range bounds (whole key and mask as given) */
    int32_t priority;
    uint32_t slot;
    uint64_t handle;
    uint32_t target;       /* enum ws_target */
    void *object;          /* struct ws_member or ws_group when target says so */
    uint64_t *args;        /* action data (target WS_ACTION) that is too long for `own` */
};

/* Of what a lookup yielded. */
static inline const struct ws_entry *ws_entry_of(const struct wp_entry *e)
{
    return (const struct ws_entry *)((const char *)e - offsetof(struct ws_entry, e));
}

struct ws_range {
    uint32_t offset, bytes;
};

struct ws_cell {
    uint64_t tag;
    struct ws_entry *head; /* NULL = free */
};

/* A tuple as lookups of keys of one word see it. */
struct ws_probe {
    struct ws_cell *cells;
    uint64_t mask;
    uint64_t wrap; /* number of cells - 1 */
};

/* With a table's function in front this is one line of the cache. */
struct ws_space {
    uint32_t n;
    uint16_t key_bytes;
    uint16_t n_ranges;
    struct ws_probe *probes; /* of the tuples, where keys are one word; `first` while they fit there */
    struct ws_probe first[WS_FIRST_PROBES];
    struct ws_tuple **tuples; /* highest rank first */
    struct ws_range *ranges;
};

static inline uint32_t ws_space_words(const struct ws_space *space) { return (space->key_bytes + 7u) / 8; }

/* `key` (key_bytes) as words, zero padded. */
static inline void ws_key_load(uint64_t *words, const uint8_t *key, uint32_t bytes)
{
    while (bytes >= 8) {
        __builtin_memcpy(words++, key, 8);
        key += 8;
        bytes -= 8;
    }
    if (!bytes)
        return;
    uint64_t word = 0;
    uint8_t *to = (uint8_t *)&word;
    if (bytes & 4) {
        __builtin_memcpy(to, key, 4);
        to += 4;
        key += 4;
    }
    if (bytes & 2) {
        __builtin_memcpy(to, key, 2);
        to += 2;
        key += 2;
    }
    if (bytes & 1)
        *to = *key;
    *words = word;
}

/* An empty space for keys of so many bytes; `*space` is all zero. It must not be moved. */
void ws_space_init(struct ws_space *space, uint32_t key_bytes);
/* The entry with this mask (in words), key, priority and ranges, or NULL. `rank` as in ws_space_add. */
struct ws_entry *ws_space_find(const struct ws_space *space, const uint64_t *mask, const uint64_t *masked_key,
                               int32_t priority, const uint8_t *low, const uint8_t *high);
/* Adds `entry` (words, low, high, priority, slot set) under `mask`. Tuples are searched by `rank`, highest first:
 * the prefix length of LPM entries, the priority of the others. 0 when memory is out. */
int ws_space_add(struct ws_space *space, const uint64_t *mask, int32_t rank, struct ws_entry *entry);
void ws_space_remove(struct ws_space *space, struct ws_entry *entry);
void ws_space_free(struct ws_space *space);

/* Lookups by kind of table; NULL on a miss. */
struct ws_entry *ws_space_exact(const struct ws_space *space, const uint8_t *key);
struct ws_entry *ws_space_longest(const struct ws_space *space, const uint8_t *key);
/* The same for keys of one word. */
struct ws_entry *ws_space_exact_word(const struct ws_space *space, const uint8_t *key);
struct ws_entry *ws_space_longest_word(const struct ws_space *space, const uint8_t *key);
struct ws_entry *ws_space_best(const struct ws_space *space, const uint8_t *key);

#endif
