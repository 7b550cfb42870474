"""Python numbers that are known only when the graph runs: int64, double and bool with the meaning of Python's own."""
