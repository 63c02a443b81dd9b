#include "daemon_iface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    RING_BYTES = 8 << 20,    /* 4 096 frames of 2 KB: 40 ms of 100 kpps, which a busy VM needs */
    RING_FRAMES_MIN = 256,
    RING_BLOCK = 1 << 16,
    FRAME_SPARE = 160,       /* ring header, socket address, alignment, VLAN tag */
    FRAME_BYTES_MIN = 2048,
    VLAN_BYTES = 4,
    MACS_BYTES = 12,
};

static uint32_t frame_bytes_for(int mtu)
{
    uint32_t bytes = FRAME_BYTES_MIN;
    while (bytes < (uint32_t)mtu + ETH_HLEN + FRAME_SPARE)
        bytes *= 2;
    return bytes;
}

static int query(const struct wd_iface *iface, unsigned long request, struct ifreq *answer)
{
    memset(answer, 0, sizeof *answer);
    snprintf(answer->ifr_name, sizeof answer->ifr_name, "%s", iface->name);
    return ioctl(iface->fd, request, answer) < 0 ? -errno : 0;
}

int wd_iface_link(const struct wd_iface *iface)
{
    struct ifreq answer;
    int status = query(iface, SIOCGIFINDEX, &answer);
    if (status < 0)
        return status;
    if (answer.ifr_ifindex != iface->ifindex)
        return -ENODEV; /* another interface has the name now */
    status = query(iface, SIOCGIFFLAGS, &answer);
    if (status < 0)
        return status;
    return (answer.ifr_flags & IFF_UP) && (answer.ifr_flags & IFF_RUNNING);
}

int wd_iface_fits(const struct wd_iface *iface)
{
    struct ifreq answer;
    return query(iface, SIOCGIFMTU, &answer) < 0 || frame_bytes_for(answer.ifr_mtu) <= iface->frame_bytes;
}

static int option(const struct wd_iface *iface, int name, int value)
{
    return setsockopt(iface->fd, SOL_PACKET, name, &value, sizeof value);
}

