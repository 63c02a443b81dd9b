/* Hears what switches say of dead ways where frames come by AF_XDP: the program there keeps notifications in its maps and lets them go
 * on up the stack, and the card has to know of those of type 2, by the interface by which they came.
 *
 * By a packet socket, which gets them before the stack asks whether their source has a way back by that interface.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"

enum { FRAME_MOST = 256, BODY = 42 /* behind Ethernet, IPv4 without options and UDP */ };

/* Notifications of type 2 alone. */
static int filter(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NOTIFICATION_PORT, 0, 4),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, BODY),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WEFT_NOTIFICATION_LINK_DOWN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, FRAME_MOST),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

int told_open(unsigned ifindex, char *error, size_t error_size)
{
    const struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)ifindex};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !filter(fd) && !bind(fd, (const struct sockaddr *)&address, sizeof address))
        return fd;
    snprintf(error, error_size, "notifications can't be heard: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

void told_read(struct line *line)
{
    uint8_t frame[FRAME_MOST];
    ssize_t got;
    while ((got = recv(line->told_fd, frame, sizeof frame, MSG_DONTWAIT)) > 0)
        rnic_receive_on(line->driver->card, line->number, frame, (uint32_t)got, 0, rnicd_now(line->driver));
}
