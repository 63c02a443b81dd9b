// Refuses what can't be trusted before any table reads it: packets cut short, headers that
// contradict themselves, wrong IPv4 checksums.

#ifndef WEFT_ADMISSION_P4
#define WEFT_ADMISSION_P4

#include "../include/headers.p4"

control Admission(inout local_metadata_t meta, in standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError) {
            meta.drop_reason = DropReason.PARSER_ERROR;
        } else if (std.checksum_error == 1) {
            meta.drop_reason = DropReason.BAD_CHECKSUM;
        }
    }
}

#endif
