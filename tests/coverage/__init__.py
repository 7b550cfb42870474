"""jitgraph held against PyTorch, a case for each variant of an operator: ``python -m tests.coverage`` writes a page.

Cases stand in the other modules of this folder, each of which has a list ``CASES``.
"""
