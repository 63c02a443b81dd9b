/* How frames come and go: one of two ways, chosen when the interface is opened. */
#ifndef RNIC_IO_H
#define RNIC_IO_H

#include <stddef.h>
#include <stdint.h>

#include "notification.h"
#include "rnic.h"

enum { ROCE_PORT = 4791, NOTIFICATION_PORT = WEFT_NOTIFICATION_PORT }; /* what the card reads */
enum { IO_BATCH = 64, IO_FRAME_MOST = 9216 };

struct io;
typedef void io_take(void *opaque, const uint8_t *frame, uint32_t length);

struct io_ways {
    /* Hands over what has come, at most a batch; returns how many. */
    size_t (*receive)(struct io *io, io_take *take, void *opaque);
    /* Room for a frame, or NULL if there is none now. */
    uint8_t *(*room)(struct io *io);
    /* What was written there is to be sent. */
    void (*put)(struct io *io, uint32_t length);
    /* Lets the kernel have what was put. 1: it has not taken all yet; a negative errno: the interface will not recover. */
    int (*flush)(struct io *io);
    void (*dropped)(struct io *io, uint64_t *received, uint64_t *sent);
    void (*close)(struct io *io);
};

struct io {
    const struct io_ways *ways;
    int fd; /* to be polled */
};

/* NULL: `error` says why. */
struct io *io_open_xdp(const char *interface, char *error, size_t error_size);
struct io *io_open_packet(const char *interface, char *error, size_t error_size);

#endif
