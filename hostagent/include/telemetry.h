/* The shim that collects what switches write into a packet (docs/wire-formats.md), mirrored from p4src/include/telemetry.p4.
 *
 *     Ethernet | IPv4 | UDP to TELEMETRY_PORT | shim | what was written | BTH | ...
 *
 * Pure, as notification.h. The lengths of IPv4 and UDP count the shim; the ICRC is that of the packet without it.
 */
#ifndef WEFT_TELEMETRY_H
#define WEFT_TELEMETRY_H

#include "cc_event.h"

#define TELEMETRY_PORT 4794
#define TELEMETRY_SHIM_BYTES 4
#define TELEMETRY_VERSION 0
#define TELEMETRY_WORDS_MOST 255

enum weft_telemetry_kind {
    WEFT_TELEMETRY_COLLECTS = 0, /* on its way to the receiver: switches may write */
    WEFT_TELEMETRY_RETURNED = 1, /* on its way back with an acknowledgement: they may not */
};

/* A word that the sender's card writes itself, and switches change: whether the source may send more (docs/wire-formats.md). Formats of what
 * switches write alone are their mechanisms'. */
enum { TELEMETRY_GRANTS = 3, TELEMETRY_GRANTS_BYTES = 4 };

/* Bits of its first byte; the rest of the word is 0, and nobody reads it. */
enum weft_grants {
    GRANT_MORE = 0x80,  /* the source asks to send one packet more; a switch that does not grant it clears this */
    GRANT_QUEUED = 0x40, /* a switch has notified the source of its queue: others do not */
    GRANT_FIRST = 0x20, /* nothing has come back of what the queue pair has sent since it was last idle */
    GRANT_LAST = 0x10,  /* what follows fits into the window: the acknowledgement brings no further packet */
};

/* Widths in bits on the wire are in the comments. */
struct weft_telemetry {
    weft_u8 version; /* 4 */
    weft_u8 cut;     /* 1; RETURNED: more was written than is returned */
    weft_u8 kind;    /* 3 */
    weft_u8 words;   /* 8: of 4 bytes, behind the shim */
    weft_u8 hops;    /* 8: switches that have written */
    weft_u8 format;  /* 8: of what is written; 0 until somebody writes */
};

/* Values are cut to their widths. */
static inline void weft_telemetry_write(const struct weft_telemetry *shim, weft_u8 out[TELEMETRY_SHIM_BYTES])
{
    out[0] = (weft_u8)((shim->version & 0xf) << 4 | (shim->cut & 1) << 3 | (shim->kind & 7));
    out[1] = shim->words;
    out[2] = shim->hops;
    out[3] = shim->format;
}

static inline void weft_telemetry_read(const weft_u8 in[TELEMETRY_SHIM_BYTES], struct weft_telemetry *shim)
{
    shim->version = in[0] >> 4;
    shim->cut = in[0] >> 3 & 1;
    shim->kind = in[0] & 7;
    shim->words = in[1];
    shim->hops = in[2];
    shim->format = in[3];
}

/* Bytes of the shim and of what is behind it; 0: it is none of ours. */
static inline weft_u32 weft_telemetry_length(const weft_u8 in[TELEMETRY_SHIM_BYTES])
{
    if (in[0] >> 4 != TELEMETRY_VERSION || (in[0] & 7) > WEFT_TELEMETRY_RETURNED)
        return 0;
    return TELEMETRY_SHIM_BYTES + 4 * (weft_u32)in[1];
}

#endif
