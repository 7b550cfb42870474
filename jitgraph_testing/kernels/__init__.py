"""Kernels and schedules in NumPy: the slow executors that tests compare compiled code with, and the parser of text."""
