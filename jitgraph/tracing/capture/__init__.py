"""What a function reads and changes of Python state while it is recorded."""
