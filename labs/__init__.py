"""The labs: one folder each, with its text, its topology, its program and its expected result.

A lab composes what the packages below offer and says what a learner should see.
Nothing here is imported by another package, and no lab brings its own switch or controller.
"""
