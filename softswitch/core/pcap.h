/* Capture files: owns writing of nanosecond pcap (magic 0xa1b23c4d, little endian, Ethernet). */
#ifndef WEFT_PCAP_H
#define WEFT_PCAP_H

#include <stdint.h>

struct wd_pcap;

/* NULL with errno set when the file can't be made. */
struct wd_pcap *wd_pcap_open(const char *path);
/* `ns`: wall clock, nanoseconds since 1970. */
void wd_pcap_write(struct wd_pcap *pcap, int64_t ns, const uint8_t *data, uint32_t length);
/* So that a reader sees all packets so far. */
void wd_pcap_flush(struct wd_pcap *pcap);
void wd_pcap_close(struct wd_pcap *pcap);

#endif
