"""What a call needs at run time: buffers, the host table, threads, executables, and the standalone loader."""
