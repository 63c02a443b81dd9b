/* Frames by an AF_PACKET socket: works on every kernel, at a system call a batch. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io.h"
#include "telemetry.h"

enum { SOCKET_BUFFER = 8 << 20 };
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct packet_io {
    struct io io;
    uint32_t waiting;
    uint64_t rx_dropped, tx_dropped;
    struct mmsghdr in[IO_BATCH], out[IO_BATCH];
    struct iovec in_bytes[IO_BATCH], out_bytes[IO_BATCH];
    uint8_t frames[2 * IO_BATCH][IO_FRAME_MOST];
};

static size_t packet_receive(struct io *io, io_take *take, void *opaque)
{
    struct packet_io *own = (struct packet_io *)io;
    int n = recvmmsg(io->fd, own->in, IO_BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++)
        take(opaque, own->frames[i], own->in[i].msg_len);
    return n > 0 ? (size_t)n : 0;
}

static int packet_flush(struct io *io)
{
    struct packet_io *own = (struct packet_io *)io;
    uint32_t sent = 0;
    while (sent < own->waiting) {
        int n = sendmmsg(io->fd, own->out + sent, own->waiting - sent, MSG_DONTWAIT);
        if (n > 0) {
            sent += (uint32_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != ENOBUFS && errno != ENETDOWN && errno != EMSGSIZE) {
            own->waiting = 0;
            return -errno;
        }
        /* The interface takes no more now, or never this one: as on a wire that loses it. */
        own->tx_dropped++;
        sent++;
    }
    own->waiting = 0;
    return 0;
}

static uint8_t *packet_room(struct io *io)
{
    struct packet_io *own = (struct packet_io *)io;
    return own->waiting < IO_BATCH ? own->frames[IO_BATCH + own->waiting] : NULL;
}

static void packet_put(struct io *io, uint32_t length)
{
    struct packet_io *own = (struct packet_io *)io;
    own->out_bytes[own->waiting++].iov_len = length;
}

static void packet_dropped(struct io *io, uint64_t *received, uint64_t *sent)
{
    struct packet_io *own = (struct packet_io *)io;
    struct tpacket_stats stats; /* since it was last asked */
    socklen_t size = sizeof stats;
    if (!getsockopt(io->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
        own->rx_dropped += stats.tp_drops;
    *received = own->rx_dropped;
    *sent = own->tx_dropped;
}

static void packet_close(struct io *io)
{
    struct packet_io *own = (struct packet_io *)io;
    close(io->fd);
    free(own);
}

static const struct io_ways ways = {packet_receive, packet_room, packet_put, packet_flush, packet_dropped, packet_close};

/* UDP to RoCEv2's port, telemetry's or the notifications', IPv4 without options: as the card reads them. */
static int filter(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22), /* TTL and protocol */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TELEMETRY_PORT, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NOTIFICATION_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

struct io *io_open_packet(const char *interface, char *error, size_t error_size)
{
    struct packet_io *own = calloc(1, sizeof *own);
    unsigned index = if_nametoindex(interface);
    int size = SOCKET_BUFFER, on = 1;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)index};
    if (!own || !index) {
        snprintf(error, error_size, own ? "there is no interface %s here" : "no memory for %s", interface);
        free(own);
        return NULL;
    }
    own->io.ways = &ways;
    own->io.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (own->io.fd < 0 || filter(own->io.fd) || bind(own->io.fd, (struct sockaddr *)&address, sizeof address)) {
        snprintf(error, error_size, "%s by AF_PACKET: %s", interface, strerror(errno));
        if (own->io.fd >= 0)
            close(own->io.fd);
        free(own);
        return NULL;
    }
    setsockopt(own->io.fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    /* As in AF_XDP: the driver itself keeps to the line's rate, a queue would only add its delay. */
    setsockopt(own->io.fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    if (setsockopt(own->io.fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        setsockopt(own->io.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(own->io.fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    for (int i = 0; i < IO_BATCH; i++) {
        own->in_bytes[i] = (struct iovec){own->frames[i], IO_FRAME_MOST};
        own->out_bytes[i] = (struct iovec){own->frames[IO_BATCH + i], 0};
        own->in[i].msg_hdr = (struct msghdr){.msg_iov = &own->in_bytes[i], .msg_iovlen = 1};
        own->out[i].msg_hdr = (struct msghdr){.msg_iov = &own->out_bytes[i], .msg_iovlen = 1};
    }
    return &own->io;
}
