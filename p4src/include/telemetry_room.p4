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

#ifdef WITH_TELEMETRY_SHARED
// Makes room for one word for the whole path if the packet collects and nobody has written in another format: the first switch
// puts it in, as 0, those after it find it in hdr.telemetry_word. `may` says that it is there to be written, `more` by how many bytes the packet is
// longer.
control ShareTelemetry(inout headers_t hdr, in bit<8> format, out bit<32> more, out bool may) {
    apply {
        may = false;
        more = 0;
        if (hdr.telemetry.isValid() && hdr.bth.isValid() && hdr.telemetry.kind == TelemetryKind.COLLECTS) {
            if (hdr.telemetry.format == 0 && hdr.telemetry.words == 0) {
                may = true;
                more = 4;
                hdr.telemetry_word.setValid();
                hdr.telemetry_word.value = 0;
                hdr.telemetry.words = 1;
                hdr.telemetry.format = format;
                hdr.ipv4.length = hdr.ipv4.length + 4;
                hdr.udp.length = hdr.udp.length + 4;
            } else if (hdr.telemetry.format == format && hdr.telemetry_word.isValid()) {
                may = true;
            }
            if (may) {
                hdr.telemetry.hops = hdr.telemetry.hops + 1;
                hdr.udp.checksum = 0;
            }
        }
    }
}
#endif

#endif
