#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAIR = 2 * WS_LINE,        /* what the cache fetches together */
    FINE_MOST = 4096,          /* up to here sizes go in steps of a line, */
    STEP = 4096,               /* then in these */
    MOST = 64 * STEP,          /* more does not lie in a region */
    REGION = 2 * 1024 * 1024,  /* a large page of most machines */
    SIZES = FINE_MOST / WS_LINE + MOST / STEP + 1,
};

/* A piece that was given back. */
struct piece {
    struct piece *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces[SIZES];
static uint8_t *region;
static size_t region_left, regions;

/* Sanitizers have to see each piece by itself; and then it is checked that as much is given back as was got. */
#ifdef __SANITIZE_ADDRESS__
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static void *checked_get(size_t bytes)
{
    uint8_t *block = aligned_alloc(PAIR, (PAIR + bytes + PAIR - 1) / PAIR * PAIR);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return memset(block + PAIR, 0, bytes);
}

static void checked_put(void *memory, size_t bytes)
{
    uint8_t *block = (uint8_t *)memory - PAIR;
    if (memcmp(block, &bytes, sizeof bytes))
        abort();
    free(block);
}

static size_t rounded(size_t bytes)
{
    const size_t step = bytes <= FINE_MOST ? WS_LINE : STEP;
    return bytes ? (bytes + step - 1) / step * step : step;
}

static size_t size_number(size_t size)
{
    return size <= FINE_MOST ? size / WS_LINE : FINE_MOST / WS_LINE + size / STEP;
}

/* The region goes on with what is left, or another one begins. */
static uint8_t *cut(size_t size)
{
    if (size % PAIR == 0)
        region_left -= region_left % PAIR;
    if (size > region_left) {
        uint8_t *fresh = aligned_alloc(REGION, REGION);
        if (!fresh)
            return NULL;
        if (regions++)
            (void)madvise(fresh, REGION, MADV_HUGEPAGE); /* without it everything works, slower */
        region = fresh;
        region_left = REGION;
    }
    uint8_t *at = region + REGION - region_left;
    region_left -= size;
    return at;
}

void *ws_memory_get(size_t bytes)
{
    const size_t size = rounded(bytes);
    void *memory;
    if (CHECKED)
        return checked_get(bytes);
    if (size > MOST) {
        memory = aligned_alloc(PAIR, (size + PAIR - 1) / PAIR * PAIR);
    } else {
        pthread_mutex_lock(&lock);
        struct piece **first = &pieces[size_number(size)];
        memory = *first;
        if (memory)
            *first = (*first)->next;
        else
            memory = cut(size);
        pthread_mutex_unlock(&lock);
    }
    return memory ? memset(memory, 0, bytes) : NULL;
}

void ws_memory_put(void *memory, size_t bytes)
{
    const size_t size = rounded(bytes);
    if (!memory)
        return;
    if (CHECKED) {
        checked_put(memory, bytes);
        return;
    }
    if (size > MOST) {
        free(memory);
        return;
    }
    struct piece *piece = memory;
    pthread_mutex_lock(&lock);
    struct piece **first = &pieces[size_number(size)];
    piece->next = *first;
    *first = piece;
    pthread_mutex_unlock(&lock);
}
