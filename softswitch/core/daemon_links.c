#include "daemon_links.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_BYTES = 32768 }; /* what the kernel puts into one answer, at most */

int wd_links_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_TC};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    return fd;
}

static int news_of(const struct nlmsghdr *message)
{
    switch (message->nlmsg_type) {
    case RTM_NEWQDISC:
    case RTM_DELQDISC:
        return WD_NEWS_QDISC;
    case RTM_NEWTCLASS: /* classes and filters change nothing that we look at */
    case RTM_DELTCLASS:
    case RTM_NEWTFILTER:
    case RTM_DELTFILTER:
        return 0;
    default:
        return WD_NEWS_LINK;
    }
}

int wd_links_drain(int fd)
{
    _Alignas(struct nlmsghdr) char buffer[8192];
    int news = 0;
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, MSG_TRUNC);
        if (n < 0 && errno != ENOBUFS && errno != EINTR)
            return news;
        if (n < 0 || (size_t)n > sizeof buffer) { /* messages were lost (ENOBUFS) or cut off, so something changed */
            news |= WD_NEWS_LINK | WD_NEWS_QDISC;
            continue;
        }
        unsigned left = (unsigned)n;
        for (struct nlmsghdr *message = (struct nlmsghdr *)buffer; NLMSG_OK(message, left);
             message = NLMSG_NEXT(message, left))
            news |= news_of(message);
    }
}

/* Sends a request and hands each message of the answer to `each` until that returns non-zero, which is returned. 0: all
 * were seen; -errno. */
static int ask(void *request, size_t bytes, int (*each)(const struct nlmsghdr *, void *), void *opaque)
{
    static const int WAIT_S = 1; /* the kernel answers at once; should it not, the loop must go on */
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    struct timeval limit = {.tv_sec = WAIT_S};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    int status = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 ||
                         send(fd, request, bytes, 0) < 0
                     ? -errno
                     : 0;
    int several = ((struct nlmsghdr *)request)->nlmsg_flags & NLM_F_DUMP, more = status == 0;
    while (more) {
        ssize_t n = recv(fd, answer, sizeof answer, 0);
        if (n < 0 && errno == EINTR)
            continue; /* with a time limit a stopped process that goes on finds this */
        if (n < 0) {
            status = -errno;
            break;
        }
        more = several;
        unsigned left = (unsigned)n;
        for (struct nlmsghdr *message = (struct nlmsghdr *)answer; !status && NLMSG_OK(message, left);
             message = NLMSG_NEXT(message, left)) {
            if (message->nlmsg_type == NLMSG_DONE) {
                more = 0;
                break;
            }
            status = message->nlmsg_type == NLMSG_ERROR ? ((struct nlmsgerr *)NLMSG_DATA(message))->error
                                                        : each(message, opaque);
        }
        if (status)
            break;
    }
    close(fd);
    return status;
}

/* What attribute `type` behind a message's `header_bytes` holds, and how many bytes; or NULL. */
static const char *find(const struct nlmsghdr *message, size_t header_bytes, int type, size_t *bytes)
{
    unsigned left = (unsigned)NLMSG_PAYLOAD(message, header_bytes);
    const char *start = (const char *)NLMSG_DATA(message) + NLMSG_ALIGN(header_bytes);
    for (const struct rtattr *attribute = (const struct rtattr *)start; RTA_OK(attribute, left);
         attribute = RTA_NEXT(attribute, left))
        if (attribute->rta_type == type) {
            *bytes = RTA_PAYLOAD(attribute);
            return (const char *)RTA_DATA(attribute);
        }
    return NULL;
}

static int root_of_link(const struct nlmsghdr *message, void *name)
{
    size_t bytes;
    const char *found =
        message->nlmsg_type == RTM_NEWLINK ? find(message, sizeof(struct ifinfomsg), IFLA_QDISC, &bytes) : NULL;
    if (!found)
        return -ENOENT;
    snprintf(name, WD_QDISC_NAME, "%.*s", (int)bytes, found);
    return 0;
}

static int is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* Disciplines that keep frames back for a time of their own, at whatever rate they come. */
static const char *const delaying[] = {"netem", "etf", "taprio", NULL};
static const char *const shaping[] = {"htb", "tbf", "hfsc", "cbq", "cake", NULL};
static const char *const none[] = {"noqueue", "noop", NULL};

static int delays(const struct nlmsghdr *message, void *ifindex)
{
    const struct tcmsg *qdisc = NLMSG_DATA(message);
    if (message->nlmsg_type != RTM_NEWQDISC || qdisc->tcm_ifindex != *(const int *)ifindex)
        return 0;
    size_t bytes;
    const char *kind = find(message, sizeof *qdisc, TCA_KIND, &bytes);
    if (!kind || !is_one_of(kind, delaying))
        return 0;
    const char *netem = strcmp(kind, "netem") == 0 ? find(message, sizeof *qdisc, TCA_OPTIONS, &bytes) : NULL;
    struct tc_netem_qopt options;
    if (!netem || bytes < sizeof options)
        return 1;
    memcpy(&options, netem, sizeof options);
    return options.latency != 0; /* Mininet's links have a netem of no delay */
}

int wd_links_holding(int ifindex, char name[WD_QDISC_NAME])
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } link = {
        .header = {.nlmsg_len = sizeof link, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
        .link = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex},
    };
    struct {
        struct nlmsghdr header;
        struct tcmsg qdisc;
    } all = {
        .header = {.nlmsg_len = sizeof all, .nlmsg_type = RTM_GETQDISC, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .qdisc = {.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex},
    };
    int status = ask(&link, sizeof link, root_of_link, name);
    if (status < 0)
        return status;
    if (is_one_of(name, none))
        return WD_HOLDS_NOTHING;
    if (!is_one_of(name, shaping))
        return WD_HOLDS_SOME;
    return ask(&all, sizeof all, delays, &ifindex) == 0 ? WD_HOLDS_BY_RATE : WD_HOLDS_SOME;
}
