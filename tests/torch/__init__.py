"""``jitgraph.torch`` against PyTorch, where PyTorch is installed."""
