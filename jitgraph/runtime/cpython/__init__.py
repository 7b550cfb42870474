"""What jitgraph knows of CPython's memory, and reads or writes there: docs/architecture/cpython.md lists all of it."""
