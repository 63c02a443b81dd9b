header h_t { bit<8> a; }
struct H { h_t h; }
control Ct(inout H hdr);
package Top(Ct c);

control C(inout H hdr) {
    apply {
        error e;
//      ^ "error" is not declared yet: #include <core.p4>
        error e2 = error.NoError;
//      ^ "error" is not declared yet: #include <core.p4>
    }
}

Top(C()) main;
