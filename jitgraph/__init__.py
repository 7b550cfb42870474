"""jitgraph: a tracing JIT compiler with a static-graph IR for NumPy-style tensor programs."""
