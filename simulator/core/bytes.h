/* Numbers in frames: in network order, at any address. */
#ifndef WEFT_SIM_BYTES_H
#define WEFT_SIM_BYTES_H

#include <stdint.h>

static inline void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}
static inline void put24(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 16);
    put16(at + 1, value);
}
static inline void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}
static inline void put48(uint8_t *at, uint64_t value)
{
    put16(at, (uint32_t)(value >> 32));
    put32(at + 2, (uint32_t)value);
}
static inline uint32_t get16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static inline uint32_t get24(const uint8_t *at) { return (uint32_t)at[0] << 16 | get16(at + 1); }

#endif
