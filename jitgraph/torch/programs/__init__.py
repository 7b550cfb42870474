"""Programs of ``torch.export``: read from ``.pt2`` files or taken from PyTorch's objects, and run over jitgraph's ops.

``archive.py`` reads files without PyTorch, ``fx.py`` takes PyTorch's own graphs; both give a ``program.Program``.
``functionalise.py`` rewrites operators that write into tensors, and ``running.py`` evaluates the result.
"""
