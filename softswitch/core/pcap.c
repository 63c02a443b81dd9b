#include "pcap.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PCAP_MAGIC_NS = 0xa1b23c4d,
    LINKTYPE_ETHERNET = 1,
    SNAPLEN = 65535,
    FILE_HEADER = 24,
    RECORD_HEADER = 16,
    BUFFER = 1 << 16,
};

struct wd_pcap {
    FILE *file;
    int dirty;
};

static void put16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *to, uint32_t value)
{
    put16(to, value);
    put16(to + 2, value >> 16);
}

struct wd_pcap *wd_pcap_open(const char *path)
{
    struct wd_pcap *pcap = calloc(1, sizeof *pcap);
    if (!pcap)
        return NULL;
    pcap->file = fopen(path, "we");
    if (!pcap->file) {
        free(pcap);
        return NULL;
    }
    setvbuf(pcap->file, NULL, _IOFBF, BUFFER);
    uint8_t header[FILE_HEADER] = {0};
    put32(header, PCAP_MAGIC_NS);
    put16(header + 4, 2); /* version 2.4 */
    put16(header + 6, 4);
    put32(header + 16, SNAPLEN);
    put32(header + 20, LINKTYPE_ETHERNET);
    fwrite(header, 1, sizeof header, pcap->file);
    fflush(pcap->file);
    return pcap;
}

void wd_pcap_write(struct wd_pcap *pcap, int64_t ns, const uint8_t *data, uint32_t length)
{
    uint8_t header[RECORD_HEADER];
    put32(header, (uint32_t)(ns / 1000000000));
    put32(header + 4, (uint32_t)(ns % 1000000000));
    put32(header + 8, length);
    put32(header + 12, length);
    fwrite(header, 1, sizeof header, pcap->file);
    fwrite(data, 1, length, pcap->file);
    pcap->dirty = 1;
}

void wd_pcap_flush(struct wd_pcap *pcap)
{
    if (!pcap->dirty)
        return;
    fflush(pcap->file);
    pcap->dirty = 0;
}

void wd_pcap_close(struct wd_pcap *pcap)
{
    if (!pcap)
        return;
    fclose(pcap->file);
    free(pcap);
}
