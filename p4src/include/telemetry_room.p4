// Makes room for what a switch writes into a packet that collects telemetry (telemetry.p4).

#ifndef WEFT_TELEMETRY_ROOM_P4
#define WEFT_TELEMETRY_ROOM_P4

// Makes the packet longer by `words` of 4 bytes, for one hop's record, if it collects and nobody has written in
// another format; `may` says so. The ICRC stays: it is that of the packet without telemetry.
control LengthenTelemetry(inout headers_t hdr, in bit<8> words, in bit<8> format, out bool may) {
    apply {
        may = false;
        if (hdr.telemetry.isValid() && hdr.bth.isValid() &&
            hdr.telemetry.kind == TelemetryKind.COLLECTS &&
            (hdr.telemetry.format == 0 || hdr.telemetry.format == format)) {
            bit<16> bytes = (bit<16>)words << 2;
            may = true;
            hdr.telemetry.words = hdr.telemetry.words + words;
            hdr.telemetry.hops = hdr.telemetry.hops + 1;
            hdr.telemetry.format = format;
            hdr.ipv4.length = hdr.ipv4.length + bytes;
            hdr.udp.length = hdr.udp.length + bytes;
            hdr.udp.checksum = 0;
        }
    }
}

#endif
