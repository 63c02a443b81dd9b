/* Holds UDP ports, RoCEv2's, telemetry's and the notifications', so that the kernel does not answer their packets, and no second
 * endpoint has the address. */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"

/* Nobody reads there: what the kernel would keep for a reader goes at once. */
static int drop_all(int fd)
{
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

int port_take(uint32_t ip, uint16_t port, char *error, size_t error_size)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && !drop_all(fd) && !bind(fd, (const struct sockaddr *)&address, sizeof address))
        return fd;
    const char *why = errno == EADDRINUSE      ? "is taken: another endpoint runs here"
                      : errno == EADDRNOTAVAIL ? "can't be had: the address is not one of this host"
                                               : strerror(errno);
    snprintf(error, error_size, "UDP port %d of %u.%u.%u.%u %s", port, ip >> 24, ip >> 16 & 255, ip >> 8 & 255,
             ip & 255, why);
    if (fd >= 0)
        close(fd);
    return -1;
}
