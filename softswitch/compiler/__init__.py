"""P4_16 compiler: source text -> BMv2 JSON and P4Info, the two files that p4c-bm2-ss writes.

Nothing here runs packets or knows our switch; the JSON is the only way out.
"""
