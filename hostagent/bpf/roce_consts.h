// Numbers of RoCEv2 on the wire, and sizes of our maps.
#ifndef WEFT_ROCE_CONSTS_H
#define WEFT_ROCE_CONSTS_H

#define ROCE_V2_PORT 4791

#define IPV4_NO_OPTIONS 5
#define IPV4_FRAGMENT 0x3fff  // more-fragments bit and offset
#define ECN_MASK 3
#define ECN_CE 3

// BTH opcodes: reliable connection, and the CNP.
#define OPCODE_ACK 0x11
#define OPCODE_CNP 0x81
#define OPCODE_PROBE 0xc0  // Weft's own: docs/wire-formats.md, "Probes of a plane"
#define OPCODE_PROBE_ANSWER 0xc1

#define CNP_UDP_BYTES (8 + 12 + 16 + 4)  // UDP, BTH, the reserved bytes, ICRC
#define LEAST_UDP_BYTES (8 + 12 + 4)     // UDP, BTH, ICRC
#define PROBE_BYTES 16                   // behind BTH
#define PROBE_UDP_BYTES (8 + 12 + PROBE_BYTES + 4)

#define AETH_BYTES 4
#define PLANE_ECHO_BYTES 4  // behind it: docs/wire-formats.md, "What has come by each plane"; and 4 for each plane
#define PLANE_ECHO_KIND 0xc0
#define PLANE_ECHO 0x40
#define PLANES_MOST 8

#define SYNDROME_KIND 0xe0  // of an AETH: an ACK, or a NAK of some kind (RNR, sequence, errors)
#define SYNDROME_ACK 0x00

#define PSN_MASK 0xffffff
#define PSN_HALF 0x800000

#define PLANE_LOOKS 64  // packets of an acknowledgement whose plane is looked up; of more it is in proportion
#define CC_SLOTS 4096
#define ENDPOINTS 256

#endif
