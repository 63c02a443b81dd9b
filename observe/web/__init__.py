"""The live page: a small HTTP server for this machine, what it tells, and the page itself.

`page/` holds everything that a browser loads; nothing comes from elsewhere. Reading the switches is
`observe.follow`'s.
"""
