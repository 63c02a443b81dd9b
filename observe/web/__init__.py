"""The live page: a small HTTP server for this machine, its data, and the page itself.

`page/` holds everything that a browser loads; nothing comes from elsewhere. Reading the switches is
`observe.follow`'s.
"""
