"""What `import weft` offers of programs, switches, results and sweeps, below what draws them.

Values in and values out, shown well in a notebook; weft/api adds runs, figures and the `%%p4` cell.
No command and no terminal lives here.
"""
