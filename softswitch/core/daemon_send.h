/* Sending: owns a packet socket's sending half: the batch, what waits behind it, how much the device may hold.
 *
 * Frames go through the device's queueing discipline (never past it), so a shaper sees them. What it holds back is
 * charged to the socket's send buffer, and a switch port is granted no more than fits in there. Frames in there are out of
 * the switch's hands: no depth shows them, no priority passes them. So behind a shaper the buffer is kept small: as much as
 * leaves in WINDOW_PS. A device without a discipline (a veth pair as it is made) holds nothing: there nothing is
 * asked and nothing is limited.
 */
#ifndef WEFT_DAEMON_SEND_H
#define WEFT_DAEMON_SEND_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "daemon_links.h"
#include "weft_switch.h"

enum {
    WD_TX_BATCH = 128,
    WD_BACKLOG_MAX = 4096, /* frames kept while the socket is full: what was on the way when that came unexpectedly */
};

struct wd_frame {
    uint32_t length;
    uint32_t capacity;
    uint8_t *data;
};

struct wd_send {
    int fd;
    enum wd_holding holds;
    int waits; /* there is no room: the socket will be writable when there is */
    uint32_t charge;      /* what the kernel counts for a frame of the MTU, in bytes */
    uint32_t window;      /* bytes that may be with the device, as the kernel counts them */
    uint32_t window_most; /* what the socket began with */
    ws_time full_at;      /* since when there is no room; -1: there is */
    uint32_t full_bytes;  /* that were with the device then */
    uint64_t blocked, lost; /* as in struct wd_port_stats */
    struct mmsghdr messages[WD_TX_BATCH];
    struct iovec vectors[WD_TX_BATCH];
    uint32_t n_messages;
    struct wd_frame *backlog; /* of WD_BACKLOG_MAX, made when first needed */
    uint32_t backlog_head, backlog_n;
};

void wd_send_open(struct wd_send *send, int fd, int mtu);
/* Forgets what waits; the socket stays open. */
void wd_send_close(struct wd_send *send);
/* Adds a frame to the batch; `data` must stay until wd_send_flush. 0 when the batch is full (flush first). */
int wd_send_add(struct wd_send *send, const uint8_t *data, uint32_t length);
/* Sends backlog and batch. What the socket does not take goes to the backlog; the device holds frames then. */
void wd_send_flush(struct wd_send *send, struct wd_stats *stats);
/* What the device does to frames from now on. */
void wd_send_hold(struct wd_send *send, enum wd_holding holds);
/* How many more frames may go to the device at `now`; 0: wait until the socket is writable. WS_UNLIMITED where nothing
 * is held. Follows the rate at which the device takes frames. */
uint32_t wd_send_room(struct wd_send *send, ws_time now);

#endif
