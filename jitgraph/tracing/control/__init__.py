"""Control flow on tensors: cond, while_loop and scan, and the recording of their bodies."""
