#include "one_control.p4"

const list<bit<8>> wrong = { 1, 2 };
//                         ^ constant has type list<bit<8>>: write a cast: (list<bit<8>>){...}
struct s_t { list<bit<8>> inner; }
//           ^ field "inner" of struct "s_t" can't have type list<bit<8>>

control C(inout H hdr) {
    apply {
        list<bit<8>> good = (list<bit<8>>){ 1, 2 };
        list<bit<8>> empty;
    }
}

Top(C()) main;
