/* The yardstick: forwards between two interfaces with recvmmsg and sendmmsg on AF_PACKET and does nothing else.
 *
 *     forwarder IF1 IF2
 *
 * One thread, poll, batches of 64. Prints "ready" when both sockets are bound; ends on SIGTERM or SIGINT and then
 * prints what it forwarded. Its CPU time is measured from outside.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BATCH = 64, FRAME = 2048, RECEIVE_BUFFER = 4 << 20 };

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_interface(const char *name)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    if (fd < 0)
        fail("socket");
    int one = 1, bytes = RECEIVE_BUFFER;
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        fail("setsockopt");
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(name),
    };
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail(name);
    return fd;
}

static unsigned long forward(int from, int to)
{
    static unsigned char frames[BATCH][FRAME];
    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int i = 0; i < BATCH; i++) {
        vectors[i] = (struct iovec){frames[i], FRAME};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
    }
    int n = recvmmsg(from, messages, BATCH, MSG_DONTWAIT, NULL);
    if (n <= 0)
        return 0;
    for (int i = 0; i < n; i++)
        vectors[i].iov_len = messages[i].msg_len;
    int sent = 0;
    while (sent < n && !stop) {
        int now = sendmmsg(to, messages + sent, (unsigned)(n - sent), 0);
        if (now > 0)
            sent += now;
        else if (errno != EAGAIN)
            sent++; /* that frame is lost */
    }
    return (unsigned long)n;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: forwarder IF1 IF2\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int a = open_interface(argv[1]), b = open_interface(argv[2]);
    struct pollfd sockets[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
    printf("ready\n");
    fflush(stdout);
    unsigned long forwarded = 0;
    while (!stop) {
        if (poll(sockets, 2, -1) < 0)
            continue;
        if (sockets[0].revents & POLLIN)
            forwarded += forward(a, b);
        if (sockets[1].revents & POLLIN)
            forwarded += forward(b, a);
    }
    printf("%lu\n", forwarded);
    return 0;
}
