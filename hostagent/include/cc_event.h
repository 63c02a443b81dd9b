/* What congestion control hears of: one event for every algorithm (cc_algorithms.h).
 *
 * A mechanism with a signal of its own adds a kind behind the last one and, for what the signal carries, fields: integers
 * only, no pointers, because the BPF program builds events on its stack (512 bytes in all) and tests write them into arrays.
 * What a kind does not use is 0, so that a new field changes nothing for the kinds that are there. What switches wrote into
 * a packet comes beside the event (struct cc_telemetry), because it is long and few algorithms read it.
 */
#ifndef WEFT_CC_EVENT_H
#define WEFT_CC_EVENT_H

#include "weft_types.h"

enum cc_event_kind {
    CC_CNP = 0,      /* a CNP came that says no more than that there is congestion */
    CC_ACKED = 1,    /* `bytes` were acknowledged for the first time */
    CC_TICK = 2,     /* nothing but time */
    CC_NOTIFIED = 3, /* a switch's own notification of congestion (notification.h): `validity`, `number`, `rate` */
    CC_PROBED = 4,   /* a probe by this interface was answered: `number`, `lost_at`, `rtt_ns` */
    CC_QUEUED = 5,   /* a switch reports the queue that a packet of ours has met: `number`, `drains_ns`, `rtt_ns` */
};

struct cc_event {
    weft_u8 kind;               /* enum cc_event_kind, at most 31 */
    weft_u8 severity, validity; /* NOTIFIED: 0 .. 15, as the notification has them */
    weft_u8 path;               /* ACKED, with CC_PATH: that of the last packet which is newly acknowledged (struct cc_choice), modulo 256. 0 in
                                   the kernel if more than CC_SENT_PATHS others were sent after it. Of one interface's slot: that
                                   interface */
    weft_u32 number;            /* PROBED: the probe's, which counts up by one a probe. NOTIFIED, QUEUED: the queue's: switch_id << 16 | port */
    weft_u64 bytes;             /* ACKED */
    weft_u64 rtt_ns;            /* ACKED, with CC_RTT: since the packet that the acknowledgement names was sent. 0: not known, because it
                                   or the first one that is acknowledged was sent more than once, or it was sent too long
                                   ago, or nothing new is acknowledged, or by a NAK. PROBED: of the probe. QUEUED, with CC_RTT: since the packet that met the
                                   queue was sent; 0 as above */
    weft_u64 lost_at;           /* PROBED: ns, when the endpoint last found that this interface does not get through; 0: never */
    weft_u64 rate;              /* NOTIFIED: in units of 2^16 bits/s of the fabric (weft_rate_units); 0: none was said */
    weft_u64 drains_ns;         /* QUEUED: what the queue takes to drain, ns of the fabric, below 2^20 */
};

/* What an algorithm wants of the card (name_WANTS): each of them costs something, so that who wants none pays nothing. */
enum cc_want {
    CC_WINDOW = 1,    /* name_window_at is asked before a packet leaves, and every packet asks to be acknowledged */
    CC_RTT = 2,       /* send times are remembered */
    CC_TELEMETRY = 4, /* data packets collect what switches write into them (telemetry.h) */
    CC_PATH = 8,      /* events give the path of what is acknowledged */
    CC_PLANES = 16,   /* a slot for each interface of the queue pair, which probes those that it has lost */
    CC_GRANTS = 32,   /* with CC_TELEMETRY and CC_WINDOW: the shim has the card's word that asks for more (telemetry.h) */
};

enum { CC_TELEMETRY_MOST = 64 }; /* 5 hops of 12 bytes, and 4 */

/* What switches wrote into a packet, as its receiver returned it with the acknowledgement. A receiver returns the first
 * CC_TELEMETRY_MOST bytes; switches write in front of each other, so that the switches next to the sender are cut off. */
struct cc_telemetry {
    weft_u32 bytes;  /* of `data`, a multiple of 4; behind them are zeros */
    weft_u8 format;  /* what the bytes are, as the first writer says; 0: none has */
    weft_u8 hops;    /* how many have written */
    weft_u8 cut;     /* 1: there was more */
    weft_u8 pad_;
    weft_u8 data[CC_TELEMETRY_MOST];
};

/* Which ways a queue pair has for a packet. Path number = port * interfaces + interface. */
struct cc_choice {
    weft_u64 packet;     /* its PSN, not cut to 24 bits, or another number if it is sent again */
    weft_u32 interfaces; /* of the device, at most 8 */
    weft_u32 usable;     /* bit i: interface i is up here; never 0 */
    weft_u32 ports;      /* UDP source ports, from the first one on */
    weft_u32 pad_;
};
#define CC_NO_LIMIT (~(weft_u64)0)
#define CC_NO_PATH (~(weft_u32)0)
#define CC_SHUT (CC_NO_PATH - 1) /* this slot's interface is not to be used now */

#endif
