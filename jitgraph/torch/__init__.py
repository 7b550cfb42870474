"""PyTorch's names, archives and exported programs over jitgraph's ops."""
