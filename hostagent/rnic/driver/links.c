/* Hears from the kernel that links of the card's interfaces went down or up (rtnetlink). */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"

enum { MESSAGES = 1 << 14 };

static int is_up(uint32_t flags) { return (flags & IFF_UP) && (flags & IFF_RUNNING); }

static void link_is(struct rnicd *d, unsigned ifindex, int up)
{
    rnic_advance(d->card, rnicd_now(d)); /* it has no clock of its own */
    for (uint32_t i = 0; i < d->n_lines; i++)
        if (d->lines[i].ifindex == ifindex)
            rnic_set_link(d->card, i, up);
}

/* All links as they are: at the start, and where messages were lost. */
static void links_ask(struct rnicd *d)
{
    rnic_advance(d->card, rnicd_now(d));
    for (uint32_t i = 0; i < d->n_lines; i++) {
        const struct line *line = &d->lines[i];
        struct ifreq query = {.ifr_ifindex = (int)line->ifindex};
        if (!ioctl(line->port_fds[0], SIOCGIFNAME, &query) && !ioctl(line->port_fds[0], SIOCGIFFLAGS, &query))
            rnic_set_link(d->card, i, is_up((uint16_t)query.ifr_flags));
    }
}

int links_open(struct rnicd *d, char *error, size_t error_size)
{
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (d->links_fd < 0) {
        d->links_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        if (d->links_fd < 0 || bind(d->links_fd, (const struct sockaddr *)&address, sizeof address)) {
            snprintf(error, error_size, "links can't be watched: %s", strerror(errno));
            return -1;
        }
    }
    links_ask(d);
    return 0;
}

void links_read(struct rnicd *d)
{
    _Alignas(struct nlmsghdr) char bytes[MESSAGES];
    for (;;) {
        const ssize_t got = recv(d->links_fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got < 0 && errno == ENOBUFS) {
            links_ask(d);
            continue;
        }
        if (got <= 0)
            return;
        size_t left = (size_t)got;
        for (const struct nlmsghdr *message = (const struct nlmsghdr *)bytes; NLMSG_OK(message, left);
             message = NLMSG_NEXT(message, left)) {
            const struct ifinfomsg *about = NLMSG_DATA(message);
            if (message->nlmsg_type == RTM_NEWLINK && message->nlmsg_len >= NLMSG_LENGTH(sizeof *about))
                link_is(d, (unsigned)about->ifi_index, is_up(about->ifi_flags));
        }
    }
}
