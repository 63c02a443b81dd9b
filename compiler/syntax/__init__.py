"""From P4_16 source text to the syntax tree: preprocessor, lexer, parser, and walks over the tree.

Knows no types beyond what the grammar needs.
"""
