/* Classic BPF: checks and runs the filters that libpcap compiles. */
#ifndef WEFT_FILTER_H
#define WEFT_FILTER_H

#include "weft_switch.h"

enum { WS_FILTER_MAX = 4096 }; /* instructions, as the kernel allows */

/* Whether a filter may run: known instructions, jumps that stay inside, memory within bounds, a return at the end. */
int ws_filter_valid(const struct ws_filter_insn *code, uint32_t n);
/* What a valid filter returns for a packet: 0 = not taken. A load beyond the packet's end returns 0, as in the kernel. */
uint32_t ws_filter_run(const struct ws_filter_insn *code, const uint8_t *data, uint32_t length);

#endif
