// What the programs here begin with. Each then declares headers_t, metadata_t, Parse and Main.
#include <core.p4>
#include <v1model.p4>
