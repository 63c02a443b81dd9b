// whole file: the program has no "main": end it with, for example, V1Switch(...) main;
#include "one_control.p4"

control C(inout H hdr) {
    apply { }
}
