/* Integer types for headers that the kernel, the endpoint and the simulator share. */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#ifdef __KERNEL__
#include <linux/types.h>
typedef __u8 weft_u8;
typedef __u16 weft_u16;
typedef __u32 weft_u32;
typedef __u64 weft_u64;
#else
#include <stdint.h>
typedef uint8_t weft_u8;
typedef uint16_t weft_u16;
typedef uint32_t weft_u32;
typedef uint64_t weft_u64;
#endif

#endif
