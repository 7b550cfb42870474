"""TorchScript archives: the container, its pickles, its text, and closures that run it."""
