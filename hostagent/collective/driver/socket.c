/* Owns the datagrams that wait to be sent, and the room for those that come. */
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allreduce.h"
#include "driver.h"

enum { IP_AND_UDP = 28, BUFFER_BYTES = 8 << 20 };

static int refuse(struct worker_socket *s, char *why, const char *what, uint32_t address)
{
    const struct in_addr at = {htonl(address)};
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &at, text, sizeof text);
    snprintf(why, COLLECTIVE_WHY, "%s %s: %s", what, text, strerror(errno));
    socket_close(s);
    return -1;
}

/* The MTU of the way to an address; 0: there is none. */
static int mtu_towards(const struct sockaddr_in *to)
{
    int mtu = 0;
    socklen_t size = sizeof mtu;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) || getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &size))
        mtu = 0;
    const int error = errno;
    close(fd);
    errno = error;
    return mtu;
}

static void set_buffer(int fd, int forced, int plain)
{
    const int bytes = BUFFER_BYTES;
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes))
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

int socket_open(struct worker_socket *s, uint32_t address, uint16_t port, uint32_t gateway, uint32_t tos, uint32_t datagram_bytes,
                char *why)
{
    const struct sockaddr_in own = {AF_INET, htons(port), {htonl(address)}, {0}};
    const int byte = (int)tos, yes = 1;
    memset(s, 0, sizeof *s);
    s->port = port;
    s->gateway = (struct sockaddr_in){AF_INET, htons(port), {htonl(gateway)}, {0}};
    s->datagram_bytes = datagram_bytes;
    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return refuse(s, why, "no UDP socket for", address);
    if (bind(s->fd, (const struct sockaddr *)&own, sizeof own))
        return refuse(s, why, port == WEFT_ALLREDUCE_PORT ? "UDP port 28792 can't be bound at" : "UDP port 28793 can't be bound at",
                      address);
    const int mtu = mtu_towards(&s->gateway);
    if (!mtu)
        return refuse(s, why, "no way to the gateway", gateway);
    if ((uint32_t)mtu < datagram_bytes + IP_AND_UDP) {
        snprintf(why, COLLECTIVE_WHY, "packets of %u lanes need an MTU of %u, and the way to the gateway has %d",
                 (datagram_bytes - WEFT_ALLREDUCE_BYTES) / 4, datagram_bytes + IP_AND_UDP, mtu);
        socket_close(s);
        return -1;
    }
    setsockopt(s->fd, IPPROTO_IP, IP_TOS, &byte, sizeof byte);
    setsockopt(s->fd, SOL_SOCKET, SO_NO_CHECK, &yes, sizeof yes); /* switches change what a checksum would cover */
    set_buffer(s->fd, SO_RCVBUFFORCE, SO_RCVBUF);
    set_buffer(s->fd, SO_SNDBUFFORCE, SO_SNDBUF);
    s->room = malloc((size_t)SOCKET_BATCH * datagram_bytes);
    s->zeros = calloc(1, datagram_bytes);
    if (!s->room || !s->zeros)
        return refuse(s, why, "no memory for the socket of", address);
    for (uint32_t i = 0; i < SOCKET_BATCH; i++) {
        s->in.parts[i][0] = (struct iovec){s->room + (size_t)i * datagram_bytes, datagram_bytes};
        s->in.headers[i].msg_hdr = (struct msghdr){.msg_iov = s->in.parts[i], .msg_iovlen = 1};
    }
    return 0;
}

void socket_close(struct worker_socket *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->room);
    free(s->zeros);
    s->fd = -1;
    s->room = s->zeros = NULL;
}

void socket_put(struct worker_socket *s, uint32_t to, const uint8_t *payload, uint32_t length, uint32_t tail)
{
    if (s->out.n == SOCKET_BATCH)
        socket_flush(s);
    const uint32_t i = s->out.n++;
    s->out.parts[i][0] = (struct iovec){(void *)(uintptr_t)payload, length};
    s->out.parts[i][1] = (struct iovec){s->zeros, tail};
    s->to[i] = to ? (struct sockaddr_in){AF_INET, htons(s->port), {htonl(to)}, {0}} : s->gateway;
    s->out.headers[i].msg_hdr = (struct msghdr){.msg_name = &s->to[i], .msg_namelen = sizeof s->to[i],
                                                .msg_iov = s->out.parts[i], .msg_iovlen = tail ? 2 : 1};
}

/* What the kernel refuses is lost, as on a wire: time-outs repeat it. */
void socket_flush(struct worker_socket *s)
{
    uint32_t sent = 0;
    while (sent < s->out.n) {
        const int n = sendmmsg(s->fd, s->out.headers + sent, s->out.n - sent, 0);
        if (n > 0) {
            sent += (uint32_t)n;
        } else if (errno != EINTR) {
            sent++;
            s->unsent++;
        }
    }
    s->out.n = 0;
}

uint32_t socket_take(struct worker_socket *s)
{
    const int n = recvmmsg(s->fd, s->in.headers, SOCKET_BATCH, MSG_DONTWAIT, NULL);
    return n > 0 ? (uint32_t)n : 0;
}
