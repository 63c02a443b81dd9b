/* Numbers in the network's order, and sizes of memory that hold any object. */
#ifndef WEFT_COLLECTIVE_BYTES_H
#define WEFT_COLLECTIVE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}

static inline uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static inline uint32_t get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

static inline size_t rounded(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

#endif
