#include "daemon_links.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

int wd_links_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    return fd;
}

int wd_links_drain(int fd)
{
    char buffer[8192];
    int any = 0;
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n < 0 && errno != ENOBUFS && errno != EINTR)
            return any;
        any = 1; /* ENOBUFS: messages were lost, so something changed */
    }
}
