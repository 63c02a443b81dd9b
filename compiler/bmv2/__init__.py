"""From the checked program to BMv2 JSON: the intermediate code, its lowering, and the writer."""
