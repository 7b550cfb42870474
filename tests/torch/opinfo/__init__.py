"""PyTorch's own samples of ops, modules and optimisers, run on ``jitgraph.torch`` and compared with PyTorch.

``python -m tests.torch.opinfo`` runs them all; ``--help`` tells what can be selected.
"""
