"""The driver, memory, streams and code of CUDA devices."""
