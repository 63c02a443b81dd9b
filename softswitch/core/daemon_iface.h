/* Interfaces: owns one AF_PACKET socket a port, its receive ring, what waits to be sent, its capture files.
 *
 * Frames come in by a TPACKET_V2 ring (each frame visible at once, unlike V3's blocks) and leave as daemon_send.h says.
 */
#ifndef WEFT_DAEMON_IFACE_H
#define WEFT_DAEMON_IFACE_H

#include <net/if.h>
#include <stddef.h>

#include "daemon_links.h"
#include "daemon_send.h"
#include "pcap.h"
#include "weft_switch.h"

struct wd_iface {
    struct wd_iface *next;
    uint32_t port;
    char name[IF_NAMESIZE];
    int fd; /* -1: the interface is gone */
    int ifindex;
    int up; /* the link as last seen */
    char qdisc[WD_QDISC_NAME]; /* its root queueing discipline, likewise */
    struct wd_send send;
    int limited; /* its port is granted packets: the device may push back */
    uint8_t *ring;
    size_t ring_bytes;
    uint32_t frame_bytes, n_frames, at;
    struct wd_pcap *pcap_in, *pcap_out;
};

/* 0 or -errno; fills `error` on failure. Allocates nothing that wd_iface_close does not free. */
int wd_iface_open(struct wd_iface *iface, char *error, size_t error_size);
void wd_iface_close(struct wd_iface *iface);
/* Writes what passes to STEM_in.pcap and STEM_out.pcap. 0 or -errno; fills `error`. */
int wd_iface_capture(struct wd_iface *iface, const char *stem, char *error, size_t error_size);
/* The link's state now: 1 up with carrier, 0 down, -errno when the interface is gone. */
int wd_iface_link(const struct wd_iface *iface);
/* Whether frames of the device's MTU fit the ring (0 after the MTU grew: close and open again). */
int wd_iface_fits(const struct wd_iface *iface);

/* Up to `max` frames that lie in the ring, their wall-clock arrival in `ns`. Data stays in place until
 * wd_iface_release of as many. `*truncated` counts frames that did not fit (they are skipped, `data` NULL). */
uint32_t wd_iface_receive(struct wd_iface *iface, struct ws_packet_in *packets, int64_t *ns, uint32_t max,
                          uint64_t *truncated);
void wd_iface_release(struct wd_iface *iface, uint32_t n);

#endif
