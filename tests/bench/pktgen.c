/* Paced generator and sink: sends frames out of one interface and counts what comes in at another.
 *
 *     pktgen OUT IN PPS SECONDS < frames        (one frame a line, hexadecimal; sent in turn)
 *
 * Prints one line of JSON: sent, received, seconds, late (sends that were more than 1 ms behind). Sending keeps
 * to the clock: whatever is due since the last look goes out, at most 64 frames at once, so a
 * stalled machine makes bursts, not a lower rate. Counting costs nearly nothing: a filter lets IPv4 through and the
 * kernel's count of what reached the socket is read at the end; the socket itself is never read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAMES_MAX = 4096,
    FRAME_BYTES = 9018,
    BATCH = 64,
    NAP_NS = 20000,     /* between looks at the clock */
    LATE_NS = 1000000,
    SETTLE_NS = 300000000, /* for what is still on its way when the last frame was sent */
};

static uint8_t *frames[FRAMES_MAX];
static size_t lengths[FRAMES_MAX];
static size_t n_frames;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void nap(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void read_frames(void)
{
    static char line[2 * FRAME_BYTES + 2];
    while (n_frames < FRAMES_MAX && fgets(line, sizeof line, stdin)) {
        size_t n = strspn(line, "0123456789abcdefABCDEF") / 2;
        if (!n)
            continue;
        uint8_t *frame = malloc(n);
        if (!frame)
            fail("malloc");
        for (size_t i = 0; i < n; i++) {
            unsigned byte;
            sscanf(line + 2 * i, "%2x", &byte);
            frame[i] = (uint8_t)byte;
        }
        lengths[n_frames] = n;
        frames[n_frames++] = frame;
    }
    if (!n_frames) {
        fprintf(stderr, "no frames on standard input\n");
        exit(2);
    }
}

static int open_interface(const char *name, uint16_t protocol)
{
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0)
        fail("socket");
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(protocol),
        .sll_ifindex = (int)if_nametoindex(name),
    };
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail(name);
    return fd;
}

static int open_sink(const char *name)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    int smallest = 1, one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0)
        fail("sink");
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(name),
    };
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        fail(name);
    return fd;
}

static unsigned long send_due(int fd, unsigned long sent, unsigned long due)
{
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
    unsigned n = due - sent < BATCH ? (unsigned)(due - sent) : BATCH;
    for (unsigned i = 0; i < n; i++) {
        size_t f = (sent + i) % n_frames;
        vectors[i] = (struct iovec){frames[f], lengths[f]};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    }
    int done = sendmmsg(fd, messages, n, 0);
    if (done < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
        fail("sendmmsg");
    return done > 0 ? (unsigned long)done : 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: pktgen OUT IN PPS SECONDS < frames\n");
        return 2;
    }
    double pps = atof(argv[3]), seconds = atof(argv[4]);
    read_frames();
    int out = open_interface(argv[1], 0), in = open_sink(argv[2]);
    prctl(PR_SET_TIMERSLACK, 1UL);

    unsigned long total = (unsigned long)(pps * seconds), sent = 0, late = 0;
    int64_t start = now_ns();
    while (sent < total) {
        int64_t elapsed = now_ns() - start;
        unsigned long due = (unsigned long)((double)elapsed * pps / 1e9);
        if (due > total)
            due = total;
        if (due <= sent) {
            nap(NAP_NS);
            continue;
        }
        late += (double)(due - sent) / pps * 1e9 > LATE_NS;
        sent += send_due(out, sent, due);
    }
    double took = (double)(now_ns() - start) / 1e9;
    nap(SETTLE_NS);
    struct tpacket_stats stats;
    socklen_t size = sizeof stats;
    if (getsockopt(in, SOL_PACKET, PACKET_STATISTICS, &stats, &size) < 0)
        fail("PACKET_STATISTICS");
    printf("{\"sent\": %lu, \"received\": %u, \"seconds\": %.6f, \"late\": %lu}\n", sent, stats.tp_packets, took, late);
    return 0;
}
