/* Interfaces: owns one AF_PACKET socket a port, its receive ring, what waits to be sent, its capture files.
 *
 * Frames come in by a TPACKET_V2 ring (each frame visible at once, unlike V3's blocks) and leave by sendmmsg
 * through the device's qdisc: when a shaper holds frames the socket's send buffer fills and the
 * interface pushes back (EAGAIN).
 */
#ifndef WEFT_DAEMON_IFACE_H
#define WEFT_DAEMON_IFACE_H

#include <net/if.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "pcap.h"
#include "weft_switch.h"

enum {
    WD_TX_BATCH = 128,
    WD_BACKLOG_MAX = 4096, /* frames kept while the socket pushes back: what was on the way already */
};

struct wd_frame {
    uint32_t length;
    uint32_t capacity;
    uint8_t *data;
};

struct wd_iface {
    struct wd_iface *next;
    uint32_t port;
    char name[IF_NAMESIZE];
    int fd; /* -1: the interface is gone */
    int ifindex;
    int up;        /* the link as last seen */
    int pushed_back; /* the socket's buffer is full, EPOLLOUT is awaited */
    uint8_t *ring;
    size_t ring_bytes;
    uint32_t frame_bytes, n_frames, at;
    struct mmsghdr messages[WD_TX_BATCH];
    struct iovec vectors[WD_TX_BATCH];
    uint32_t n_messages;
    struct wd_frame *backlog; /* of WD_BACKLOG_MAX, made when first needed */
    uint32_t backlog_head, backlog_n;
    struct wd_pcap *pcap_in, *pcap_out;
};

/* 0 or -errno; fills `error` on failure. Allocates nothing that wd_iface_close does not free. */
int wd_iface_open(struct wd_iface *iface, char *error, size_t error_size);
void wd_iface_close(struct wd_iface *iface);
/* The link's state now: 1 up with carrier, 0 down, -errno when the interface is gone. */
int wd_iface_link(const struct wd_iface *iface);
/* Whether frames of the device's MTU fit the ring (0 after the MTU grew: close and open again). */
int wd_iface_fits(const struct wd_iface *iface);

/* Up to `max` frames that lie in the ring, their wall-clock arrival in `ns`. Data stays in place until
 * wd_iface_release of as many. `*truncated` counts frames that did not fit (they are skipped, `data` NULL). */
uint32_t wd_iface_receive(struct wd_iface *iface, struct ws_packet_in *packets, int64_t *ns, uint32_t max,
                          uint64_t *truncated);
void wd_iface_release(struct wd_iface *iface, uint32_t n);

/* Adds a frame to the batch; `data` must stay until wd_iface_flush. 0 when the batch is full (flush first). */
int wd_iface_queue(struct wd_iface *iface, const uint8_t *data, uint32_t length);
/* Sends backlog and batch. What the socket does not take goes to the backlog and sets pushed_back. */
void wd_iface_flush(struct wd_iface *iface, struct wd_stats *stats);

#endif