static int make_ring(struct wd_iface *iface, int mtu)
{
    iface->frame_bytes = frame_bytes_for(mtu);
    iface->n_frames = RING_BYTES / iface->frame_bytes;
    if (iface->n_frames < RING_FRAMES_MIN)
        iface->n_frames = RING_FRAMES_MIN;
    uint32_t block = iface->frame_bytes > RING_BLOCK ? iface->frame_bytes : RING_BLOCK;
    iface->ring_bytes = (size_t)iface->n_frames * iface->frame_bytes;
    struct tpacket_req request = {
        .tp_block_size = block,
        .tp_block_nr = (unsigned)(iface->ring_bytes / block),
        .tp_frame_size = iface->frame_bytes,
        .tp_frame_nr = iface->n_frames,
    };
    if (option(iface, PACKET_VERSION, TPACKET_V2) < 0 || option(iface, PACKET_RESERVE, VLAN_BYTES) < 0 ||
        setsockopt(iface->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        return -errno;
    void *ring = mmap(NULL, iface->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, iface->fd, 0);
    if (ring == MAP_FAILED)
        return -errno;
    iface->ring = ring;
    iface->at = 0;
    return 0;
}

int wd_iface_open(struct wd_iface *iface, char *error, size_t error_size)
{
    struct ifreq answer;
    int status, mtu = 0;
    iface->ring = NULL;
    /* Protocol 0: nothing arrives before the ring is there and the socket is bound to its interface. */
    iface->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (iface->fd < 0) {
        status = -errno;
        snprintf(error, error_size, "port %u: packet socket on %s (root or CAP_NET_RAW is needed)", iface->port,
                 iface->name);
        return status;
    }
    const char *step = "find";
    status = query(iface, SIOCGIFINDEX, &answer);
    if (status == 0) {
        iface->ifindex = answer.ifr_ifindex;
        status = query(iface, SIOCGIFMTU, &answer);
    }
    if (status == 0) {
        step = "map a receive ring on";
        mtu = answer.ifr_mtu;
        status = make_ring(iface, mtu);
    }
    if (status == 0) {
        step = "ask not to hear our own frames on";
        status = option(iface, PACKET_IGNORE_OUTGOING, 1) < 0 ? -errno : 0;
    }
    if (status == 0) {
        step = "bind to";
        struct sockaddr_ll address = {
            .sll_family = AF_PACKET,
            .sll_protocol = htons(ETH_P_ALL),
            .sll_ifindex = iface->ifindex,
        };
        status = bind(iface->fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
    }
    if (status == 0) {
        step = "make all addresses heard on";
        struct packet_mreq promiscuous = {.mr_ifindex = iface->ifindex, .mr_type = PACKET_MR_PROMISC};
        status = setsockopt(iface->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) < 0
                     ? -errno
                     : 0;
    }
    if (status < 0) {
        snprintf(error, error_size, "port %u: can't %s interface %s", iface->port, step, iface->name);
        wd_iface_close(iface);
        return status;
    }
    iface->up = wd_iface_link(iface) == 1;
    wd_send_open(&iface->send, iface->fd, mtu);
    return 0;
}

void wd_iface_close(struct wd_iface *iface)
{
    if (iface->ring)
        munmap(iface->ring, iface->ring_bytes);
    iface->ring = NULL;
    if (iface->fd >= 0)
        close(iface->fd);
    iface->fd = -1;
    wd_send_close(&iface->send);
}

int wd_iface_capture(struct wd_iface *iface, const char *stem, char *error, size_t error_size)
{
    static const char *const ends[] = {"_in.pcap", "_out.pcap"};
    struct wd_pcap **files[] = {&iface->pcap_in, &iface->pcap_out};
    for (int i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s", stem, ends[i]);
        *files[i] = wd_pcap_open(path);
        if (!*files[i]) {
            int status = -errno;
            snprintf(error, error_size, "port %u: can't write %.400s", iface->port, path);
            return status;
        }
    }
    return 0;
}

/* --- receive -------------------------------------------------------------------------------- */

static struct tpacket2_hdr *frame_at(const struct wd_iface *iface, uint32_t i)
{
    return (struct tpacket2_hdr *)(iface->ring + (size_t)i * iface->frame_bytes);
}

/* The kernel keeps a VLAN tag apart: puts it back behind the addresses, into the space reserved in front. */
static uint8_t *with_tag(uint8_t *frame, const struct tpacket2_hdr *header)
{
    uint16_t type = htons(header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q);
    uint16_t tci = htons(header->tp_vlan_tci);
    memmove(frame - VLAN_BYTES, frame, MACS_BYTES);
    memcpy(frame - VLAN_BYTES + MACS_BYTES, &type, sizeof type);
    memcpy(frame - VLAN_BYTES + MACS_BYTES + 2, &tci, sizeof tci);
    return frame - VLAN_BYTES;
}

uint32_t wd_iface_receive(struct wd_iface *iface, struct ws_packet_in *packets, int64_t *ns, uint32_t max,
                          uint64_t *truncated)
{
    uint32_t n = 0, i = iface->at;
    if (max > iface->n_frames)
        max = iface->n_frames;
    while (n < max) {
        struct tpacket2_hdr *header = frame_at(iface, i);
        if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            break;
        uint8_t *frame = (uint8_t *)header + header->tp_mac;
        uint32_t length = header->tp_snaplen;
        if (header->tp_snaplen < header->tp_len) {
            ++*truncated;
            frame = NULL;
        } else if (header->tp_status & TP_STATUS_VLAN_VALID) {
            frame = with_tag(frame, header);
            length += VLAN_BYTES;
        }
        packets[n] = (struct ws_packet_in){.port = iface->port, .length = length, .data = frame};
        ns[n] = (int64_t)header->tp_sec * 1000000000 + header->tp_nsec;
        if (iface->pcap_in && frame)
            wd_pcap_write(iface->pcap_in, ns[n], frame, length);
        n++;
        if (++i == iface->n_frames)
            i = 0;
    }
    return n;
}

void wd_iface_release(struct wd_iface *iface, uint32_t n)
{
    while (n--) {
        struct tpacket2_hdr *header = frame_at(iface, iface->at);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        if (++iface->at == iface->n_frames)
            iface->at = 0;
    }
}
