"""CUDA devices from Python: the driver's functions, contexts, memory, streams and events."""
