#include "daemon_send.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    FRAMES_LEAST = 3,      /* one more than the two with which the socket is writable again: the shaper never waits for us */
    ETHERNET_BYTES = 14,
    SKB_BYTES = 336,       /* of the kernel's, beside the frame in its buffer */
    SKB_STRUCT = 256,      /* and apart from it */
    PAGE = 4096,
    PAGED_EXTRA = 832,     /* of a frame in pages */
};

/* What the device may hold, in time: long enough for a loop that is woken late, short beside what a full queue takes. */
static const ws_time WINDOW_PS = 5000000000;

/* As the kernel counts a frame: a power of 2, or whole pages, and its own structures. */
static uint32_t charge_of(int mtu)
{
    uint32_t frame = (uint32_t)mtu + ETHERNET_BYTES;
    for (uint32_t bytes = 512; bytes <= PAGE; bytes *= 2)
        if (frame + SKB_BYTES <= bytes)
            return bytes + SKB_STRUCT;
    return (frame + PAGE - 1) / PAGE * PAGE + PAGED_EXTRA;
}

void wd_send_open(struct wd_send *send, int fd, int mtu)
{
    int most = 0;
    socklen_t size = sizeof most;
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &most, &size);
    send->fd = fd;
    send->holds = WD_HOLDS_NOTHING;
    send->waits = 0;
    send->charge = charge_of(mtu);
    send->window = send->window_most = (uint32_t)most;
    send->full_at = -1;
    send->n_messages = 0;
}

void wd_send_close(struct wd_send *send)
{
    send->fd = -1;
    send->holds = WD_HOLDS_NOTHING;
    send->waits = 0;
    send->n_messages = 0;
    for (uint32_t i = 0; send->backlog && i < WD_BACKLOG_MAX; i++)
        free(send->backlog[i].data);
    free(send->backlog);
    send->backlog = NULL;
    send->backlog_head = send->backlog_n = 0;
}

/* --- what the device may hold ------------------------------------------------------------------ */

static uint32_t window_least(const struct wd_send *send)
{
    uint32_t least = FRAMES_LEAST * send->charge;
    return least < send->window_most ? least : send->window_most;
}

static void set_window(struct wd_send *send, uint32_t window)
{
    if (window > send->window_most)
        window = send->window_most;
    if (window < window_least(send))
        window = window_least(send);
    if (window == send->window)
        return;
    int half = (int)(window / 2); /* the kernel doubles the given value */
    if (setsockopt(send->fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half) == 0)
        send->window = window;
}

/* There is room again, `bytes` being left: makes the window what leaves in WINDOW_PS, by half or double at most. */
static void follow_rate(struct wd_send *send, uint32_t bytes, ws_time now)
{
    ws_time took = now > send->full_at ? now - send->full_at : 1;
    int64_t left = (int64_t)send->full_bytes - bytes;
    send->full_at = -1;
    if (send->holds != WD_HOLDS_BY_RATE)
        return; /* how long frames stay says nothing about a rate */
    int64_t wanted = left * WINDOW_PS / took;
    if (wanted > send->window)
        set_window(send, wanted < 2 * (int64_t)send->window ? (uint32_t)wanted : 2 * send->window);
    else if (wanted < send->window / 2)
        set_window(send, send->window / 2);
}

void wd_send_hold(struct wd_send *send, enum wd_holding holds)
{
    send->holds = holds;
    send->full_at = -1;
    set_window(send, holds == WD_HOLDS_BY_RATE ? 0 : send->window_most);
}

uint32_t wd_send_room(struct wd_send *send, ws_time now)
{
    int bytes = 0;
    send->waits = 0;
    if (!send->holds)
        return WS_UNLIMITED;
    if (ioctl(send->fd, SIOCOUTQ, &bytes) < 0)
        return WS_UNLIMITED; /* a kernel that does not know: the backlog holds what does not fit */
    int full = send->backlog_n || (uint32_t)bytes >= send->window;
    if (!full && send->full_at >= 0) {
        follow_rate(send, (uint32_t)bytes, now);
        full = (uint32_t)bytes >= send->window; /* that may have made it smaller */
    }
    if (full) {
        if (send->full_at < 0) {
            send->full_at = now;
            send->full_bytes = (uint32_t)bytes;
        }
        send->waits = 1;
        return 0;
    }
    return (send->window - (uint32_t)bytes + send->charge - 1) / send->charge;
}

/* --- frames ------------------------------------------------------------------------------------ */

int wd_send_add(struct wd_send *send, const uint8_t *data, uint32_t length)
{
    if (send->n_messages == WD_TX_BATCH)
        return 0;
    uint32_t i = send->n_messages++;
    send->vectors[i] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = length};
    send->messages[i].msg_hdr = (struct msghdr){.msg_iov = &send->vectors[i], .msg_iovlen = 1};
    return 1;
}

static void lose(struct wd_send *send, struct wd_stats *stats)
{
    send->lost++;
    stats->tx_errors++;
}

static void keep(struct wd_send *send, const struct iovec *vector, struct wd_stats *stats)
{
    if (!send->backlog)
        send->backlog = calloc(WD_BACKLOG_MAX, sizeof *send->backlog);
    if (!send->backlog || send->backlog_n == WD_BACKLOG_MAX) {
        lose(send, stats);
        return;
    }
    struct wd_frame *frame = &send->backlog[(send->backlog_head + send->backlog_n) % WD_BACKLOG_MAX];
    if (frame->capacity < vector->iov_len) {
        uint8_t *data = realloc(frame->data, vector->iov_len);
        if (!data) {
            lose(send, stats);
            return;
        }
        frame->data = data;
        frame->capacity = (uint32_t)vector->iov_len;
    }
    memcpy(frame->data, vector->iov_base, vector->iov_len);
    frame->length = (uint32_t)vector->iov_len;
    send->backlog_n++;
}

/* 1: the socket is full. */
static int send_backlog(struct wd_send *batch, struct wd_stats *stats)
{
    while (batch->backlog_n) {
        const struct wd_frame *frame = &batch->backlog[batch->backlog_head];
        ssize_t sent = send(batch->fd, frame->data, frame->length, MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            return 1;
        if (sent < 0)
            lose(batch, stats);
        else
            stats->tx++;
        batch->backlog_head = (batch->backlog_head + 1) % WD_BACKLOG_MAX;
        batch->backlog_n--;
    }
    return 0;
}

void wd_send_flush(struct wd_send *send, struct wd_stats *stats)
{
    uint32_t i = 0, n = send->n_messages;
    int full = send->backlog_n && send_backlog(send, stats);
    while (i < n && !full) {
        int sent = sendmmsg(send->fd, send->messages + i, n - i, MSG_DONTWAIT);
        if (sent > 0) {
            stats->tx += (uint64_t)sent;
            i += (uint32_t)sent;
        } else if (errno == EAGAIN) {
            full = 1;
        } else if (errno != EINTR) { /* too long for the MTU, interface down, dropped by its discipline: that frame is lost */
            lose(send, stats);
            i++;
        }
    }
    for (; i < n; i++)
        keep(send, &send->vectors[i], stats);
    send->n_messages = 0;
    if (full && !send->holds)
        wd_send_hold(send, WD_HOLDS_SOME);
}
