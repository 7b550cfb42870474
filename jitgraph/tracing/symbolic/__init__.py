"""Sizes and numbers that vary from call to call, and numbers that a graph computes.

In come ints, floats and shapes of a recording. Out go objects that take part in the program as Python's own numbers do,
and note what was assumed of them, or stage it as ops of the graph.
"""
