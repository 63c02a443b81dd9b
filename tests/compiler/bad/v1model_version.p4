// whole file: V1MODEL_VERSION 20190101 is not known: there are 20180101 and 20200408
#define V1MODEL_VERSION 20190101
#include <v1model.p4>
#include "one_control.p4"

control C(inout H hdr) {
    apply { }
}

Top(C()) main;
