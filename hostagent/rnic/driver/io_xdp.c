/* Frames by AF_XDP, copy mode, one queue: what an XDP program redirects to the socket. */
#include <stdio.h>

#include "io.h"

#ifdef RNIC_HAVE_XDP

#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <xdp/xsk.h>

enum { FRAMES = 4096, HALF = FRAMES / 2, FRAME_BYTES = 4096, TRIES = 50, KICKS = 4 };

struct xdp_io {
    struct io io;
    struct xsk_umem *umem;
    struct xsk_socket *socket;
    struct xsk_ring_prod fill, tx;
    struct xsk_ring_cons completion, rx;
    uint8_t *memory;
    uint64_t free[HALF]; /* frames to send from */
    uint32_t n_free, put;
};

static void refill(struct xdp_io *own, const uint64_t *frames, uint32_t n)
{
    uint32_t at;
    if (xsk_ring_prod__reserve(&own->fill, n, &at) != n)
        return; /* never: there are as many places as frames */
    for (uint32_t i = 0; i < n; i++)
        *xsk_ring_prod__fill_addr(&own->fill, at + i) = frames[i];
    xsk_ring_prod__submit(&own->fill, n);
}

static size_t xdp_receive(struct io *io, io_take *take, void *opaque)
{
    struct xdp_io *own = (struct xdp_io *)io;
    uint64_t frames[IO_BATCH];
    uint32_t at, n = xsk_ring_cons__peek(&own->rx, IO_BATCH, &at);
    for (uint32_t i = 0; i < n; i++) {
        const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&own->rx, at + i);
        take(opaque, xsk_umem__get_data(own->memory, desc->addr), desc->len);
        frames[i] = desc->addr & ~(uint64_t)(FRAME_BYTES - 1);
    }
    if (n) {
        xsk_ring_cons__release(&own->rx, n);
        refill(own, frames, n);
    }
    return n;
}

static void reclaim(struct xdp_io *own)
{
    uint32_t at, n = xsk_ring_cons__peek(&own->completion, HALF, &at);
    for (uint32_t i = 0; i < n; i++)
        own->free[own->n_free++] = *xsk_ring_cons__comp_addr(&own->completion, at + i);
    if (n)
        xsk_ring_cons__release(&own->completion, n);
}

static uint8_t *xdp_room(struct io *io)
{
    struct xdp_io *own = (struct xdp_io *)io;
    if (!own->n_free)
        reclaim(own);
    if (!own->n_free || own->put >= IO_BATCH)
        return NULL;
    return xsk_umem__get_data(own->memory, own->free[own->n_free - 1]);
}

static void xdp_put(struct io *io, uint32_t length)
{
    struct xdp_io *own = (struct xdp_io *)io;
    uint32_t at;
    if (xsk_ring_prod__reserve(&own->tx, 1, &at) != 1)
        return; /* never: there are as many places as frames */
    struct xdp_desc *desc = xsk_ring_prod__tx_desc(&own->tx, at);
    desc->addr = own->free[--own->n_free];
    desc->len = length;
    desc->options = 0;
    own->put++;
}

/* The kernel has not taken all of the ring. */
static int waiting(const struct xdp_io *own)
{
    return __atomic_load_n(own->tx.consumer, __ATOMIC_ACQUIRE) != *own->tx.producer;
}

static int xdp_flush(struct io *io)
{
    struct xdp_io *own = (struct xdp_io *)io;
    if (own->put) {
        xsk_ring_prod__submit(&own->tx, own->put);
        own->put = 0;
    }
    /* A kick is always needed in copy mode; each sends a limited number of frames. */
    for (int i = 0; i < KICKS && waiting(own); i++)
        if (sendto(io->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS &&
            errno != ENETDOWN && errno != EINTR)
            return -errno;
    reclaim(own);
    return waiting(own);
}

static void xdp_dropped(struct io *io, uint64_t *received, uint64_t *sent)
{
    struct xdp_statistics stats;
    socklen_t size = sizeof stats;
    *received = *sent = 0;
    if (getsockopt(io->fd, SOL_XDP, XDP_STATISTICS, &stats, &size))
        return;
    *received = stats.rx_dropped + stats.rx_ring_full;
    *sent = stats.tx_invalid_descs;
}

static void xdp_close(struct io *io)
{
    struct xdp_io *own = (struct xdp_io *)io;
    xsk_socket__delete(own->socket);
    xsk_umem__delete(own->umem);
    munmap(own->memory, (size_t)FRAMES * FRAME_BYTES);
    free(own);
}

static const struct io_ways ways = {xdp_receive, xdp_room, xdp_put, xdp_flush, xdp_dropped, xdp_close};

/* Right after another socket of this queue was closed the kernel may still hold it. */
static int bind_socket(struct xdp_io *own, const char *interface)
{
    const struct xsk_socket_config config = {
        .rx_size = HALF,
        .tx_size = HALF,
        .libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
        .bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP,
    };
    int status = -EBUSY;
    for (int i = 0; i < TRIES && status == -EBUSY; i++) {
        if (i)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        status = xsk_socket__create(&own->socket, interface, 0, own->umem, &own->rx, &own->tx, &config);
    }
    return status;
}

struct io *io_open_xdp(const char *interface, char *error, size_t error_size)
{
    struct xdp_io *own = calloc(1, sizeof *own);
    const struct xsk_umem_config config = {
        .fill_size = HALF, .comp_size = HALF, .frame_size = FRAME_BYTES, .frame_headroom = 0};
    if (!own) {
        snprintf(error, error_size, "no memory for %s", interface);
        return NULL;
    }
    own->io.ways = &ways;
    own->memory = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int status = own->memory == MAP_FAILED ? -errno : 0;
    if (!status)
        status = xsk_umem__create(&own->umem, own->memory, (uint64_t)FRAMES * FRAME_BYTES, &own->fill, &own->completion, &config);
    if (!status) {
        status = bind_socket(own, interface);
        if (status)
            xsk_umem__delete(own->umem);
    }
    if (status) {
        const char *busy = status == -EBUSY ? ": another endpoint has this interface" : "";
        snprintf(error, error_size, "%s by AF_XDP: %s%s", interface, strerror(-status), busy);
        if (own->memory != MAP_FAILED)
            munmap(own->memory, (size_t)FRAMES * FRAME_BYTES);
        free(own);
        return NULL;
    }
    own->io.fd = xsk_socket__fd(own->socket);
    uint64_t frames[HALF];
    for (uint32_t i = 0; i < HALF; i++) {
        frames[i] = (uint64_t)i * FRAME_BYTES;
        own->free[i] = (uint64_t)(HALF + i) * FRAME_BYTES;
    }
    own->n_free = HALF;
    refill(own, frames, HALF);
    return &own->io;
}

#else

struct io *io_open_xdp(const char *interface, char *error, size_t error_size)
{
    snprintf(error, error_size, "%s: AF_XDP is not built in (Debian's libxdp-dev, then make setup)", interface);
    return NULL;
}

#endif
