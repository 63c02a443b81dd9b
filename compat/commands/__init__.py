"""Commands of `weft` that compare with p4c and BMv2."""
