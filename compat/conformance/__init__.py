"""How our compiler does on p4c's own test programs, beside what p4c says of them.

Here: reading p4c's checkout, running both compilers over it, comparing, and the page of results.
Not here: anything that the compiler or the switch needs, or that knows one test by its name.
"""
