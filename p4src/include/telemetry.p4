// What switches write into packets for the sender: a shim between UDP and BTH, on a UDP port of its own. A
// card sends it empty, switches lengthen it, the receiver's card takes it out and returns what is in it with
// its acknowledgement. docs/wire-formats.md says what each field means.
// Mirrored in hostagent/include/telemetry.h and protocols/telemetry.py; a test compares them.
//
//   Ethernet | IPv4 | UDP | telemetry | this switch's record | written before | BTH | ...
//
// The parser knows the shim if a mechanism defines WITH_TELEMETRY. Who writes declares a header of its own
// (HOOK_HEADERS), emits it (HOOK_DEPARSER: between the shim and what was written before), applies
// LengthenTelemetry (telemetry_room.p4) and, if that says so, makes its header valid. A copy that becomes
// another packet in egress of RECIRCULATION_PORT must lose that header there.
// Who has one word for the whole path selects WITH_TELEMETRY_WORD, applies ShareTelemetry, and if that says so, writes
// hdr.telemetry_word.

#ifndef WEFT_TELEMETRY_P4
#define WEFT_TELEMETRY_P4

#include "types.p4"

const bit<16> TELEMETRY_PORT = 4794;
const bit<4> TELEMETRY_VERSION = 0;
#define TELEMETRY_WRITTEN_BITS 2016     // 63 words: longer ones are forwarded as they are

enum bit<3> TelemetryKind {
    COLLECTS = 0,               // on its way to the receiver
    RETURNED = 1                // on its way back: not to be written to
}

header telemetry_t {
    bit<4>        version;
    bit<1>        cut;          // returned: more was written than is returned
    TelemetryKind kind;
    bit<8>        words;        // of 4 bytes, behind the shim
    bit<8>        hops;         // switches that have written
    bit<8>        format;       // of what they wrote; 0 until one writes
}

header telemetry_written_t {
    varbit<TELEMETRY_WRITTEN_BITS> data;
}

#ifdef WITH_TELEMETRY_WORD
// In its place if it is one word, so that it can be changed where it is.
header telemetry_word_t {
    bit<32> value;
}
#endif

#endif
