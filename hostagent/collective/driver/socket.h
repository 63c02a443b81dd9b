/* A worker's socket: UDP to the gateway, or to other hosts, sent and received many at a time. */
#ifndef WEFT_COLLECTIVE_SOCKET_H
#define WEFT_COLLECTIVE_SOCKET_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

enum { SOCKET_BATCH = 64, SOCKET_PARTS = 2 };

struct datagrams {
    struct mmsghdr headers[SOCKET_BATCH];
    struct iovec parts[SOCKET_BATCH][SOCKET_PARTS];
    uint32_t n;
};

struct worker_socket {
    int fd;
    uint32_t datagram_bytes; /* of the largest */
    uint16_t port;           /* at both ends */
    struct sockaddr_in gateway, to[SOCKET_BATCH];
    struct datagrams out, in;
    uint8_t *room;  /* for what comes */
    uint8_t *zeros; /* what tails are made of */
    uint64_t unsent;
};

/* Returns 0, or -1 with the reason. `gateway`: where datagrams go to by default; they have to fit the way to it. */
int socket_open(struct worker_socket *s, uint32_t address, uint16_t port, uint32_t gateway, uint32_t tos, uint32_t datagram_bytes,
                char *why);
void socket_close(struct worker_socket *s);
/* `to`: a host's address, 0: the gateway. `payload` has to stay until the next flush. */
void socket_put(struct worker_socket *s, uint32_t to, const uint8_t *payload, uint32_t length, uint32_t tail);
void socket_flush(struct worker_socket *s);
/* How many datagrams have come; `in` holds them. */
uint32_t socket_take(struct worker_socket *s);

#endif
