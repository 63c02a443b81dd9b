/* A worker's socket: UDP to the gateway, sent and received many at a time. */
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
    struct sockaddr_in gateway;
    struct datagrams out, in;
    uint8_t *room;  /* for what comes */
    uint8_t *zeros; /* what tails are made of */
    uint64_t unsent;
};

/* Returns 0, or -1 with the reason. */
int socket_open(struct worker_socket *s, uint32_t address, uint32_t gateway, uint32_t tos, uint32_t datagram_bytes, char *why);
void socket_close(struct worker_socket *s);
/* `payload` has to stay until the next flush. */
void socket_put(struct worker_socket *s, const uint8_t *payload, uint32_t length, uint32_t tail);
void socket_flush(struct worker_socket *s);
/* How many datagrams have come; `in` holds them. */
uint32_t socket_take(struct worker_socket *s);

#endif
