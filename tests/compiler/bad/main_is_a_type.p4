#include "one_control.p4"

extern main { }
//     ^ "main" must be an instance of a package
