"""Runs CUDA kernels on the processor, from the LLVM IR that becomes PTX, and stands in for the driver: for tests.

Each thread of a kernel is a fiber with a stack of its own, on one thread of the operating system. What crosses threads
(barriers, shuffles, products of matrix tiles) stops a fiber until the others have come. Memory is checked access by
access, and the order of threads, warps and blocks is drawn from a seed, so that what depends on it is seen.
"""
